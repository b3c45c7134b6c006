//! The product under test, from outside: a process, its kubeconfig, its command line.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use kube::api::DynamicObject;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Config};
use peers::Kubernetes;
use tempfile::TempDir;

/// Where clusters and their objects are.
pub(crate) const NAMESPACE: &str = "fleet-default";

/// A management server at work. It ends with the value, unless it was there before.
pub(crate) struct Product {
    pub(crate) client: Client,
    kubeconfig: PathBuf,
    _running: Option<Running>,
}

struct Running {
    process: Child,
    _directory: TempDir,
    _kubernetes: Option<Kubernetes>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Product {
    /// Starts `herdsman up`, or takes the server that the environment names.
    pub(crate) async fn up() -> Self {
        let (kubeconfig, running) = match std::env::var_os("HERDSMAN_MATRIX_KUBECONFIG") {
            Some(there) => (there.into(), None),
            None => {
                let (line, running) = run(&["up"], None);
                (line.rsplit_once("kubeconfig=").unwrap().1.into(), Some(running))
            }
        };
        let client = client(&std::fs::read_to_string(&kubeconfig).unwrap()).await;
        Product { client, kubeconfig, _running: running }
    }

    /// Starts a Kubernetes, and `herdsman server` on it.
    pub(crate) async fn on_kubernetes() -> Self {
        let kubernetes = Kubernetes::start().unwrap();
        let kubeconfig = kubernetes.kubeconfig_path().to_owned();
        let arguments =
            ["server", "--webhook-listen", "127.0.0.1:0", "--kubeconfig", kubeconfig.to_str().unwrap()];
        let (_, running) = run(&arguments, Some(kubernetes));
        let client = client(&std::fs::read_to_string(&kubeconfig).unwrap()).await;
        Product { client, kubeconfig, _running: Some(running) }
    }

    /// What a command of the command line prints, good or bad.
    pub(crate) async fn says(&self, words: &[&str]) -> String {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_herdsman"));
        let output = command.args(words).env("KUBECONFIG", &self.kubeconfig).output().await.unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Objects of a kind in the namespace of clusters.
    pub(crate) fn objects(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource(api_version, kind))
    }
}

/// How a kind is served: every one that we ask for adds an s.
fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kind = GroupVersionKind::gvk(group, version, kind);
    ApiResource::from_gvk_with_plural(&kind, &format!("{}s", kind.kind.to_lowercase()))
}

/// Starts the program, and gives the line with which it says that it serves.
fn run(arguments: &[&str], kubernetes: Option<Kubernetes>) -> (String, Running) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    command
        .args(arguments)
        .args(["--listen", "127.0.0.1:0", "--data-dir"])
        .arg(directory.path().join("data"));
    if std::env::var_os("HERDSMAN_LOG").is_none() {
        command.env("HERDSMAN_LOG", "warn");
    }
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready "), "{line:?}");
    (line.trim().to_owned(), Running { process, _directory: directory, _kubernetes: kubernetes })
}

/// A client of a kubeconfig's cluster.
pub(crate) async fn client(kubeconfig: &str) -> Client {
    let read = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}
