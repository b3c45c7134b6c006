//! What the controllers of this group work with.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::capi::v1beta2 as capi;
use api::management::v3::{
    Cluster as ManagementCluster, ClusterRegistrationToken, DynamicSchema,
    PodSecurityAdmissionConfigurationTemplate, User,
};
use api::plans::v1alpha1::Beacon;
use api::provisioning::v1::Cluster;
use api::rke::v1::{ETCDSnapshot, RKEBootstrap, RKEBootstrapTemplate, RKECluster, RKEControlPlane};
use clock::Entropy;
use jiff::Timestamp;
use kit::events::Events;
use kit::{Cache, Object, Pace, Queue};
use provisioning::graph::Source;

use crate::Parts;
use crate::objects::Objects;
use crate::settings::Settings;
use crate::settled::Settled;
use crate::waits::Told;

/// Under which name this group writes.
const MANAGER: &str = "herdsman-provisioning";

/// What is known of the kinds that are always there.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) clusters: Arc<Cache>,
    pub(super) management: Arc<Cache>,
    pub(super) tokens: Arc<Cache>,
    pub(super) schemas: Arc<Cache>,
    pub(super) pod_security: Arc<Cache>,
    pub(super) users: Arc<Cache>,
    pub(super) infrastructure: Arc<Cache>,
    pub(super) control_planes: Arc<Cache>,
    pub(super) bootstraps: Arc<Cache>,
    pub(super) bootstrap_templates: Arc<Cache>,
    pub(super) beacons: Arc<Cache>,
    pub(super) snapshots: Arc<Cache>,
    pub(super) capi_clusters: Arc<Cache>,
    pub(super) deployments: Arc<Cache>,
    pub(super) sets: Arc<Cache>,
    pub(super) machines: Arc<Cache>,
    pub(super) checks: Arc<Cache>,
    pub(super) secrets: Arc<Cache>,
    pub(super) namespaces: Arc<Cache>,
}

impl Known {
    fn new(objects: &Objects) -> Self {
        Known {
            clusters: objects.of::<Cluster>(),
            management: objects.of::<ManagementCluster>(),
            tokens: objects.of::<ClusterRegistrationToken>(),
            schemas: objects.of::<DynamicSchema>(),
            pod_security: objects.of::<PodSecurityAdmissionConfigurationTemplate>(),
            users: objects.of::<User>(),
            infrastructure: objects.of::<RKECluster>(),
            control_planes: objects.of::<RKEControlPlane>(),
            bootstraps: objects.of::<RKEBootstrap>(),
            bootstrap_templates: objects.of::<RKEBootstrapTemplate>(),
            beacons: objects.of::<Beacon>(),
            snapshots: objects.of::<ETCDSnapshot>(),
            capi_clusters: objects.of::<capi::Cluster>(),
            deployments: objects.of::<capi::MachineDeployment>(),
            sets: objects.of::<capi::MachineSet>(),
            machines: objects.of::<capi::Machine>(),
            checks: objects.of::<capi::MachineHealthCheck>(),
            secrets: objects.built_in("Secret"),
            namespaces: objects.built_in("Namespace"),
        }
    }

    fn all(&self) -> [&Arc<Cache>; 19] {
        [
            &self.clusters,
            &self.management,
            &self.tokens,
            &self.schemas,
            &self.pod_security,
            &self.users,
            &self.infrastructure,
            &self.control_planes,
            &self.bootstraps,
            &self.bootstrap_templates,
            &self.beacons,
            &self.snapshots,
            &self.capi_clusters,
            &self.deployments,
            &self.sets,
            &self.machines,
            &self.checks,
            &self.secrets,
            &self.namespaces,
        ]
    }

    /// Kinds that a cluster's graph may hold beside the templates of node drivers.
    pub(super) fn of_graph(&self) -> [&Arc<Cache>; 7] {
        [
            &self.infrastructure,
            &self.control_planes,
            &self.capi_clusters,
            &self.bootstrap_templates,
            &self.deployments,
            &self.checks,
            &self.beacons,
        ]
    }
}

pub(super) struct Context {
    pub(super) parts: Parts,
    pub(super) objects: Objects,
    pub(super) known: Known,
    pub(super) settings: Settings,
    pub(super) events: Events,
    pub(super) told: Told,
    pub(super) settled: Settled,
    pub(super) clusters: Arc<Queue>,
    pub(super) tokens: Arc<Queue>,
}

impl Context {
    pub(super) fn new(parts: Parts) -> Arc<Self> {
        let objects = Objects::new(&parts.caches, MANAGER);
        // What happens within a blink is seen together.
        let pace = Pace { interval: Duration::from_millis(50), ..Pace::default() };
        let queue = || Arc::new(Queue::new(parts.clock.clone(), pace));
        let client = parts.caches.client().clone();
        Arc::new(Context {
            known: Known::new(&objects),
            settings: Settings::new(&objects),
            events: Events::new(client, parts.clock.clone(), parts.entropy.clone(), MANAGER),
            told: Told::new("provisioning", &parts),
            settled: Settled::default(),
            clusters: queue(),
            tokens: queue(),
            objects,
            parts,
        })
    }

    /// Waits until everything of the kinds that are always there is known.
    pub(super) async fn ready(&self) {
        let others = [self.objects.definitions(), self.settings.cache()];
        for cache in self.known.all().into_iter().chain(others) {
            cache.wait_synced().await;
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// The time as conditions have it: whole seconds, RFC 3339.
    pub(super) fn stamp(&self) -> String {
        let now = self.now();
        Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
    }

    pub(super) fn with_entropy<T>(&self, make: impl FnOnce(&mut dyn Entropy) -> T) -> T {
        let entropy: &Mutex<dyn Entropy> = &self.parts.entropy;
        make(&mut *entropy.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The clusters of which something is so. It looks at all of them: ask for [`Context::clusters_naming`] where much happens.
    pub(super) fn clusters_where(&self, so: impl Fn(&Object, &Cluster) -> bool) -> Vec<Arc<Object>> {
        of_which(self.known.clusters.all(), so)
    }

    /// The clusters that name an object called so, of which something is so.
    pub(super) fn clusters_naming(
        &self,
        name: &str,
        so: impl Fn(&Object, &Cluster) -> bool,
    ) -> Vec<Arc<Object>> {
        of_which(self.known.clusters.filed(&kit::index::names(name)), so)
    }
}

fn of_which(mut clusters: Vec<Arc<Object>>, so: impl Fn(&Object, &Cluster) -> bool) -> Vec<Arc<Object>> {
    clusters.retain(|object| object.view::<Cluster>().is_ok_and(|cluster| so(object, &cluster)));
    clusters
}

/// Where the machines of a cluster's pools come from.
pub(super) fn sources(cluster: &Cluster) -> impl Iterator<Item = Source> + '_ {
    let pools = cluster.spec.rke_config.iter().flat_map(|config| &config.machine_pools);
    pools.filter_map(|pool| pool.machine_config_ref.as_ref().map(Source::of))
}
