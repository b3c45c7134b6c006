//! Our providers: each controller gathers what is known, has a pure function decide (crates `provisioning` and
//! `planner`), does what it is told, and says how it stands.
//!
//! | module | what |
//! |---|---|
//! | [`mod@provisioning`] | provisioning clusters, their management halves and registration tokens |
//! | [`infrastructure`] | the infrastructure cluster of clusters that bring none |
//! | [`bootstrap`] | per machine: accounts, plan Secret, bootstrap Secret |
//! | [`custom`] | machines that register by their own hand |
//! | [`agents`] | agents follow the server's version, in waves |
//! | [`admission`] | what is refused and filled in at the door |
//! | [`drivers`] | node drivers: from a driver's flags to its kinds |
//! | [`machine`] | servers of node drivers: the infrastructure machines |
//! | [`jobs`] | runs the Jobs of infrastructure machines where no Kubernetes does |
//! | [`controlplane`] | the control plane: what every machine does next, and how it stands |

pub mod admission;
pub mod agents;
pub mod bootstrap;
pub mod controlplane;
pub mod custom;
pub mod drivers;
mod error;
pub mod infrastructure;
pub mod jobs;
pub mod machine;
mod objects;
pub mod provisioning;
mod settings;
mod settled;
mod waits;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::{Clock, Entropy};
use jiff::Timestamp;
use kit::access::SharedAccess;
use kit::{Caches, Ended};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

/// What every group of controllers is given.
#[derive(Clone)]
pub struct Parts {
    /// The management cluster, as this process sees it; filed by [`kit::index::entries`].
    pub caches: Caches,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for names and tokens.
    pub entropy: Arc<Mutex<dyn Entropy>>,
    /// The ways to the clusters that are looked after, by the key of their Cluster API Cluster.
    pub access: SharedAccess,
    /// Our own end, as nodes and users see it. It may change while we run.
    pub server: watch::Receiver<ServerInfo>,
    /// Counts what is waited for; see [`controlplane::WaitsCollector`].
    pub waits: Arc<controlplane::Waits>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// Our own end, as nodes and users see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// The one public URL, without a slash at its end.
    pub url: String,
    /// What the URL's certificate is verified with, as PEM; empty if every system trusts it anyway.
    pub ca_certificates: String,
}

/// What hosts compare the certificates of our own end with: SHA-256 in hex; empty if every system trusts them anyway.
fn checksum(certificates: &str) -> String {
    match certificates {
        "" => String::new(),
        text => Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// Well, and again at that time if there is one.
fn until(now: Timestamp, at: Option<Timestamp>) -> Ended {
    match at {
        None => Ended::Well,
        Some(at) => Ended::Again(Duration::try_from(at.duration_since(now)).unwrap_or_default()),
    }
}
