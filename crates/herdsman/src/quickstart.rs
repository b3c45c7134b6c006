//! `herdsman quickstart`: the whole product and a first cluster, in one command.

mod ground;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::{Notify, oneshot};

use ground::{Docker, Ground};

use crate::data_dir;
use crate::embedded::{Options, Stop};
use crate::log;
use crate::product::{Address, Product, Setup};
use crate::serving::{Certificate, Serving};
use crate::verbs::ask::Ask;
use crate::verbs::create;
use crate::verbs::target::NAMESPACE;
use crate::verbs::{follow, get, kubeconfig, output};

/// What the cluster is called.
const CLUSTER: &str = "quickstart";
/// The cluster as `herdsman create cluster` is told.
const POOLS: [&str; 4] = ["--pool", "servers:3:server", "--pool", "workers:2:worker"];
/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// End when all nodes are ready, instead of at Ctrl-C
    #[arg(long)]
    exit: bool,
    /// What the machines are
    #[arg(long, default_value = "sim")]
    driver: Driver,
    /// Where everything is kept; by default a directory that goes with the process
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
    /// The distribution and its version; one that the machines' image brings, where nothing can be pulled
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<String>,
    #[command(flatten)]
    docker: Docker,
}

/// What machines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Driver {
    /// Simulated, in this process
    Sim,
    /// Containers with systemd, in this machine's Docker; K3s is real
    Docker,
}

impl Driver {
    fn name(self) -> &'static str {
        match self {
            Driver::Sim => "sim",
            Driver::Docker => "docker",
        }
    }

    /// The version of the cluster unless one is asked for.
    fn version(self) -> &'static str {
        match self {
            Driver::Sim => create::VERSION_BY_DEFAULT,
            Driver::Docker => ground::VERSION,
        }
    }

    /// How long it may take on a slow machine.
    fn within(self) -> Duration {
        match self {
            Driver::Sim => Duration::from_secs(600),
            Driver::Docker => Duration::from_secs(3600),
        }
    }
}

/// Runs until Ctrl-C or SIGTERM; with `--exit`, until all nodes are ready.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let temporary;
    let directory = match &arguments.data_dir {
        Some(directory) => data_dir::absolute(directory.clone()),
        None => {
            temporary = tempfile::Builder::new().prefix("herdsman-").tempdir()?;
            temporary.path().to_owned()
        }
    };
    let directory = directory.as_path();
    std::fs::create_dir_all(directory).with_context(|| format!("--data-dir: {}", directory.display()))?;
    let log = directory.join("herdsman.log");
    log::start_in(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let ground = match arguments.driver {
            Driver::Sim => Ground::nothing(),
            Driver::Docker => arguments.docker.prepare(arguments.data_dir.is_some()).await?,
        };
        let outcome = start(arguments, directory, &ground).await;
        ground.clear().await.and(outcome)
    })
}

async fn start(arguments: &Arguments, directory: &Path, ground: &Ground) -> anyhow::Result<()> {
    let mut stop = Stop::new()?;
    let product = Product::start(setup(directory, ground)).await?;
    let ask = Ask { client: product.client.clone(), namespace: NAMESPACE.into() };
    let kubeconfig = product.address.kubeconfig.clone();
    let (end, ended) = oneshot::channel::<()>();
    let (begin, begun) = oneshot::channel::<()>();
    let keys_changed = Notify::new();
    let ready = |address: &Address| {
        println!("ready url={} kubeconfig={}", address.url, address.kubeconfig.display());
        drop(begin);
    };
    let serving = product.run(ready, async { drop(ended.await) }, &keys_changed);
    let showing = async {
        let outcome = tokio::select! {
            biased;
            () = stop.asked(&keys_changed) => Ok(()),
            outcome = async {
                drop(begun.await);
                show(arguments, ground, &ask, &kubeconfig).await
            } => outcome,
        };
        drop(end);
        outcome
    };
    tokio::join!(serving, showing).1
}

/// Creates the cluster and shows what comes of it.
async fn show(arguments: &Arguments, ground: &Ground, ask: &Ask, admin: &Path) -> anyhow::Result<()> {
    let there = ask.find(&crate::verbs::kinds::find("cluster")?.id(), CLUSTER).await?;
    if there.is_none() {
        println!("creating cluster {CLUSTER}: 3 servers, 2 workers");
        create(arguments, ground, ask).await?;
    }
    follow::follow(ask, CLUSTER, arguments.driver.within()).await?;
    println!("\nthe nodes of {CLUSTER}, through its tunnel:\n");
    output::print(&nodes(ask).await?)?;
    if arguments.exit {
        return Ok(());
    }
    let export = format!("export KUBECONFIG={}", admin.display());
    println!(
        "\nWhat to try next, in another terminal:\n\
         \n  {export}\
         \n  herdsman describe {CLUSTER}\
         \n  herdsman scale {CLUSTER} --pool workers --replicas 4 --wait\
         \n  herdsman upgrade {CLUSTER} --kubernetes-version v1.35.1+k3s1 --wait\
         \n  herdsman kubeconfig {CLUSTER} > {CLUSTER}.yaml && kubectl --kubeconfig {CLUSTER}.yaml get nodes\
         \n  herdsman explain cluster/{CLUSTER}\
         \n\nCtrl-C ends everything."
    );
    std::future::pending().await
}

fn setup(directory: &Path, ground: &Ground) -> Setup {
    #[derive(clap::Parser)]
    struct Defaults {
        #[command(flatten)]
        options: Options,
    }
    Setup {
        directory: directory.to_owned(),
        serving: Serving {
            listen: SocketAddr::new(ground.address, 0),
            server_url: None,
            certificate: Certificate::Issued(Vec::new()),
            rancher_machine: None,
            docker: ground.docker.clone(),
            driver_read: Vec::new(),
            strict_host_keys: false,
            proxies: Default::default(),
            assets: ground.assets.clone(),
            releases: Default::default(),
        },
        options: Defaults::parse_from(["quickstart"]).options,
    }
}

async fn create(arguments: &Arguments, ground: &Ground, ask: &Ask) -> anyhow::Result<()> {
    let driver = arguments.driver;
    let version = arguments.kubernetes_version.as_deref().unwrap_or(driver.version());
    let mut words = vec!["create", CLUSTER, "--driver", driver.name(), "--kubernetes-version", version];
    words.extend(POOLS);
    words.extend(ground.options.iter().flat_map(|option| ["--driver-option", option.as_str()]));
    create::make(ask, &create::objects_of(&words)?).await
}

/// The nodes of the cluster, asked for as kubectl would with the cluster's kubeconfig.
async fn nodes(ask: &Ask) -> anyhow::Result<String> {
    let text = kubeconfig::fetch(ask, CLUSTER).await?;
    let read = Kubeconfig::from_yaml(&text).context("the cluster's kubeconfig")?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    let there = Ask { client: Client::try_from(config)?, namespace: String::new() };
    let answer = get::request(&there, "/api/v1/nodes", true).await?;
    Ok(get::table(&answer, false, false))
}
