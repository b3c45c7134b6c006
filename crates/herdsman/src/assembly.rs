//! What the product is made of, wherever its Kubernetes API is: the gateway, and the work behind it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ::gateway::headers::Proxies;
use ::gateway::{Book, Gateway, Kubernetes, Public, TunnelDial};
use anyhow::Context as _;
use capi::ClusterCache;
use clock::{Clock, SystemEntropy};
use controllers::ServerInfo;
use controllers::agents::{Standings, StandingsCollector};
use controllers::controlplane::{Releases, Waits, WaitsCollector};
use kit::Caches;
use kit::access::{Dial, Direct};
use machine::Drivers;
use machine::docker::Docker;
use machine::ssh::Ssh;
use prometheus_client::registry::Registry;
use sim::{Uplink, World};
use tokio::sync::watch;
use tunnel::Hub;

use crate::simulated::Simulated;
use crate::work::{self, Jobs, Work};

/// Where simulated machines are, in the data directory.
const SIM: &str = "sim";

/// What it stands on.
pub(crate) struct Ground {
    /// A client with every right that we need.
    pub(crate) client: kube::Client,
    /// The API that agents and users see.
    pub(crate) kubernetes: Arc<dyn Kubernetes>,
    pub(crate) book: Book,
    pub(crate) clock: Arc<dyn Clock>,
    /// Our own end.
    pub(crate) public: Public,
    /// Where downloads, logs, running Jobs and simulated machines are kept.
    pub(crate) directory: PathBuf,
    /// Where agents for nodes are.
    pub(crate) assets: Vec<PathBuf>,
    pub(crate) rancher_machine: Option<PathBuf>,
    /// The driver `docker`, if it is enabled.
    pub(crate) docker: Option<Docker>,
    /// What rancher-machine and its drivers may read beside the system's files.
    pub(crate) driver_read: Vec<PathBuf>,
    /// Whether hosts of the driver `ssh` need a key that a user gave.
    pub(crate) strict_host_keys: bool,
    /// Load balancers in front of the server.
    pub(crate) proxies: Proxies,
    pub(crate) jobs: Jobs,
    /// Which arguments distributions take.
    pub(crate) releases: Arc<Releases>,
    /// Whether the tunnels of clusters end in this process; else clusters are reached by what the gateway elsewhere offers everybody.
    pub(crate) has_tunnels: bool,
}

/// A gateway, and what work is made from.
pub(crate) struct Assembly {
    pub(crate) gateway: Gateway,
    pub(crate) caches: Caches,
    clusters: Arc<ClusterCache>,
    clock: Arc<dyn Clock>,
    waits: Arc<Waits>,
    standings: Arc<Standings>,
    directory: PathBuf,
    rancher_machine: Option<PathBuf>,
    driver_read: Vec<PathBuf>,
    drivers: Drivers,
    jobs: Jobs,
    releases: Arc<Releases>,
    /// Our own end, for controllers.
    server: watch::Sender<ServerInfo>,
    /// The same for the gateway: whoever follows it must not find that nobody tells it any more.
    public: watch::Sender<Public>,
}

impl Assembly {
    /// Puts everything together. Nobody is served and nothing is done yet.
    pub(crate) fn new(ground: Ground) -> Self {
        let Ground {
            jobs,
            releases,
            has_tunnels,
            client,
            kubernetes,
            book,
            clock,
            public,
            directory,
            assets,
            rancher_machine,
            docker,
            driver_read,
            strict_host_keys,
            proxies,
        } = ground;
        let server = ServerInfo { url: public.url.clone(), ca_certificates: public.ca_certificates.clone() };
        let (public, server) = (watch::Sender::new(public), watch::Sender::new(server));
        let caches = Caches::new(client.clone(), kit::index::entries);
        let waits: Arc<Waits> = Arc::default();
        let standings: Arc<Standings> = Arc::default();
        let gateway = Gateway::new(::gateway::Parts {
            kubernetes,
            caches: caches.clone(),
            book,
            hub: Hub::new(Default::default(), clock.clone(), Box::new(SystemEntropy)),
            clock: clock.clone(),
            entropy: Arc::new(Mutex::new(SystemEntropy)),
            public: public.subscribe(),
            settings: ::gateway::Settings {
                assets,
                proxies,
                metrics: metrics(&waits, &standings),
                ..Default::default()
            },
        });
        let dial: Arc<dyn Dial> = match has_tunnels {
            true => Arc::new(TunnelDial::new(gateway.downstreams().clone())),
            false => Arc::new(Direct),
        };
        Assembly {
            gateway,
            caches,
            clusters: ClusterCache::new(client, dial, clock.clone()),
            clock,
            waits,
            standings,
            directory,
            rancher_machine,
            driver_read,
            drivers: Drivers::built_in(docker, Ssh { strict: strict_host_keys }),
            jobs,
            releases,
            server,
            public,
        }
    }

    /// Where we are reached, and who vouches for us.
    pub(crate) fn public(&self) -> watch::Receiver<Public> {
        self.public.subscribe()
    }

    /// Tells everybody that others vouch for us.
    pub(crate) fn vouched_for_by(&self, trusted: &str) {
        self.public.send_modify(|public| public.ca_certificates = trusted.to_owned());
        self.server.send_modify(|server| server.ca_certificates = trusted.to_owned());
    }

    /// The simulated machines of the data directory, and their way to servers. Those that were there have power again.
    pub(crate) async fn world(&self, uplink: Arc<dyn Uplink>) -> anyhow::Result<World> {
        let settings = sim::Settings::new(self.directory.join(SIM), seed(), self.clock.clone());
        World::open(sim::Settings { uplink, ..settings })
            .await
            .context("the simulated machines cannot be started")
    }

    /// Runs Cluster API's controllers until the future is dropped.
    pub(crate) async fn run_core(&self) {
        work::core(self.caches.clone(), self.clock.clone(), self.clusters.clone(), None).await;
    }

    /// What our own controllers do, with machines of this world.
    pub(crate) fn work(&self, world: &World) -> Work {
        Work(work::Parts {
            caches: self.caches.clone(),
            clock: self.clock.clone(),
            clusters: self.clusters.clone(),
            server: self.server.subscribe(),
            assets: self.gateway.assets().clone(),
            standings: self.standings.clone(),
            directory: self.directory.clone(),
            drivers: self.drivers.clone().with(Simulated(world.machines())),
            rancher_machine: self.rancher_machine.clone(),
            driver_read: self.driver_read.clone(),
            waits: self.waits.clone(),
            jobs: self.jobs,
            releases: self.releases.clone(),
        })
    }
}

/// What controllers tell of themselves.
fn metrics(waits: &Arc<Waits>, standings: &Arc<Standings>) -> Arc<Registry> {
    let mut registry = Registry::default();
    kit::metrics::shared().register(&mut registry);
    registry.register_collector(Box::new(WaitsCollector(waits.clone())));
    registry.register_collector(Box::new(StandingsCollector(standings.clone())));
    Arc::new(registry)
}

/// What simulated machines leave to chance is another thing in every process.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    clock::Entropy::fill(&mut SystemEntropy, &mut bytes);
    u64::from_le_bytes(bytes)
}
