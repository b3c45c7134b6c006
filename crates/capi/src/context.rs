//! What all controllers here work with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Kind;
use api::capi::v1beta2::{
    Cluster, ContractVersionedObjectReference, Machine, MachineDeployment, MachineDrainRule,
    MachineHealthCheck, MachineSet,
};
use clock::{Clock, Entropy};
use jiff::{SignedDuration, Timestamp};
use kit::access::SharedAccess;
use kit::events::Events;
use kit::object::Unreadable;
use kit::write::Writer;
use kit::{Cache, Caches, Key, KindId, Object, Pace, Queue, Turn, owners};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::contract::{Breach, Contract, External};
use kit::index;

/// How long the first look at a provider's kind waits until its objects are known.
const SYNC_WITHIN: Duration = Duration::from_secs(20);

/// The name under which this crate listens to caches.
const LISTENER: &str = "capi";

/// Why a look at an object failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] kit::write::Error),
    /// An object is not what its type says.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A provider's object is not what its contract says.
    #[error(transparent)]
    Breach(#[from] Breach),
    /// A provider's kind cannot be found.
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    /// A cluster is not reached now.
    #[error(transparent)]
    NotConnected(#[from] kit::access::NotConnected),
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
    /// The object asks for something that cannot be.
    #[error("{0}")]
    Impossible(String),
}

/// A provider's kind that cannot be found, or not yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// There is no such kind.
    #[error("there is no CRD for kind {kind} of group {group}: is its provider installed?")]
    NoDefinition {
        /// Its group.
        group: String,
        /// Its kind.
        kind: String,
    },
    /// The kind does not say how it is to be read.
    #[error("CRD {definition}: {problem}")]
    NoContract {
        /// Name of the CRD.
        definition: String,
        /// What is missing.
        problem: String,
    },
    /// Its objects are not known yet.
    #[error("objects of {kind} are not known yet: {trouble}")]
    NotSynced {
        /// The kind.
        kind: String,
        /// What keeps them from being known.
        trouble: String,
    },
}

/// A provider's object.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) cache: Arc<Cache>,
    pub(crate) object: Arc<Object>,
    pub(crate) contract: Contract,
}

impl Provider {
    pub(crate) fn read(&self) -> External<'_> {
        External { contract: self.contract, object: self.object.document() }
    }
}

/// What became of a reference.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// There is no reference.
    NotAsked,
    /// The object is not there.
    Missing,
    /// Here it is.
    There(Provider),
    /// It cannot be told.
    Unknown(Unresolved),
}

impl Found {
    pub(crate) fn there(&self) -> Option<&Provider> {
        match self {
            Found::There(provider) => Some(provider),
            _ => None,
        }
    }

    pub(crate) fn trouble(&self) -> Option<Unresolved> {
        match self {
            Found::Unknown(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// The queues of the controllers.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) clusters: Arc<Queue>,
    pub(crate) machines: Arc<Queue>,
    pub(crate) sets: Arc<Queue>,
    pub(crate) deployments: Arc<Queue>,
    pub(crate) checks: Arc<Queue>,
}

/// How often objects are looked at, and how long it is waited before something is said of a cluster that does not answer.
#[derive(Clone, Copy, Debug)]
pub struct Paces {
    /// Health checks.
    pub checks: Pace,
    /// Machines.
    pub machines: Pace,
    /// All others: what many machines report is told together.
    pub others: Pace,
    /// How long a cluster may not answer before its Cluster says so.
    pub connection_grace: SignedDuration,
    /// How long what was last known of a node stands when its cluster is not reached.
    pub node_grace: SignedDuration,
}

impl Default for Paces {
    fn default() -> Self {
        Paces {
            checks: Pace { interval: Duration::from_secs(5), ..Pace::default() },
            machines: Pace { interval: Duration::from_millis(200), burst: 3, ..Pace::default() },
            others: Pace { interval: Duration::from_millis(500), burst: 4, ..Pace::default() },
            connection_grace: SignedDuration::from_secs(50),
            node_grace: SignedDuration::from_mins(5),
        }
    }
}

/// What a set of controllers is given.
pub struct Parts {
    /// The management cluster, as this process sees it.
    pub caches: Caches,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for names.
    pub entropy: Arc<Mutex<dyn Entropy>>,
    /// The ways to the clusters that are looked after.
    pub access: SharedAccess,
    /// How often objects are looked at.
    pub paces: Paces,
    /// Only objects with this value of the label `cluster.x-k8s.io/watch-filter` are looked after.
    pub watch_filter: Option<String>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("watch_filter", &self.watch_filter).finish_non_exhaustive()
    }
}

pub(crate) struct Context {
    pub(crate) caches: Caches,
    pub(crate) clock: Arc<dyn Clock>,
    entropy: Arc<Mutex<dyn Entropy>>,
    pub(crate) access: SharedAccess,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) queues: Queues,
    pub(crate) clusters: Arc<Cache>,
    pub(crate) machines: Arc<Cache>,
    pub(crate) sets: Arc<Cache>,
    pub(crate) deployments: Arc<Cache>,
    pub(crate) checks: Arc<Cache>,
    pub(crate) rules: Arc<Cache>,
    pub(crate) connection_grace: SignedDuration,
    pub(crate) node_grace: SignedDuration,
    definitions: Arc<Cache>,
    watch_filter: Option<String>,
    /// Machines, by their UIDs, whose Nodes could not be deleted, and since when.
    nodes_tried: Mutex<BTreeMap<String, Timestamp>>,
}

impl Context {
    /// When a Machine's Node could not be deleted for the first time: now, unless it is known. A process that starts anew
    /// tries for longer.
    pub(crate) fn node_tried(&self, machine: &str, now: Timestamp) -> Timestamp {
        let mut tried = self.nodes_tried.lock().unwrap_or_else(PoisonError::into_inner);
        *tried.entry(machine.to_owned()).or_insert(now)
    }

    /// A Machine is gone.
    pub(crate) fn forget_node(&self, machine: &str) {
        self.nodes_tried.lock().unwrap_or_else(PoisonError::into_inner).remove(machine);
    }

    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let Parts { caches, clock, entropy, access, paces, watch_filter } = parts;
        let queue = |pace| Arc::new(Queue::new(clock.clone(), pace));
        let queues = Queues {
            clusters: queue(paces.others),
            machines: queue(paces.machines),
            sets: queue(paces.others),
            deployments: queue(paces.others),
            checks: queue(paces.checks),
        };
        let client = caches.client().clone();
        Arc::new(Context {
            writer: Writer::new(caches.clone(), "capi-core"),
            events: Events::new(client, clock.clone(), entropy.clone(), "capi-core"),
            clusters: caches.of(&KindId::of::<Cluster>()),
            machines: caches.of(&KindId::of::<Machine>()),
            sets: caches.of(&KindId::of::<MachineSet>()),
            deployments: caches.of(&KindId::of::<MachineDeployment>()),
            checks: caches.of(&KindId::of::<MachineHealthCheck>()),
            rules: caches.of(&KindId::of::<MachineDrainRule>()),
            definitions: caches.of_cluster(&index::definitions(), index::trim_definition),
            nodes_tried: Mutex::default(),
            caches,
            clock,
            entropy,
            access,
            queues,
            connection_grace: paces.connection_grace,
            node_grace: paces.node_grace,
            watch_filter,
        })
    }

    /// Waits until everything of our own kinds is known.
    pub(crate) async fn ready(&self) {
        for cache in [
            &self.definitions,
            &self.clusters,
            &self.machines,
            &self.sets,
            &self.deployments,
            &self.checks,
            &self.rules,
        ] {
            cache.wait_synced().await;
        }
    }

    pub(crate) fn definitions(&self) -> &Arc<Cache> {
        &self.definitions
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn suffix(&self) -> String {
        crate::naming::suffix(&mut *self.entropy.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this process looks after an object.
    pub(crate) fn ours(&self, object: &Object) -> bool {
        let label = object.label(api::catalogue::labels::CAPI_WATCH_FILTER);
        self.watch_filter.as_deref().is_none_or(|filter| label == Some(filter))
    }

    /// The object that a reference means.
    pub(crate) async fn find(
        self: &Arc<Self>,
        namespace: &str,
        reference: Option<&ContractVersionedObjectReference>,
    ) -> Found {
        let Some(reference) = reference else { return Found::NotAsked };
        let (cache, contract) = match self.kind_of(&reference.api_group, &reference.kind).await {
            Ok(found) => found,
            Err(why) => return Found::Unknown(why),
        };
        match cache.get(&Key::new(namespace, &reference.name)) {
            Some(object) => Found::There(Provider { cache, object, contract }),
            None => Found::Missing,
        }
    }

    /// The cache of a provider's kind, in the version that keeps the contract. The first who asks has it watched.
    pub(crate) async fn kind_of(
        self: &Arc<Self>,
        group: &str,
        kind: &str,
    ) -> Result<(Arc<Cache>, Contract), Unresolved> {
        let missing = || Unresolved::NoDefinition { group: group.into(), kind: kind.into() };
        let definitions = self.definitions.filed(&index::kind(group, kind));
        let definition = definitions.first().ok_or_else(missing)?;
        let no_contract =
            |problem: String| Unresolved::NoContract { definition: definition.name().into(), problem };
        let labels = definition.meta().labels.clone().unwrap_or_default();
        let (contract, version) = api::contract::version(&labels).map_err(no_contract)?;
        let contract =
            Contract::named(contract).ok_or_else(|| no_contract(format!("{contract} is not known")))?;
        let plural = definition.document()["spec"]["names"]["plural"].as_str().unwrap_or_default();
        let cache = self.watched(&KindId::new(group, version, kind, plural)).await?;
        Ok((cache, contract))
    }

    /// The cache of a kind that somebody else defines.
    pub(crate) async fn watched(self: &Arc<Self>, kind: &KindId) -> Result<Arc<Cache>, Unresolved> {
        let cache = self.caches.of(kind);
        let context = Arc::downgrade(self);
        cache.listen(LISTENER, || {
            let kind = kind.clone();
            Arc::new(move |change| {
                if let Some(context) = context.upgrade() {
                    crate::wiring::external_changed(&context, &kind, change);
                }
            })
        });
        if !cache.synced() && tokio::time::timeout(SYNC_WITHIN, cache.wait_synced()).await.is_err() {
            let trouble = cache.trouble().unwrap_or_else(|| "the server does not answer".into());
            return Err(Unresolved::NotSynced { kind: kind.to_string(), trouble });
        }
        Ok(cache)
    }

    /// Makes a provider's object ours: owner and the cluster's label. Nothing is sent if it is so already.
    pub(crate) async fn claim(
        &self,
        turn: &Turn,
        provider: &Provider,
        cluster: &str,
        change: impl FnOnce(&mut Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>) -> bool,
    ) -> Result<(), Error> {
        let object = &provider.object;
        let mut patch = json!({});
        let mut owners = object.owners().to_vec();
        if change(&mut owners) {
            patch["metadata"]["ownerReferences"] = json!(owners);
            patch["metadata"]["resourceVersion"] = json!(object.meta().resource_version);
        }
        let label = api::catalogue::labels::CAPI_CLUSTER_NAME;
        if object.label(label) != Some(cluster) {
            patch["metadata"]["labels"] = json!({label: cluster});
        }
        match patch.get("metadata") {
            None => Ok(()),
            Some(_) => Ok(self.writer.patch(turn, &provider.cache, &object.key(), patch).await?),
        }
    }
}

/// Everything that a cache files under an entry, as a type. What cannot be read is left out and told.
pub(crate) fn typed<T: DeserializeOwned + Send + Sync + 'static>(
    objects: &[Arc<Object>],
) -> Vec<(Arc<Object>, Arc<T>)> {
    let read = |object: &Arc<Object>| match object.view::<T>() {
        Ok(value) => Some((object.clone(), value)),
        Err(error) => {
            tracing::warn!(%error, "an object is left out");
            None
        }
    };
    objects.iter().filter_map(read).collect()
}

/// A reference to the cluster as an owner.
pub(crate) fn cluster_owner(
    cluster: &Object,
    controller: bool,
) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
    owners::reference(&KindId::of::<Cluster>(), cluster, controller)
}

/// The reference of a kind of ours.
pub(crate) fn kind_of<K: Kind>() -> KindId {
    KindId::of::<K>()
}

/// A patch that sets nothing.
pub(crate) fn is_empty(patch: &Value) -> bool {
    patch.as_object().is_none_or(serde_json::Map::is_empty)
}
