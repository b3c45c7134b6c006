use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use packing::Packer;

use super::Scope;
use super::content::Content;

/// The number of a change. The first one is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub i64);

impl Revision {
    /// Before the first change.
    pub const ZERO: Revision = Revision(0);

    /// The one after.
    pub(super) fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An object as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its key.
    pub key: Arc<str>,
    /// Its serialised value.
    pub(super) content: Content,
    /// The change that created it.
    pub created: Revision,
    /// The change that made it what it is: what compare-and-swap compares.
    pub modified: Revision,
    /// When it goes away by itself.
    pub expires: Option<Timestamp>,
}

/// What an object costs beside its key and value: its share of tables, indexes and counters.
const OVERHEAD: usize = 64;

impl Stored {
    /// Its serialised value.
    pub fn value(&self) -> Bytes {
        self.content.value()
    }

    /// The length of its value.
    pub fn length(&self) -> usize {
        self.content.length()
    }

    /// Has the value take little room if nobody has asked for it since this was last called.
    pub(crate) fn fold(&self, packer: &mut Packer) {
        // Of one resource those of about the same length are most likely of the same use.
        let magnitude = || self.length().checked_ilog2().unwrap_or_default();
        self.content.fold(packer, || format!("{} {}", resource(&self.key), magnitude()));
    }

    /// What keeping the object costs, about.
    pub(super) fn weight(&self) -> usize {
        self.key.len() + self.length() + OVERHEAD
    }
}

/// What a key begins with: the group and the resource, which objects that resemble each other have in common.
fn resource(key: &str) -> &str {
    key.match_indices('/').nth(3).map_or(key, |(end, _)| &key[..end])
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Added,
    /// It was there before.
    Modified,
    /// It is not there any more.
    Deleted,
}

/// A change of one object: an entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The change's number.
    pub revision: Revision,
    /// The object's key.
    pub key: Arc<str>,
    /// When it happened, to the millisecond. Later changes never have an earlier time.
    pub time: Timestamp,
    /// The object before.
    pub previous: Option<Arc<Stored>>,
    /// The object after.
    pub current: Option<Arc<Stored>>,
    /// The weight of all history up to here: what could be forgotten if the floor were at this revision.
    pub(super) superseded: i64,
}

impl Event {
    /// What happened.
    pub fn change(&self) -> Change {
        match (&self.previous, &self.current) {
            (_, None) => Change::Deleted,
            (None, Some(_)) => Change::Added,
            (Some(_), Some(_)) => Change::Modified,
        }
    }

    /// What keeping the event costs, about; the object before it belongs to an earlier event.
    pub(super) fn weight(&self) -> usize {
        self.current.as_ref().map_or(self.key.len() + OVERHEAD, |current| current.weight())
    }
}

/// What a write wants to find at its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever there is.
    Anything,
    /// Nothing.
    Absent,
    /// Some object.
    Present,
    /// The object as that change left it.
    Revision(Revision),
}

/// One step of a transaction.
#[derive(Clone, Debug)]
pub struct Write {
    /// The key.
    pub key: Arc<str>,
    /// What has to be there.
    pub expect: Expect,
    /// What to do then.
    pub(super) action: Action,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Put { value: Bytes, lifetime: Option<Duration> },
    Delete,
    Nothing,
}

impl Write {
    /// Puts a value where there is none.
    pub fn create(key: impl Into<Arc<str>>, value: impl Into<Bytes>) -> Self {
        Write::put(key, value, Expect::Absent)
    }

    /// Replaces the object that the change `revision` left.
    pub fn update(key: impl Into<Arc<str>>, value: impl Into<Bytes>, revision: Revision) -> Self {
        Write::put(key, value, Expect::Revision(revision))
    }

    /// Puts a value where `expect` holds. The object lives on until it is deleted, whatever it did before: see
    /// [`Write::for_at_most`].
    pub fn put(key: impl Into<Arc<str>>, value: impl Into<Bytes>, expect: Expect) -> Self {
        Write { key: key.into(), expect, action: Action::Put { value: value.into(), lifetime: None } }
    }

    /// Deletes the object. With [`Expect::Anything`] (or [`Expect::Absent`]) an absent one is no error and no change.
    pub fn delete(key: impl Into<Arc<str>>, expect: Expect) -> Self {
        Write { key: key.into(), expect, action: Action::Delete }
    }

    /// Changes nothing, but lets the transaction fail if `expect` does not hold.
    pub fn check(key: impl Into<Arc<str>>, expect: Expect) -> Self {
        Write { key: key.into(), expect, action: Action::Nothing }
    }

    /// Lets the value that is put go away by itself after `lifetime`.
    pub fn for_at_most(mut self, lifetime: Duration) -> Self {
        if let Action::Put { lifetime: kept, .. } = &mut self.action {
            *kept = Some(lifetime);
        }
        self
    }

    /// The size of what is to be kept.
    pub(super) fn bytes(&self) -> usize {
        match &self.action {
            Action::Put { value, .. } => value.len(),
            Action::Delete | Action::Nothing => 0,
        }
    }
}

/// A transaction that was carried out.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The newest revision after it.
    pub revision: Revision,
    /// Its changes, in order: one for each write that changed something.
    pub events: Vec<Arc<Event>>,
}

/// What to list.
#[derive(Clone, Debug)]
pub struct Query {
    /// Which keys.
    pub scope: Scope,
    /// As of when; now if not given.
    pub at: Option<Revision>,
    /// Only keys after this one.
    pub after: Option<Arc<str>>,
    /// At most so many; all if not given.
    pub limit: Option<usize>,
}

impl Query {
    /// All objects of a scope, as they are now.
    pub fn all(scope: Scope) -> Self {
        Query { scope, at: None, after: None, limit: None }
    }
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The objects, in order of their keys.
    pub items: Vec<Arc<Stored>>,
    /// The revision that all of the list is as of.
    pub revision: Revision,
    /// How many more there are after the last one.
    pub remaining: usize,
}
