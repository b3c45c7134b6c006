//! `herdsman server`: the controllers on a Kubernetes that is there already.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, bail};
use capi::{ClusterCache, Paces, Parts};
use clock::{Clock, SystemClock, SystemEntropy};
use kit::Caches;
use kit::access::Direct;
use kit::lease::Candidate;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::beside::{self, Decision, Mode};
use crate::webhooks::Webhooks;

/// The lease of whoever does the work.
const LEASE: &str = "herdsman-controllers";
/// How often it is looked whether somebody else has begun to do the same.
const LOOK_AROUND: Duration = Duration::from_secs(30);

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The management cluster; by default that of KUBECONFIG, ~/.kube/config or the pod's own
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Which controllers run, separated by commas; this version has `capi`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "capi")]
    controllers: Vec<Group>,
    /// Who runs the Cluster API controllers
    #[arg(long, value_name = "WHO", default_value = "auto")]
    capi: Mode,
    /// Serve admission and conversion webhooks here, and have the API server ask them; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    webhook_listen: Option<SocketAddr>,
    /// Where the API server reaches the webhooks; by default https:// and the address that they listen on
    #[arg(long, value_name = "URL", requires = "webhook_listen")]
    webhook_url: Option<String>,
    /// Where the lease is that says which process does the work
    #[arg(long, value_name = "NAMESPACE", default_value = "cattle-system")]
    leader_elect_namespace: String,
    /// Only objects of this namespace are looked after
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only objects with this value of the label cluster.x-k8s.io/watch-filter are looked after
    #[arg(long, value_name = "VALUE")]
    watch_filter: Option<String>,
}

/// A group of controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Group {
    /// Cluster API core
    Capi,
}

/// Runs until SIGTERM or SIGINT, or until another process has taken over.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments {
        kubeconfig,
        controllers,
        capi,
        webhook_listen,
        webhook_url,
        leader_elect_namespace,
        namespace,
        watch_filter,
    } = arguments;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let config = read_config(kubeconfig.as_ref()).await?;
    let url = config.cluster_url.to_string();
    let client = Client::try_from(config).context("cannot set up a client for the management cluster")?;
    ensure_namespace(&client, &leader_elect_namespace).await?;
    let others = beside::others(&client, clock.now()).await.context("cannot look who else is at work")?;
    let runs = match beside::decide(capi, &others) {
        Decision::Refuse(why) => bail!("{why}"),
        Decision::StepBack(why) => {
            tracing::info!(why, "the Cluster API controllers are left to somebody else");
            false
        }
        Decision::Run => controllers.contains(&Group::Capi),
    };
    let webhooks = match webhook_listen {
        Some(address) => {
            let listener = TcpListener::bind(address).await;
            let listener =
                listener.with_context(|| format!("--webhook-listen: cannot listen on {address}"))?;
            let url = webhook_url.unwrap_or(format!("https://{}", listener.local_addr()?));
            Some((listener, url.trim_end_matches('/').to_owned()))
        }
        None => None,
    };
    let identity = identity();
    let (held, mut holds) = watch::channel(false);
    let candidate = Candidate {
        client: client.clone(),
        clock: clock.clone(),
        namespace: leader_elect_namespace.clone(),
        name: LEASE.into(),
        identity: identity.clone(),
    };
    let campaign = tokio::spawn(candidate.run(held));
    let shown = kubeconfig.map(|path| path.display().to_string()).unwrap_or_default();
    println!("ready url={url} kubeconfig={shown}");
    let work = async {
        // Ends only with the process: the sender lives in the campaign.
        let _ = holds.wait_for(|held| *held).await;
        tracing::info!("this process does the work");
        let parts = Setup { client: client.clone(), clock: clock.clone(), namespace, watch_filter, webhooks };
        tokio::select! {
            ended = parts.run(), if runs => ended,
            _ = holds.wait_for(|held| !*held) => bail!("the lease {LEASE} is lost: another process has taken over, or the cluster is not reached"),
            why = somebody_else(&client, &clock, capi), if runs => bail!("{why}"),
        }
    };
    let outcome = tokio::select! {
        biased;
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        outcome = work => outcome,
    };
    campaign.abort();
    let release = Candidate::release(&client, &leader_elect_namespace, LEASE, &identity);
    // A cluster that does not answer must not keep the process.
    let _ = tokio::time::timeout(Duration::from_secs(3), release).await;
    outcome
}

/// Waits until somebody else begins to do the same work; says who.
async fn somebody_else(client: &Client, clock: &Arc<dyn Clock>, mode: Mode) -> String {
    loop {
        tokio::time::sleep(LOOK_AROUND).await;
        let Ok(others) = beside::others(client, clock.now()).await else { continue };
        match beside::decide(mode, &others) {
            Decision::Run => {}
            Decision::StepBack(why) | Decision::Refuse(why) => return why,
        }
    }
}

struct Setup {
    client: Client,
    clock: Arc<dyn Clock>,
    namespace: Option<String>,
    watch_filter: Option<String>,
    webhooks: Option<(TcpListener, String)>,
}

impl Setup {
    async fn run(self) -> anyhow::Result<()> {
        let clusters = ClusterCache::new(self.client.clone(), Arc::new(Direct), self.clock.clone());
        let caches = Caches::within(self.client.clone(), capi::entries, self.namespace);
        let webhooks = self.webhooks.map(|(listener, url)| Webhooks {
            client: self.client,
            caches: caches.clone(),
            listener,
            url,
        });
        let parts = Parts {
            caches,
            clock: self.clock,
            entropy: Arc::new(Mutex::new(SystemEntropy)),
            access: clusters.clone(),
            paces: Paces::default(),
            watch_filter: self.watch_filter,
        };
        let asked = async {
            match webhooks {
                Some(webhooks) => webhooks.run().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = asked => ended,
            () = capi::run(parts, Some(clusters)) => Ok(()),
        }
    }
}

async fn read_config(kubeconfig: Option<&PathBuf>) -> anyhow::Result<Config> {
    let Some(path) = kubeconfig else {
        return Config::infer()
            .await
            .context("there is no management cluster: give --kubeconfig, set KUBECONFIG, or run inside one");
    };
    let read = Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    config.with_context(|| format!("{} cannot be used", path.display()))
}

async fn ensure_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    use k8s_openapi::api::core::v1::Namespace;
    let namespaces: kube::Api<Namespace> = kube::Api::all(client.clone());
    let metadata = kube::api::ObjectMeta { name: Some(name.into()), ..kube::api::ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    match namespaces.create(&kube::api::PostParams::default(), &namespace).await {
        Err(error) if kit::write::code(&error) != Some(409) => {
            Err(error).with_context(|| format!("cannot make the namespace {name} of the lease"))
        }
        _ => Ok(()),
    }
}

/// No two processes are the same.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut token = api::names::token(&mut SystemEntropy);
    token.truncate(10);
    format!("{}_{token}", host.trim())
}
