//! `herdsman server`: the product on a Kubernetes that is there already. Every replica serves; one of them does the work.

mod peers;
mod setup;
pub(crate) mod shared;
mod tenure;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::gateway::{Authorities, Book, Certificates, PassThrough, Public};
use anyhow::{Context as _, bail};
use capi::ClusterCache;
use clock::{Clock, SystemClock, SystemEntropy};
use kit::Caches;
use kit::access::Direct;
use kube::Client;
use machine::Drivers;
use machine::docker::Docker;
use machine::ssh::Ssh;
use sim::{Internet, World};
use tokio::net::TcpListener;
use tokio::sync::{Notify, OnceCell};
use tokio::task::JoinHandle;
use tunnel::hub::Identity;

use crate::assembly::{Assembly, Ground};
use crate::beside::{self, Decision};
use crate::embedded::{NAMESPACES, Stop, advertised};
use crate::leases::{CORE_LEASE, LEASE};
use crate::product::{CORE_NAMESPACE, VERSION, config_kinds};
use crate::serving::{self, public_url};
use crate::webhooks::{self, About, Endpoint, Webhooks};
use crate::work::{self, Group};
use crate::{authority, crds, simulated};
use peers::Peers;
pub(crate) use setup::Arguments;
use setup::Setup;
use shared::Shared;
use tenure::Electorate;

/// How often it is looked whether somebody else has begun to do the same.
const LOOK_AROUND: Duration = Duration::from_secs(30);

/// Runs until SIGTERM or SIGINT. A replica that has lost its lease begins anew: what it knew and was about to do is another's now.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut stop, keys_changed) = (Stop::new()?, Notify::new());
        let mut setup = arguments.checked().await?;
        loop {
            let server = Server::start(&mut setup).await?;
            let outcome = tokio::select! {
                biased;
                () = stop.asked(&keys_changed) => Ok(End::Asked),
                outcome = server.run() => outcome,
            };
            server.stop().await;
            match outcome? {
                End::Asked => return Ok(()),
                End::LeaseLost(lease) => tracing::warn!(
                    lease,
                    "the lease is lost: another replica has taken over, or the cluster was not reached; beginning anew"
                ),
            }
        }
    })
}

/// Why a replica ends that could go on.
enum End {
    /// It was asked to.
    Asked,
    /// Another may do its work.
    LeaseLost(&'static str),
}

/// One replica.
struct Server {
    setup: Running,
    client: Client,
    clock: Arc<dyn Clock>,
    electorate: Electorate,
    /// Whether Cluster API's controllers are ours.
    runs_core: bool,
    front: Option<Front>,
    webhooks: Option<Webhooks>,
    /// Who vouched for us at the start.
    authorities: Option<Authorities>,
    /// The simulated machines of whoever leads.
    world: OnceCell<World>,
}

/// What of the command line is looked at while it runs.
struct Running {
    groups: Vec<Group>,
    capi: beside::Mode,
    kubeconfig: String,
    url: String,
    only_namespace: Option<String>,
    watch_filter: Option<String>,
    /// The driver `docker`, if it is enabled.
    docker: Option<Docker>,
    /// Whether it is still to be said that we serve: it is said once.
    announces: bool,
}

/// What all groups but Cluster API's stand on, and the port if it is ours.
struct Front {
    assembly: Assembly,
    certificates: Certificates,
    port: Option<Port>,
}

struct Port {
    serving: JoinHandle<()>,
    peers: Peers,
}

impl Server {
    /// Everything that has to be there before anything is done: from here on nodes and users are served.
    async fn start(setup: &mut Setup) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let client = setup.client.clone();
        let others = beside::others(&client, clock.now()).await.context("cannot look who else is at work")?;
        let runs_core = match beside::decide(setup.capi, !setup.only_core(), &others) {
            Decision::Refuse(why) => bail!("{why}"),
            Decision::StepBack(why) => {
                tracing::info!(why, "the Cluster API controllers are left to somebody else");
                false
            }
            Decision::Run => setup.runs(Group::Capi),
        };
        ensure_namespace(&client, &setup.namespace).await?;
        let replica = api::names::token(&mut SystemEntropy)[..10].to_owned();
        let electorate = Electorate {
            client: client.clone(),
            config: setup.config.clone(),
            clock: clock.clone(),
            namespace: setup.namespace.clone(),
            identity: format!("{}_{replica}", host_name()),
        };
        let mut running = Running {
            groups: setup.groups.clone(),
            capi: setup.capi,
            kubeconfig: setup.kubeconfig.clone(),
            url: setup.config.cluster_url.to_string(),
            only_namespace: setup.only_namespace.clone(),
            watch_filter: setup.watch_filter.clone(),
            docker: setup.serving.docker.clone(),
            announces: !std::mem::replace(&mut setup.announced, true),
        };
        let shared = match setup.only_core() && setup.webhook_listen.is_none() {
            true => None,
            false => Some(Shared::ensure(&client, &setup.namespace, &*clock).await?),
        };
        crate::open_files::raise();
        let webhook_listener = listen("--webhook-listen", &mut setup.webhook_listen).await?;
        let front = match &shared {
            Some(shared) if !setup.only_core() => {
                Some(Front::start(setup, shared, &replica, &clock, &mut running.url).await?)
            }
            _ => None,
        };
        let only_namespace = setup.only_namespace.clone();
        let caches = match &front {
            Some(front) => front.assembly.caches.clone(),
            None => Caches::within(client.clone(), capi::entries, only_namespace),
        };
        let authorities = shared.map(|shared| shared.authorities);
        let webhooks = match (webhook_listener, &authorities) {
            (Some(listener), Some(authorities)) => {
                let clients = setup.webhook_clients.clone();
                let endpoint = match &setup.webhook_url {
                    Some(endpoint) => endpoint.clone(),
                    None => Endpoint::parse(&format!("https://{}", listener.local_addr()?))?,
                };
                let certificates = serving::issued(authorities.clone(), endpoint.names(), &clock)?;
                let about = About { core: runs_core, ours: front.is_some() };
                let asked = webhooks::Setup { client: client.clone(), caches, certificates, endpoint, about };
                Some(Webhooks::start(asked, listener, setup.serving.releases.clone(), clients)?)
            }
            _ => None,
        };
        Ok(Server {
            setup: running,
            client,
            clock,
            electorate,
            runs_core,
            front,
            webhooks,
            authorities,
            world: OnceCell::new(),
        })
    }

    /// Serves, and works if no other replica does. Ends if it cannot go on.
    async fn run(&self) -> anyhow::Result<End> {
        tokio::select! {
            biased;
            never = self.answer_webhooks() => never,
            never = self.attend() => never,
            never = self.follow_authorities() => never,
            ended = self.work(), if self.front.is_some() => ended,
            ended = self.work_core(), if self.runs_core => ended,
            why = self.somebody_else() => bail!("{why}"),
        }
    }

    /// Lets go of everything, so that others need not wait. What is done here has ended before.
    async fn stop(self) {
        if let Some(world) = self.world.get() {
            world.stop().await;
        }
        self.electorate.release(&[CORE_LEASE, LEASE]).await;
        let Some(Front { assembly, port: Some(Port { serving, peers }), .. }) = self.front else { return };
        peers.leave().await;
        assembly.gateway.close();
        // It ends in time by itself.
        let _ = serving.await;
    }

    async fn answer_webhooks(&self) -> anyhow::Result<End> {
        if let Some(webhooks) = &self.webhooks {
            webhooks.learn().await;
        }
        std::future::pending().await
    }

    /// Takes up other authorities while everything goes on.
    async fn follow_authorities(&self) -> anyhow::Result<End> {
        if let Some(known) = self.authorities.clone() {
            let namespace = &self.electorate.namespace;
            let read = async || Ok(Some(Shared::find(&self.client, namespace).await?.authorities));
            authority::follow(read, known, &Notify::new(), |found| self.succeed(found)).await;
        }
        std::future::pending().await
    }

    /// Other authorities vouch for us. What they issue is shown first; then everybody learns of it.
    fn succeed(&self, authorities: &Authorities) -> anyhow::Result<()> {
        if let Some(webhooks) = &self.webhooks {
            webhooks.replace_authorities(authorities.clone())?;
        }
        // A certificate that somebody brought is not ours to change.
        if let Some(Front { assembly, certificates, .. }) = &self.front
            && certificates.authorities().is_some()
        {
            certificates.replace_authorities(authorities.clone())?;
            assembly.vouched_for_by(&certificates.trusted());
        }
        Ok(())
    }

    /// What every replica does beside answering.
    async fn attend(&self) -> anyhow::Result<End> {
        let ready = async {
            if let Some(Front { assembly, port: Some(_), .. }) = &self.front {
                assembly.gateway.wait_ready().await;
            }
            if self.setup.groups.contains(&Group::Machine) {
                let drivers = Drivers::built_in(self.setup.docker.clone(), Ssh::default());
                let names = drivers.all().map(|driver| driver.name()).chain([simulated::NAME]);
                if let Err(error) = crds::wait_all(&self.client, &config_kinds(names)).await {
                    tracing::warn!(error = format!("{error:#}"), "drivers are not ready");
                }
            }
            if self.setup.announces {
                println!("ready url={} kubeconfig={}", self.setup.url, self.setup.kubeconfig);
            }
        };
        let Some(Front { assembly, port: Some(port), .. }) = &self.front else {
            ready.await;
            return std::future::pending().await;
        };
        tokio::join!(ready, assembly.gateway.run(), port.peers.run()).2?;
        std::future::pending().await
    }

    /// Waits until it is this replica's turn, and works as long as it is.
    async fn work(&self) -> anyhow::Result<End> {
        let mut tenure = self.electorate.run_for(LEASE)?;
        tenure.won().await;
        tracing::info!("this replica does the work");
        tokio::select! {
            never = self.lead() => never,
            () = tenure.lost() => Ok(End::LeaseLost(LEASE)),
        }
    }

    /// Everything that one replica does for all, but for Cluster API's part.
    async fn lead(&self) -> anyhow::Result<End> {
        let Some(Front { assembly, .. }) = &self.front else { return std::future::pending().await };
        for namespace in NAMESPACES {
            ensure_namespace(&self.client, namespace).await?;
        }
        let whose = if self.runs_core { crds::Whose::All } else { crds::Whose::ButClusterApis };
        crds::ensure(&self.client, whose).await?;
        if self.runs_core {
            capi::inventory::register(&self.client, CORE_NAMESPACE, VERSION).await?;
        }
        let world = self.world.get_or_try_init(|| assembly.world(Arc::new(Internet))).await?;
        let work = assembly.work(world);
        tokio::join!(
            work.run(&self.setup.groups),
            self.keep_webhooks(),
            simulated::follow(&assembly.caches, world),
        );
        std::future::pending().await
    }

    /// The same for Cluster API's part: a process may do nothing else.
    async fn work_core(&self) -> anyhow::Result<End> {
        let mut tenure = self.electorate.run_for(CORE_LEASE)?;
        tenure.won().await;
        tracing::info!("this process runs the Cluster API controllers");
        tokio::select! {
            () = self.lead_core() => std::future::pending().await,
            () = tenure.lost() => Ok(End::LeaseLost(CORE_LEASE)),
        }
    }

    async fn lead_core(&self) {
        if let Some(Front { assembly, .. }) = &self.front {
            return assembly.run_core().await;
        }
        let caches = match &self.webhooks {
            Some(webhooks) => webhooks.caches(),
            None => Caches::within(self.client.clone(), capi::entries, self.setup.only_namespace.clone()),
        };
        let clusters = ClusterCache::new(self.client.clone(), Arc::new(Direct), self.clock.clone());
        tokio::join!(
            work::core(caches, self.clock.clone(), clusters, self.setup.watch_filter.clone()),
            self.keep_webhooks(),
        );
    }

    async fn keep_webhooks(&self) {
        match &self.webhooks {
            Some(webhooks) => webhooks.keep_installed().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until somebody else begins to do the same work; says who.
    async fn somebody_else(&self) -> String {
        loop {
            tokio::time::sleep(LOOK_AROUND).await;
            let Ok(others) = beside::others(&self.client, self.clock.now()).await else { continue };
            match beside::decide(self.setup.capi, self.front.is_some(), &others) {
                Decision::Refuse(why) => return why,
                Decision::StepBack(why) if self.runs_core => return why,
                Decision::StepBack(_) | Decision::Run => {}
            }
        }
    }
}

impl Front {
    /// Begins to serve, if the gateway is among the groups. Writes the public URL into `url`.
    async fn start(
        setup: &mut Setup,
        shared: &Shared,
        replica: &str,
        clock: &Arc<dyn Clock>,
        url: &mut String,
    ) -> anyhow::Result<Self> {
        let mut address = setup.runs(Group::Gateway).then_some(setup.serving.listen);
        let listener = listen("--listen", &mut address).await?;
        let address = address.unwrap_or(setup.serving.listen);
        setup.serving.listen = address;
        let serving = setup.serving.clone();
        *url = serving.server_url.unwrap_or_else(|| public_url(address));
        let authorities = shared.authorities.clone();
        let certificates = serving.certificate.certificates(authorities, address, url, clock)?;
        let public = Public { url: url.clone(), ca_certificates: certificates.trusted() };
        let book = Book::new(clock.clone(), Default::default());
        let kubernetes = PassThrough::new(setup.config.clone(), book.clone())
            .context("cannot set up the way to the management cluster")?;
        let assembly = Assembly::new(Ground {
            client: setup.client.clone(),
            kubernetes: Arc::new(kubernetes),
            book,
            clock: clock.clone(),
            public,
            directory: setup.directory.clone(),
            assets: serving.assets,
            rancher_machine: serving.rancher_machine,
            docker: serving.docker,
            driver_read: serving.driver_read,
            strict_host_keys: serving.strict_host_keys,
            proxies: serving.proxies,
            jobs: setup.jobs,
            releases: serving.releases,
            has_tunnels: listener.is_some(),
        });
        let Some(listener) = listener else { return Ok(Front { assembly, certificates, port: None }) };
        let tls = certificates.server_config()?;
        let peers = Peers {
            client: setup.client.clone(),
            namespace: setup.namespace.clone(),
            clock: clock.clone(),
            hub: assembly.gateway.downstreams().hub().clone(),
            us: Identity { id: peers::lease_name(replica), token: shared.peer_token.clone() },
            address: (advertised(address.ip()), address.port()).into(),
            public: assembly.public(),
        };
        let serving = tokio::spawn(::gateway::listen(assembly.gateway.clone(), listener, Some(tls)));
        Ok(Front { assembly, certificates, port: Some(Port { serving, peers }) })
    }
}

/// Listens, if there is an address. A port that was free is noted in it: it stays the same when a replica begins anew.
async fn listen(flag: &str, address: &mut Option<SocketAddr>) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(*address).await;
    let listener = listener.with_context(|| format!("{flag}: cannot listen on {address}"))?;
    *address = listener.local_addr()?;
    Ok(Some(listener))
}

async fn ensure_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    use k8s_openapi::api::core::v1::Namespace;
    let namespaces: kube::Api<Namespace> = kube::Api::all(client.clone());
    let metadata = kube::api::ObjectMeta { name: Some(name.into()), ..kube::api::ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    match namespaces.create(&kube::api::PostParams::default(), &namespace).await {
        Err(error) if kit::write::code(&error) != Some(409) => {
            Err(error).with_context(|| format!("cannot make the namespace {name}"))
        }
        _ => Ok(()),
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
