//! A management cluster, a cluster that is looked after, controllers and stand-ins, on one thread.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver::auth::SigningKey;
use apiserver::instance::{Instance, Parts};
use apiserver::store::{MemoryStore, Options, Store};
use capi::{ClusterCache, Paces};
use clock::{Clock, RuntimeClock, SeededEntropy};
use controllers::ServerInfo;
use controllers::admission::Door;
use controllers::agents::Offer;
use controllers::bootstrap::Installers;
use kit::Key;
use kit::access::{Dial, Dialling};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kubeapi::authn::{MASTERS, User};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admission::AtTheDoor;
use crate::provider::{self, Provider};

/// Where clusters are.
pub(crate) const NAMESPACE: &str = "fleet-default";

/// Every kind that tests speak of: group, version, kind, plural.
const KINDS: [(&str, &str, &str, &str); 32] = [
    ("", "v1", "Secret", "secrets"),
    ("", "v1", "ServiceAccount", "serviceaccounts"),
    ("", "v1", "Namespace", "namespaces"),
    ("", "v1", "Event", "events"),
    ("", "v1", "Node", "nodes"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
    ("provisioning.cattle.io", "v1", "ProvisioningCluster", "clusters"),
    ("management.cattle.io", "v3", "ManagementCluster", "clusters"),
    ("management.cattle.io", "v3", "ClusterRegistrationToken", "clusterregistrationtokens"),
    ("management.cattle.io", "v3", "DynamicSchema", "dynamicschemas"),
    ("management.cattle.io", "v3", "Setting", "settings"),
    ("management.cattle.io", "v3", "NodeDriver", "nodedrivers"),
    (
        "management.cattle.io",
        "v3",
        "PodSecurityAdmissionConfigurationTemplate",
        "podsecurityadmissionconfigurationtemplates",
    ),
    ("rke.cattle.io", "v1", "RKECluster", "rkeclusters"),
    ("rke.cattle.io", "v1", "RKEControlPlane", "rkecontrolplanes"),
    ("rke.cattle.io", "v1", "RKEBootstrap", "rkebootstraps"),
    ("rke.cattle.io", "v1", "CustomMachine", "custommachines"),
    ("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"),
    ("cluster.x-k8s.io", "v1beta2", "Machine", "machines"),
    ("cluster.x-k8s.io", "v1beta2", "MachineSet", "machinesets"),
    ("cluster.x-k8s.io", "v1beta2", "MachineDeployment", "machinedeployments"),
    ("rke-machine-config.cattle.io", "v1", "ToyConfig", "toyconfigs"),
    ("rke-machine.cattle.io", "v1", "ToyMachine", "toymachines"),
    ("rke-machine.cattle.io", "v1", "ToyMachineTemplate", "toymachinetemplates"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings"),
    ("cloud.example.com", "v1", "NativeCluster", "nativeclusters"),
    ("cloud.example.com", "v1", "NativeMachine", "nativemachines"),
    ("cloud.example.com", "v1", "NativeMachineTemplate", "nativemachinetemplates"),
];

pub(crate) fn resource(kind: &str) -> ApiResource {
    if let Some((api_version, kind)) = kind.split_once(' ') {
        return foreign(api_version, kind);
    }
    let &(group, version, name, plural) = KINDS.iter().find(|one| one.2 == kind).unwrap();
    let name = if name.ends_with("Cluster") && plural == "clusters" { "Cluster" } else { name };
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: name.into(),
        plural: plural.into(),
    }
}

/// A kind that is none of ours, as `group/version Kind`.
fn foreign(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap();
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: api_version.into(),
        kind: kind.into(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

pub(crate) fn kubeconfig() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    })
}

/// A server in the process.
pub(crate) struct Server {
    instance: Instance,
    pub(crate) store: Arc<dyn Store>,
}

impl Server {
    pub(crate) async fn start(clock: &Arc<dyn Clock>, seed: u64) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
        let key = SigningKey::from_pem(include_str!("../../../apiserver/tests/data/sa.key")).unwrap();
        let entropy = Box::new(SeededEntropy::new(seed));
        let namespaces = [NAMESPACE, "cattle-system", "cattle-global-data"].map(str::to_owned).to_vec();
        let door = Arc::new(Door::default());
        let parts = Parts {
            namespaces,
            admission: vec![Arc::new(AtTheDoor(door.clone()))],
            ..Parts::new(store.clone(), clock.clone(), entropy, "-- a certificate --", key)
        };
        let server = Server { instance: Instance::start(parts).await.unwrap(), store };
        door.open(server.client("doorkeeper"));
        server
    }

    /// A client of somebody who may do only what roles say.
    pub(crate) fn client_of(&self, name: &str) -> kube::Client {
        let user = User { name: name.into(), groups: vec!["system:authenticated".into()], ..User::default() };
        kube::Client::new(self.instance.api().as_user(user), "default")
    }

    pub(crate) fn client(&self, name: &str) -> kube::Client {
        let user = User { name: name.into(), groups: vec![MASTERS.into()], ..User::default() };
        kube::Client::new(self.instance.api().as_user(user), "default")
    }
}

/// The way to the one cluster that is looked after.
struct Wire(kube::Client);

impl Dial for Wire {
    fn dial<'a>(&'a self, _: &'a Key, _: Kubeconfig) -> Dialling<'a> {
        let client = self.0.clone();
        Box::pin(async move { Ok(client) })
    }
}

/// Where clusters are written.
pub(crate) enum Management {
    Embedded(Server),
    Real(#[expect(dead_code, reason = "it ends when it is dropped")] Box<peers::Kubernetes>, kube::Client),
}

impl Management {
    fn client(&self, name: &str) -> kube::Client {
        match self {
            Management::Embedded(server) => server.client(name),
            Management::Real(_, client) => client.clone(),
        }
    }
}

/// Everything.
pub(crate) struct World {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) management: Management,
    pub(crate) downstream: Server,
    pub(crate) client: kube::Client,
    pub(crate) hold: Arc<AtomicBool>,
    pub(crate) server: watch::Sender<ServerInfo>,
    /// The agents that the server gives out.
    pub(crate) offer: Offer,
    seed: u64,
    /// What they wait for, by code.
    pub(crate) waits: Arc<controllers::controlplane::Waits>,
    /// The controllers, so that they can be stopped and started again.
    controllers: JoinSet<()>,
    _stand_ins: JoinSet<()>,
}

/// Runs a story on a runtime of its own, where time is simulated.
pub(crate) fn story<F: Future<Output = ()>>(story: impl FnOnce() -> F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(story());
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        let clock: Arc<dyn Clock> =
            Arc::new(RuntimeClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let server = Server::start(&clock, seed).await;
        World::around(Management::Embedded(server), clock, seed).await
    }

    /// A world in real time whose management cluster is a real Kubernetes.
    pub(crate) async fn on_kubernetes(kubernetes: peers::Kubernetes) -> Self {
        let kubeconfig = Kubeconfig::read_from(kubernetes.kubeconfig_path()).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
        let clock: Arc<dyn Clock> = Arc::new(clock::SystemClock);
        let client = kube::Client::try_from(config).unwrap();
        let namespaces: Api<DynamicObject> = Api::all_with(client.clone(), &resource("Namespace"));
        for name in [NAMESPACE, "cattle-system", "cattle-global-data"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let namespace = serde_json::from_value(namespace).unwrap();
            namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        }
        World::around(Management::Real(Box::new(kubernetes), client), clock, 1).await
    }

    async fn around(management: Management, clock: Arc<dyn Clock>, seed: u64) -> Self {
        let downstream = Server::start(&clock, seed + 1).await;
        let client = management.client("test");
        install(&client, api::crd::all().iter().map(|crd| json!(crd)).collect()).await;
        install(&client, provider::kinds()).await;
        let hold = Arc::new(AtomicBool::new(false));
        let provider = Provider {
            client: management.client("provider"),
            downstream: downstream.client("kubelet"),
            hold: hold.clone(),
            store: match &management {
                Management::Embedded(server) => Some(server.store.clone()),
                Management::Real(..) => None,
            },
        };
        let mut stand_ins = JoinSet::new();
        stand_ins.spawn(provider.run());
        let info = ServerInfo { url: "https://herdsman.example.com".into(), ca_certificates: "CA\n".into() };
        let mut world = World {
            clock,
            management,
            downstream,
            client,
            hold,
            server: watch::channel(info).0,
            offer: Offer::default(),
            seed,
            waits: Arc::default(),
            controllers: JoinSet::new(),
            _stand_ins: stand_ins,
        };
        world.start();
        let schema: Api<DynamicObject> = Api::all_with(world.client.clone(), &resource("DynamicSchema"));
        let fields = serde_json::from_value(provider::schema()).unwrap();
        schema.create(&PostParams::default(), &fields).await.unwrap();
        world
    }

    /// Starts the controllers, as a new process would.
    pub(crate) fn start(&mut self) {
        let client = self.management.client("controllers");
        let wire = Wire(self.downstream.client("controllers"));
        let clusters = ClusterCache::new(client.clone(), Arc::new(wire), self.clock.clone());
        let caches = kit::Caches::new(client, kit::index::entries);
        self.seed += 1000;
        let parts = controllers::Parts {
            caches: caches.clone(),
            clock: self.clock.clone(),
            entropy: Arc::new(Mutex::new(SeededEntropy::new(self.seed))),
            access: clusters.clone(),
            server: self.server.subscribe(),
            waits: self.waits.clone(),
        };
        let core = capi::Parts {
            caches,
            clock: self.clock.clone(),
            entropy: parts.entropy.clone(),
            access: clusters.clone(),
            paces: Paces::default(),
            watch_filter: None,
        };
        let installers =
            Installers { linux: "echo install".into(), offers_agent: true, ..Default::default() };
        self.controllers.spawn(capi::run(core, Some(clusters)));
        self.controllers.spawn(controllers::provisioning::run(parts.clone()));
        self.controllers.spawn(controllers::infrastructure::run(parts.clone()));
        self.controllers.spawn(controllers::bootstrap::run(parts.clone(), installers));
        self.controllers.spawn(controllers::agents::run(parts.clone(), self.offer.clone()));
        self.controllers.spawn(controllers::custom::run(parts));
    }

    /// Ends the controllers wherever they are.
    pub(crate) async fn stop(&mut self) {
        self.controllers.shutdown().await;
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        self.api_in(kind, NAMESPACE)
    }

    pub(crate) fn api_in(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let alone = [
            "Namespace",
            "ManagementCluster",
            "DynamicSchema",
            "Setting",
            "CustomResourceDefinition",
            "ClusterRole",
            "ClusterRoleBinding",
            "PodSecurityAdmissionConfigurationTemplate",
        ];
        match alone.contains(&kind) {
            true => Api::all_with(self.client.clone(), &resource(kind)),
            false => Api::namespaced_with(self.client.clone(), namespace, &resource(kind)),
        }
    }

    pub(crate) async fn create(&self, kind: &str, name: &str, rest: Value) {
        self.try_create(kind, name, rest).await.unwrap();
    }

    pub(crate) async fn try_create(&self, kind: &str, name: &str, rest: Value) -> Result<(), kube::Error> {
        let resource = resource(kind);
        let mut document =
            json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}});
        merge(&mut document, &rest);
        let document = serde_json::from_value(document).unwrap();
        self.api(kind).create(&PostParams::default(), &document).await.map(drop)
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
        for _ in 0..seconds * 2 {
            match so().await {
                Ok(()) => return,
                Err(now) => last = now,
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("{what}: not after {seconds} s: {last}");
    }

    /// Waits until a condition of an object says something.
    pub(crate) async fn condition(&self, kind: &str, name: &str, type_: &str, status: &str, words: &str) {
        self.until(900, &format!("{kind} {name}: {type_} {status} {words:?}"), async || {
            let object = self.find(kind, name).await.unwrap_or_default();
            let found = condition(&object, type_);
            let said = format!("{} {}", found["reason"], found["message"]);
            let so = found["status"] == status && said.contains(words);
            if so { Ok(()) } else { Err(object["status"].to_string()) }
        })
        .await;
    }

    pub(crate) async fn gone(&self, kind: &str, name: &str) {
        self.until(900, &format!("the end of {kind} {name}"), async || match self.find(kind, name).await {
            None => Ok(()),
            Some(left) => Err(left.to_string()),
        })
        .await;
    }

    pub(crate) async fn sleep(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// The revision of the management cluster's store.
    pub(crate) fn revision(&self) -> i64 {
        match &self.management {
            Management::Embedded(server) => server.store.view().head().0,
            Management::Real(..) => panic!("a real Kubernetes does not show its store"),
        }
    }

    /// A machine config of the driver `toy`.
    pub(crate) async fn config(&self, name: &str, size: &str) {
        self.create("ToyConfig", name, json!({"size": size})).await;
    }

    /// A cluster with two pools: `servers` servers, `workers` workers.
    pub(crate) async fn cluster(&self, name: &str, servers: i32, workers: i32) {
        let (first, second) = (format!("{name}-servers"), format!("{name}-workers"));
        self.config(&first, "small").await;
        self.config(&second, "small").await;
        self.create("ProvisioningCluster", name, two_pools(name, servers, workers)).await;
    }

    /// Waits until a pool has as many machines as asked for, all of them available and up to date.
    pub(crate) async fn pool_ready(&self, name: &str, replicas: i64) {
        self.until(300, &format!("pool {name} with {replicas}"), async || {
            let Some(pool) = self.find("MachineDeployment", name).await else { return Err("none".into()) };
            let status = &pool["status"];
            let all = ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"];
            let ready = all.iter().all(|field| status[*field] == replicas)
                && status["observedGeneration"] == pool["metadata"]["generation"];
            let machines = self.machines(name).await;
            if ready && machines.len() == usize::try_from(replicas).unwrap() {
                Ok(())
            } else {
                let clusters = self.list("Cluster").await;
                let clusters: Vec<&Value> = clusters.iter().map(|one| &one["status"]["conditions"]).collect();
                let machines: Vec<Value> = machines
                    .iter()
                    .map(|one| json!([one["metadata"]["name"], one["status"]["conditions"]]))
                    .collect();
                Err(format!("{status}\n{}\n{}", json!(machines), json!(clusters)))
            }
        })
        .await;
    }

    /// The machines of a pool.
    pub(crate) async fn machines(&self, deployment: &str) -> Vec<Value> {
        let options = ListParams::default().labels(&format!("cluster.x-k8s.io/deployment-name={deployment}"));
        let list = self.api("Machine").list(&options).await.unwrap();
        list.items.iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    /// Everything that there is, but for events and leases: kind, namespace and name of each.
    pub(crate) async fn everything(&self) -> Vec<String> {
        let mut all = Vec::new();
        let found = kube::discovery::Discovery::new(self.client.clone()).run().await.unwrap();
        for group in found.groups() {
            for (resource, capabilities) in group.recommended_resources() {
                let skipped = ["Event", "Lease", "ComponentStatus", "CustomResourceDefinition"];
                if !capabilities.supports_operation("list") || skipped.contains(&resource.kind.as_str()) {
                    continue;
                }
                let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
                for object in api.list(&ListParams::default()).await.unwrap() {
                    let namespace = object.metadata.namespace.unwrap_or_default();
                    all.push(format!("{} {namespace}/{}", resource.kind, object.metadata.name.unwrap()));
                }
            }
        }
        all.sort();
        all
    }
}

/// The document of a cluster with two pools.
pub(crate) fn two_pools(name: &str, servers: i32, workers: i32) -> Value {
    let pool = |pool: &str, quantity: i32, server: bool| {
        json!({
            "name": pool, "quantity": quantity, "etcdRole": server, "controlPlaneRole": server, "workerRole": !server,
            "machineConfigRef": {"kind": "ToyConfig", "name": format!("{name}-{pool}")}
        })
    };
    json!({"metadata": {"namespace": NAMESPACE}, "spec": {
        "kubernetesVersion": "v1.34.1+k3s1",
        "rkeConfig": {"machinePools": [pool("servers", servers, true), pool("workers", workers, false)]}
    }})
}

pub(crate) fn condition(object: &Value, type_: &str) -> Value {
    let listed = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    listed.into_iter().find(|one| one["type"] == type_).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Merges `patch` into `onto`.
pub(crate) fn merge(onto: &mut Value, patch: &Value) {
    match patch.as_object() {
        None => onto.clone_from(patch),
        Some(patch) => {
            if !onto.is_object() {
                *onto = json!({});
            }
            patch.iter().for_each(|(key, value)| merge(&mut onto[key], value));
        }
    }
}

/// Installs CRDs and waits until they are served.
pub(crate) async fn install(client: &kube::Client, definitions: Vec<Value>) {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource("CustomResourceDefinition"));
    for definition in &definitions {
        let definition = serde_json::from_value(definition.clone()).unwrap();
        api.create(&PostParams::default(), &definition).await.unwrap();
    }
    for definition in &definitions {
        let name = definition["metadata"]["name"].as_str().unwrap();
        for attempt in 0.. {
            let found = api.get(name).await.unwrap();
            let conditions = found.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True") {
                break;
            }
            assert!(attempt < 300, "{name} is not served: {conditions:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
