//! Which management cluster, and which namespace, a command is about.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::data_dir;

/// Where clusters are, unless somebody says otherwise.
pub(crate) const NAMESPACE: &str = "fleet-default";

/// What every verb takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Target {
    /// How to reach the server; by default KUBECONFIG, then what `herdsman up` wrote, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Where the objects are
    #[arg(long, short, value_name = "NAMESPACE", default_value = NAMESPACE)]
    pub(crate) namespace: String,
}

impl Target {
    /// A client for it.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let config = self.config().await?;
        let url = config.cluster_url.clone();
        Client::try_from(config).with_context(|| format!("no client can be made for {url}"))
    }

    async fn config(&self) -> anyhow::Result<Config> {
        if let Some(path) = &self.kubeconfig {
            return read(path).await;
        }
        if std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty()) {
            return Config::infer().await.context("the kubeconfig of KUBECONFIG cannot be used");
        }
        let ours = data_dir::admin_kubeconfig(&data_dir::default());
        if ours.exists() {
            return read(&ours).await;
        }
        match Config::infer().await {
            Ok(config) => Ok(config),
            Err(_) => bail!(
                "no server is known: start one with `herdsman up`, or name its kubeconfig with --kubeconfig or KUBECONFIG"
            ),
        }
    }
}

async fn read(path: &Path) -> anyhow::Result<Config> {
    let kubeconfig =
        Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.with_context(|| format!("{} cannot be used", path.display()))
}

/// A cluster's name, as it is or as `get -o name` prints it.
pub(crate) fn cluster(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        None => Ok(text.to_owned()),
        Some(("cluster" | "clusters", name)) => Ok(name.to_owned()),
        Some((said, _)) => Err(format!("{said:?} is no cluster: it takes NAME or cluster/NAME")),
    }
}

/// Runs what a verb does.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
