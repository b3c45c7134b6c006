//! The control plane provider: an RKEControlPlane and its machines' plans.
//!
//! | module | what |
//! |---|---|
//! | [`known`], `gather/`, `references` | what is known, and the planner's snapshot of it: no IO |
//! | `reconcile` | the control plane: gather, decide, act, say |
//! | `act`, `status`, `removal`, `kubeconfig` | what follows from a decision |
//! | `prebootstrap` | Secrets that must be in a cluster before its network |
//! | `plans` | what follows from the agents' writes |
//! | `drain` | nodes that are drained and take pods again |
//! | `lookup` | the nodes that machines have become |
//! | `published` | where our own end is, for commands |
//! | [`preview`], [`explain`] | what would happen; what is waited for |
//! | `context`, `wiring`, [`waits`] | what all of these work with |
//!
//! docs/ownership.md says which key, condition and annotation is whose.

mod act;
mod context;
mod drain;
pub mod explain;
pub mod gather;
pub mod known;
mod kubeconfig;
mod legacy;
mod lookup;
mod plans;
mod prebootstrap;
pub mod preview;
mod published;
mod reconcile;
mod references;
mod removal;
mod status;
pub mod waits;
mod wiring;

use std::sync::Arc;
use std::time::Duration;

pub use context::Error;
use kit::Pace;
pub use planner::Releases;
pub use preview::preview_warnings;
pub use published::server_info;
pub use waits::{Waits, WaitsCollector};

use crate::Parts;
use context::Context;

/// Nodes are drained by their own clusters, some of which are slow to answer.
const DRAINS_AT_A_TIME: usize = 50;
/// The image of the cluster's agent, unless the server's settings name one.
const AGENT_IMAGE: &str = concat!("herdsman/cluster-agent:v", env!("CARGO_PKG_VERSION"));

/// What the process is told about control planes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which arguments the distributions take: the built-in table, or a file in the format of Rancher's release metadata.
    pub releases: Arc<Releases>,
    /// Image of the cluster's agent, unless the setting `agent-image` names one.
    pub agent_image: String,
    /// How often an object is looked at.
    pub pace: Pace,
    /// Counts what is waited for; see [`WaitsCollector`].
    pub waits: Arc<Waits>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            releases: Arc::default(),
            agent_image: AGENT_IMAGE.into(),
            pace: Pace { interval: Duration::from_millis(200), ..Pace::default() },
            waits: Arc::default(),
        }
    }
}

/// Runs until the future is dropped.
pub async fn run(parts: Parts, settings: Settings) {
    let context = Context::new(parts, settings);
    context.ready().await;
    wiring::connect(&context);
    let queues = &context.queues;
    tokio::join!(
        wiring::follow_server(&context),
        context.clear_desks(),
        kit::runner::run(
            Arc::new(reconcile::ControlPlanes(context.clone())),
            queues.control_planes.clone(),
            kit::runner::AT_A_TIME
        ),
        kit::runner::run(
            Arc::new(plans::Plans(context.clone())),
            queues.plans.clone(),
            kit::runner::AT_A_TIME
        ),
        kit::runner::run(
            Arc::new(drain::Drains::new(context.clone())),
            queues.drains.clone(),
            DRAINS_AT_A_TIME
        ),
        kit::runner::run(
            Arc::new(lookup::Lookups(context.clone())),
            queues.lookups.clone(),
            kit::runner::AT_A_TIME
        ),
    );
}
