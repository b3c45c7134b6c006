//! The Cluster controller: ties infrastructure, control plane and machines together.

mod act;
mod removal;
mod status;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta2::{Cluster, ClusterStatus, Machine, MachineDeployment, MachineSet};
use api::catalogue::labels;
use kit::index;
use kit::runner::Controller;
use kit::{Ended, Key, Object, Turn};

use crate::context::{Context, Error, Found, typed};
use crate::start::{self, Ours as _, PutOff, Start};

/// The conditions that this controller alone writes.
const OWNED: [&str; 16] = [
    "Available",
    "RemoteConnectionProbe",
    "InfrastructureReady",
    "ControlPlaneInitialized",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "RollingOut",
    "Remediating",
    "ScalingDown",
    "ScalingUp",
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
    "Paused",
    "Deleting",
];

/// How often a look is due at a cluster that is being deleted, should an event be lost.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

type Listed<T> = Vec<(Arc<Object>, Arc<T>)>;

/// Everything that is known of a cluster.
pub(crate) struct Seen {
    pub(crate) object: Arc<Object>,
    pub(crate) infrastructure: Found,
    pub(crate) control_plane: Found,
    pub(crate) deployments: Listed<MachineDeployment>,
    pub(crate) sets: Listed<MachineSet>,
    pub(crate) machines: Listed<Machine>,
    pub(crate) health: kit::access::Health,
    /// How long the cluster may not answer before this is said.
    pub(crate) connection_grace: jiff::SignedDuration,
}

impl Seen {
    pub(crate) fn control_plane_machines(&self) -> impl Iterator<Item = &(Arc<Object>, Arc<Machine>)> {
        self.machines.iter().filter(|(object, _)| object.label(labels::CAPI_CONTROL_PLANE).is_some())
    }

    pub(crate) fn workers(&self) -> impl Iterator<Item = &(Arc<Object>, Arc<Machine>)> {
        self.machines.iter().filter(|(object, _)| object.label(labels::CAPI_CONTROL_PLANE).is_none())
    }

    /// Sets and machines that nothing but the cluster owns.
    pub(crate) fn stands_alone(object: &Object) -> bool {
        kit::owners::controller(object.owners()).is_none()
    }
}

/// Looks after Clusters.
pub(crate) struct Clusters(pub(crate) Arc<Context>, PutOff);

impl Clusters {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Clusters(context, PutOff::default())
    }
}

impl Controller for Clusters {
    type Error = Error;

    fn name(&self) -> &'static str {
        "cluster"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.clusters.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let start = start::begin(context, turn, &context.clusters, key, |_| false).await?;
        let Start { object, mut edit, now, generation, .. } = match start {
            Ok(start) => start,
            Err(ended) => return Ok(ended),
        };
        let seen = self.gather(object.clone(), &edit).await;
        act::claim(context, turn, &seen, &edit).await?;
        let observed = status::observe(&mut edit, &seen, now);
        let again = match object.deleting() {
            true => removal::advance(context, turn, &mut edit, &seen).await?,
            false => act::kubeconfig(context, turn, &edit, &seen).await?,
        };
        status::write(&mut edit, &seen, now);
        if observed.is_ok() {
            edit.observed(generation);
        }
        let comes = !start::all_told(&seen.machines, &seen.sets, &seen.deployments, now);
        let can_wait = !moved_on(&object, &edit) && observed.is_ok() && !object.deleting();
        if let Some(wait) = self.1.wait(key, comes && can_wait, now) {
            return Ok(Ended::Again(wait));
        }
        act::tell(context, &object, &edit).await;
        context.writer.apply(turn, edit, &OWNED).await?;
        observed?;
        if let Some(why) = seen.infrastructure.trouble().or_else(|| seen.control_plane.trouble()) {
            return Err(why.into());
        }
        Ok(again.map_or(Ended::Well, Ended::Again))
    }
}

impl Clusters {
    async fn gather(&self, object: Arc<Object>, cluster: &Cluster) -> Seen {
        let context = &self.0;
        let namespace = object.namespace();
        let entry = index::cluster(namespace, object.name());
        Seen {
            infrastructure: context.find(namespace, cluster.spec.infrastructure_ref.as_ref()).await,
            control_plane: context.find(namespace, cluster.spec.control_plane_ref.as_ref()).await,
            deployments: typed(&context.deployments.filed(&entry)),
            sets: typed(&context.sets.filed(&entry)),
            machines: typed(&context.machines.filed(&entry)),
            health: context.access.health(&object.key()),
            connection_grace: context.connection_grace,
            object,
        }
    }
}

/// Whether others wait to be told what has become of the cluster.
fn moved_on(before: &Object, cluster: &Cluster) -> bool {
    let Some(status) = &cluster.status else { return false };
    let told = &before.document()["status"];
    let done = &status.initialization;
    let known = |field: &str| told["initialization"][field].as_bool();
    told["phase"] != status.phase.as_str()
        || known("infrastructureProvisioned") != done.infrastructure_provisioned
        || known("controlPlaneInitialized") != done.control_plane_initialized
}

/// The status of a cluster that is being changed.
pub(crate) fn status_of(cluster: &mut Cluster) -> &mut ClusterStatus {
    cluster.status.get_or_insert_default()
}
