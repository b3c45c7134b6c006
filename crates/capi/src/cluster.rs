//! The Cluster controller: ties infrastructure, control plane and machines together.

mod act;
mod removal;
mod status;

use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta2::{Cluster, ClusterStatus, Machine, MachineDeployment, MachineSet};
use api::catalogue::{finalizers, labels};
use kit::conditions;
use kit::index;
use kit::runner::Controller;
use kit::write::Edit;
use kit::{Ended, Key, Object, Turn};

use crate::context::{Context, Error, Found, typed};
use crate::pause;

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
pub(crate) struct Clusters(pub(crate) Arc<Context>);

impl Controller for Clusters {
    type Error = Error;

    fn name(&self) -> &'static str {
        "cluster"
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(object) = context.clusters.get(key).filter(|object| context.ours(object)) else {
            return Ok(Ended::Gone);
        };
        let mut edit: Edit<Cluster> = Edit::begin(&context.clusters, &object)?;
        if !object.deleting() && add_finalizer(&mut edit) {
            context.writer.apply(turn, edit, &[]).await?;
            return Ok(Ended::Again(Duration::ZERO));
        }
        let paused = pause::paused("Cluster", &object.meta, Some(&*edit));
        let (now, generation) = (context.now(), object.meta.generation.unwrap_or_default());
        if paused.is_true() {
            let status = edit.status.get_or_insert_default();
            conditions::set(&mut status.conditions, paused, generation, now);
            context.writer.apply(turn, edit, &["Paused"]).await?;
            return Ok(Ended::Well);
        }
        conditions::set(&mut edit.status.get_or_insert_default().conditions, paused, generation, now);

        let seen = self.gather(object.clone(), &edit).await;
        act::claim(context, turn, &seen, &edit).await?;
        let observed = status::observe(&mut edit, &seen, now);
        let again = match object.deleting() {
            true => removal::advance(context, turn, &mut edit, &seen).await?,
            false => act::kubeconfig(context, turn, &edit, &seen).await?,
        };
        let phase = before_phase(&object);
        status::write(&mut edit, &seen, &observed, now);
        act::tell(context, &object, &edit, &phase).await;
        if observed.is_ok() {
            edit.status.get_or_insert_default().observed_generation = generation;
        }
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

fn add_finalizer(cluster: &mut Cluster) -> bool {
    let all = cluster.metadata.finalizers.get_or_insert_default();
    let missing = !all.iter().any(|one| one == finalizers::CLUSTER);
    if missing {
        all.push(finalizers::CLUSTER.into());
    }
    missing
}

fn before_phase(object: &Object) -> String {
    object.document()["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

/// The status of a cluster that is being changed.
pub(crate) fn status_of(cluster: &mut Cluster) -> &mut ClusterStatus {
    cluster.status.get_or_insert_default()
}
