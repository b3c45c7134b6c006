//! How much history goes.

use jiff::Timestamp;

use super::{Error, Options, Revision, View};

/// What the limits look at in a change.
pub(super) struct Mark {
    pub(super) time: Timestamp,
    pub(super) superseded: i64,
}

/// The floor that the options' limits ask for. `look` is asked for changes above the present floor only.
///
/// Time and weight only grow along the log, so that halving finds the place with a few looks.
pub(super) fn floor_for(
    view: &View,
    options: &Options,
    now: Timestamp,
    mut look: impl FnMut(Revision) -> Result<Mark, Error>,
) -> Result<Revision, Error> {
    let oldest = now.checked_sub(options.history_age).unwrap_or(Timestamp::MIN);
    let most = i64::try_from(options.history_bytes).unwrap_or(i64::MAX);
    let young = first(view.floor(), view.head(), |revision| Ok(look(revision)?.time > oldest))?;
    let by_age = Revision(young.0 - 1);
    let kept = view.history_bytes();
    let by_bytes = match kept <= options.history_bytes {
        true => view.floor(),
        false => first(view.floor(), view.head(), |revision| {
            Ok(view.superseded() - look(revision)?.superseded <= most)
        })?,
    };
    Ok(by_age.max(by_bytes).clamp(view.floor(), view.head()))
}

/// The first revision above `floor` for which `holds` (it does for all later ones); the one after `head` if none.
fn first(
    floor: Revision,
    head: Revision,
    mut holds: impl FnMut(Revision) -> Result<bool, Error>,
) -> Result<Revision, Error> {
    let (mut low, mut high) = (floor.0 + 1, head.0 + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match holds(Revision(middle))? {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(Revision(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_finds_the_first() {
        for wanted in 4..=11 {
            let found = first(Revision(3), Revision(10), |revision| Ok(revision.0 >= wanted)).unwrap();
            assert_eq!(found, Revision(wanted));
        }
    }
}
