//! A real Kubernetes as management cluster, and what is on it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::discovery::Discovery;
use kube::{Api, Client};
use serde_json::Value;

use crate::program::{client, client_of, herdsman};

/// Generous: the machine may be doing something else.
const WITHIN: Duration = Duration::from_secs(300);

/// A cluster of one server and some workers on simulated machines, as kubectl applies it.
pub(crate) fn manifest(workers: u32) -> String {
    format!(
        "apiVersion: rke-machine-config.cattle.io/v1
kind: SimConfig
metadata: {{name: small, namespace: fleet-default}}
memory: \"2048\"
---
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {{name: demo, namespace: fleet-default}}
spec:
  kubernetesVersion: v1.34.2+k3s1
  rkeConfig:
    machinePools:
    - {{name: servers, quantity: 1, etcdRole: true, controlPlaneRole: true, machineConfigRef: {{kind: SimConfig, name: small}}}}
    - {{name: workers, quantity: {workers}, workerRole: true, machineConfigRef: {{kind: SimConfig, name: small}}}}
"
    )
}

/// A management cluster. It ends with this value.
pub(crate) struct Management {
    pub(crate) kubernetes: peers::Kubernetes,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) client: Client,
}

impl Management {
    pub(crate) async fn start(options: peers::kubernetes::Options) -> Self {
        let kubernetes = options.start().unwrap();
        let kubeconfig = kubernetes.kubeconfig_path().to_owned();
        let client = client(&kubeconfig).await;
        Management { kubernetes, kubeconfig, client }
    }

    /// Applies a text by kubectl.
    pub(crate) fn apply(&self, text: &str, directory: &Path, more: &[&str]) {
        let file = directory.join("applied.yaml");
        std::fs::write(&file, text).unwrap();
        let output = self.kubernetes.kubectl().args(["apply", "-f"]).arg(&file).args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A kubeconfig of an account.
    pub(crate) fn account(&self, namespace: &str, name: &str, directory: &Path) -> PathBuf {
        let token = self.kubectl(&["create", "token", name, "-n", namespace, "--duration=2h"]);
        let (url, ca) = (self.kubernetes.url(), self.kubernetes.ca_pem());
        let file = directory.join("account.kubeconfig");
        std::fs::write(&file, gateway::admin::kubeconfig(&url, ca, token.trim())).unwrap();
        file
    }

    /// What of the audited was refused for lack of a right.
    pub(crate) fn forbidden(&self) -> BTreeSet<String> {
        let text = std::fs::read_to_string(self.kubernetes.audit_log()).unwrap();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        // A namespace that goes takes nothing new: that is no lack of rights.
        let goes =
            |event: &Value| event["responseStatus"]["message"].to_string().contains("being terminated");
        let refused = events.filter(|event| event["responseStatus"]["code"] == 403 && !goes(event));
        refused.map(|event| format!("{} {}", event["verb"], event["requestURI"])).collect()
    }

    pub(crate) fn kubectl(&self, words: &[&str]) -> String {
        let output = self.kubernetes.kubectl().args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the cluster has so many Ready nodes, and is ready itself; they are asked for through its tunnel.
    pub(crate) async fn until_ready(&self, cluster: &str, nodes: usize) {
        until_ready(&self.kubeconfig, cluster, nodes).await;
    }

    /// The nodes of a cluster by `herdsman kubeconfig`, and whether each is Ready; none if it is not reached.
    pub(crate) async fn nodes(&self, cluster: &str) -> Vec<(String, bool)> {
        nodes(&self.kubeconfig, cluster).await
    }

    pub(crate) async fn get(&self, group: &str, version: &str, plural: &str, name: &str) -> Option<Value> {
        let found = self.api(group, version, plural).get_opt(name).await.unwrap()?;
        Some(serde_json::to_value(found).unwrap())
    }

    pub(crate) async fn list(&self, group: &str, version: &str, plural: &str) -> Vec<DynamicObject> {
        self.api(group, version, plural).list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) fn api(&self, group: &str, version: &str, plural: &str) -> Api<DynamicObject> {
        let api_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
        let resource = ApiResource {
            group: group.into(),
            version: version.into(),
            api_version,
            kind: String::new(),
            plural: plural.into(),
        };
        Api::namespaced_with(self.client.clone(), "fleet-default", &resource)
    }

    /// The UIDs of a cluster's Machines.
    pub(crate) async fn machines(&self, cluster: &str) -> BTreeSet<String> {
        let all = self.list("cluster.x-k8s.io", "v1beta2", "machines").await;
        let mine = all.into_iter().filter(|machine| machine.data["spec"]["clusterName"] == cluster);
        mine.map(|machine| machine.metadata.uid.unwrap_or_default()).collect()
    }

    /// Deletes the cluster, and waits until nothing is left of it, of whatever kind.
    pub(crate) async fn delete(&self, cluster: &str) {
        let found = self.get("provisioning.cattle.io", "v1", "clusters", cluster).await.unwrap();
        let id = found["status"]["clusterName"].as_str().unwrap().to_owned();
        self.kubectl(&[
            "delete",
            "clusters.provisioning.cattle.io",
            "-n",
            "fleet-default",
            cluster,
            "--timeout=300s",
        ]);
        let mut left = Vec::new();
        for _ in 0..WITHIN.as_millis() / 500 {
            left = self.mentions(&[cluster, &id]).await;
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("this is left of {cluster}: {left:?}");
    }

    /// Every object of every kind that has one of these words in it; events, which tell of what was, aside.
    async fn mentions(&self, words: &[&str]) -> Vec<String> {
        let known = Discovery::new(self.client.clone()).run().await.unwrap();
        let mut found = Vec::new();
        for (resource, capabilities) in known.groups().flat_map(|group| group.recommended_resources()) {
            if resource.kind == "Event" || !capabilities.supports_operation("list") {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            let Ok(all) = api.list(&ListParams::default()).await else { continue };
            for object in all.items {
                let text = serde_json::to_string(&object).unwrap();
                let mut parts = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
                // Names of what is made for a cluster begin with its own.
                let of = |part: &str| {
                    words.iter().any(|word| part == *word || part.starts_with(&format!("{word}-")))
                };
                if parts.any(of) {
                    let name = object.metadata.name.unwrap_or_default();
                    found.push(format!(
                        "{} {}/{name}",
                        resource.kind,
                        object.metadata.namespace.unwrap_or_default()
                    ));
                }
            }
        }
        found
    }
}

/// Waits until a cluster of the server of this kubeconfig has so many Ready nodes, and is ready itself.
pub(crate) async fn until_ready(kubeconfig: &Path, cluster: &str, count: usize) {
    let mut last = String::new();
    for _ in 0..WITHIN.as_millis() / 500 {
        let found = nodes(kubeconfig, cluster).await;
        let described = herdsman(kubeconfig, &["describe", cluster]).stdout;
        let ready = described.starts_with(format!("cluster {cluster}  Ready").as_bytes());
        last = format!("ready: {ready}, nodes: {found:?}");
        if ready && found.len() == count && found.iter().all(|(_, ready)| *ready) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let explained = herdsman(kubeconfig, &["explain", &format!("cluster/{cluster}")]);
    panic!("{cluster} never is ready: {last}\n{}", String::from_utf8_lossy(&explained.stdout));
}

/// The nodes of a cluster by `herdsman kubeconfig`, and whether each is Ready; none if it is not reached.
pub(crate) async fn nodes(kubeconfig: &Path, cluster: &str) -> Vec<(String, bool)> {
    let text = herdsman(kubeconfig, &["kubeconfig", cluster]);
    match text.status.success() {
        true => nodes_by(&String::from_utf8(text.stdout).unwrap()).await,
        false => Vec::new(),
    }
}

/// The same, by the cluster's own kubeconfig.
pub(crate) async fn nodes_by(kubeconfig: &str) -> Vec<(String, bool)> {
    let nodes = Api::<Node>::all(client_of(kubeconfig).await);
    let asked = tokio::time::timeout(Duration::from_secs(10), nodes.list(&ListParams::default())).await;
    let Ok(Ok(found)) = asked else { return Vec::new() };
    let ready = |node: &Node| {
        let conditions = node.status.clone().unwrap_or_default().conditions.unwrap_or_default();
        conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
    };
    found.iter().map(|node| (node.metadata.uid.clone().unwrap_or_default(), ready(node))).collect()
}

/// Every plan that was applied: whose, and its checksum.
pub(crate) async fn plans(kubeconfig: &Path) -> BTreeMap<String, String> {
    let secrets = Api::<Secret>::namespaced(client(kubeconfig).await, "fleet-default");
    let found = secrets.list(&ListParams::default()).await.unwrap();
    let plan = |secret: &Secret| {
        let data = secret.data.as_ref()?.get("applied-checksum")?;
        Some((secret.metadata.name.clone()?, String::from_utf8_lossy(&data.0).into_owned()))
    };
    found.iter().filter_map(plan).collect()
}
