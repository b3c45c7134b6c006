//! The product at work on a network that machines are on.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clock::{Deadline, SystemClock};
use peers::docker::{Docker, Network};
use peers::process::Process;
use peers::{Peer, command};
use serde_json::Value;
use suites::{agents, target};
use tempfile::TempDir;

/// Where clusters are.
pub(crate) const NAMESPACE: &str = "fleet-default";

const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(500);

pub(crate) struct World {
    // In the order in which they go.
    process: Process,
    pub(crate) network: Arc<Network>,
    program: PathBuf,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    pub(crate) directory: TempDir,
}

impl World {
    /// The product, with nothing in it. None if there can be no machines here.
    pub(crate) fn start(name: &str) -> Option<Self> {
        if peers::machine::skip("nodes") {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let assets = agents::static_agent().unwrap();
        let network = Network::create(&Docker::shared().unwrap(), &format!("herdsman-{name}")).unwrap();
        let listen = format!("{}:0", network.gateway);
        let (data, logs) = (directory.path().join("data"), directory.path().join("logs"));
        std::fs::create_dir(&logs).unwrap();
        let (data, assets) = (data.display().to_string(), assets.parent().unwrap().display().to_string());
        let words = ["up", "--listen", &listen, "--data-dir", &data, "--assets", &assets];
        let (process, kubeconfig) = target::launch(&words, &logs).unwrap();
        let kubectl = Peer::Kubectl.provide().unwrap().path.join("usr/bin/kubectl");
        let program = target::herdsman().unwrap();
        Some(World { process, network, program, kubectl, kubeconfig, directory })
    }

    /// A command of the product's.
    pub(crate) fn herdsman(&self, words: &[&str]) -> String {
        self.try_herdsman(words).unwrap_or_else(|error| panic!("{error}\n{}", self.process.log_tail()))
    }

    /// The same where it may fail.
    pub(crate) fn try_herdsman(&self, words: &[&str]) -> Result<String, command::Error> {
        let mut herdsman = Command::new(&self.program);
        command::run(herdsman.args(words).env("KUBECONFIG", &self.kubeconfig))
    }

    /// kubectl in the namespace of clusters.
    pub(crate) fn kubectl(&self, words: &[&str]) -> String {
        let mut kubectl = Command::new(&self.kubectl);
        kubectl.arg("--kubeconfig").arg(&self.kubeconfig).args(["--namespace", NAMESPACE]).args(words);
        command::run(&mut kubectl).unwrap_or_else(|error| panic!("{error}\n{}", self.process.log_tail()))
    }

    pub(crate) fn apply(&self, document: &Value) {
        let file = self.directory.path().join("applied.json");
        std::fs::write(&file, document.to_string()).unwrap();
        self.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    }

    /// Changes an object's status, as its controller would.
    pub(crate) fn says(&self, kind: &str, name: &str, status: &Value) {
        let patch = serde_json::json!({"status": status}).to_string();
        self.kubectl(&["patch", kind, name, "--subresource=status", "--type=merge", "-p", &patch]);
    }

    pub(crate) fn list(&self, kind: &str) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", kind, "-o", "json"])).unwrap();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until something is there.
    pub(crate) fn until<T>(&self, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
        let deadline = Deadline::after(&SystemClock, PATIENCE);
        loop {
            if let Some(found) = find() {
                return found;
            }
            assert!(!deadline.passed(&SystemClock), "never came: {what}\n{}", self.diagnosis());
            std::thread::sleep(POLL);
        }
    }

    /// Waits for the Machine of a cluster with one machine.
    pub(crate) fn machine(&self, cluster: &str) -> String {
        let mine = |machine: &Value| machine["spec"]["clusterName"] == cluster;
        let find = || self.list("machines.cluster.x-k8s.io").into_iter().find(mine);
        text(&self.until("a Machine", find)["metadata"]["name"])
    }

    /// Waits for what the server of a Machine is to be started with.
    pub(crate) fn bootstrap_data(&self, machine: &str) -> String {
        let name = format!("{machine}-machine-bootstrap");
        let find = || self.list("secrets").into_iter().find(|one| one["metadata"]["name"] == name.as_str());
        let secret = self.until("bootstrap data", find);
        String::from_utf8(BASE64_STANDARD.decode(text(&secret["data"]["value"])).unwrap()).unwrap()
    }

    /// Waits until the agent of a Machine has registered, and gives its id.
    pub(crate) fn registered(&self, machine: &str) -> String {
        self.until(&format!("{machine} registers"), || {
            let machines = self.list("machines.cluster.x-k8s.io");
            let machine = machines.into_iter().find(|one| one["metadata"]["name"] == machine)?;
            machine["metadata"]["labels"]["rke.cattle.io/machine-id"].as_str().map(str::to_owned)
        })
    }

    fn diagnosis(&self) -> String {
        let clusters = self.list("clusters.provisioning.cattle.io");
        let waits = clusters.iter().map(|one| &one["status"]["conditions"]).collect::<Vec<_>>();
        format!("{}\n{}", serde_json::json!(waits), self.process.log_tail())
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
