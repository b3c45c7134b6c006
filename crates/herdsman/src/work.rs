//! All controllers at work, wherever the Kubernetes API is.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use capi::{ClusterCache, Paces};
use clock::{Clock, SystemEntropy};
use controllers::machine::Marked;
use controllers::{ServerInfo, agents, bootstrap, controlplane, custom, drivers, infrastructure, jobs};
use gateway::assets::Assets;
use kit::Caches;
use machine::Drivers;
use tokio::sync::watch;

/// A group of controllers, or the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Group {
    /// Cluster API core
    Capi,
    /// Clusters, their graph, registration tokens, RKEClusters
    Provisioning,
    /// What a machine needs to become a node; hosts that register themselves
    Bootstrap,
    /// Servers of node drivers
    Machine,
    /// Control planes: what every machine does next
    Controlplane,
    /// The one port: agents, tunnels, proxy
    Gateway,
}

impl Group {
    /// All of them.
    pub(crate) const ALL: [Group; 6] = [
        Group::Capi,
        Group::Provisioning,
        Group::Bootstrap,
        Group::Machine,
        Group::Controlplane,
        Group::Gateway,
    ];
}

/// Who runs the Jobs of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Jobs {
    /// The cluster; but this process those of its own drivers (docker, ssh, sim)
    Cluster,
    /// This process runs all
    Local,
    /// This process runs all, and there is nobody else who would.
    #[value(skip)]
    Alone,
}

/// What work is made from.
pub(crate) struct Parts {
    /// The management cluster, as this process sees it.
    pub(crate) caches: Caches,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// The ways to clusters.
    pub(crate) clusters: Arc<ClusterCache>,
    /// Our own end.
    pub(crate) server: watch::Receiver<ServerInfo>,
    /// What nodes can download from us.
    pub(crate) assets: Assets,
    /// Counts how agents stand to what we have for them.
    pub(crate) standings: Arc<agents::Standings>,
    /// Where downloads, logs and running Jobs are kept.
    pub(crate) directory: PathBuf,
    /// Drivers of our own.
    pub(crate) drivers: Drivers,
    /// The program rancher-machine, for all other drivers.
    pub(crate) rancher_machine: Option<PathBuf>,
    /// What it and its drivers may read beside the system's files.
    pub(crate) driver_read: Vec<PathBuf>,
    /// Counts what is waited for.
    pub(crate) waits: Arc<controlplane::Waits>,
    /// Who runs Jobs.
    pub(crate) jobs: Jobs,
    /// Which arguments distributions take.
    pub(crate) releases: Arc<controlplane::Releases>,
}

/// What our own controllers do.
pub(crate) struct Work(pub(crate) Parts);

impl Work {
    /// Drivers of our own.
    pub(crate) fn drivers(&self) -> &Drivers {
        &self.0.drivers
    }

    /// Runs our own controllers of these groups until the future is dropped.
    pub(crate) async fn run(&self, groups: &[Group]) {
        let parts = controllers::Parts {
            caches: self.0.caches.clone(),
            clock: self.0.clock.clone(),
            entropy: Arc::new(Mutex::new(SystemEntropy)),
            access: self.0.clusters.clone(),
            server: self.0.server.clone(),
            waits: self.0.waits.clone(),
        };
        // Somebody else may run Cluster API's: what they find is looked for here all the same.
        self.0.clusters.follow(&self.0.caches);
        let on = |group: Group| groups.contains(&group);
        tokio::join!(
            when(on(Group::Provisioning), controllers::provisioning::run(parts.clone())),
            when(on(Group::Provisioning), infrastructure::run(parts.clone())),
            when(on(Group::Bootstrap), bootstrap::run(parts.clone(), self.installers())),
            when(on(Group::Bootstrap), custom::run(parts.clone())),
            when(on(Group::Bootstrap), self.agents(parts.clone())),
            when(on(Group::Machine), controllers::machine::run(parts.clone(), self.machines())),
            when(on(Group::Machine), drivers::run(parts.clone(), self.node_drivers())),
            when(on(Group::Machine), jobs::run(parts.clone(), self.jobs())),
            when(on(Group::Controlplane), controlplane::run(parts, self.control_planes())),
        );
        std::future::pending().await
    }

    fn installers(&self) -> bootstrap::Installers {
        bootstrap::Installers {
            linux: gateway::assets::INSTALL.into(),
            windows: "".into(),
            offers_agent: self.0.assets.offer_agent(),
        }
    }

    async fn agents(&self, parts: controllers::Parts) {
        let assets = self.0.assets.clone();
        // Files of megabytes: the start does not wait for them.
        let binaries = tokio::task::spawn_blocking(move || assets.agents()).await.unwrap_or_default();
        agents::run(parts, agents::Offer { binaries, standings: self.0.standings.clone() }).await;
    }

    fn control_planes(&self) -> controlplane::Settings {
        controlplane::Settings {
            waits: self.0.waits.clone(),
            releases: self.0.releases.clone(),
            ..controlplane::Settings::default()
        }
    }

    fn machines(&self) -> controllers::machine::Settings {
        let marked = match self.0.jobs {
            Jobs::Alone => Marked::Nothing,
            Jobs::Local => Marked::All,
            Jobs::Cluster => {
                Marked::Of(self.0.drivers.all().map(|driver| driver.name().to_owned()).collect())
            }
        };
        controllers::machine::Settings {
            environment: environment(),
            marked,
            ..controllers::machine::Settings::default()
        }
    }

    fn node_drivers(&self) -> drivers::Settings {
        drivers::Settings {
            drivers: self.0.drivers.clone(),
            rancher_machine: self.0.rancher_machine.clone(),
            downloads: self.0.directory.join("drivers"),
            environment: environment(),
        }
    }

    fn jobs(&self) -> jobs::Settings {
        jobs::Settings {
            directory: self.0.directory.join("jobs"),
            drivers: self.0.drivers.clone(),
            rancher_machine: self.0.rancher_machine.clone(),
            downloads: self.0.directory.join("drivers"),
            // This very program, also when another one has taken its place on the disk.
            confinement: Some(jobs::Confinement {
                program: "/proc/self/exe".into(),
                read: self.0.driver_read.clone(),
            }),
            environment: environment(),
            marked_only: self.0.jobs != Jobs::Alone,
        }
    }
}

/// Runs Cluster API's controllers until the future is dropped, of objects with this label's value if one is given.
pub(crate) async fn core(
    caches: Caches,
    clock: Arc<dyn Clock>,
    clusters: Arc<ClusterCache>,
    watch_filter: Option<String>,
) {
    let parts = capi::Parts {
        caches,
        clock,
        entropy: Arc::new(Mutex::new(SystemEntropy)),
        access: clusters.clone(),
        paces: Paces::default(),
        watch_filter,
    };
    capi::run(parts, Some(clusters)).await;
}

async fn when(on: bool, work: impl Future<Output = ()>) {
    if on {
        work.await;
    }
}

/// Our own environment, as far as it is text.
fn environment() -> std::collections::BTreeMap<String, String> {
    let all = std::env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}
