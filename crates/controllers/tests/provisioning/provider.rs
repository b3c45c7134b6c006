//! What stands in for the rest: a cloud whose machines come and go, a control plane that is soon ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::machine::{Driver, definitions};
use api::management::v3::Field;
use apiserver::store::Store;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{kubeconfig, resource};

/// The fields of the driver `toy`.
pub(crate) fn fields() -> std::collections::BTreeMap<String, Field> {
    let field = |type_: &str| Field { type_: type_.into(), create: true, update: true, ..Field::default() };
    [("size".to_owned(), field("string")), ("disks".to_owned(), field("array[string]"))].into()
}

/// The three CRDs of the driver.
pub(crate) fn kinds() -> Vec<Value> {
    let all = definitions(&Driver::named("toy").unwrap(), &fields()).unwrap();
    all.iter().map(|one| json!(one)).collect()
}

/// The driver's fields, as the driver's controller writes them.
pub(crate) fn schema() -> Value {
    json!({
        "apiVersion": "management.cattle.io/v3", "kind": "DynamicSchema", "metadata": {"name": "toyconfig"},
        "spec": {"resourceFields": fields()}
    })
}

/// What holds a server's object until the server is gone.
const FINALIZER: &str = "example.com/server";
const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup";

/// The rest of the world at work. It looks at everything twice a second.
pub(crate) struct Provider {
    pub(crate) client: Client,
    /// Where nodes join.
    pub(crate) downstream: Client,
    /// Nothing is done while this is set.
    pub(crate) hold: Arc<AtomicBool>,
    /// Nothing is looked at as long as nothing changes here.
    pub(crate) store: Option<Arc<dyn Store>>,
}

impl Provider {
    pub(crate) async fn run(self) {
        let mut seen = None;
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = self.store.as_ref().map(|store| store.view().head().0);
            if now.is_some() && std::mem::replace(&mut seen, now) == now {
                continue;
            }
            if !self.hold.load(Ordering::Relaxed) {
                self.control_planes().await;
                self.machines("ToyMachine").await;
                self.machines("CustomMachine").await;
                self.hooks().await;
            }
        }
    }

    async fn all(&self, kind: &str) -> Vec<DynamicObject> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource(kind));
        api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
    }

    async fn patch(&self, kind: &str, object: &DynamicObject, patch: Value, status: bool) {
        let namespace = object.metadata.namespace.as_deref().unwrap();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource(kind));
        let name = object.metadata.name.as_deref().unwrap();
        let (options, patch) = (PatchParams::default(), Patch::Merge(patch));
        let answer = match status {
            true => api.patch_status(name, &options, &patch).await,
            false => api.patch(name, &options, &patch).await,
        };
        if let Err(error) = answer {
            assert_eq!(kit::write::code(&error), Some(404), "{kind} {name}: {error}");
        }
    }

    /// A control plane is ready once a server of it is there, and has a kubeconfig.
    async fn control_planes(&self) {
        for object in self.all("RKEControlPlane").await {
            let owner = object.metadata.owner_references.iter().flatten().find(|one| one.kind == "Cluster");
            let Some(owner) = owner else { continue };
            let initialized = &object.data["status"]["initialization"]["controlPlaneInitialized"];
            if initialized == true || object.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let namespace = object.metadata.namespace.as_deref().unwrap();
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
                "metadata": {
                    "name": format!("{}-kubeconfig", owner.name), "namespace": namespace,
                    "labels": {"cluster.x-k8s.io/cluster-name": owner.name}, "ownerReferences": [owner]
                },
                "stringData": {"value": kubeconfig().to_string()}
            });
            let secrets: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), namespace, &resource("Secret"));
            let _ = secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await;
            let condition = |type_: &str| json!({"type": type_, "status": "True"});
            let status = json!({
                "initialization": {"controlPlaneInitialized": true}, "initialized": true, "ready": true,
                "observedGeneration": 1,
                "conditions": [condition("Ready"), condition("Stable"), condition("Provisioned")]
            });
            self.patch("RKEControlPlane", &object, json!({"status": status}), true).await;
        }
    }

    /// Etcd members leave at once.
    async fn hooks(&self) {
        for object in self.all("Machine").await {
            let held = object.metadata.annotations.iter().flatten().any(|(key, _)| key == HOOK);
            if held && object.metadata.deletion_timestamp.is_some() {
                let patch = json!({"metadata": {"annotations": {HOOK: null}}});
                self.patch("Machine", &object, patch, false).await;
            }
        }
    }

    /// A server comes once its machine has bootstrap data, joins as a node, and goes with its object.
    async fn machines(&self, kind: &str) {
        for object in self.all(kind).await {
            let name = object.metadata.name.clone().unwrap();
            if object.metadata.deletion_timestamp.is_some() {
                if kind == "ToyMachine" {
                    self.patch(kind, &object, json!({"metadata": {"finalizers": null}}), false).await;
                }
                continue;
            }
            let owner = object.metadata.owner_references.iter().flatten().find(|one| one.kind == "Machine");
            let Some(owner) = owner else { continue };
            if object.data["spec"]["providerID"].is_string() {
                continue;
            }
            let namespace = object.metadata.namespace.as_deref().unwrap();
            let machines: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), namespace, &resource("Machine"));
            let Ok(machine) = machines.get(&owner.name).await else { continue };
            if machine.data["spec"]["bootstrap"]["dataSecretName"].is_null() {
                continue;
            }
            // The agent registers; a host with the cluster's token has its id from the start.
            let labels = machine.metadata.labels.clone().unwrap_or_default();
            if !labels.contains_key("rke.cattle.io/machine-id") {
                let id = json!({"metadata": {"labels": {"rke.cattle.io/machine-id": format!("id-{name}")}}});
                self.patch("Machine", &machine, id, false).await;
            }
            let id = format!("toy://{name}");
            let mut spec = json!({"spec": {"providerID": id}});
            if kind == "ToyMachine" {
                spec["metadata"] = json!({"finalizers": [FINALIZER]});
            }
            self.patch(kind, &object, spec, false).await;
            if kind == "ToyMachine" {
                let addresses = json!([{"type": "InternalIP", "address": "10.0.0.7"}]);
                let status =
                    json!({"ready": true, "initialization": {"provisioned": true}, "addresses": addresses});
                self.patch(kind, &object, json!({"status": status}), true).await;
            }
            join(&self.downstream, &name, &id).await;
        }
    }
}

/// A node joins its cluster.
async fn join(downstream: &Client, name: &str, id: &str) {
    let nodes: Api<DynamicObject> = Api::all_with(downstream.clone(), &resource("Node"));
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": id}});
    if nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.is_err() {
        return;
    }
    let since = "2026-01-01T00:00:00Z";
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "", "lastHeartbeatTime": since, "lastTransitionTime": since});
    let status = json!({"status": {
        "conditions": [
            condition("Ready", "True"), condition("MemoryPressure", "False"),
            condition("DiskPressure", "False"), condition("PIDPressure", "False")
        ],
        "nodeInfo": {
            "architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "c", "kernelVersion": "k",
            "kubeProxyVersion": "", "kubeletVersion": "v1.34.1", "machineID": "m", "operatingSystem": "linux",
            "osImage": "o", "systemUUID": "s"
        }
    }});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}
