//! Our providers: each controller gathers what is known, has a pure function decide (crates `provisioning` and
//! `planner`), does what it is told, and says how it stands.

use std::sync::{Arc, Mutex};

use clock::{Clock, Entropy};
use kit::Caches;
use kit::access::SharedAccess;
use tokio::sync::watch;

pub mod controlplane;

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
