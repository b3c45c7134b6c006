//! Everything in one process, on one data directory: Kubernetes API, gateway, controllers, simulated machines.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ::apiserver::encryption;
use ::apiserver::instance::Instance;
use ::gateway::{Authorities, Book, Certificates, Embedded, Gateway, Public, TunnelDial};
use anyhow::Context as _;
use clock::{Clock, SystemClock, SystemEntropy};
use controllers::ServerInfo;
use controllers::controlplane::{Waits, WaitsCollector};
use kit::Caches;
use kubeapi::authn::{MASTERS, User};
use machine::Drivers;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use sim::World;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tunnel::Hub;

use crate::admin;
use crate::authority;
use crate::embedded::{More, Opened, Options, advertised, reachable};
use crate::simulated::Simulated;
use crate::work::Work;

/// As whom our own controllers act.
const OURSELVES: &str = "system:herdsman";
/// Where clusterctl finds that Cluster API's core is at home here.
const CORE_NAMESPACE: &str = "cattle-system";
/// Where simulated machines are, in the data directory.
const SIM: &str = "sim";

/// How the product is started.
pub(crate) struct Setup {
    pub(crate) directory: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) server_url: Option<String>,
    pub(crate) certificate: Certificate,
    pub(crate) rancher_machine: Option<PathBuf>,
    /// Where agents for nodes are.
    pub(crate) assets: Vec<PathBuf>,
    pub(crate) options: Options,
}

/// Where the server's certificate comes from.
pub(crate) enum Certificate {
    /// Our own authority issues one for what we know ourselves by, and for these.
    Issued(Vec<String>),
    /// Somebody brings it: chain, key, and who vouches for it (empty: every system does), as PEM.
    Own { chain: String, key: String, ca: String },
}

/// Where the product is reached.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// By nodes and users.
    pub(crate) url: String,
    /// By its administrator.
    pub(crate) kubeconfig: PathBuf,
}

/// The product, at work once [`Product::run`] is.
pub(crate) struct Product {
    pub(crate) address: Address,
    /// A client with every right.
    pub(crate) client: kube::Client,
    directory: PathBuf,
    opened: Opened,
    instance: Instance,
    gateway: Gateway,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    work: Work,
    world: World,
    own_end: OwnEnd,
}

/// Our own end, and everybody who is told of it.
struct OwnEnd {
    certificates: Certificates,
    /// The gateway and controllers: whoever follows it must not find that nobody tells it any more.
    told: (watch::Sender<Public>, watch::Sender<ServerInfo>),
    directory: PathBuf,
    /// For programs on this machine.
    local_url: String,
    admin_token: String,
}

impl OwnEnd {
    /// Follows changes of our authority; one that somebody else brought is not ours to change.
    async fn follow(&self, wake: &Notify) {
        if let Some(known) = self.certificates.authorities() {
            authority::follow(&self.directory, known, wake, |found| self.succeed(found)).await;
        }
    }

    /// Other authorities vouch for us. What they issue is shown first; then everybody learns of it.
    fn succeed(&self, authorities: &Authorities) -> anyhow::Result<()> {
        self.certificates.replace_authorities(authorities.clone())?;
        let trusted = self.certificates.trusted();
        admin::write(&self.directory, &self.local_url, &trusted, &self.admin_token)?;
        self.told.0.send_modify(|public| public.ca_certificates = trusted.clone());
        self.told.1.send_modify(|server| server.ca_certificates = trusted);
        Ok(())
    }
}

impl Product {
    /// Starts everything that has to be there before the first request. Nobody is served yet.
    pub(crate) async fn start(setup: Setup) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let directory = setup.directory;
        let opened = Opened::open(&directory, &setup.options, &clock)?;
        let listener = listener(setup.listen, &directory).await?;
        let address = listener.local_addr()?;
        let url = setup.server_url.unwrap_or_else(|| public_url(address));
        let certificates = certificates(&directory, setup.certificate, address, &url, &clock)?;
        let public = Public { url: url.clone(), ca_certificates: certificates.trusted() };

        let token = admin::token(&directory, &mut SystemEntropy);
        let local = format!("https://{}", reachable(address));
        let kubeconfig = admin::write(&directory, &local, &public.ca_certificates, &token)?;
        let known = [(token.as_str(), ::gateway::admin::user())];
        let book = Book::with(clock.clone(), Default::default(), known);
        let more = More {
            advertised: Some((advertised(address.ip()), address.port())),
            tokens: Some(Arc::new(book.clone())),
        };
        let instance = opened.start(more).await?;
        let user = User { name: OURSELVES.into(), groups: vec![MASTERS.into()], ..User::default() };
        let client = kube::Client::new(instance.api().as_user(user), "default");
        crate::crds::ensure(&client).await?;
        capi::inventory::register(&client, CORE_NAMESPACE, concat!("v", env!("CARGO_PKG_VERSION"))).await?;

        let server = ServerInfo { url: url.clone(), ca_certificates: public.ca_certificates.clone() };
        let told = (watch::Sender::new(public), watch::Sender::new(server));
        let caches = Caches::new(client.clone(), kit::index::entries);
        let waits: Arc<Waits> = Arc::default();
        let gateway = Gateway::new(::gateway::Parts {
            kubernetes: Arc::new(Embedded(instance.api().clone())),
            caches: caches.clone(),
            book,
            hub: Hub::new(Default::default(), clock.clone(), Box::new(SystemEntropy)),
            clock: clock.clone(),
            entropy: Arc::new(Mutex::new(SystemEntropy)),
            public: told.0.subscribe(),
            settings: ::gateway::Settings {
                assets: setup.assets,
                metrics: metrics(&waits),
                ..Default::default()
            },
        });
        let world = World::open(sim::Settings::new(directory.join(SIM), seed(), clock.clone()))
            .await
            .context("the simulated machines cannot be started")?;
        let work = Work {
            caches,
            clock: clock.clone(),
            dial: Arc::new(TunnelDial::new(gateway.downstreams().clone())),
            server: told.1.subscribe(),
            offers_agent: gateway.offers_agent(),
            directory: directory.clone(),
            drivers: Drivers::built_in().with(Simulated(world.machines())),
            rancher_machine: setup.rancher_machine,
            waits,
        };
        let (tls, own_directory) = (certificates.server_config()?, directory.clone());
        Ok(Product {
            address: Address { url, kubeconfig },
            client,
            directory,
            opened,
            instance,
            gateway,
            listener,
            tls,
            work,
            world,
            own_end: OwnEnd {
                certificates,
                told,
                directory: own_directory,
                local_url: local,
                admin_token: token,
            },
        })
    }

    /// Serves and works until `stop` is over. `ready` is called once users can begin: the drivers' kinds are made while
    /// controllers run.
    pub(crate) async fn run(
        self,
        ready: impl FnOnce(&Address),
        stop: impl Future<Output = ()>,
        keys_changed: &Notify,
    ) {
        let Product {
            address,
            client,
            directory,
            opened,
            instance,
            gateway,
            listener,
            tls,
            work,
            world,
            own_end,
            ..
        } = self;
        let closing = gateway.clone();
        let kinds = config_kinds(&work.drivers);
        let begun = async {
            if let Err(error) = crate::crds::wait_all(&client, &kinds).await {
                tracing::warn!(error = format!("{error:#}"), "drivers are not ready");
            }
            ready(&address);
        };
        let woken = (Notify::new(), Notify::new());
        let busy = async {
            tokio::join!(
                gateway.run(),
                work.run(),
                encryption::follow(&opened.store, &directory, &woken.0),
                own_end.follow(&woken.1),
                async {
                    loop {
                        keys_changed.notified().await;
                        woken.0.notify_one();
                        woken.1.notify_one();
                    }
                },
                begun,
            );
        };
        tokio::join!(::gateway::listen(gateway.clone(), listener, Some(tls)), async {
            tokio::select! {
                biased;
                () = stop => {}
                () = busy => {}
            }
            tracing::info!("stopping");
            world.stop().await;
            closing.close();
        });
        instance.stop().await;
        drop(own_end);
    }
}

/// Listens. A port that nobody has chosen is the one of last time, if it is free: nodes know it.
async fn listener(address: SocketAddr, directory: &Path) -> anyhow::Result<TcpListener> {
    if address.port() == 0
        && let Some(port) = admin::port(directory)
        && let Ok(listener) = TcpListener::bind(SocketAddr::new(address.ip(), port)).await
    {
        return Ok(listener);
    }
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("--listen: cannot listen on {address}"))
}

/// The definitions of what users write for each driver.
fn config_kinds(drivers: &Drivers) -> Vec<String> {
    let of = |name: &str| api::machine::Driver::named(name).map(|driver| driver.config_kind().to_lowercase());
    drivers
        .all()
        .filter_map(|driver| Some(format!("{}s.{}", of(driver.name())?, api::machine::CONFIG_GROUP)))
        .collect()
}

/// Where nodes and users reach a server that nobody has given a name.
fn public_url(address: SocketAddr) -> String {
    format!("https://{}", SocketAddr::new(advertised(address.ip()), address.port()))
}

fn certificates(
    directory: &Path,
    certificate: Certificate,
    address: SocketAddr,
    url: &str,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Certificates> {
    let names = match certificate {
        Certificate::Own { chain, key, ca } => {
            return Ok(Certificates::own(&chain, &key, &ca, clock.clone())?);
        }
        Certificate::Issued(names) => names,
    };
    let authorities = authority::load(directory, &**clock, &mut SystemEntropy)?;
    let mut all = vec!["localhost".to_owned()];
    all.extend([address.ip(), reachable(address).ip(), advertised(address.ip())].map(|ip| ip.to_string()));
    all.extend(
        url.parse::<http::Uri>().ok().and_then(|url| Some(url.host()?.trim_matches(['[', ']']).to_owned())),
    );
    all.extend(names);
    all.dedup();
    Ok(Certificates::issued(authorities, all, clock.clone(), Box::new(SystemEntropy))?)
}

/// What controllers tell of themselves.
fn metrics(waits: &Arc<Waits>) -> Arc<Registry> {
    let mut registry = Registry::default();
    kit::metrics::shared().register(&mut registry);
    registry.register_collector(Box::new(WaitsCollector(waits.clone())));
    Arc::new(registry)
}

/// What simulated machines leave to chance is another thing in every process.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    clock::Entropy::fill(&mut SystemEntropy, &mut bytes);
    u64::from_le_bytes(bytes)
}
