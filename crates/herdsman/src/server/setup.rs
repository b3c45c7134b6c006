//! What is said on the command line, looked at once: wrong input ends here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::beside::Mode;
use crate::data_dir;
use crate::serving::{Serving, ServingArguments};
use crate::webhooks::Endpoint;
use crate::work::{Group, Jobs};

/// The first version of Kubernetes whose Job controller leaves Jobs to whom `spec.managedBy` names.
const MANAGED_BY_SINCE: (u32, u32) = (1, 32);

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The management cluster; by default that of KUBECONFIG, ~/.kube/config or the pod's own
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// What runs here, separated by commas
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "capi,provisioning,bootstrap,machine,controlplane,gateway"
    )]
    controllers: Vec<Group>,
    /// Who runs the Cluster API controllers
    #[arg(long, value_name = "WHO", default_value = "auto")]
    capi: Mode,
    /// Who runs the Jobs that make and delete servers
    #[arg(long, value_name = "WHO", default_value = "cluster")]
    jobs: Jobs,
    #[command(flatten)]
    serving: ServingArguments,
    /// Serve admission and conversion webhooks here, and have the API server ask them; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    webhook_listen: Option<SocketAddr>,
    /// Where the API server reaches the webhooks; `https://NAME.NAMESPACE.svc:PORT` is a Service of its cluster. By default
    /// https:// and the address that they listen on
    #[arg(long, value_name = "URL", requires = "webhook_listen")]
    webhook_url: Option<String>,
    /// Answer webhooks only to who shows a certificate of the authorities in this file (PEM): for API servers that are told to
    /// show one. Without it anybody who reaches the port is answered, and learns nothing by it
    #[arg(long, value_name = "FILE", requires = "webhook_listen")]
    webhook_client_ca: Option<PathBuf>,
    /// Where the leases are that say which replica does the work, and what replicas share
    #[arg(long, value_name = "NAMESPACE", default_value = "cattle-system")]
    leader_elect_namespace: String,
    /// Where downloads, logs of Jobs and simulated machines are kept. By default /var/lib/herdsman/server for root, else
    /// ~/.local/share/herdsman/server
    #[arg(long, value_name = "DIRECTORY", env = data_dir::VARIABLE)]
    data_dir: Option<PathBuf>,
    /// Only objects of this namespace are looked after; with `--controllers capi` alone
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only objects with this value of the label cluster.x-k8s.io/watch-filter are looked after; with `--controllers capi` alone
    #[arg(long, value_name = "VALUE")]
    watch_filter: Option<String>,
}

/// The same, found good.
pub(super) struct Setup {
    pub(super) client: Client,
    pub(super) config: Config,
    /// The kubeconfig that was named, for people.
    pub(super) kubeconfig: String,
    pub(super) groups: Vec<Group>,
    pub(super) capi: Mode,
    pub(super) jobs: Jobs,
    pub(super) serving: Serving,
    pub(super) webhook_listen: Option<SocketAddr>,
    pub(super) webhook_url: Option<Endpoint>,
    /// Who issues the certificates of those who may ask.
    pub(super) webhook_clients: Option<RootCertStore>,
    pub(super) namespace: String,
    pub(super) directory: PathBuf,
    pub(super) only_namespace: Option<String>,
    pub(super) watch_filter: Option<String>,
    /// Whether it was said that we serve.
    pub(super) announced: bool,
}

impl Arguments {
    pub(super) async fn checked(self) -> anyhow::Result<Setup> {
        let groups = self.controllers;
        let only_core = groups == [Group::Capi];
        if !only_core && (self.namespace.is_some() || self.watch_filter.is_some()) {
            bail!(
                "--namespace and --watch-filter go with `--controllers capi` alone: the other groups look after all"
            );
        }
        if groups == [Group::Capi] && self.capi == Mode::External {
            bail!("--capi external leaves nothing to do for `--controllers capi`");
        }
        let serving = self.serving.checked()?;
        if let Some(why) = needs_url(&groups, serving.server_url.is_some(), in_pod()) {
            bail!("--server-url is needed: {why}");
        }
        let webhook_url = self.webhook_url.as_deref().map(Endpoint::parse).transpose()?;
        let webhook_clients = self.webhook_client_ca.as_deref().map(authorities).transpose()?;
        let config = read_config(self.kubeconfig.as_ref()).await?;
        let client =
            Client::try_from(config.clone()).context("cannot set up a client for the management cluster")?;
        if groups.contains(&Group::Machine) {
            check_jobs(&client, self.jobs).await?;
        }
        Ok(Setup {
            client,
            config,
            kubeconfig: self.kubeconfig.map(|path| path.display().to_string()).unwrap_or_default(),
            groups,
            capi: self.capi,
            jobs: self.jobs,
            serving,
            webhook_listen: self.webhook_listen,
            webhook_url,
            webhook_clients,
            namespace: self.leader_elect_namespace,
            directory: self.data_dir.unwrap_or_else(|| data_dir::default().join("server")),
            only_namespace: self.namespace,
            watch_filter: self.watch_filter,
            announced: false,
        })
    }
}

/// The authorities in a file.
fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let wrong = || format!("--webhook-client-ca: {}: no certificates in PEM format", path.display());
    let pem = std::fs::read(path)
        .with_context(|| format!("--webhook-client-ca: cannot read {}", path.display()))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let mut store = RootCertStore::empty();
    for certificate in all.with_context(wrong)? {
        store.add(certificate).with_context(wrong)?;
    }
    anyhow::ensure!(!store.is_empty(), wrong());
    Ok(store)
}

impl Setup {
    /// Whether nothing but Cluster API's controllers runs here.
    pub(super) fn only_core(&self) -> bool {
        self.groups == [Group::Capi]
    }

    pub(super) fn runs(&self, group: Group) -> bool {
        self.groups.contains(&group)
    }
}

fn in_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// Why the URL has to be said, if it has to and is not.
fn needs_url(groups: &[Group], said: bool, in_pod: bool) -> Option<&'static str> {
    if said || groups == [Group::Capi] {
        return None;
    }
    if in_pod {
        return Some(
            "nodes do not reach a pod by its address. Name the load balancer or Ingress in front, such as https://herdsman.example.com",
        );
    }
    (!groups.contains(&Group::Gateway))
        .then_some("the gateway runs elsewhere, and nodes have to be told where")
}

/// Whether Jobs can be run as is wished.
async fn check_jobs(client: &Client, jobs: Jobs) -> anyhow::Result<()> {
    let info = client.apiserver_version().await.context("the management cluster does not answer")?;
    let since = format!("{}.{}", MANAGED_BY_SINCE.0, MANAGED_BY_SINCE.1);
    if leaves_jobs(&info.major, &info.minor) {
        return Ok(());
    }
    let version = &info.git_version;
    if jobs == Jobs::Local {
        bail!(
            "--jobs local: this Kubernetes is {version}; before {since} it runs every Job itself, and two would run each"
        );
    }
    tracing::warn!(
        version,
        "machines of our own drivers (docker, ssh, sim) need Kubernetes {since}: this one would run their Jobs itself"
    );
    Ok(())
}

/// Whether a Kubernetes of this version leaves Jobs to whom they name. One whose version cannot be read is a new one.
fn leaves_jobs(major: &str, minor: &str) -> bool {
    let number = |text: &str| text.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse::<u32>();
    match (number(major), number(minor)) {
        (Ok(major), Ok(minor)) => (major, minor) >= MANAGED_BY_SINCE,
        _ => true,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_asked_for_where_none_can_be_guessed() {
        let all = Group::ALL;
        assert_eq!(needs_url(&all, false, false), None);
        assert!(needs_url(&all, false, true).unwrap().contains("pod"));
        assert_eq!(needs_url(&all, true, true), None);
        assert_eq!(needs_url(&[Group::Capi], false, true), None);
        let apart = [Group::Provisioning, Group::Controlplane];
        assert!(needs_url(&apart, false, false).unwrap().contains("gateway"));
        assert_eq!(needs_url(&apart, true, false), None);
    }

    #[test]
    fn old_kubernetes_run_every_job() {
        for (major, minor, leaves) in
            [("1", "31", false), ("1", "32", true), ("1", "34+", true), ("2", "0", true), ("", "", true)]
        {
            assert_eq!(leaves_jobs(major, minor), leaves, "{major}.{minor}");
        }
    }
}
