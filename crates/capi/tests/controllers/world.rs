//! What a scenario sees: a namespace of a management cluster, and a cluster that is looked after.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::place::Place;
use crate::provider::{self, Speaks, plural};
use crate::site::{Management, Site, install};

pub(crate) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// The kinds whose owners and revisions are looked at.
pub(crate) const KINDS: [&str; 11] = [
    "Cluster",
    "MachineDeployment",
    "MachineSet",
    "Machine",
    "MachineHealthCheck",
    "TestCluster",
    "TestControlPlane",
    "TestMachine",
    "TestConfig",
    "TestMachineTemplate",
    "TestConfigTemplate",
];

/// Everything.
pub(crate) struct World {
    pub(crate) site: Arc<Site>,
    pub(crate) place: Arc<Place>,
    pub(crate) client: kube::Client,
    pub(crate) speaks: Speaks,
    pub(crate) namespace: String,
}

/// Runs a scenario on a runtime of its own, where time is simulated.
pub(crate) fn story<F: Future<Output = ()>>(story: impl FnOnce() -> F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(story());
}

impl World {
    /// A world of its own, in simulated time.
    pub(crate) async fn simulated(speaks: Speaks, seed: u64) -> Self {
        World::within(&Site::simulated(speaks, seed).await, speaks, "default").await
    }

    /// A namespace of a site.
    pub(crate) async fn within(site: &Arc<Site>, speaks: Speaks, namespace: &str) -> Self {
        let client = site.management.client("test");
        if namespace != "default" {
            let namespaces: Api<DynamicObject> =
                Api::all_with(client.clone(), &resource("", "v1", "Namespace", "namespaces"));
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            namespaces
                .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
                .await
                .unwrap();
        }
        World::at(site, speaks, namespace, Place::new(&site.clock, 2).await)
    }

    /// A namespace of a site that is there, and a cluster that is there.
    pub(crate) fn at(site: &Arc<Site>, speaks: Speaks, namespace: &str, place: Arc<Place>) -> Self {
        let client = site.management.client("test");
        site.places.add(namespace, place.clone());
        World { site: site.clone(), place, client, speaks, namespace: namespace.into() }
    }

    /// Installs the kinds of a provider that was not there.
    pub(crate) async fn install_provider(&self) {
        install(&self.client, provider::definitions(self.speaks)).await;
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.site.clock
    }

    /// A time in seconds: what it would be, and what it is where waiting costs real time.
    pub(crate) fn span(&self, simulated: u64, real: u64) -> u64 {
        if self.site.is_real() { real } else { simulated }
    }

    /// kubectl, where there is a server that it can talk to.
    pub(crate) fn kubectl(&self) -> Option<std::process::Command> {
        let Management::Real { kubernetes, .. } = &self.site.management else { return None };
        let mut kubectl = kubernetes.kubectl();
        kubectl.args(["--namespace", &self.namespace]);
        Some(kubectl)
    }

    /// Waits for as long as is worth waiting to see that nothing happens.
    pub(crate) async fn while_nothing_happens(&self, seconds: u64) {
        self.sleep(self.span(seconds, seconds.min(4))).await;
    }

    /// What stands in the management cluster and in the cluster that is looked after, by revision.
    pub(crate) async fn revisions(&self) -> String {
        let below = self.place.downstream.store.view().head().0;
        match &self.site.management {
            Management::Embedded(server) => format!("{} {below}", server.store.view().head().0),
            Management::Real { .. } => {
                let mut all = format!("{below}");
                for kind in KINDS {
                    for object in self.list(kind).await {
                        all.push_str(&format!(
                            "\n{kind} {} {}",
                            name(&object),
                            object["metadata"]["resourceVersion"]
                        ));
                    }
                }
                all
            }
        }
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &self.resource(kind))
    }

    pub(crate) fn resource(&self, kind: &str) -> ApiResource {
        match kind {
            "Secret" => resource("", "v1", "Secret", "secrets"),
            "Event" => resource("", "v1", "Event", "events"),
            kind if kind.starts_with("Test") => resource(self.speaks.group(), "v1", kind, plural(kind)),
            kind => resource("cluster.x-k8s.io", "v1beta2", kind, &format!("{}s", kind.to_lowercase())),
        }
    }

    pub(crate) fn remote(&self, kind: &str) -> Api<DynamicObject> {
        let client = self.place.downstream.client("test");
        match kind {
            "Node" => Api::all_with(client, &resource("", "v1", "Node", "nodes")),
            "Pod" => Api::namespaced_with(client, "default", &resource("", "v1", "Pod", "pods")),
            "PodDisruptionBudget" => {
                let kind = resource("policy", "v1", kind, "poddisruptionbudgets");
                Api::namespaced_with(client, "default", &kind)
            }
            "PersistentVolume" => Api::all_with(client, &resource("", "v1", kind, "persistentvolumes")),
            "VolumeAttachment" => {
                Api::all_with(client, &resource("storage.k8s.io", "v1", kind, "volumeattachments"))
            }
            kind => panic!("{kind}"),
        }
    }

    pub(crate) async fn create(&self, kind: &str, name: &str, rest: Value) {
        let resource = self.resource(kind);
        let mut document = json!({"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name, "namespace": self.namespace}});
        api_merge(&mut document, &rest);
        self.api(kind)
            .create(&PostParams::default(), &serde_json::from_value(document).unwrap())
            .await
            .unwrap();
    }

    /// Creates an object in the cluster that is looked after.
    pub(crate) async fn create_remote(&self, kind: &str, mut document: Value) {
        let api = self.remote(kind);
        document["kind"] = kind.into();
        api.create(&PostParams::default(), &serde_json::from_value(document).unwrap()).await.unwrap();
    }

    pub(crate) async fn patch_remote_status(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.remote(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until an object is gone.
    pub(crate) async fn gone(&self, kind: &str, name: &str) {
        self.until(120, &format!("the end of {kind} {name}"), async || match self.find(kind, name).await {
            None => Ok(()),
            Some(left) => Err(left.to_string()),
        })
        .await;
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::to_value(self.api(kind).get(name).await.unwrap()).unwrap()
    }

    pub(crate) async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        self.api(kind).get_opt(name).await.unwrap().map(|object| serde_json::to_value(object).unwrap())
    }

    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.api(kind).list(&ListParams::default()).await.unwrap();
        list.items.iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn patch_status(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until a spec has been seen by who looks after it.
    pub(crate) async fn observed(&self, kind: &str, name: &str) {
        self.until(120, &format!("{kind} {name} observed"), async || {
            let object = self.get(kind, name).await;
            let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            if seen { Ok(()) } else { Err(object.to_string()) }
        })
        .await;
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until something is so; says what it is now if it never is.
    pub(crate) async fn until<F: Future<Output = Result<(), String>>>(
        &self,
        seconds: u64,
        what: &str,
        so: impl Fn() -> F,
    ) {
        let mut last = String::new();
        // Where time is real, the machine may be busy with other things.
        let seconds = self.span(seconds, seconds * 5);
        for _ in 0..seconds * 2 {
            match so().await {
                Ok(()) => return,
                Err(now) => last = now,
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("{what}: not after {seconds} s: {last}");
    }

    /// Waits until a field of an object has a value.
    pub(crate) async fn field(&self, kind: &str, name: &str, pointer: &str, value: Value) {
        self.until(120, &format!("{kind} {name} {pointer} {value}"), async || {
            let object = self.find(kind, name).await.unwrap_or_default();
            let found = object.pointer(pointer).cloned().unwrap_or_default();
            if found == value { Ok(()) } else { Err(object.to_string()) }
        })
        .await;
    }

    /// Waits until a condition has a status and a reason.
    pub(crate) async fn condition(&self, kind: &str, name: &str, type_: &str, status: &str, reason: &str) {
        self.until(600, &format!("{kind} {name}: {type_} {status} {reason}"), async || {
            let object = self.find(kind, name).await.unwrap_or_default();
            let found = condition(&object, type_);
            if found["status"] == status && found["reason"] == reason {
                Ok(())
            } else {
                Err(object["status"].to_string())
            }
        })
        .await;
    }

    pub(crate) async fn sleep(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// A cluster with infrastructure, control plane and kubeconfig.
    pub(crate) async fn cluster(&self, name: &str) {
        let group = self.speaks.group();
        self.create("TestCluster", name, json!({})).await;
        self.create("TestControlPlane", name, json!({"spec": {"version": "v1.34.1"}})).await;
        self.kubeconfig(name, "first").await;
        self.create(
            "Cluster",
            name,
            json!({"spec": {
                "infrastructureRef": {"apiGroup": group, "kind": "TestCluster", "name": name},
                "controlPlaneRef": {"apiGroup": group, "kind": "TestControlPlane", "name": name}
            }}),
        )
        .await;
        // Somebody has to be left to delete nodes.
        self.server(name).await;
        self.field("Cluster", name, "/status/phase", "Provisioned".into()).await;
    }

    /// A machine of the control plane.
    pub(crate) async fn server(&self, cluster: &str) {
        let (group, name) = (self.speaks.group(), format!("{cluster}-server"));
        self.create("TestMachine", &name, json!({})).await;
        self.create("Machine", &name, json!({
            "metadata": {"labels": {"cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/control-plane-name": cluster}},
            "spec": {
                "clusterName": cluster, "version": "v1.34.1", "bootstrap": {"dataSecretName": "given"},
                "infrastructureRef": {"apiGroup": group, "kind": "TestMachine", "name": name}
            }
        }))
        .await;
    }

    pub(crate) async fn kubeconfig(&self, name: &str, token: &str) {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
        });
        let secret = format!("{name}-kubeconfig");
        let labels = json!({"cluster.x-k8s.io/cluster-name": name});
        let data = json!({"metadata": {"labels": labels}, "stringData": {"value": kubeconfig.to_string()}});
        match self.find("Secret", &secret).await {
            Some(_) => self.patch("Secret", &secret, data).await,
            None => self.create("Secret", &secret, data).await,
        }
    }

    /// A pool of workers.
    pub(crate) async fn pool(&self, cluster: &str, name: &str, replicas: i32, more: Value) {
        let group = self.speaks.group();
        for kind in ["TestMachineTemplate", "TestConfigTemplate"] {
            if self.find(kind, name).await.is_none() {
                self.create(kind, name, json!({"spec": {"template": {"spec": {"size": "small"}}}})).await;
            }
        }
        let mut document = json!({"spec": {
            "clusterName": cluster, "replicas": replicas,
            "selector": {"matchLabels": {"pool": name}},
            "template": {"metadata": {"labels": {"pool": name}}, "spec": {
                "clusterName": cluster, "version": "v1.34.1",
                "bootstrap": {"configRef": {"apiGroup": group, "kind": "TestConfigTemplate", "name": name}},
                "infrastructureRef": {"apiGroup": group, "kind": "TestMachineTemplate", "name": name}
            }}
        }});
        api_merge(&mut document, &more);
        self.create("MachineDeployment", name, document).await;
    }

    /// Waits until a pool has as many machines as asked for, all of them available and up to date.
    pub(crate) async fn pool_ready(&self, name: &str, replicas: i64) {
        self.until(900, &format!("pool {name} with {replicas}"), async || {
            let pool = self.get("MachineDeployment", name).await;
            let status = &pool["status"];
            let all = ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"];
            let ready = all.iter().all(|field| status[*field] == replicas)
                && status["observedGeneration"] == pool["metadata"]["generation"];
            if ready { Ok(()) } else { Err(format!("{status} {:?}", self.machines(name).await)) }
        })
        .await;
    }

    /// The machines of a pool.
    pub(crate) async fn machines(&self, pool: &str) -> Vec<Value> {
        self.of_pool("Machine", pool).await
    }

    /// The sets of a pool.
    pub(crate) async fn sets(&self, pool: &str) -> Vec<Value> {
        self.of_pool("MachineSet", pool).await
    }

    async fn of_pool(&self, kind: &str, pool: &str) -> Vec<Value> {
        let options = ListParams::default().labels(&format!("pool={pool}"));
        let list = self.api(kind).list(&options).await.unwrap();
        list.items.iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }
}

pub(crate) fn condition(object: &Value, type_: &str) -> Value {
    let listed = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    listed.into_iter().find(|one| one["type"] == type_).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Merges `patch` into `onto`.
pub(crate) fn api_merge(onto: &mut Value, patch: &Value) {
    match patch.as_object() {
        None => onto.clone_from(patch),
        Some(patch) => {
            for (key, value) in patch {
                api_merge(&mut onto[key], value);
            }
        }
    }
}
