//! What the controllers here work with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::capi::v1beta2::Machine;
use clock::{Clock, Entropy};
use jiff::{SignedDuration, Timestamp};
use kit::access::SharedAccess;
use kit::events::Events;
use kit::machines::{self, Planned};
use kit::object::Unreadable;
use kit::write::{self, Writer};
use kit::{Cache, Key, KindId, Object, Queue, Turn, index};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use planner::Memo;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Settings;
use super::gather::{Ground, Kept, Seen};
use super::known::{Known as _, Live, infrastructure_kind, kinds};
use crate::{Parts, ServerInfo};

/// The name under which this group writes and tells.
pub(crate) const MANAGER: &str = "herdsman-controlplane";
/// How long the first look at a provider's kind waits until its objects are known.
const SYNC_WITHIN: Duration = Duration::from_secs(20);

/// What is between two changes of a condition's words alone: whoever reads them is no faster, and every one is written for good.
const QUIET: SignedDuration = SignedDuration::from_secs(2);

/// How often the desks are cleared of what was not used since.
const DESKS_CLEARED: Duration = Duration::from_secs(30);

/// Why a look failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// An object is not what its type says.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A plan cannot be delivered.
    #[error("the plan of machine {machine} cannot be delivered")]
    Plan {
        /// Whose.
        machine: String,
        /// Why not.
        #[source]
        problem: plan::orchestrator::Error,
    },
    /// A cluster did not answer as it should.
    #[error("cannot {what}")]
    Remote {
        /// What was to be done.
        what: &'static str,
        /// The answer.
        #[source]
        answer: Box<kube::Error>,
    },
    /// A node could not be drained.
    #[error(transparent)]
    Drain(#[from] kit::evict::Error),
    /// Something cannot be written as what it is.
    #[error("cannot write {what}")]
    Shape {
        /// What.
        what: &'static str,
        /// Why not.
        #[source]
        problem: serde_json::Error,
    },
}

/// What is remembered of one control plane between two looks. It may be lost at any time.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) kept: Kept,
    pub(crate) memo: Memo,
    /// Whether there was a look since desks were last cleared.
    used: bool,
}

/// Who is told of what.
#[derive(Default)]
struct Interests {
    /// Secrets and ConfigMaps, and the control planes whose plans they reach.
    objects: BTreeMap<(&'static str, Key), BTreeSet<Key>>,
    /// The same the other way round.
    of: BTreeMap<Key, BTreeSet<(&'static str, Key)>>,
}

/// The queues of the controllers.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) control_planes: Arc<Queue>,
    /// Plan Secrets: what follows from the agents' writes.
    pub(crate) plans: Arc<Queue>,
    /// Plan Secrets whose nodes are drained or take pods again.
    pub(crate) drains: Arc<Queue>,
    /// Machines whose nodes are looked for.
    pub(crate) lookups: Arc<Queue>,
}

pub(crate) struct Context {
    pub(crate) live: Live,
    pub(crate) access: SharedAccess,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<Mutex<dyn Entropy>>,
    pub(crate) server: watch::Receiver<ServerInfo>,
    pub(crate) settings: Settings,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) queues: Queues,
    pub(crate) control_planes: Arc<Cache>,
    pub(crate) beacons: Arc<Cache>,
    pub(crate) bootstraps: Arc<Cache>,
    pub(crate) clusters: Arc<Cache>,
    pub(crate) machines: Arc<Cache>,
    pub(crate) deployments: Arc<Cache>,
    pub(crate) secrets: Arc<Cache>,
    pub(crate) config_maps: Arc<Cache>,
    pub(crate) management: Arc<Cache>,
    pub(crate) registrations: Arc<Cache>,
    pub(crate) server_settings: Arc<Cache>,
    pub(crate) features: Arc<Cache>,
    definitions: Arc<Cache>,
    desks: Mutex<BTreeMap<Key, Desk>>,
    /// When something was last said of each control plane (under an empty name) and of its machines.
    spoken: Mutex<BTreeMap<Key, BTreeMap<String, Timestamp>>>,
    interests: Mutex<Interests>,
}

impl Context {
    pub(crate) fn new(parts: Parts, settings: Settings) -> Arc<Self> {
        let Parts { caches, clock, entropy, access, server, waits: _ } = parts;
        let queue = || Arc::new(Queue::new(clock.clone(), settings.pace));
        let live = Live { caches: caches.clone(), access: access.clone() };
        let client = caches.client().clone();
        Arc::new(Context {
            writer: Writer::new(caches, MANAGER),
            events: Events::new(client, clock.clone(), entropy.clone(), MANAGER),
            queues: Queues { control_planes: queue(), plans: queue(), drains: queue(), lookups: queue() },
            control_planes: live.cache(&kinds::control_planes()),
            beacons: live.cache(&kinds::beacons()),
            bootstraps: live.cache(&kinds::bootstraps()),
            clusters: live.cache(&kinds::clusters()),
            machines: live.cache(&kinds::machines()),
            deployments: live.cache(&kinds::deployments()),
            secrets: live.cache(&kinds::secrets()),
            config_maps: live.cache(&kinds::config_maps()),
            management: live.cache(&kinds::management_clusters()),
            registrations: live.cache(&kinds::registration_tokens()),
            server_settings: live.cache(&kinds::settings()),
            features: live.cache(&kinds::features()),
            definitions: live.cache(&index::definitions()),
            live,
            access,
            clock,
            entropy,
            server,
            settings,
            desks: Mutex::default(),
            spoken: Mutex::default(),
            interests: Mutex::default(),
        })
    }

    /// Waits until everything of our own kinds is known.
    pub(crate) async fn ready(&self) {
        let all = [
            &self.definitions,
            &self.control_planes,
            &self.beacons,
            &self.bootstraps,
            &self.clusters,
            &self.machines,
            &self.deployments,
            &self.secrets,
            &self.config_maps,
            &self.management,
            &self.registrations,
            &self.server_settings,
            &self.features,
        ];
        for cache in all {
            cache.wait_synced().await;
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What a look gathers from, with our own end as it is now.
    pub(crate) fn ground<'a>(&'a self, server: &'a ServerInfo) -> Ground<'a> {
        Ground { known: &self.live, settings: &self.settings, server, now: self.now() }
    }

    /// What the last look left behind.
    pub(crate) fn desk(&self, key: &Key) -> Desk {
        lock(&self.desks).remove(key).unwrap_or_default()
    }

    /// Leaves it for the next one, and remembers what would change it.
    pub(crate) fn leave(&self, key: &Key, desk: Desk, seen: &Seen) {
        lock(&self.desks).insert(key.clone(), Desk { used: true, ..desk });
        lock(&self.interests).set(key, seen.watched.clone());
    }

    /// Clears the desks of control planes that nothing happens to, for ever: what is on them can be made anew, and was some 30 KB for
    /// each machine.
    pub(crate) async fn clear_desks(&self) {
        loop {
            tokio::time::sleep(DESKS_CLEARED).await;
            lock(&self.desks).retain(|_, desk| std::mem::take(&mut desk.used));
        }
    }

    /// A control plane is gone.
    pub(crate) fn forget(&self, key: &Key) {
        lock(&self.desks).remove(key);
        lock(&self.spoken).remove(key);
        lock(&self.interests).set(key, BTreeSet::new());
        self.settings.waits.set(super::status::WAITS, key, Vec::new());
    }

    /// Something is about to be said of a control plane or one of its machines. Words that only follow words wait until some time has
    /// passed since the last ones: gives how long, or nothing if it may be said now.
    pub(crate) fn quiet(&self, key: &Key, name: &str, only_words: bool) -> Option<SignedDuration> {
        let now = self.now();
        let mut spoken = lock(&self.spoken);
        let of = spoken.entry(key.clone()).or_default();
        let rest = of.get(name).map(|last| QUIET - now.duration_since(*last));
        match rest.filter(|rest| only_words && rest.is_positive()) {
            Some(rest) => Some(rest),
            None => {
                of.insert(name.to_owned(), now);
                None
            }
        }
    }

    /// The control planes whose plans an object reaches.
    pub(crate) fn interested(&self, kind: &'static str, key: &Key) -> Vec<Key> {
        let interests = lock(&self.interests);
        interests.objects.get(&(kind, key.clone())).into_iter().flatten().cloned().collect()
    }

    /// The control planes of a Cluster API Cluster.
    pub(crate) fn control_planes_of(&self, cluster: &Key) -> Vec<Key> {
        let entry = index::cluster(&cluster.namespace, &cluster.name);
        self.control_planes.filed(&entry).iter().map(|object| object.key()).collect()
    }

    /// The Machine that a plan Secret is for.
    pub(crate) fn planned(&self, secret: &Key) -> Option<Planned> {
        machines::of_plan(&self.machines, &self.bootstraps, secret)
    }

    /// Has the kinds of a cluster's infrastructure machines watched, and waits until they are known.
    pub(crate) async fn watch_infrastructure(self: &Arc<Self>, namespace: &str, cluster: &str) {
        let machines = self.machines.filed(&index::cluster(namespace, cluster));
        let refers = |object: &Arc<Object>| {
            let view = object.view::<Machine>().ok()?;
            let reference = &view.spec.infrastructure_ref;
            infrastructure_kind(&self.live, &reference.api_group, &reference.kind)
        };
        let all: BTreeSet<KindId> = machines.iter().filter_map(refers).collect();
        for kind in all {
            self.watch_kind(&kind).await;
        }
    }

    /// Has a kind of infrastructure machines watched, and waits until they are known.
    pub(crate) async fn watch_kind(self: &Arc<Self>, kind: &KindId) {
        let cache = self.live.cache(kind);
        super::wiring::follow_infrastructure(self, kind, &cache);
        if !cache.synced() && tokio::time::timeout(SYNC_WITHIN, cache.wait_synced()).await.is_err() {
            tracing::warn!(%kind, trouble = cache.trouble(), "its objects are not known");
        }
    }

    /// Changes the status of an object, if it is still as it was seen. Gives whether it was: if not, the change that
    /// was missed has it looked at again.
    pub(crate) async fn patch_status(
        &self,
        turn: &Turn,
        cache: &Arc<Cache>,
        object: &Object,
        status: Value,
    ) -> Result<bool, write::Error> {
        let (kind, key) = (cache.kind(), object.key());
        let api: Api<DynamicObject> = match key.namespace.as_str() {
            "" => Api::all_with(self.live.caches.client().clone(), &kind.resource()),
            namespace => Api::namespaced_with(self.live.caches.client().clone(), namespace, &kind.resource()),
        };
        let body = json!({"metadata": {"resourceVersion": object.meta().resource_version}, "status": status});
        let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match api.patch_status(&key.name, &options, &Patch::Merge(body)).await {
            Ok(written) => {
                let revision =
                    written.metadata.resource_version.as_deref().and_then(|text| text.parse().ok());
                turn.expect(cache.expect_revision(revision.unwrap_or_default()));
                Ok(true)
            }
            Err(answer) if matches!(write::code(&answer), Some(404 | 409)) => Ok(false),
            Err(answer) => Err(write::Error::Refused {
                what: "change the status of",
                kind: kind.kind.clone(),
                key,
                answer: Box::new(answer),
            }),
        }
    }

    /// Changes an object, if it is still as it was seen. Gives whether it was.
    pub(crate) async fn patch_seen(
        &self,
        turn: &Turn,
        cache: &Arc<Cache>,
        object: &Object,
        mut patch: Value,
    ) -> Result<bool, write::Error> {
        patch["metadata"]["resourceVersion"] = json!(object.meta().resource_version);
        match self.writer.patch(turn, cache, &object.key(), patch).await {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(409) => {
                tracing::debug!(kind = %cache.kind(), key = %object.key(), "somebody else was faster");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// An object of the management cluster.
    pub(crate) fn find(&self, kind: &KindId, key: &Key) -> Option<Arc<Object>> {
        self.live.get(kind, key)
    }
}

impl Interests {
    fn set(&mut self, control_plane: &Key, objects: BTreeSet<(&'static str, Key)>) {
        let before = self.of.remove(control_plane).unwrap_or_default();
        for gone in before.difference(&objects) {
            if let Some(told) = self.objects.get_mut(gone) {
                told.remove(control_plane);
                if told.is_empty() {
                    self.objects.remove(gone);
                }
            }
        }
        for object in &objects {
            self.objects.entry(object.clone()).or_default().insert(control_plane.clone());
        }
        if !objects.is_empty() {
            self.of.insert(control_plane.clone(), objects);
        }
    }
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
