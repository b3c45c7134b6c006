use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Event, Stored};

/// Which objects go away by themselves, soonest first.
#[derive(Debug, Default)]
pub(super) struct Expiry(BTreeSet<(Timestamp, Arc<str>)>);

impl Expiry {
    /// Notes an object that is there.
    pub(super) fn add(&mut self, object: &Stored) {
        if let Some(expires) = object.expires {
            self.0.insert((expires, object.key.clone()));
        }
    }

    /// Follows a change.
    pub(super) fn follow(&mut self, event: &Event) {
        if let Some((expires, key)) =
            event.previous.as_ref().and_then(|old| Some((old.expires?, old.key.clone())))
        {
            self.0.remove(&(expires, key));
        }
        if let Some(current) = &event.current {
            self.add(current);
        }
    }

    /// The keys of objects that were to live no longer than until `now`: the first `most` of them.
    pub(super) fn due(&self, now: Timestamp, most: usize) -> Vec<Arc<str>> {
        self.0
            .iter()
            .take_while(|(expires, _)| *expires <= now)
            .take(most)
            .map(|(_, key)| key.clone())
            .collect()
    }
}
