//! A provider that provisions at once: it follows the caches that the controllers have.

use std::sync::Arc;

use kit::{Caches, Change, Key, KindId};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::kinds::{Speaks, plural};

/// The contract that is spoken.
pub(crate) const SPEAKS: Speaks = Speaks::V1Beta2;
/// How many objects are provisioned at a time.
const AT_A_TIME: usize = 32;

pub(crate) fn kind(name: &str) -> KindId {
    KindId::new(SPEAKS.group(), "v1", name, plural(name))
}

/// The label of a node by which its cluster is told.
pub(crate) const CLUSTER: &str = "cluster";

#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) nodes: Client,
}

impl Provider {
    /// Provisions whatever comes, for ever.
    pub(crate) async fn run(self) {
        let (ask, mut asked) = mpsc::unbounded_channel();
        let machines = KindId::new("cluster.x-k8s.io", "v1beta2", "Machine", "machines");
        for (kind, done) in [
            (kind("TestCluster"), "TestCluster"),
            (kind("TestControlPlane"), "TestControlPlane"),
            (kind("TestConfig"), "TestConfig"),
            (kind("TestMachine"), "TestMachine"),
            (machines, "TestMachine"),
        ] {
            let ask = ask.clone();
            self.caches.of(&kind).listen("herd", || {
                Arc::new(move |change: &Change| {
                    if let Some(object) = &change.after {
                        let _ = ask.send((done, object.key()));
                    }
                })
            });
        }
        let slots = Arc::new(Semaphore::new(AT_A_TIME));
        while let Some((kind, key)) = asked.recv().await {
            let slot = slots.clone().acquire_owned().await.unwrap();
            let provider = self.clone();
            tokio::spawn(async move {
                provider.provision(kind, &key).await;
                drop(slot);
            });
        }
    }

    async fn provision(&self, name: &str, key: &Key) {
        let Some(object) = self.caches.of(&kind(name)).get(key) else { return };
        if object.owners().is_empty() || object.deleting() || !object.document()["status"].is_null() {
            return;
        }
        match name {
            "TestCluster" => {
                let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}});
                self.patch(name, key, endpoint, false).await;
                self.patch(name, key, json!({"status": SPEAKS.status("ready", "provisioned")}), true).await;
            }
            "TestControlPlane" => {
                let mut status = SPEAKS.status("initialized", "controlPlaneInitialized");
                status["version"] = object.document()["spec"]["version"].clone();
                self.patch(name, key, json!({"status": status}), true).await;
            }
            "TestConfig" => {
                let mut status = SPEAKS.status("ready", "dataSecretCreated");
                status["dataSecretName"] = json!(key.name);
                self.patch(name, key, json!({"status": status}), true).await;
            }
            _ => self.server(key).await,
        }
    }

    /// A server comes once its machine has its bootstrap data, and is a node.
    async fn server(&self, key: &Key) {
        let machines = KindId::new("cluster.x-k8s.io", "v1beta2", "Machine", "machines");
        let Some(machine) = self.caches.of(&machines).get(key) else { return };
        let spec = &machine.document()["spec"];
        if spec["bootstrap"]["dataSecretName"].is_null() {
            return;
        }
        let id = format!("test://{}", key.name);
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": key.name, "labels": {CLUSTER: spec["clusterName"]}}, "spec": {"providerID": id}
        });
        let nodes: Api<DynamicObject> =
            Api::all_with(self.nodes.clone(), &KindId::new("", "v1", "Node", "nodes").resource());
        // Asked twice, it is there already.
        if nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.is_err() {
            return;
        }
        let told = |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let conditions = [
            told("Ready", "True"),
            told("MemoryPressure", "False"),
            told("DiskPressure", "False"),
            told("PIDPressure", "False"),
        ];
        let info = json!({
            "architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "c", "kernelVersion": "k", "kubeProxyVersion": "",
            "kubeletVersion": spec["version"], "machineID": "m", "operatingSystem": "linux", "osImage": "o", "systemUUID": "s"
        });
        let status = Patch::Merge(json!({"status": {"conditions": conditions, "nodeInfo": info}}));
        nodes.patch_status(&key.name, &PatchParams::default(), &status).await.unwrap();
        self.patch("TestMachine", key, json!({"spec": {"providerID": id}}), false).await;
        self.patch("TestMachine", key, json!({"status": SPEAKS.status("ready", "provisioned")}), true).await;
    }

    async fn patch(&self, name: &str, key: &Key, patch: Value, status: bool) {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &key.namespace, &kind(name).resource());
        let (options, patch) = (PatchParams::default(), Patch::Merge(patch));
        // One that is gone again needs nothing.
        let _ = match status {
            true => api.patch_status(&key.name, &options, &patch).await,
            false => api.patch(&key.name, &options, &patch).await,
        };
    }
}
