//! What the controllers of all drivers work with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::capi::v1beta2::{Cluster, Machine};
use api::machine::Driver;
use api::management::v3::{Cluster as ManagementCluster, NodeDriver, Setting};
use api::provisioning::v1::Cluster as ProvisioningCluster;
use clock::Clock;
use kit::events::Events;
use kit::object::Unreadable;
use kit::write::Writer;
use kit::{Cache, Caches, KindId, Pace, Queue, index};
use provisioning::graph::difference::Conflict;
use tokio::sync::{mpsc, watch};

use super::Settings;
use crate::controlplane::Waits;
use crate::{Parts, ServerInfo};

/// The name in managed fields and events.
const MANAGER: &str = "herdsman-machine";

/// Many things happen to a machine in its first moments; each is seen soon, but not each by itself.
const PACE: Pace = Pace {
    interval: Duration::from_millis(100),
    first_retry: Duration::from_secs(1),
    longest_retry: Duration::from_secs(60),
    burst: 1,
};

/// Why a look at a machine failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] kit::write::Error),
    /// The status was not taken.
    #[error("cannot write the status of {machine}")]
    Status {
        /// Of which machine.
        machine: String,
        /// The answer.
        #[source]
        answer: Box<kube::Error>,
    },
    /// The machine could not be asked for.
    #[error("cannot read {machine}")]
    Read {
        /// Which machine.
        machine: String,
        /// The answer.
        #[source]
        answer: Box<kube::Error>,
    },
    /// An object is not what its type says.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// An object of the machine's is somebody else's.
    #[error(transparent)]
    Conflict(#[from] Conflict),
}

/// A driver's kind of machines, and which of them are to be looked at.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) driver: Driver,
    pub(super) cache: Arc<Cache>,
    pub(super) queue: Arc<Queue>,
}

impl Watched {
    pub(super) fn add_all(&self) {
        self.cache.all().iter().for_each(|object| self.queue.add(object.key()));
    }
}

pub(super) struct Context {
    pub(super) caches: Caches,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) writer: Writer,
    pub(super) events: Events,
    pub(super) server: watch::Receiver<ServerInfo>,
    pub(super) waits: Arc<Waits>,
    pub(super) settings: Settings,
    pub(super) definitions: Arc<Cache>,
    pub(super) machines: Arc<Cache>,
    pub(super) clusters: Arc<Cache>,
    pub(super) provisioning: Arc<Cache>,
    pub(super) management: Arc<Cache>,
    pub(super) drivers: Arc<Cache>,
    pub(super) set_by_users: Arc<Cache>,
    pub(super) namespaces: Arc<Cache>,
    pub(super) jobs: Arc<Cache>,
    pub(super) pods: Arc<Cache>,
    pub(super) secrets: Arc<Cache>,
    pub(super) accounts: Arc<Cache>,
    pub(super) roles: Arc<Cache>,
    pub(super) bindings: Arc<Cache>,
    kinds: Mutex<BTreeMap<String, Arc<Watched>>>,
    found: mpsc::UnboundedSender<Arc<Watched>>,
}

impl Context {
    pub(super) fn new(
        parts: Parts,
        settings: Settings,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Arc<Watched>>) {
        let Parts { caches, clock, entropy, access: _, server, waits } = parts;
        let (found, kinds) = mpsc::unbounded_channel();
        let plain = |_: &mut serde_json::Value| {};
        let core = |kind: &str, plural: &str| caches.of(&KindId::new("", "v1", kind, plural));
        let rbac = |kind: &str, plural: &str| {
            caches.of(&KindId::new("rbac.authorization.k8s.io", "v1", kind, plural))
        };
        let context = Context {
            writer: Writer::new(caches.clone(), MANAGER),
            events: Events::new(caches.client().clone(), clock.clone(), entropy, MANAGER),
            definitions: caches.of_cluster(&index::definitions(), index::trim_definition),
            machines: caches.of(&KindId::of::<Machine>()),
            clusters: caches.of(&KindId::of::<Cluster>()),
            provisioning: caches.of(&KindId::of::<ProvisioningCluster>()),
            management: caches.of_cluster(&KindId::of::<ManagementCluster>(), plain),
            drivers: caches.of_cluster(&KindId::of::<NodeDriver>(), plain),
            set_by_users: caches.of_cluster(&KindId::of::<Setting>(), plain),
            namespaces: caches.of_cluster(&KindId::new("", "v1", "Namespace", "namespaces"), plain),
            jobs: caches.of(&KindId::new("batch", "v1", "Job", "jobs")),
            pods: core("Pod", "pods"),
            secrets: core("Secret", "secrets"),
            accounts: core("ServiceAccount", "serviceaccounts"),
            roles: rbac("Role", "roles"),
            bindings: rbac("RoleBinding", "rolebindings"),
            kinds: Mutex::default(),
            clock,
            caches,
            server,
            waits,
            settings,
            found,
        };
        (Arc::new(context), kinds)
    }

    /// Waits until everything that decisions are made from is known.
    pub(super) async fn ready(&self) {
        let caches = [
            &self.definitions,
            &self.machines,
            &self.clusters,
            &self.provisioning,
            &self.management,
            &self.drivers,
            &self.set_by_users,
            &self.namespaces,
            &self.jobs,
            &self.pods,
            &self.secrets,
            &self.accounts,
            &self.roles,
            &self.bindings,
        ];
        for cache in caches {
            cache.wait_synced().await;
        }
    }

    /// A driver's kind, if it is there.
    pub(super) fn kind(&self, kind: &str) -> Option<Arc<Watched>> {
        self.kinds().get(kind).cloned()
    }

    /// All kinds that are there.
    pub(super) fn all_kinds(&self) -> Vec<Arc<Watched>> {
        self.kinds().values().cloned().collect()
    }

    /// Has a kind looked after from now on, unless it is already.
    pub(super) fn watch(self: &Arc<Self>, driver: Driver) {
        let mut kinds = self.kinds();
        let name = driver.machine_kind();
        if kinds.contains_key(&name) {
            return;
        }
        let resource = driver.machine_resource();
        let id = KindId::new(&resource.group, &resource.version, &resource.kind, &resource.plural);
        let queue = Arc::new(Queue::new(self.clock.clone(), PACE));
        let kind = Arc::new(Watched { driver, cache: self.caches.of(&id), queue });
        kinds.insert(name, kind.clone());
        drop(kinds);
        let told = kind.queue.clone();
        kind.cache.listen(MANAGER, || Arc::new(move |change| told.add(change.object().key())));
        // Nobody listens any more only when everything ends.
        let _ = self.found.send(kind);
    }

    fn kinds(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Watched>>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a setting.
    pub(super) fn setting(&self, name: &str) -> String {
        let found =
            self.set_by_users.get(&kit::Key::new("", name)).and_then(|object| object.view::<Setting>().ok());
        found.map(|setting| setting.effective().to_owned()).unwrap_or_default()
    }
}
