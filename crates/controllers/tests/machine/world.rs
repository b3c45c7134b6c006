//! A management cluster with the controllers of this suite, on one thread. They can be stopped and started.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver::auth::SigningKey;
use apiserver::instance::{Instance, Parts};
use apiserver::store::{MemoryStore, Options, Store};
use clock::{Clock, RuntimeClock, SeededEntropy};
use controllers::{ServerInfo, drivers, jobs, machine as machines};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kubeapi::authn::{MASTERS, User};
use machine::Drivers;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::scripted::{Outcome, Scripted, Servers};

pub(crate) struct World {
    pub(crate) clock: Arc<dyn Clock>,
    instance: Instance,
    store: Arc<dyn Store>,
    pub(crate) client: kube::Client,
    pub(crate) driver: Scripted,
    pub(crate) directory: tempfile::TempDir,
    /// For drivers that are not our own.
    pub(crate) rancher_machine: Option<PathBuf>,
    /// The program that has the driver `scripted`, if it is not to be in this process.
    pub(crate) stand_in: Option<PathBuf>,
    /// What servers run first.
    pub(crate) bootstrap: String,
    running: JoinSet<()>,
}

/// Runs a story on a runtime of its own, where time is simulated.
pub(crate) fn story<F: Future<Output = ()>>(story: impl FnOnce() -> F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(story());
}

impl World {
    /// With everything running, the driver's kinds there, and a cluster whose infrastructure is ready.
    pub(crate) async fn new() -> Self {
        let mut world = World::empty().await;
        world.start();
        world.kinds_served().await;
        world.cluster().await;
        world
    }

    pub(crate) async fn empty() -> Self {
        let clock: Arc<dyn Clock> =
            Arc::new(RuntimeClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
        let key = SigningKey::from_pem(include_str!("../../../apiserver/tests/data/sa.key")).unwrap();
        let entropy = Box::new(SeededEntropy::new(1));
        let parts = Parts::new(store.clone(), clock.clone(), entropy, "-- a certificate --", key);
        let instance = Instance::start(parts).await.unwrap();
        let client = client(&instance, "test");
        let world = World {
            clock,
            instance,
            store,
            client,
            driver: Scripted::default(),
            directory: tempfile::tempdir().unwrap(),
            rancher_machine: None,
            stand_in: None,
            bootstrap: "#!/bin/sh\necho hello > /hello\n".into(),
            running: JoinSet::new(),
        };
        let definitions: Api<DynamicObject> =
            Api::all_with(world.client.clone(), &kit::index::definitions().resource());
        let needed = ["NodeDriver", "DynamicSchema", "Setting", "Cluster", "Machine", "MachineSet"];
        for definition in api::crd::all() {
            if !needed.contains(&definition.spec.names.kind.as_str()) {
                continue;
            }
            let definition = serde_json::from_value(json!(definition)).unwrap();
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        world.sleep(2).await;
        world
    }

    /// Starts the controllers.
    pub(crate) fn start(&mut self) {
        let (_, server) = watch::channel(ServerInfo::default());
        let parts = controllers::Parts {
            caches: kit::Caches::new(client(&self.instance, "controllers"), kit::index::entries),
            clock: self.clock.clone(),
            entropy: Arc::new(Mutex::new(SeededEntropy::new(2))),
            access: Arc::new(kit::access::Nowhere),
            server,
            waits: Arc::default(),
        };
        let drivers = Drivers::default().with(self.driver.clone());
        let downloads = self.directory.path().join("drivers");
        let settings = drivers::Settings {
            drivers: drivers.clone(),
            rancher_machine: self.rancher_machine.clone(),
            downloads: downloads.clone(),
            environment: Default::default(),
        };
        self.running.spawn(drivers::run(parts.clone(), settings));
        self.running.spawn(machines::run(parts.clone(), machines::Settings::default()));
        let directory = self.directory.path().join("jobs");
        let (drivers, rancher_machine) = match &self.stand_in {
            Some(program) => (Drivers::default(), Some(program.clone())),
            None => (drivers, self.rancher_machine.clone()),
        };
        self.running.spawn(jobs::run(
            parts,
            jobs::Settings {
                directory,
                drivers,
                rancher_machine,
                downloads,
                confinement: None,
                environment: Default::default(),
                marked_only: false,
            },
        ));
    }

    /// Stops them, wherever they are.
    pub(crate) async fn stop(&mut self) {
        self.running.shutdown().await;
    }

    pub(crate) fn servers<T>(&self, read: impl FnOnce(&mut Servers) -> T) -> T {
        read(&mut self.driver.0.lock().unwrap())
    }

    /// What becomes of the next commands.
    pub(crate) fn then(&self, outcomes: &[Outcome]) {
        self.servers(|servers| servers.next.extend(outcomes.iter().cloned()));
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = resource(kind);
        match kind {
            "NodeDriver" | "DynamicSchema" | "Setting" | "CustomResourceDefinition" | "Namespace" => {
                Api::all_with(self.client.clone(), &resource)
            }
            _ => Api::namespaced_with(self.client.clone(), "default", &resource),
        }
    }

    pub(crate) async fn create(&self, kind: &str, name: &str, rest: Value) {
        let mut document =
            json!({"apiVersion": resource(kind).api_version, "kind": kind, "metadata": {"name": name}});
        merge(&mut document, &rest);
        let object = serde_json::from_value(document).unwrap();
        self.api(kind).create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn create_in(&self, namespace: &str, kind: &str, name: &str, rest: Value) {
        self.create_namespace(namespace).await;
        let mut document =
            json!({"apiVersion": resource(kind).api_version, "kind": kind, "metadata": {"name": name}});
        merge(&mut document, &rest);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource(kind));
        api.create(&PostParams::default(), &serde_json::from_value(document).unwrap()).await.unwrap();
    }

    async fn create_namespace(&self, name: &str) {
        if self.find("Namespace", name).await.is_none() {
            self.create("Namespace", name, json!({})).await;
        }
    }

    pub(crate) async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        self.api(kind).get_opt(name).await.unwrap().map(|object| serde_json::to_value(object).unwrap())
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        self.find(kind, name).await.unwrap_or_else(|| panic!("there is no {kind} {name}"))
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

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn sleep(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Lets time pass in which nothing happens but what is due.
    pub(crate) async fn skip(&self, seconds: u64) {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::time::resume();
    }

    pub(crate) fn revision(&self) -> i64 {
        self.store.view().head().0
    }

    /// Waits until something is so; says what it is now if it never is.
    pub(crate) async fn until<F: Future<Output = Result<(), String>>>(
        &self,
        seconds: u64,
        what: &str,
        so: impl Fn() -> F,
    ) {
        let mut last = String::new();
        let (mut left, mut pause) = (Duration::from_secs(seconds), Duration::from_millis(100));
        while !left.is_zero() {
            match so().await {
                Ok(()) => return,
                Err(now) => last = now,
            }
            tokio::time::sleep(pause).await;
            left = left.saturating_sub(pause);
            // Simulated time is free, looking is not.
            pause = (pause * 5 / 4).min(Duration::from_secs(20));
        }
        panic!("{what}: not after {seconds} s: {last}");
    }

    pub(crate) async fn condition(&self, kind: &str, name: &str, type_: &str, status: &str) {
        self.until(7200, &format!("{kind} {name}: {type_} {status}"), async || {
            let object = self.find(kind, name).await.unwrap_or_default();
            let found = condition(&object, type_);
            if found["status"] == status { Ok(()) } else { Err(object["status"].to_string()) }
        })
        .await;
    }

    pub(crate) async fn gone(&self, kind: &str, name: &str) {
        self.until(7200, &format!("{kind} {name} goes"), async || match self.find(kind, name).await {
            None => Ok(()),
            Some(object) => Err(object.to_string()),
        })
        .await;
    }

    pub(crate) async fn kinds_served(&self) {
        self.condition("NodeDriver", "scripted", "Active", "True").await;
        self.sleep(2).await;
    }

    pub(crate) async fn cluster(&self) {
        self.create("Cluster", "c", json!({"spec": {"controlPlaneEndpoint": {"host": "x", "port": 1}}}))
            .await;
        self.patch_status("Cluster", "c", json!({"initialization": {"infrastructureProvisioned": true}}))
            .await;
    }

    /// A provisioning Cluster of that name, which users write.
    pub(crate) async fn provisioning_cluster(&self, name: &str, spec: Value) {
        let resource = ApiResource {
            group: "provisioning.cattle.io".into(),
            version: "v1".into(),
            api_version: "provisioning.cattle.io/v1".into(),
            kind: "Cluster".into(),
            plural: "clusters".into(),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", &resource);
        let document = json!({
            "apiVersion": resource.api_version, "kind": "Cluster", "metadata": {"name": name}, "spec": spec,
        });
        api.create(&PostParams::default(), &serde_json::from_value(document).unwrap()).await.unwrap();
    }

    /// A Machine with its bootstrap Secret and its infrastructure machine.
    pub(crate) async fn machine(&self, name: &str, spec: Value) {
        self.machine_of("ScriptedMachine", name, spec).await;
    }

    pub(crate) async fn machine_of(&self, kind: &str, name: &str, spec: Value) {
        let bootstrap = format!("{name}-bootstrap");
        self.create("Secret", &bootstrap, json!({"stringData": {"value": self.bootstrap}})).await;
        let reference = json!({"apiGroup": "rke-machine.cattle.io", "kind": kind, "name": name});
        let machine = json!({
            "clusterName": "c", "bootstrap": {"dataSecretName": bootstrap}, "infrastructureRef": reference,
        });
        self.create("Machine", name, json!({"spec": machine})).await;
        let uid = self.get("Machine", name).await["metadata"]["uid"].clone();
        let owner =
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": uid});
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c"});
        let metadata = json!({"labels": labels, "ownerReferences": [owner]});
        self.create(kind, name, json!({"metadata": metadata, "spec": spec})).await;
    }

    /// The node of a machine joins, as the control plane's controller notes it.
    pub(crate) async fn joins(&self, name: &str) {
        let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
        self.patch_status("ScriptedMachine", name, json!({"addresses": addresses})).await;
        self.patch("ScriptedMachine", name, json!({"spec": {"providerID": format!("k3s://{name}")}})).await;
    }

    /// Everything that was made for a machine and is still there.
    pub(crate) async fn leftovers(&self, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        for kind in ["Job", "Pod", "Secret", "ServiceAccount", "Role", "RoleBinding"] {
            for object in self.list(kind).await {
                let (object, bootstrap) =
                    (object["metadata"]["name"].as_str().unwrap().to_owned(), format!("{name}-bootstrap"));
                if object.starts_with(name) && object != bootstrap {
                    found.push(format!("{kind} {object}"));
                }
            }
        }
        found
    }

    /// The log of a machine's Jobs.
    pub(crate) fn log(&self, name: &str) -> String {
        let job = format!("{name}-machine-provision");
        let path = jobs::log_path(&self.directory.path().join("jobs"), "default", &job);
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

fn client(instance: &Instance, name: &str) -> kube::Client {
    let user = User { name: name.into(), groups: vec![MASTERS.into()], ..User::default() };
    kube::Client::new(instance.api().as_user(user), "default")
}

fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "Secret" | "Pod" | "ServiceAccount" | "Event" | "Namespace" => ("", "v1"),
        "Job" => ("batch", "v1"),
        "Role" | "RoleBinding" => ("rbac.authorization.k8s.io", "v1"),
        "NodeDriver" | "DynamicSchema" | "Setting" => ("management.cattle.io", "v3"),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1"),
        "ScriptedConfig" => ("rke-machine-config.cattle.io", "v1"),
        "ScriptedMachine" | "ScriptedMachineTemplate" | "GenericMachine" | "ShedMachine" => {
            ("rke-machine.cattle.io", "v1")
        }
        _ => ("cluster.x-k8s.io", "v1beta2"),
    };
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

pub(crate) fn condition(object: &Value, type_: &str) -> Value {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["type"] == type_).unwrap_or_default()
}

fn merge(onto: &mut Value, patch: &Value) {
    match patch.as_object() {
        None => onto.clone_from(patch),
        Some(patch) => patch.iter().for_each(|(key, value)| merge(&mut onto[key], value)),
    }
}
