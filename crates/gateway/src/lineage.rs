//! Who belongs to whom, by what only the server writes: management Clusters, Machines, RKEBootstraps and their UIDs. Labels, annotations
//! and names that a node or a tenant can write decide nothing here.

use std::sync::Arc;

use api::capi::v1beta2::Machine;
use api::catalogue::labels;
use api::management::v3::Cluster as ManagementCluster;
use api::names;
use api::names::Bootstrap;
use api::provisioning::v1::Cluster;
use api::rke::v1::RKEBootstrap;
use kit::{Cache, Caches, Key, KindId, Object, index, lineage, machines};

/// Answers from caches.
#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    management: Arc<Cache>,
    clusters: Arc<Cache>,
    bootstraps: Arc<Cache>,
    machines: Arc<Cache>,
}

impl Lineage {
    pub(crate) fn new(caches: &Caches) -> Self {
        Lineage {
            management: caches.of_cluster(&KindId::of::<ManagementCluster>(), trim),
            clusters: caches.of(&KindId::of::<Cluster>()),
            bootstraps: caches.of(&KindId::of::<RKEBootstrap>()),
            machines: caches.of(&KindId::of::<Machine>()),
        }
    }

    fn all(&self) -> [&Arc<Cache>; 4] {
        [&self.management, &self.clusters, &self.bootstraps, &self.machines]
    }

    /// Whether everything that answers come from is known.
    pub(crate) fn synced(&self) -> bool {
        self.all().into_iter().all(|cache| cache.synced())
    }

    /// Waits until it is.
    pub(crate) async fn wait_synced(&self) {
        for cache in self.all() {
            cache.wait_synced().await;
        }
    }

    /// The management cluster with an id.
    pub(crate) fn management(&self, id: &str) -> Option<Arc<Object>> {
        self.management.get(&Key::new("", id))
    }

    /// The provisioning cluster that a management cluster was made for: its owner, which exists, by UID.
    pub(crate) fn cluster(&self, id: &str) -> Option<Arc<Object>> {
        lineage::cluster(&self.management, &self.clusters, id)
    }

    /// Whether a management cluster was made for the cluster of this namespace and name.
    pub(crate) fn is_of(&self, id: &str, cluster: &Key) -> bool {
        self.cluster(id).is_some_and(|found| found.key() == *cluster)
    }

    /// The Machine of an account. The account is called as the one of an RKEBootstrap is, by `named`; that RKEBootstrap owns it; a Machine
    /// owns the RKEBootstrap and names it as its own: all by UID.
    pub(crate) fn machine(
        &self,
        account: &Object,
        named: fn(Bootstrap<'_>) -> String,
    ) -> Option<Arc<Object>> {
        let found = machines::of_account(&self.machines, &self.bootstraps, account, named);
        Some(found?.machine)
    }

    /// The Machine of a host that registered with a cluster, by its whole id.
    pub(crate) fn registered(&self, cluster: &Object, id: &str) -> Option<Arc<Object>> {
        let named = Key::new(cluster.namespace(), &names::registered_machine(names::Registrant::Custom, id));
        let all = self.machines.filed(&index::cluster(cluster.namespace(), cluster.name()));
        // The one that registration has made comes before one that a driver has.
        let found = self.machines.get(&named).into_iter().chain(all);
        found.into_iter().find(|machine| belongs(machine, cluster, id))
    }
}

/// Whether a Machine is that of a cluster and of the host with this id. Names are made of a part of the id's hash, which can be searched for:
/// the whole id counts.
pub(crate) fn belongs(machine: &Object, cluster: &Object, id: &str) -> bool {
    machine.namespace() == cluster.namespace()
        && machines::cluster(machine) == cluster.name()
        && machine.label(labels::MACHINE_ID) == Some(id)
}

/// Management clusters need no history here.
fn trim(document: &mut serde_json::Value) {
    if let Some(metadata) = document["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}
