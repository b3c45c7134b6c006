//! What a batch of writes would change: decided in memory, before anything is written.

use std::sync::Arc;

use imbl::OrdMap;
use jiff::Timestamp;

use super::content::Content;
use super::model::Action;
use super::{Commit, Error, Event, Expect, Revision, Stored, View, Write};

/// The largest value. API servers refuse bodies long before.
const LARGEST_VALUE: usize = 16 << 20;

/// The next view in the making.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) objects: OrdMap<Arc<str>, Arc<Stored>>,
    pub(super) head: Revision,
    pub(super) time: Timestamp,
    pub(super) superseded: i64,
    pub(super) events: Vec<Arc<Event>>,
}

impl Draft {
    /// A draft without changes. Time does not go back, whatever the wall clock does: history is cut by it.
    pub(super) fn on(view: &View, now: Timestamp) -> Self {
        let now = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        Draft {
            objects: view.objects().clone(),
            head: view.head(),
            time: now.max(view.time()),
            superseded: view.superseded(),
            events: Vec::new(),
        }
    }

    /// Adds a transaction's changes, or nothing if one of its expectations does not hold.
    pub(super) fn apply(&mut self, transaction: &[Write]) -> Result<Commit, Error> {
        let before = (self.objects.clone(), self.head, self.superseded, self.events.len());
        match transaction.iter().try_for_each(|write| self.step(write)) {
            Ok(()) => Ok(Commit { revision: self.head, events: self.events[before.3..].to_vec() }),
            Err(error) => {
                self.events.truncate(before.3);
                (self.objects, self.head, self.superseded) = (before.0, before.1, before.2);
                Err(error)
            }
        }
    }

    fn step(&mut self, write: &Write) -> Result<(), Error> {
        let found = self.objects.get(&*write.key).cloned();
        meets(found.as_ref(), write)?;
        if write.bytes() > LARGEST_VALUE {
            return Err(Error::TooLarge {
                key: write.key.clone(),
                bytes: write.bytes(),
                most: LARGEST_VALUE,
            });
        }
        let revision = self.head.next();
        match (&write.action, found) {
            (Action::Nothing, _) | (Action::Delete, None) => {}
            (Action::Delete, Some(previous)) => self.record(revision, Some(previous), None),
            (Action::Put { value, lifetime }, previous) => {
                let current = Stored {
                    key: previous.as_ref().map_or(&write.key, |previous| &previous.key).clone(),
                    content: Content::new(value.clone()),
                    created: previous.as_ref().map_or(revision, |previous| previous.created),
                    modified: revision,
                    expires: lifetime.and_then(|lifetime| self.time.checked_add(lifetime).ok()),
                };
                self.record(revision, previous, Some(Arc::new(current)));
            }
        }
        Ok(())
    }

    fn record(&mut self, revision: Revision, previous: Option<Arc<Stored>>, current: Option<Arc<Stored>>) {
        let Some(key) = current.as_ref().or(previous.as_ref()).map(|object| object.key.clone()) else {
            return;
        };
        match &current {
            Some(current) => self.objects.insert(key.clone(), current.clone()),
            None => self.objects.remove(&key),
        };
        let mut event = Event { revision, key, time: self.time, previous, current, superseded: 0 };
        let gone = event.previous.as_ref().map_or(0, |previous| previous.weight());
        let tombstone = if event.current.is_none() { event.weight() } else { 0 };
        self.superseded += i64::try_from(gone + tombstone).unwrap_or(i64::MAX);
        event.superseded = self.superseded;
        self.head = revision;
        self.events.push(Arc::new(event));
    }
}

/// Whether a write finds what it expects.
fn meets(found: Option<&Arc<Stored>>, write: &Write) -> Result<(), Error> {
    let key = || write.key.clone();
    match (write.expect, found) {
        (Expect::Anything, _) | (Expect::Absent, None) | (Expect::Present, Some(_)) => Ok(()),
        (Expect::Revision(expected), Some(found)) if found.modified == expected => Ok(()),
        (Expect::Absent, Some(found)) => Err(Error::AlreadyExists { key: key(), found: found.clone() }),
        (Expect::Present | Expect::Revision(_), None) => Err(Error::NotFound { key: key() }),
        (Expect::Revision(expected), Some(found)) => {
            Err(Error::Conflict { key: key(), expected, found: found.clone() })
        }
    }
}
