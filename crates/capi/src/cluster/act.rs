//! What is done about a cluster that stays.

use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta2::Cluster;
use kit::events::Severity;
use kit::{Object, Turn, owners};

use super::{LOOK_AGAIN, Seen};
use crate::context::{Context, Error, cluster_owner, kind_of};
use crate::kubeconfig;

/// Makes the objects of the providers the cluster's own: they begin their work when they see its name on them.
pub(super) async fn claim(
    context: &Arc<Context>,
    turn: &Turn,
    seen: &Seen,
    cluster: &Cluster,
) -> Result<(), Error> {
    let controller = cluster.spec.topology.is_some();
    for provider in [&seen.infrastructure, &seen.control_plane].into_iter().filter_map(|found| found.there())
    {
        let owner = cluster_owner(&seen.object, controller);
        let ensure = |all: &mut Vec<_>| owners::ensure(all, owner);
        context.claim(turn, provider, seen.object.name(), ensure).await?;
    }
    Ok(())
}

/// A cluster whose control plane nobody provides gets a kubeconfig from us, if it has an authority to sign it.
pub(super) async fn kubeconfig(
    context: &Arc<Context>,
    turn: &Turn,
    cluster: &Cluster,
    seen: &Seen,
) -> Result<Option<Duration>, Error> {
    if cluster.spec.control_plane_ref.is_some() || !cluster.spec.control_plane_endpoint.is_valid() {
        return Ok(None);
    }
    kubeconfig::ensure(context, turn, &seen.object, &cluster.spec.control_plane_endpoint).await
}

/// Tells of what has come about.
pub(super) async fn tell(context: &Arc<Context>, object: &Object, cluster: &Cluster) {
    let Some(status) = &cluster.status else { return };
    let kind = kind_of::<Cluster>();
    if object.document()["status"]["phase"] != status.phase.as_str() {
        let message = format!("Cluster {} is {}", object.name(), status.phase);
        context.events.tell(&kind, object, Severity::Normal, &status.phase, &message).await;
    }
    let known = |field: &str| object.document()["status"]["initialization"][field] == true;
    let done = &status.initialization;
    for (field, now, reason, what) in [
        (
            "infrastructureProvisioned",
            done.infrastructure_provisioned,
            "InfrastructureReady",
            "infrastructure",
        ),
        (
            "controlPlaneInitialized",
            done.control_plane_initialized,
            "ControlPlaneInitialized",
            "control plane",
        ),
    ] {
        if now == Some(true) && !known(field) {
            let message = format!("Cluster {} has its {what}", object.name());
            context.events.tell(&kind, object, Severity::Normal, reason, &message).await;
        }
    }
}

/// For whoever waits for something that tells no events.
pub(super) const fn look_again() -> Option<Duration> {
    Some(LOOK_AGAIN)
}
