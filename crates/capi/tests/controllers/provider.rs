//! A provider that speaks one of the contracts: infrastructure, bootstrap and control plane.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

pub(crate) use crate::kinds::{Speaks, definitions, plural};
use crate::place::{Place, Places};
use crate::world::resource;

/// What holds an infrastructure machine until its server is gone.
const FINALIZER: &str = "example.com/server";

/// The provider at work.
pub(crate) struct Provider {
    pub(crate) speaks: Speaks,
    pub(crate) client: Client,
    /// Where nodes join.
    pub(crate) places: Arc<Places>,
    /// How often it looks at everything.
    pub(crate) tempo: Duration,
}

impl Provider {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource(self.speaks.group(), "v1", kind, plural(kind)))
    }

    /// Everything of a kind, but where the provider holds still.
    async fn all(&self, kind: &str) -> Vec<DynamicObject> {
        let mut all =
            self.api(kind).list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        all.retain(|object| {
            self.place(object).is_some_and(|place| !place.hold.load(std::sync::atomic::Ordering::Relaxed))
        });
        all
    }

    fn place(&self, object: &DynamicObject) -> Option<Arc<Place>> {
        self.places.of(object.metadata.namespace.as_deref().unwrap_or_default())
    }

    async fn patch(&self, kind: &str, object: &DynamicObject, patch: Value, status: bool) {
        let namespace = object.metadata.namespace.clone().unwrap();
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &namespace,
            &resource(self.speaks.group(), "v1", kind, plural(kind)),
        );
        let name = object.metadata.name.clone().unwrap();
        let (options, patch) = (PatchParams::default(), Patch::Merge(patch));
        let _ = match status {
            true => api.patch_status(&name, &options, &patch).await,
            false => api.patch(&name, &options, &patch).await,
        };
    }

    pub(crate) async fn run(self) {
        loop {
            tokio::time::sleep(self.tempo).await;
            self.clusters().await;
            self.configs().await;
            self.machines().await;
            self.control_planes().await;
        }
    }

    async fn clusters(&self) {
        for object in self.all("TestCluster").await {
            let owned =
                object.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Cluster");
            if owned && object.data["status"].is_null() {
                let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}});
                self.patch("TestCluster", &object, endpoint, false).await;
                let mut status = self.speaks.status("ready", "provisioned");
                status["failureDomains"] = match self.speaks {
                    Speaks::V1Beta1 => json!({"b": {"controlPlane": true}, "a": {}}),
                    Speaks::V1Beta2 | Speaks::Late => {
                        json!([{"name": "b", "controlPlane": true}, {"name": "a"}])
                    }
                };
                self.patch("TestCluster", &object, json!({"status": status}), true).await;
            }
        }
    }

    async fn control_planes(&self) {
        for object in self.all("TestControlPlane").await {
            let owned =
                object.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Cluster");
            if owned && object.data["status"].is_null() {
                let mut status = self.speaks.status("initialized", "controlPlaneInitialized");
                status["version"] = object.data["spec"]["version"].clone();
                self.patch("TestControlPlane", &object, json!({"status": status}), true).await;
            }
        }
    }

    async fn configs(&self) {
        for object in self.all("TestConfig").await {
            let owned =
                object.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Machine");
            if owned && object.data["status"].is_null() {
                let mut status = self.speaks.status("ready", "dataSecretCreated");
                status["dataSecretName"] = format!("{}-data", object.metadata.name.clone().unwrap()).into();
                self.patch("TestConfig", &object, json!({"status": status}), true).await;
            }
        }
    }

    /// A server comes once the machine has its bootstrap data, joins as a node, and goes with its object.
    async fn machines(&self) {
        for object in self.all("TestMachine").await {
            let name = object.metadata.name.clone().unwrap();
            if object.metadata.deletion_timestamp.is_some() {
                self.patch("TestMachine", &object, json!({"metadata": {"finalizers": null}}), false).await;
                continue;
            }
            let owner =
                object.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "Machine");
            let Some(owner) = owner else { continue };
            if !object.data["status"].is_null() {
                continue;
            }
            let machines: Api<DynamicObject> = Api::namespaced_with(
                self.client.clone(),
                object.metadata.namespace.as_deref().unwrap(),
                &resource("cluster.x-k8s.io", "v1beta2", "Machine", "machines"),
            );
            let Ok(machine) = machines.get(&owner.name).await else { continue };
            if machine.data["spec"]["bootstrap"]["dataSecretName"].is_null() {
                continue;
            }
            let id = format!("test://{name}");
            let spec = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"providerID": id}});
            self.patch("TestMachine", &object, spec, false).await;
            let mut status = self.speaks.status("ready", "provisioned");
            status["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.7"}]);
            self.patch("TestMachine", &object, json!({"status": status}), true).await;
            let version = machine.data["spec"]["version"].as_str().unwrap_or("v1.34.1").to_owned();
            if let Some(place) = self.place(&object) {
                join(&place.downstream.client("kubelet"), &name, &id, &version).await;
            }
        }
    }
}

/// A node joins its cluster.
pub(crate) async fn join(downstream: &Client, name: &str, id: &str, version: &str) {
    let nodes: Api<DynamicObject> = Api::all_with(downstream.clone(), &resource("", "v1", "Node", "nodes"));
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": id}});
    // One that was there before its machine was moved is there still.
    let joined = nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await;
    assert!(joined.is_ok() || nodes.get_opt(name).await.unwrap().is_some(), "{joined:?}");
    let since = "2026-01-01T00:00:00Z";
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "", "lastHeartbeatTime": since, "lastTransitionTime": since});
    let status = json!({"status": {
        "conditions": [
            condition("Ready", "True"), condition("MemoryPressure", "False"),
            condition("DiskPressure", "False"), condition("PIDPressure", "False")
        ],
        "nodeInfo": {
            "architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "c", "kernelVersion": "k",
            "kubeProxyVersion": "", "kubeletVersion": version, "machineID": "m", "operatingSystem": "linux",
            "osImage": "o", "systemUUID": "s"
        }
    }});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}
