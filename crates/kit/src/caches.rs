//! One watch and one cache per kind, for the whole process.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt as _, Stream, StreamExt as _};
use kube::core::{ApiResource, DynamicObject, DynamicResourceScope, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use packing::Packer;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;
use tokio::time::{Interval, MissedTickBehavior};

use crate::cache::{Cache, Indexer};
use crate::object::{Key, KindId, Object, Pressure, trim};

/// How long a watch that broke waits before it comes back: twice as long each time, up to the last.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Objects that nobody has looked at for this long to twice as long are folded.
const IDLE: Duration = Duration::from_secs(30);
/// Steps in which a cache is gone through in that time.
const STEPS: u32 = 6;
/// Objects that are folded in one go, before others may run.
const AT_ONCE: usize = 32;
/// Objects that are looked at for each that comes, while enough are open, and while too many are: most of them are folded already.
const FOR_EACH: usize = 4;
const FOR_EACH_OF_TOO_MANY: usize = 16;

/// Events that are taken in one go, before others may run.
const IN_ONE_TURN: usize = 512;

/// Packs the objects of all caches: those of many clusters resemble each other.
static PACKER: Mutex<Packer> = Mutex::new(Packer::new());

/// The caches of a process. Clones are the same ones.
#[derive(Clone)]
pub struct Caches {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    indexer: Indexer,
    namespace: Option<String>,
    running: Mutex<Running>,
    /// Told when a kind may have come into being: watches that wait try again.
    try_again: Arc<Notify>,
}

#[derive(Default)]
struct Running {
    caches: BTreeMap<KindId, Arc<Cache>>,
    /// Those of metadata alone, by what is looked for.
    metadata: BTreeMap<(KindId, &'static str), Arc<Cache>>,
    /// The watches end with the caches.
    watches: JoinSet<()>,
}

impl std::fmt::Debug for Caches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.lock().caches.values()).finish()
    }
}

impl Caches {
    /// Caches of what `client` sees, filed by `indexer`.
    pub fn new(client: Client, indexer: Indexer) -> Self {
        Caches::within(client, indexer, None)
    }

    /// The same, of one namespace only.
    pub fn within(client: Client, indexer: Indexer, namespace: Option<String>) -> Self {
        let shared =
            Shared { client, indexer, namespace, running: Mutex::default(), try_again: Arc::default() };
        Caches { shared: Arc::new(shared) }
    }

    /// The client whose world this is.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// The cache of a namespaced kind. The first who asks starts its watch. A kind that the server does not know yet is
    /// watched as soon as it does.
    pub fn of(&self, kind: &KindId) -> Arc<Cache> {
        self.start(kind, true, trim)
    }

    /// The same for a kind without namespaces; `trim` takes away what need not be kept.
    pub fn of_cluster(&self, kind: &KindId, trim: fn(&mut Value)) -> Arc<Cache> {
        self.start(kind, false, trim)
    }

    /// A cache of metadata alone, of the objects of a namespaced kind that a label selector takes: for kinds whose objects
    /// are large, or nobody's business.
    pub fn metadata_of(&self, kind: &KindId, labels: &'static str) -> Arc<Cache> {
        let mut running = self.lock();
        if let Some(cache) = running.metadata.get(&(kind.clone(), labels)) {
            return cache.clone();
        }
        let cache = self.make(kind);
        running.metadata.insert((kind.clone(), labels), cache.clone());
        let wanted = watcher::Config::default().labels(labels);
        let api: Api<PartialObjectMeta<DynamicObject>> = self.api(kind, true);
        let events = move || {
            let events = kube::runtime::watcher(api.clone(), wanted.clone());
            events.map(|event| event.map(|event| mapped(event, without_data)))
        };
        running.watches.spawn(follow(events, cache.clone(), trim, self.shared.try_again.clone()));
        cache
    }

    /// A kind may have come into being: watches that wait for one try again at once.
    pub fn kinds_changed(&self) {
        self.shared.try_again.notify_waiters();
    }

    fn start(&self, kind: &KindId, namespaced: bool, trim: fn(&mut Value)) -> Arc<Cache> {
        let mut running = self.lock();
        if let Some(cache) = running.caches.get(kind) {
            return cache.clone();
        }
        let cache = self.make(kind);
        running.caches.insert(kind.clone(), cache.clone());
        let api: Api<DynamicObject> = self.api(kind, namespaced);
        let events = move || kube::runtime::watcher(api.clone(), watcher::Config::default());
        running.watches.spawn(follow(events, cache.clone(), trim, self.shared.try_again.clone()));
        cache
    }

    fn make(&self, kind: &KindId) -> Arc<Cache> {
        let cache = Arc::new(Cache::new(kind.clone(), self.shared.indexer));
        crate::metrics::shared().keeps(&cache);
        cache
    }

    fn api<K>(&self, kind: &KindId, namespaced: bool) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        match &self.shared.namespace {
            Some(namespace) if namespaced => {
                Api::namespaced_with(self.shared.client.clone(), namespace, &kind.resource())
            }
            _ => Api::all_with(self.shared.client.clone(), &kind.resource()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Running> {
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Feeds a cache from a watch, for ever. If something panics on the way, another watch begins with a list: a cache that stands still
/// would have everybody wait who looks at it.
async fn follow<S>(events: impl Fn() -> S, cache: Arc<Cache>, trim: fn(&mut Value), again: Arc<Notify>)
where
    S: Stream<Item = watcher::Result<Event<DynamicObject>>>,
{
    loop {
        // A cache that lags behind has everybody do things twice: it gets longer turns than others.
        let feeding = unconstrained(feed_all(events(), &cache, trim, &again));
        if AssertUnwindSafe(feeding).catch_unwind().await.is_ok() {
            return;
        }
        tracing::error!(kind = %cache.kind(), "what follows a kind has panicked, and begins anew");
        cache.troubled("what follows the kind has panicked".to_owned());
        tokio::time::sleep(FIRST_WAIT).await;
    }
}

/// Feeds a cache from a watch, to its end.
async fn feed_all(
    events: impl Stream<Item = watcher::Result<Event<DynamicObject>>>,
    cache: &Arc<Cache>,
    trim: fn(&mut Value),
    again: &Notify,
) {
    let mut events = pin!(events);
    let mut wait = FIRST_WAIT;
    let mut broom = Broom::new();
    for number in 1_usize.. {
        if number.is_multiple_of(IN_ONE_TURN) {
            tokio::task::yield_now().await;
        }
        let event = tokio::select! {
            biased;
            event = events.next() => event,
            () = broom.turn() => {
                broom.sweep(cache);
                continue;
            }
        };
        let Some(event) = event else { return };
        match event {
            Err(error) => {
                // A kind that is not there is no news.
                tracing::debug!(kind = %cache.kind(), %error, "a watch broke");
                cache.troubled(error.to_string());
                tokio::select! {
                    biased;
                    () = again.notified() => {}
                    () = tokio::time::sleep(wait) => {}
                }
                wait = (wait * 2).min(LONGEST_WAIT);
                continue;
            }
            Ok(event) => feed(cache, event, trim),
        }
        broom.make_room(cache);
        wait = FIRST_WAIT;
    }
}

/// Goes round a cache, over and over, and folds what nobody looks at: a little at a time, as what comes must not wait for it.
struct Broom {
    /// How far it is.
    at: Option<Key>,
    steps: Interval,
    /// Objects that are still to be looked at in this step.
    left: usize,
    /// Others had their turn since the last few.
    yielded: bool,
}

impl Broom {
    fn new() -> Self {
        let mut steps = tokio::time::interval(IDLE / STEPS);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Broom { at: None, steps, left: 0, yielded: false }
    }

    /// Waits until it is its turn. Whoever breaks off and asks again does not begin to wait anew.
    async fn turn(&mut self) {
        if self.left == 0 {
            self.steps.tick().await;
        } else if !std::mem::replace(&mut self.yielded, true) {
            tokio::task::yield_now().await;
        }
    }

    /// Something came: something else may have to go.
    fn make_room(&mut self, cache: &Cache) {
        let pressure = Pressure::now();
        let some = match pressure {
            Pressure::Low => return,
            Pressure::High => FOR_EACH,
            Pressure::Highest => FOR_EACH_OF_TOO_MANY,
        };
        self.at = cache.fold(self.at.as_ref(), some, &PACKER, pressure);
    }

    /// Looks at the next few.
    fn sweep(&mut self, cache: &Cache) {
        self.yielded = false;
        let pressure = Pressure::now();
        if self.left == 0 {
            let steps = if pressure > Pressure::Low { 1 } else { STEPS as usize };
            self.left = cache.count().div_ceil(steps);
        }
        self.at = cache.fold(self.at.as_ref(), AT_ONCE, &PACKER, pressure);
        self.left = self.left.saturating_sub(AT_ONCE);
        if self.at.is_none() {
            self.left = 0;
            PACKER.lock().unwrap_or_else(PoisonError::into_inner).forget_unused();
        }
    }
}

fn without_data(object: PartialObjectMeta<DynamicObject>) -> DynamicObject {
    DynamicObject { types: object.types, metadata: object.metadata, data: Value::Object(Default::default()) }
}

fn mapped<A, B>(event: Event<A>, map: impl FnOnce(A) -> B) -> Event<B> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(map(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(map(object)),
        Event::Delete(object) => Event::Delete(map(object)),
    }
}

fn feed(cache: &Cache, event: Event<DynamicObject>, trim: fn(&mut Value)) {
    let read = |object: DynamicObject| match Object::from_dynamic(object, cache.kind(), trim) {
        Ok(object) => Some(Arc::new(object)),
        // One bad object does not stop a watch.
        Err(error) => {
            tracing::warn!(kind = %cache.kind(), %error, "an object cannot be read");
            None
        }
    };
    match event {
        Event::Init => cache.begin_list(),
        Event::InitApply(object) => drop(read(object).map(|object| cache.listed(object))),
        Event::InitDone => cache.end_list(),
        Event::Apply(object) => drop(read(object).map(|object| cache.apply(object))),
        Event::Delete(object) => drop(read(object).map(|object| cache.delete(&object))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_broom_does_a_little_at_a_time_and_all_in_the_end() {
        const ALL: usize = 20 * AT_ONCE;
        let kind = KindId::new("", "v1", "Pod", "pods");
        let cache = Cache::new(kind.clone(), |_| Vec::new());
        for number in 0..ALL {
            let pod = DynamicObject::new(&format!("pod-{number}"), &kind.resource());
            feed(&cache, Event::Apply(pod), trim);
        }
        let mut broom = Broom::new();
        for _ in 0..10 * STEPS {
            // Something comes whenever it is about to begin.
            while broom.turn().now_or_never().is_none() {
                tokio::time::advance(IDLE / STEPS / 3).await;
            }
            let before = cache.counts().1;
            broom.sweep(&cache);
            assert!(cache.counts().1 - before <= AT_ONCE, "others wait for no more than that");
        }
        assert_eq!(cache.counts(), (0, ALL));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_is_followed_on_after_a_panic() {
        let kind = KindId::new("", "v1", "Pod", "pods");
        let cache = Arc::new(Cache::new(kind.clone(), |_| Vec::new()));
        let is_first = AtomicBool::new(true);
        cache.listen("test", || {
            Arc::new(move |_| assert!(!is_first.swap(false, Ordering::Relaxed), "this is meant to panic"))
        });
        let events = move || {
            let pod = |name: &str| DynamicObject::new(name, &kind.resource());
            let all = [Event::Init, Event::InitApply(pod("a")), Event::InitApply(pod("b")), Event::InitDone]
                .map(Ok);
            stream::iter(all).chain(stream::pending())
        };
        let following = tokio::spawn(follow(events, cache.clone(), trim, Arc::default()));
        tokio::time::timeout(LONGEST_WAIT, cache.wait_synced()).await.expect("it is listed anew");
        assert_eq!((cache.count(), cache.trouble()), (2, None));
        following.abort();
    }
}
