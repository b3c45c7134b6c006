//! All controllers at work, wherever the Kubernetes API is.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use capi::{ClusterCache, Paces};
use clock::{Clock, SystemEntropy};
use controllers::{Parts, ServerInfo, bootstrap, controlplane, custom, drivers, infrastructure, jobs};
use kit::Caches;
use kit::access::Dial;
use machine::Drivers;
use tokio::sync::watch;

/// What controllers are given.
pub(crate) struct Work {
    /// The management cluster, as this process sees it.
    pub(crate) caches: Caches,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// How clusters are reached.
    pub(crate) dial: Arc<dyn Dial>,
    /// Our own end.
    pub(crate) server: watch::Receiver<ServerInfo>,
    /// Whether nodes can download the agent from us.
    pub(crate) offers_agent: bool,
    /// Where downloads, logs and running Jobs are kept.
    pub(crate) directory: PathBuf,
    /// Drivers of our own.
    pub(crate) drivers: Drivers,
    /// The program rancher-machine, for all other drivers.
    pub(crate) rancher_machine: Option<PathBuf>,
    /// Counts what is waited for.
    pub(crate) waits: Arc<controlplane::Waits>,
}

impl Work {
    /// Runs everything until the future is dropped.
    pub(crate) async fn run(self) {
        let clusters = ClusterCache::new(self.caches.client().clone(), self.dial.clone(), self.clock.clone());
        let core = capi::Parts {
            caches: self.caches.clone(),
            clock: self.clock.clone(),
            entropy: Arc::new(Mutex::new(SystemEntropy)),
            access: clusters.clone(),
            paces: Paces::default(),
            watch_filter: None,
        };
        let parts = Parts {
            caches: self.caches.clone(),
            clock: self.clock.clone(),
            entropy: Arc::new(Mutex::new(SystemEntropy)),
            access: clusters.clone(),
            server: self.server.clone(),
            waits: self.waits.clone(),
        };
        tokio::join!(
            capi::run(core, Some(clusters)),
            controllers::provisioning::run(parts.clone()),
            infrastructure::run(parts.clone()),
            bootstrap::run(parts.clone(), self.installers()),
            custom::run(parts.clone()),
            controllers::machine::run(parts.clone(), self.machines()),
            drivers::run(parts.clone(), self.node_drivers()),
            jobs::run(parts.clone(), self.jobs()),
            controlplane::run(
                parts,
                controlplane::Settings { waits: self.waits.clone(), ..controlplane::Settings::default() }
            ),
        );
    }

    fn installers(&self) -> bootstrap::Installers {
        bootstrap::Installers {
            linux: gateway::assets::INSTALL.into(),
            windows: "".into(),
            offers_agent: self.offers_agent,
        }
    }

    fn machines(&self) -> controllers::machine::Settings {
        controllers::machine::Settings {
            environment: environment(),
            ..controllers::machine::Settings::default()
        }
    }

    fn node_drivers(&self) -> drivers::Settings {
        drivers::Settings {
            drivers: self.drivers.clone(),
            rancher_machine: self.rancher_machine.clone(),
            downloads: self.directory.join("drivers"),
            environment: environment(),
        }
    }

    fn jobs(&self) -> jobs::Settings {
        jobs::Settings {
            directory: self.directory.join("jobs"),
            drivers: self.drivers.clone(),
            rancher_machine: self.rancher_machine.clone(),
            downloads: self.directory.join("drivers"),
        }
    }
}

/// Our own environment, as far as it is text.
fn environment() -> std::collections::BTreeMap<String, String> {
    let all = std::env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}
