//! Everything in one process, on one data directory: Kubernetes API, gateway, controllers, simulated machines.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::apiserver::encryption;
use ::apiserver::instance::Instance;
use ::gateway::{Authorities, Book, Certificates, Embedded, Public};
use anyhow::Context as _;
use clock::{Clock, SystemClock, SystemEntropy};
use kubeapi::authn::{MASTERS, User};
use rustls::ServerConfig;
use sim::World;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::admin;
use crate::assembly::{Assembly, Ground};
use crate::authority;
use crate::embedded::{More, Opened, Options, advertised, reachable};
use crate::leases;
use crate::near::Near;
use crate::open_files;
use crate::serving::{Serving, public_url};
use crate::simulated;
use crate::work::{Group, Jobs, Work};

/// As whom our own controllers act.
const OURSELVES: &str = "system:herdsman";
/// Where clusterctl finds that Cluster API's core is at home here.
pub(crate) const CORE_NAMESPACE: &str = "cattle-system";
/// What clusterctl is told of us.
pub(crate) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// How the product is started.
pub(crate) struct Setup {
    pub(crate) directory: PathBuf,
    pub(crate) serving: Serving,
    pub(crate) options: Options,
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
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    assembly: Assembly,
    work: Work,
    world: World,
    own_end: OwnEnd,
}

/// Our own end, and who vouches for it.
struct OwnEnd {
    certificates: Certificates,
    directory: PathBuf,
    /// For programs on this machine.
    local_url: String,
    admin_token: String,
}

impl OwnEnd {
    /// Follows changes of our authority; one that somebody else brought is not ours to change.
    async fn follow(&self, assembly: &Assembly, wake: &Notify) {
        if let Some(known) = self.certificates.authorities() {
            let read = async || authority::read(&self.directory);
            authority::follow(read, known, wake, |found| self.succeed(assembly, found)).await;
        }
    }

    /// Other authorities vouch for us. What they issue is shown first; then everybody learns of it.
    fn succeed(&self, assembly: &Assembly, authorities: &Authorities) -> anyhow::Result<()> {
        self.certificates.replace_authorities(authorities.clone())?;
        let trusted = self.certificates.trusted();
        admin::write(&self.directory, &self.local_url, &trusted, &self.admin_token)?;
        assembly.vouched_for_by(&trusted);
        Ok(())
    }
}

impl Product {
    /// Starts everything that has to be there before the first request. Nobody is served yet.
    pub(crate) async fn start(setup: Setup) -> anyhow::Result<Self> {
        open_files::raise();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let Setup { directory, serving, options } = setup;
        let opened = Opened::open(&directory, &options, &clock)?;
        let listener = listener(serving.listen, &directory).await?;
        let address = listener.local_addr()?;
        let url = serving.server_url.unwrap_or_else(|| public_url(address));
        let authorities = authority::load(&directory, &*clock, &mut SystemEntropy)?;
        let certificates = serving.certificate.certificates(authorities, address, &url, &clock)?;
        let public = Public { url: url.clone(), ca_certificates: certificates.trusted() };

        let token = admin::token(&directory, &mut SystemEntropy);
        let local = format!("https://{}", reachable(address));
        let kubeconfig = admin::write(&directory, &local, &public.ca_certificates, &token)?;
        let known = [(token.as_str(), ::gateway::admin::user())];
        let book = Book::with(clock.clone(), Default::default(), known);
        let more = More {
            advertised: Some((advertised(address.ip()), address.port())),
            tokens: Some(Arc::new(book.clone())),
            releases: serving.releases.clone(),
        };
        let instance = opened.start(more).await?;
        let user = User { name: OURSELVES.into(), groups: vec![MASTERS.into()], ..User::default() };
        let client = kube::Client::new(instance.api().as_user(user), "default");
        crate::crds::ensure(&client, crate::crds::Whose::All).await?;
        capi::inventory::register(&client, CORE_NAMESPACE, VERSION).await?;
        leases::take(&client, &*clock).await?;

        let assembly = Assembly::new(Ground {
            client: client.clone(),
            kubernetes: Arc::new(Embedded(instance.api().clone())),
            book,
            clock,
            public,
            directory: directory.clone(),
            assets: serving.assets,
            rancher_machine: serving.rancher_machine,
            docker: serving.docker,
            driver_read: serving.driver_read,
            strict_host_keys: serving.strict_host_keys,
            proxies: serving.proxies,
            jobs: Jobs::Alone,
            releases: serving.releases,
            has_tunnels: true,
        });
        let tls = certificates.server_config()?;
        let near = Near::new(assembly.gateway.clone(), tls.clone(), address);
        let world = assembly.world(Arc::new(near)).await?;
        let work = assembly.work(&world);
        let own_directory = directory.clone();
        let own_end = OwnEnd { certificates, directory: own_directory, local_url: local, admin_token: token };
        let address = Address { url, kubeconfig };
        Ok(Product {
            address,
            client,
            directory,
            opened,
            instance,
            listener,
            tls,
            assembly,
            work,
            world,
            own_end,
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
            listener,
            tls,
            assembly,
            work,
            world,
            own_end,
        } = self;
        let gateway = assembly.gateway.clone();
        let kinds = config_kinds(work.drivers().all().map(|driver| driver.name()));
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
                assembly.run_core(),
                work.run(&Group::ALL),
                encryption::follow(&opened.store, &directory, &woken.0),
                own_end.follow(&assembly, &woken.1),
                async {
                    loop {
                        keys_changed.notified().await;
                        woken.0.notify_one();
                        woken.1.notify_one();
                    }
                },
                simulated::follow(&assembly.caches, &world),
                leases::keep(&client, &SystemClock),
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
            gateway.close();
        });
        instance.stop().await;
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
pub(crate) fn config_kinds<'a>(drivers: impl Iterator<Item = &'a str>) -> Vec<String> {
    let kind = |name: &str| Some(api::machine::Driver::named(name)?.config_kind().to_lowercase());
    drivers.filter_map(|name| Some(format!("{}s.{}", kind(name)?, api::machine::CONFIG_GROUP))).collect()
}
