//! Epochs of rendering: a new version of Herdsman renders an existing cluster's plans byte for byte as before, until
//! the user changes the cluster or asks for the new epoch.
//!
//! A change of rendering that alters bytes of any existing plan needs a new epoch: raise [`Epoch::NEWEST`], keep the old
//! behaviour for the old epochs, add a directory to the corpus (`tests/corpus`). The corpus fails the build otherwise.

use std::fmt;

/// A way of rendering. Stored with the cluster as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u32);

impl Epoch {
    /// The first one.
    pub const FIRST: Epoch = Epoch(1);
    /// Control-plane machines get what their tunnel needs.
    pub const TUNNELS: Epoch = Epoch(2);
    /// What new clusters get.
    pub const NEWEST: Epoch = Epoch::TUNNELS;

    /// Every epoch that can be rendered, oldest first.
    pub fn all() -> impl Iterator<Item = Epoch> {
        (Epoch::FIRST.0..=Epoch::NEWEST.0).map(Epoch)
    }

    /// Reads what was stored. A number that this version does not know (a downgrade) is none: the newest known one
    /// is then adopted like any other.
    pub fn from_number(number: u32) -> Option<Epoch> {
        Epoch::all().find(|epoch| epoch.0 == number)
    }

    /// The number to store.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// When a newer epoch may be adopted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion {
    /// No machine has a plan.
    pub(crate) fresh: bool,
    /// The user changed the cluster, so that nodes are disturbed anyway.
    pub(crate) changed: bool,
    /// The user asked for it.
    pub(crate) requested: bool,
}

/// The epoch to render in.
pub(crate) fn choose(stored: Option<Epoch>, newest: Epoch, occasion: Occasion) -> Epoch {
    match stored {
        Some(stored) if !(occasion.fresh || occasion.changed || occasion.requested) => stored.min(newest),
        // Machines with plans and no epoch written down: plans of the first one.
        None if !(occasion.fresh || occasion.changed || occasion.requested) => Epoch::FIRST,
        _ => newest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_adopted_with_a_change_or_on_request() {
        let none = Occasion { fresh: false, changed: false, requested: false };
        let table = [
            (None, Occasion { fresh: true, ..none }, 3, "a new cluster"),
            (None, none, 1, "plans from before epochs were written down"),
            (Some(Epoch(2)), none, 2, "an upgrade of Herdsman alone"),
            (Some(Epoch(2)), Occasion { changed: true, ..none }, 3, "the user's next change"),
            (Some(Epoch(2)), Occasion { requested: true, ..none }, 3, "on request"),
            (Some(Epoch(9)), none, 3, "written by a newer version"),
        ];
        for (stored, occasion, expected, why) in table {
            assert_eq!(choose(stored, Epoch(3), occasion), Epoch(expected), "{why}");
        }
        assert_eq!(Epoch::from_number(Epoch::NEWEST.number()), Some(Epoch::NEWEST));
        assert_eq!(Epoch::from_number(0), None);
    }
}
