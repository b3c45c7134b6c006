use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use jiff::Timestamp;

use super::draft::Draft;
use super::{Error, Event, Options, Page, Query, Revision, Scope, Stored};

/// All objects at one revision, and the changes that led there most recently.
///
/// The maps are persistent: the next view shares all that did not change, so taking and keeping one is cheap.
#[derive(Clone, Debug)]
pub struct View {
    head: Revision,
    floor: Revision,
    time: Timestamp,
    objects: OrdMap<Arc<str>, Arc<Stored>>,
    /// The changes `recent_after + 1 ..= head`, without a gap.
    recent: Vector<Arc<Event>>,
    recent_after: Revision,
    recent_bytes: usize,
    superseded: i64,
    forgotten: i64,
}

/// What a view starts from: the counters of a store that is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin {
    pub(super) head: Revision,
    pub(super) floor: Revision,
    pub(super) time: Timestamp,
    /// The weight of all history that there ever was.
    pub(super) superseded: i64,
    /// The weight of the history that is gone.
    pub(super) forgotten: i64,
}

impl View {
    pub(super) fn new(origin: Origin, objects: OrdMap<Arc<str>, Arc<Stored>>) -> Self {
        View {
            head: origin.head,
            floor: origin.floor,
            time: origin.time,
            objects,
            recent: Vector::new(),
            recent_after: origin.head,
            recent_bytes: 0,
            superseded: origin.superseded,
            forgotten: origin.forgotten,
        }
    }

    /// The revision that this is as of.
    pub fn head(&self) -> Revision {
        self.head
    }

    /// The oldest revision that can still be read.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// What the history takes, about: all that is kept beyond the present objects.
    pub fn history_bytes(&self) -> u64 {
        (self.superseded - self.forgotten).max(0).unsigned_abs()
    }

    /// The object at a key.
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// The objects of a scope, in order of their keys.
    pub fn scan<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = &'a Arc<Stored>> {
        scan(&self.objects, scope, None)
    }

    /// All objects, and those before them that recent changes still name.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.objects.values().chain(self.recent.iter().filter_map(|event| event.previous.as_ref()))
    }

    /// The time of the last change.
    pub(super) fn time(&self) -> Timestamp {
        self.time
    }

    pub(super) fn objects(&self) -> &OrdMap<Arc<str>, Arc<Stored>> {
        &self.objects
    }

    pub(super) fn superseded(&self) -> i64 {
        self.superseded
    }

    /// Refuses revisions that cannot be read.
    pub(super) fn readable(&self, asked: Revision) -> Result<(), Error> {
        match asked {
            _ if asked > self.head => Err(Error::FutureRevision { asked, head: self.head }),
            _ if asked < self.floor => Err(Error::Compacted { asked, floor: self.floor }),
            _ => Ok(()),
        }
    }

    /// The recent changes above `after`; none if some of them are not recent enough.
    pub(super) fn since(&self, after: Revision) -> Option<impl DoubleEndedIterator<Item = &Arc<Event>>> {
        let skipped = usize::try_from(after.0 - self.recent_after.0).ok()?;
        Some(self.recent.focus().narrow(skipped.min(self.recent.len())..).into_iter())
    }

    /// The keys of a scope that changed above `after`; none if some of those changes are not recent enough.
    pub(crate) fn changed_since(&self, after: Revision, scope: &Scope) -> Option<BTreeSet<Arc<str>>> {
        let changed = self.since(after)?.filter(|event| scope.contains(&event.key));
        Some(changed.map(|event| event.key.clone()).collect())
    }

    pub(super) fn recent(&self) -> &Vector<Arc<Event>> {
        &self.recent
    }

    /// Takes recent changes back until `revision`; none if that is too long ago.
    fn rewound(&self, scope: &Scope, revision: Revision) -> Option<OrdMap<Arc<str>, Arc<Stored>>> {
        let mut objects = self.objects.clone();
        for event in self.since(revision)?.rev().filter(|event| scope.contains(&event.key)) {
            match &event.previous {
                Some(previous) => objects.insert(event.key.clone(), previous.clone()),
                None => objects.remove(&event.key),
            };
        }
        Some(objects)
    }

    /// The answer to a query from memory; `None` if it reaches back too far.
    pub(super) fn page(&self, query: &Query) -> Result<Option<Page>, Error> {
        let revision = query.at.unwrap_or(self.head);
        self.readable(revision)?;
        let older;
        let objects = match revision == self.head {
            true => &self.objects,
            false => match self.rewound(&query.scope, revision) {
                Some(rewound) => {
                    older = rewound;
                    &older
                }
                None => return Ok(None),
            },
        };
        let mut found = scan(objects, &query.scope, query.after.as_deref());
        let items = found.by_ref().take(query.limit.unwrap_or(usize::MAX)).cloned().collect();
        Ok(Some(Page { items, revision, remaining: found.count() }))
    }

    /// The view after the draft's changes.
    pub(super) fn with(&self, draft: Draft, limits: &Options) -> View {
        let mut next = View {
            head: draft.head,
            time: draft.time,
            superseded: draft.superseded,
            objects: draft.objects,
            ..self.clone()
        };
        for event in draft.events {
            next.recent_bytes += event.weight();
            next.recent.push_back(event);
        }
        while next.recent.len() > limits.recent_events || next.recent_bytes > limits.recent_bytes {
            next.forget_oldest();
        }
        next
    }

    /// The view with a higher floor.
    pub(super) fn above(&self, floor: Revision) -> View {
        let mut next = View { floor: self.floor.max(floor), ..self.clone() };
        while next.recent_after < next.floor && !next.recent.is_empty() {
            next.forget_oldest();
        }
        next
    }

    /// The view after history of this weight (counted from the very first) is gone.
    pub(super) fn freed(&self, forgotten: i64) -> View {
        View { forgotten: self.forgotten.max(forgotten), ..self.clone() }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.recent.pop_front() {
            self.recent_after = oldest.revision;
            self.recent_bytes -= oldest.weight();
        }
    }
}

/// The objects of a scope after a key.
fn scan<'a>(
    objects: &'a OrdMap<Arc<str>, Arc<Stored>>,
    scope: &'a Scope,
    after: Option<&str>,
) -> impl Iterator<Item = &'a Arc<Stored>> {
    let start = match after {
        Some(after) if after >= scope.start() => Bound::Excluded(after),
        _ => Bound::Included(scope.start()),
    };
    objects
        .range::<_, str>((start, Bound::Unbounded))
        .map(|(_, object)| object)
        .take_while(|object| scope.contains(&object.key))
}
