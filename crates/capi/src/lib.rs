//! The Cluster API core controllers: Cluster, Machine, MachineSet, MachineDeployment, MachineHealthCheck.
//!
//! Each controller gathers what is known, decides, acts and writes the status, in a `reconcile` of one screen. What
//! decides is in modules without IO:
//!
//! | module | decides |
//! |---|---|
//! | [`contract`] | what a provider's object says, in either contract |
//! | [`rollout`] | how many machines each set gets next |
//! | [`priority`] | which machines go first |
//! | [`template`] | what is a rollout and what follows in place |
//! | [`health`] | which machines are unhealthy, and whether anything is done about it |
//! | [`removal`] | the steps of a machine's end |
//! | [`preflight`], [`version`] | whether machines may be made now |
//! | [`admission`] | what is filled in and what is refused when our kinds are written |
//! | [`inventory`] | what clusterctl finds |
//! | [`phase`], [`naming`], [`pause`] | words, names, and when nothing is done |
//!
//! docs/capi.md is the way in.

pub mod admission;
mod check;
mod cluster;
mod clusters;
mod context;
pub mod contract;
mod deeds;
mod definitions;
mod deployment;
mod external;
pub mod health;
pub mod inventory;
mod kubeconfig;
mod machine;
mod machines;
pub mod naming;
pub mod pause;
pub mod phase;
pub mod preflight;
pub mod priority;
pub mod removal;
pub mod review;
pub mod rollout;
mod selector;
mod set;
mod start;
pub mod template;
pub mod version;
mod wiring;

use std::sync::Arc;

pub use clusters::{ClusterCache, Probing};
pub use context::{Error, Paces, Parts, Unresolved};
pub use definitions::Definitions;
pub use kit::index::entries;

use context::Context;

/// Machines are many, and looks at some of them ask their own clusters.
const MACHINES_AT_A_TIME: usize = 32;

/// Runs all controllers until the future is dropped. `clusters` is the way to the clusters, if it is one that follows
/// them; it has to be the one in `parts` then.
pub async fn run(parts: Parts, clusters: Option<Arc<ClusterCache>>) {
    let context = Context::new(parts);
    context.ready().await;
    if let Some(clusters) = &clusters {
        follow_clusters(&context, clusters);
    }
    wiring::connect(&context);
    let queues = &context.queues;
    tokio::join!(
        kit::runner::run(
            Arc::new(cluster::Clusters::new(context.clone())),
            queues.clusters.clone(),
            kit::runner::AT_A_TIME
        ),
        kit::runner::run(
            Arc::new(machine::Machines(context.clone())),
            queues.machines.clone(),
            MACHINES_AT_A_TIME
        ),
        kit::runner::run(
            Arc::new(set::Sets::new(context.clone())),
            queues.sets.clone(),
            kit::runner::AT_A_TIME
        ),
        kit::runner::run(
            Arc::new(deployment::Deployments::new(context.clone())),
            queues.deployments.clone(),
            kit::runner::AT_A_TIME
        ),
        kit::runner::run(
            Arc::new(check::Checks(context.clone())),
            queues.checks.clone(),
            kit::runner::AT_A_TIME
        ),
    );
}

fn follow_clusters(context: &Arc<Context>, clusters: &Arc<ClusterCache>) {
    let told = Arc::downgrade(context);
    clusters.tell(Arc::new(move |cluster, change| {
        let Some(context) = told.upgrade() else { return };
        match change {
            Some(change) => wiring::node_changed(&context, cluster, change),
            None => wiring::cluster_reached(&context, cluster),
        }
    }));
    clusters.follow(&context.caches);
}
