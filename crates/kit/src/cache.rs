//! What a process knows of one kind: every object, kept current by one watch, whoever asks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use packing::Packer;
use sha2::{Digest as _, Sha256};

use crate::object::{Key, KindId, Object, Pressure};
use crate::waiters::{Event, Waiters};

/// What an object can be found by, beside its name.
pub type Indexer = fn(&Object) -> Vec<String>;

/// An object before and after a change.
#[derive(Clone, Debug)]
pub struct Change {
    /// As it was known; none if it was not.
    pub before: Option<Arc<Object>>,
    /// As it is; none if it is gone.
    pub after: Option<Arc<Object>>,
}

impl Change {
    /// The object, as it is or last was.
    pub fn object(&self) -> &Arc<Object> {
        match (&self.after, &self.before) {
            (Some(object), _) | (None, Some(object)) => object,
            (None, None) => unreachable!("a change is of an object"),
        }
    }
}

/// Called with every change, in order. It must not block.
pub type Listener = Arc<dyn Fn(&Change) + Send + Sync>;

/// How far a cache is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The greatest revision of any object seen.
    pub(crate) seen: u64,
    /// Lists begun.
    pub(crate) begun: u64,
    /// The number of the last list that was read to its end.
    pub(crate) listed: u64,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Arc<Key>, Arc<Object>>,
    /// Entries, by what stands for them, and the keys below them. Thousands of texts of their own would take much more room.
    index: BTreeSet<(Slot, Arc<Key>)>,
    listeners: BTreeMap<&'static str, Listener>,
    /// Objects of a list that is being read.
    list: Option<BTreeMap<Arc<Key>, Arc<Object>>>,
    trouble: Option<String>,
}

impl State {
    fn file(&mut self, entry: &str, key: &Arc<Key>) {
        self.index.insert((slot(entry), key.clone()));
    }

    fn unfile(&mut self, entry: &str, key: &Arc<Key>) {
        self.index.remove(&(slot(entry), key.clone()));
    }

    /// The keys below an entry, in order.
    fn filed(&self, entry: &str) -> impl Iterator<Item = &Arc<Key>> {
        let slot = slot(entry);
        let first = (slot, Arc::new(Key::new("", "")));
        self.index.range(first..).take_while(move |(found, _)| *found == slot).map(|(_, key)| key)
    }
}

/// What stands for an entry in the index.
type Slot = [u8; 16];

/// No two texts that anybody could find have the same.
fn slot(entry: &str) -> Slot {
    let mut slot = Slot::default();
    slot.copy_from_slice(&Sha256::digest(entry.as_bytes())[..16]);
    slot
}

/// The objects of one kind.
pub struct Cache {
    kind: KindId,
    indexer: Indexer,
    state: RwLock<State>,
    progress: Mutex<Progress>,
    waiters: Waiters,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} objects of {}", self.read().objects.len(), self.kind)
    }
}

impl Cache {
    pub(crate) fn new(kind: KindId, indexer: Indexer) -> Self {
        Cache {
            kind,
            indexer,
            state: RwLock::default(),
            progress: Mutex::default(),
            waiters: Waiters::default(),
        }
    }

    /// Of which kind.
    pub fn kind(&self) -> &KindId {
        &self.kind
    }

    /// Whether everything that there was has been seen once.
    pub fn synced(&self) -> bool {
        self.progress().listed > 0
    }

    /// Waits until everything that there was has been seen once.
    pub async fn wait_synced(&self) {
        self.wait_for(&Event::List, || self.synced()).await;
    }

    /// What keeps the cache from being current, if something does.
    pub fn trouble(&self) -> Option<String> {
        self.read().trouble.clone()
    }

    /// An object.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.read().objects.get(key).cloned()
    }

    /// All objects, by namespace and name.
    pub fn all(&self) -> Vec<Arc<Object>> {
        self.read().objects.values().cloned().collect()
    }

    /// The objects of a namespace, by name.
    pub fn within(&self, namespace: &str) -> Vec<Arc<Object>> {
        let state = self.read();
        let from = state.objects.range::<Key, _>(Key::new(namespace, "")..);
        from.take_while(|(key, _)| key.namespace == namespace).map(|(_, object)| object.clone()).collect()
    }

    /// The objects that the indexer files under `entry`, by namespace and name.
    pub fn filed(&self, entry: &str) -> Vec<Arc<Object>> {
        let state = self.read();
        state.filed(entry).filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// How many objects are open, and how many are folded.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.read();
        let open = state.objects.values().filter(|object| object.is_open()).count();
        (open, state.objects.len() - open)
    }

    /// How many objects there are.
    pub fn count(&self) -> usize {
        self.read().objects.len()
    }

    /// Has `listener` told of every change from now on, and at once of every object that is there. A second listener
    /// of the same name is not taken.
    pub fn listen(&self, name: &'static str, listener: impl FnOnce() -> Listener) {
        if self.read().listeners.contains_key(name) {
            return;
        }
        let mut state = self.write();
        if state.listeners.contains_key(name) {
            return;
        }
        let listener = listener();
        state.listeners.insert(name, listener.clone());
        let there: Vec<Arc<Object>> = state.objects.values().cloned().collect();
        drop(state);
        for object in there {
            listener(&Change { before: None, after: Some(object) });
        }
    }

    /// Something to wait for before the cache may be trusted after a write that gave `revision`.
    pub fn expect_revision(self: &Arc<Self>, revision: u64) -> Expectation {
        let begun = self.progress().begun;
        Expectation { cache: self.clone(), begun, what: Awaited::Revision(revision) }
    }

    /// Something to wait for before the cache may be trusted after a deletion.
    pub fn expect_deletion(self: &Arc<Self>, key: Key, uid: &str) -> Expectation {
        let begun = self.progress().begun;
        Expectation { cache: self.clone(), begun, what: Awaited::Deletion(key, uid.into()) }
    }

    pub(crate) fn begin_list(&self) {
        self.write().list = Some(BTreeMap::new());
        self.lock_progress().begun += 1;
    }

    pub(crate) fn listed(&self, object: Arc<Object>) {
        if let Some(list) = &mut self.write().list {
            list.insert(object.shared_key().clone(), object);
        }
    }

    pub(crate) fn end_list(&self) {
        let mut state = self.write();
        state.trouble = None;
        let Some(list) = state.list.take() else { return };
        let gone: Vec<Arc<Key>> =
            state.objects.keys().filter(|key| !list.contains_key(*key)).cloned().collect();
        drop(state);
        let mut seen = 0;
        for key in gone {
            self.put(&key, None);
        }
        for (key, object) in list {
            seen = seen.max(object.revision());
            self.put(&key, Some(object));
        }
        let mut progress = self.lock_progress();
        progress.seen = progress.seen.max(seen);
        progress.listed = progress.begun;
        drop(progress);
        self.waiters.listed();
    }

    pub(crate) fn apply(&self, object: Arc<Object>) {
        let (key, revision) = (object.shared_key().clone(), object.revision());
        self.put(&key, Some(object));
        self.advance(revision, &key);
    }

    pub(crate) fn delete(&self, object: &Object) {
        let key = object.shared_key();
        self.put(key, None);
        self.advance(object.revision(), key);
    }

    pub(crate) fn troubled(&self, trouble: String) {
        self.write().trouble = Some(trouble);
    }

    /// Folds those of the next `most` objects after `from` that the pressure is on. Gives where to go on; none at the end.
    pub(crate) fn fold(
        &self,
        from: Option<&Key>,
        most: usize,
        packer: &Mutex<Packer>,
        pressure: Pressure,
    ) -> Option<Key> {
        let after = from.map_or(Bound::Unbounded, Bound::Excluded);
        let next: Vec<Arc<Object>> = self
            .read()
            .objects
            .range::<Key, _>((after, Bound::Unbounded))
            .take(most)
            .map(|(_, one)| one.clone())
            .collect();
        for object in &next {
            let Some(folded) = object.fold(packer, pressure) else { continue };
            // Nothing is new: listeners need not know. If it changed meanwhile the newer one stays.
            if let Some(place) = self.write().objects.get_mut(&object.key())
                && Arc::ptr_eq(place, object)
            {
                *place = Arc::new(folded);
            }
        }
        next.last().map(|last| last.key())
    }

    /// A change of an object has been seen.
    fn advance(&self, revision: u64, key: &Key) {
        let mut progress = self.lock_progress();
        progress.seen = progress.seen.max(revision);
        let seen = progress.seen;
        drop(progress);
        self.waiters.seen(seen, key);
    }

    fn progress(&self) -> Progress {
        *self.lock_progress()
    }

    fn lock_progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for(&self, event: &Event, so: impl Fn() -> bool) {
        loop {
            let ticket = self.waiters.enter(event.clone());
            if so() {
                return;
            }
            ticket.wake().await;
        }
    }

    fn put(&self, key: &Key, mut object: Option<Arc<Object>>) {
        let mut state = self.write();
        // Both states of an object are of one name: it need not be there twice.
        if let Some((known, _)) = state.objects.get_key_value(key)
            && let Some(object) = object.as_mut().and_then(Arc::get_mut)
        {
            object.share_key(known);
        }
        let before = match &object {
            Some(object) => state.objects.insert(object.shared_key().clone(), object.clone()),
            None => state.objects.remove(key),
        };
        let same = |a: &Object, b: &Object| a.version() == b.version() && a.uid() == b.uid();
        match (&before, &object) {
            (None, None) => return,
            (Some(before), Some(after)) if same(before, after) => return,
            _ => {}
        }
        if let Some(before) = &before {
            (self.indexer)(before).iter().for_each(|entry| state.unfile(entry, before.shared_key()));
        }
        if let Some(after) = &object {
            (self.indexer)(after).iter().for_each(|entry| state.file(entry, after.shared_key()));
        }
        let listeners: Vec<Listener> = state.listeners.values().cloned().collect();
        drop(state);
        let change = Change { before, after: object };
        for listener in listeners {
            listener(&change);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Debug)]
enum Awaited {
    Revision(u64),
    Deletion(Key, String),
}

/// A write of ours that a cache has to have seen before it may be trusted again. What a controller decides on the
/// ground of a cache that lacks its own writes, it does twice.
#[derive(Clone, Debug)]
pub struct Expectation {
    cache: Arc<Cache>,
    /// Lists begun when the write was made: a later one has it, even if its events are lost.
    begun: u64,
    what: Awaited,
}

impl Expectation {
    /// Whether the cache has seen it.
    pub fn met(&self) -> bool {
        let progress = self.cache.progress();
        let seen = match &self.what {
            Awaited::Revision(revision) => progress.seen >= *revision,
            Awaited::Deletion(key, uid) => {
                self.cache.get(key).is_none_or(|object| object.uid() != uid || object.deleting())
            }
        };
        seen || progress.listed > self.begun
    }

    /// Waits until the cache has seen it.
    pub async fn wait(&self) {
        if self.met() {
            return;
        }
        let event = match &self.what {
            Awaited::Revision(revision) => Event::Revision(*revision),
            Awaited::Deletion(key, _) => Event::Change(key.clone()),
        };
        self.cache.wait_for(&event, || self.met()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    fn object(name: &str, revision: u64, owner: &str) -> Arc<Object> {
        let document = json!({"metadata": {"namespace": "n", "name": name, "uid": name,
            "resourceVersion": revision.to_string(), "labels": {"owner": owner}}});
        Arc::new(Object::from_document(document).unwrap())
    }

    fn cache() -> Arc<Cache> {
        let by_owner: Indexer = |object| object.label("owner").map(str::to_owned).into_iter().collect();
        Arc::new(Cache::new(KindId::new("", "v1", "Pod", "pods"), by_owner))
    }

    fn names(objects: &[Arc<Object>]) -> Vec<&str> {
        objects.iter().map(|object| object.name()).collect()
    }

    #[test]
    fn a_list_replaces_what_was_known() {
        let cache = cache();
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let ears = told.clone();
        cache.listen("test", || {
            Arc::new(move |change| {
                let what = if change.after.is_some() { "+" } else { "-" };
                ears.lock().unwrap().push(format!("{what}{}", change.object().name()));
            })
        });
        cache.begin_list();
        cache.listed(object("a", 1, "x"));
        cache.listed(object("b", 2, "x"));
        assert!(!cache.synced() && cache.all().is_empty());
        cache.end_list();
        assert!(cache.synced());
        cache.apply(object("b", 3, "y"));
        assert_eq!((names(&cache.filed("x")), names(&cache.filed("y"))), (vec!["a"], vec!["b"]));
        cache.begin_list();
        cache.listed(object("b", 3, "y"));
        cache.listed(object("c", 5, "y"));
        cache.end_list();
        assert_eq!(names(&cache.within("n")), ["b", "c"]);
        assert_eq!(names(&cache.filed("x")), Vec::<&str>::new());
        assert_eq!(*told.lock().unwrap(), ["+a", "+b", "+b", "-a", "+c"], "nothing twice");
    }

    #[test]
    fn a_late_listener_hears_of_what_is_there() {
        let cache = cache();
        cache.apply(object("a", 1, "x"));
        let count = Arc::new(Mutex::new(0));
        for _ in 0..2 {
            let count = count.clone();
            cache.listen("late", || Arc::new(move |_| *count.lock().unwrap() += 1));
        }
        assert_eq!(*count.lock().unwrap(), 1);
    }

    #[test]
    fn what_nobody_looks_at_is_folded() {
        let cache = cache();
        let told = Arc::new(Mutex::new(0));
        for name in ["a", "b", "c"] {
            cache.apply(object(name, 1, "x"));
        }
        let count = told.clone();
        cache.listen("test", || Arc::new(move |_| *count.lock().unwrap() += 1));
        let packer = Mutex::new(Packer::new());
        let round = || {
            let two = cache.fold(None, 2, &packer, Pressure::Low);
            assert_eq!(two, Some(Key::new("n", "b")));
            assert_eq!(cache.fold(two.as_ref(), 2, &packer, Pressure::Low), Some(Key::new("n", "c")));
            assert_eq!(cache.fold(Some(&Key::new("n", "c")), 2, &packer, Pressure::Low), None);
        };
        let before = cache.all();
        round();
        assert!(Arc::ptr_eq(&before[0], &cache.all()[0]), "they were just made");
        before[1].document();
        round();
        let after = cache.all();
        assert!(!Arc::ptr_eq(&before[0], &after[0]) && Arc::ptr_eq(&before[1], &after[1]));
        assert_eq!((after[0].document(), after[0].label("owner")), (before[0].document(), Some("x")));
        assert_eq!((after[0].uid(), after[0].revision()), ("a", 1));
        assert_eq!(names(&cache.filed("x")), ["a", "b", "c"]);
        assert_eq!(*told.lock().unwrap(), 3, "nobody is told");
        cache.apply(object("a", 2, "y"));
        assert_eq!(names(&cache.filed("x")), ["b", "c"]);
    }

    #[tokio::test]
    async fn writes_are_expected() {
        let cache = cache();
        let write = cache.expect_revision(7);
        assert!(!write.met());
        cache.apply(object("other", 9, ""));
        assert!(write.met());
        write.wait().await;
        let deletion = cache.expect_deletion(Key::new("n", "other"), "other");
        assert!(!deletion.met());
        cache.delete(&object("other", 10, ""));
        assert!(deletion.met());
        // Its events are lost, and the object is gone again: only a new list tells.
        let lost = cache.expect_revision(100);
        cache.begin_list();
        assert!(!lost.met());
        cache.end_list();
        assert!(lost.met());
    }
}
