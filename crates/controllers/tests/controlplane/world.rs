//! A management cluster, a cluster that is looked after, controllers, machines, and stand-ins for the other providers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::catalogue::{annotations, labels, secrets};
use api::rke::v1::RKEControlPlaneSpec;
use apiserver::auth::SigningKey;
use apiserver::instance::{Instance, Parts};
use apiserver::store::{MemoryStore, Options, Store};
use capi::{ClusterCache, Paces};
use clock::{Clock, RuntimeClock, SeededEntropy};
use controllers::controlplane::{Settings, Waits};
use controllers::{ServerInfo, controlplane};
use kit::Key;
use kit::access::{Dial, DialError, Dialling};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kubeapi::authn::{MASTERS, User};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::computer::{self, Computer, Truth};
use crate::faults::Faults;

pub(crate) const NAMESPACE: &str = "fleet-default";
pub(crate) const ID: &str = "c-m-w2bfx9xq";

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

/// The kinds of the management cluster that stories speak of.
pub(crate) fn kind(kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    match kind {
        "Secret" | "Event" | "ConfigMap" => resource("", "v1", kind, &plural),
        "Cluster" | "Machine" | "MachineDeployment" => resource("cluster.x-k8s.io", "v1beta2", kind, &plural),
        "RKEControlPlane" | "RKEBootstrap" | "CustomMachine" | "RKECluster" => {
            resource("rke.cattle.io", "v1", kind, &plural)
        }
        "Beacon" => resource("plan.cattle.io", "v1alpha1", kind, &plural),
        other => panic!("no kind {other}"),
    }
}

struct Server {
    instance: Instance,
    store: Arc<dyn Store>,
}

impl Server {
    async fn start(clock: &Arc<dyn Clock>, seed: u64) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
        let key = SigningKey::from_pem(include_str!("../../../apiserver/tests/data/sa.key")).unwrap();
        let entropy = Box::new(SeededEntropy::new(seed));
        let parts = Parts::new(store.clone(), clock.clone(), entropy, "-- a certificate --", key);
        Server { instance: Instance::start(parts).await.unwrap(), store }
    }

    fn service(&self, name: &str) -> apiserver::http::AsUser {
        let user = User { name: name.into(), groups: vec![MASTERS.into()], ..User::default() };
        self.instance.api().as_user(user)
    }

    fn client(&self, name: &str) -> kube::Client {
        kube::Client::new(self.service(name), "default")
    }
}

/// The way to the cluster: open while it serves.
struct Wire {
    client: kube::Client,
    truth: Arc<Mutex<Truth>>,
}

impl Dial for Wire {
    fn dial<'a>(&'a self, _: &'a Key, kubeconfig: Kubeconfig) -> Dialling<'a> {
        Box::pin(async move {
            let server = kubeconfig.clusters[0].cluster.clone().unwrap().server.unwrap();
            assert_eq!(server, format!("https://herdsman.example.com/k8s/clusters/{ID}"));
            if !self.truth.lock().unwrap().serves() {
                return Err(DialError::Kubeconfig("nobody answers".into()));
            }
            Ok(self.client.clone())
        })
    }
}

/// Everything.
pub(crate) struct World {
    pub(crate) clock: Arc<dyn Clock>,
    management: Server,
    downstream: Server,
    pub(crate) client: kube::Client,
    pub(crate) truth: Arc<Mutex<Truth>>,
    pub(crate) faults: Faults,
    pub(crate) waits: Arc<Waits>,
    server: watch::Sender<ServerInfo>,
    access: Arc<ClusterCache>,
    running: JoinSet<()>,
    computers: BTreeMap<String, AbortHandle>,
    control_plane: Option<AbortHandle>,
    starts: u64,
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
        let management = Server::start(&clock, seed).await;
        let downstream = Server::start(&clock, seed + 1).await;
        let client = management.client("test");
        install(&client).await;
        let truth: Arc<Mutex<Truth>> = Arc::default();
        let wire = Wire { client: downstream.client("controllers"), truth: truth.clone() };
        let capi_client = management.client("capi");
        let access = ClusterCache::new(capi_client.clone(), Arc::new(wire), clock.clone());
        let parts = capi::Parts {
            caches: kit::Caches::new(capi_client, capi::entries),
            clock: clock.clone(),
            entropy: Arc::new(Mutex::new(SeededEntropy::new(seed))),
            access: access.clone(),
            paces: Paces::default(),
            watch_filter: None,
        };
        let mut running = JoinSet::new();
        running.spawn(capi::run(parts, Some(access.clone())));
        running.spawn(computer::etcd(truth.clone(), downstream.client("k3s")));
        running.spawn(computer::kubelets(downstream.client("kubelets")));
        running.spawn(providers(management.client("providers"), truth.clone()));
        let info =
            ServerInfo { url: "https://herdsman.example.com".into(), ca_certificates: "-- pem --\n".into() };
        let mut world = World {
            clock,
            client,
            truth,
            faults: Faults::new(seed),
            waits: Arc::default(),
            server: watch::channel(info).0,
            access,
            running,
            computers: BTreeMap::new(),
            control_plane: None,
            starts: seed,
            management,
            downstream,
        };
        world.restart();
        world
    }

    /// Stops the server: the controller ends wherever it is, and no agent reaches the API any more.
    pub(crate) fn stop(&mut self) {
        self.truth.lock().unwrap().stopped = true;
        if let Some(running) = self.control_plane.take() {
            running.abort();
        }
    }

    /// Ends the control plane controller, wherever it is, and starts another one.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.truth.lock().unwrap().stopped = false;
        self.starts += 1;
        let service = self.faults.over(self.management.service("controllers"));
        let parts = controllers::Parts {
            caches: kit::Caches::new(kube::Client::new(service, "default"), kit::index::entries),
            clock: self.clock.clone(),
            entropy: Arc::new(Mutex::new(SeededEntropy::new(self.starts))),
            access: self.access.clone(),
            server: self.server.subscribe(),
            waits: self.waits.clone(),
        };
        let settings = Settings { waits: self.waits.clone(), ..Settings::default() };
        self.control_plane = Some(self.running.spawn(controlplane::run(parts, settings)));
    }

    pub(crate) fn api(&self, of: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &kind(of))
    }

    pub(crate) fn nodes(&self) -> Api<DynamicObject> {
        Api::all_with(self.downstream.client("test"), &resource("", "v1", "Node", "nodes"))
    }

    pub(crate) fn downstream(&self) -> kube::Client {
        self.downstream.client("test")
    }

    pub(crate) async fn create(&self, of: &str, name: &str, rest: Value) {
        create(&self.api(of), &kind(of), name, rest).await;
    }

    pub(crate) async fn find(&self, of: &str, name: &str) -> Option<Value> {
        self.api(of).get_opt(name).await.unwrap().map(|object| serde_json::to_value(object).unwrap())
    }

    pub(crate) async fn get(&self, of: &str, name: &str) -> Value {
        self.find(of, name).await.unwrap_or_else(|| panic!("no {of} {name}"))
    }

    pub(crate) async fn list(&self, of: &str) -> Vec<Value> {
        let list = self.api(of).list(&ListParams::default()).await.unwrap();
        list.items.iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    pub(crate) async fn patch(&self, of: &str, name: &str, patch: Value) {
        self.api(of).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self, of: &str, name: &str) {
        self.api(of).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Switches a Feature on.
    pub(crate) async fn feature(&self, name: &str) {
        let features = resource("management.cattle.io", "v3", "Feature", "features");
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &features);
        create(&all, &features, name, json!({"spec": {"value": true}})).await;
    }

    /// A cluster as the provisioning controllers leave it.
    pub(crate) async fn cluster(&self, name: &str, version: &str, more: Value) {
        let management = resource("management.cattle.io", "v3", "Cluster", "clusters");
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &management);
        let owner = json!({"annotations": {"herdsman.io/owner": format!("{NAMESPACE}/{name}/")}});
        create(&all, &management, ID, json!({"metadata": owner, "spec": {"displayName": name}})).await;
        let namespaces = resource("", "v1", "Namespace", "namespaces");
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &namespaces);
        create(&all, &namespaces, ID, json!({})).await;
        let tokens =
            resource("management.cattle.io", "v3", "ClusterRegistrationToken", "clusterregistrationtokens");
        let of_token: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), ID, &tokens);
        create(&of_token, &tokens, "default-token", json!({"spec": {"clusterName": ID}})).await;
        let secrets: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), ID, &kind("Secret"));
        let token = json!({"stringData": {"token": "registration"}});
        create(&secrets, &kind("Secret"), "crt-token-default-token", token).await;
        self.control_plane(name, version, more).await;
    }

    /// The part of a cluster that is in its own namespace: whoever may write there can make it, with the id of any management cluster.
    pub(crate) async fn control_plane(&self, name: &str, version: &str, more: Value) {
        self.create(
            "RKECluster",
            name,
            json!({"spec": {"controlPlaneEndpoint": {"host": "localhost", "port": 6443}}}),
        )
        .await;
        let provisioned = json!({"status": {"initialization": {"provisioned": true}}});
        self.api("RKECluster")
            .patch_status(name, &PatchParams::default(), &Patch::Merge(provisioned))
            .await
            .unwrap();
        let mut spec =
            json!({"spec": {"clusterName": name, "managementClusterName": ID, "kubernetesVersion": version}});
        merge(&mut spec, &more);
        self.create("RKEControlPlane", name, spec).await;
        let reference = |kind: &str| json!({"apiGroup": "rke.cattle.io", "kind": kind, "name": name});
        self.create(
            "Cluster",
            name,
            json!({"spec": {"infrastructureRef": reference("RKECluster"), "controlPlaneRef": reference("RKEControlPlane")}}),
        )
        .await;
    }

    /// The management cluster of the cluster.
    pub(crate) async fn management_cluster(&self) -> Value {
        let management = resource("management.cattle.io", "v3", "Cluster", "clusters");
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &management);
        serde_json::to_value(all.get(ID).await.unwrap()).unwrap()
    }

    /// A machine that registers by hand.
    pub(crate) async fn machine(&mut self, cluster: &str, name: &str, roles: &[&'static str]) {
        let mut words = json!({
            labels::CLUSTER_NAME: cluster, labels::CAPI_CLUSTER_NAME: cluster, labels::MACHINE_ID: format!("id-{name}"),
            labels::NODE_NAME: name,
        });
        let mut notes = json!({});
        for role in roles {
            match *role {
                "etcd" => {
                    words[labels::ETCD_ROLE] = "true".into();
                    notes[annotations::PRE_TERMINATE_BOOTSTRAP_CLEANUP] = "rke-bootstrap-controller".into();
                }
                "control-plane" => {
                    words[labels::CONTROL_PLANE_ROLE] = "true".into();
                    words[labels::CAPI_CONTROL_PLANE] = "true".into();
                }
                "worker" => words[labels::WORKER_ROLE] = "true".into(),
                other => panic!("no role {other}"),
            }
        }
        let metadata = json!({"metadata": {"labels": words}});
        let mut bootstrap = metadata.clone();
        bootstrap["spec"] = json!({"clusterName": cluster});
        self.create("RKEBootstrap", name, bootstrap).await;
        self.create("CustomMachine", name, metadata.clone()).await;
        let reference = |kind: &str| json!({"apiGroup": "rke.cattle.io", "kind": kind, "name": name});
        let machine = json!({
            "metadata": {"labels": words, "annotations": notes},
            "spec": {"clusterName": cluster, "bootstrap": {"configRef": reference("RKEBootstrap")},
                "infrastructureRef": reference("CustomMachine")}
        });
        self.create("Machine", name, machine).await;
        let computer = Computer {
            name: name.into(),
            roles: roles.to_vec(),
            clock: self.clock.clone(),
            truth: self.truth.clone(),
            management: self.management.client(&format!("agent-{name}")),
            downstream: self.downstream.client(&format!("kubelet-{name}")),
        };
        self.computers.insert(name.into(), self.running.spawn(computer.run()));
    }

    /// Waits until something is so; says what it is now if it never is.
    pub(crate) async fn until<F: Future<Output = Result<(), String>>>(
        &self,
        seconds: u64,
        what: &str,
        so: impl Fn() -> F,
    ) {
        let mut last = String::new();
        for _ in 0..seconds {
            match so().await {
                Ok(()) => return,
                Err(now) => last = now,
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let log = self.faults.log.lock().unwrap();
        let written = &log[log.len().saturating_sub(12)..];
        panic!("{what}: not after {seconds} s: {last}; {} writes, the last ones {written:?}", log.len());
    }

    /// What a condition of the control plane says.
    pub(crate) async fn says(&self, cluster: &str, type_: &str) -> Value {
        let object = self.find("RKEControlPlane", cluster).await.unwrap_or_default();
        let listed = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        listed.into_iter().find(|one| one["type"] == type_).unwrap_or_default()
    }

    /// Waits until the spec as it is has reached every node.
    pub(crate) async fn reconciled(&self, cluster: &str) {
        self.until(900, &format!("{cluster} is reconciled"), async || {
            let object = self.get("RKEControlPlane", cluster).await;
            let spec = |value: &Value| serde_json::from_value::<RKEControlPlaneSpec>(value.clone()).ok();
            let applied = spec(&object["status"]["appliedSpec"]) == spec(&object["spec"]);
            let ready = self.says(cluster, "Ready").await;
            let generation = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            match ready["status"] == "True" && applied && generation {
                true => Ok(()),
                false => Err(format!("{ready} applied={applied} {:?}", self.waits.counts())),
            }
        })
        .await;
        let truth = self.truth.lock().unwrap();
        assert_eq!(truth.wrong, Vec::<String>::new());
    }

    pub(crate) async fn gone(&self, of: &str, name: &str) {
        self.until(1800, &format!("{of} {name} is gone"), async || match self.find(of, name).await {
            None => Ok(()),
            Some(found) => Err(format!("{} {}", found["metadata"], found["status"])),
        })
        .await;
    }

    pub(crate) async fn sleep(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// The revisions of both stores.
    pub(crate) fn revisions(&self) -> (i64, i64) {
        (self.management.store.view().head().0, self.downstream.store.view().head().0)
    }
}

pub(crate) async fn create(api: &Api<DynamicObject>, kind: &ApiResource, name: &str, rest: Value) {
    let mut document = json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}});
    merge(&mut document, &rest);
    api.create(&PostParams::default(), &serde_json::from_value(document).unwrap()).await.unwrap();
}

pub(crate) fn merge(onto: &mut Value, patch: &Value) {
    match patch.as_object() {
        None => onto.clone_from(patch),
        Some(patch) => {
            if onto.is_null() {
                *onto = json!({});
            }
            patch.iter().for_each(|(key, value)| merge(&mut onto[key], value));
        }
    }
}

async fn install(client: &kube::Client) {
    let kind =
        resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    for definition in api::crd::all() {
        let definition = serde_json::from_value(json!(definition)).unwrap();
        api.create(&PostParams::default(), &definition).await.unwrap();
    }
    let kind = resource("", "v1", "Namespace", "namespaces");
    create(&Api::all_with(client.clone(), &kind), &kind, NAMESPACE, json!({})).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// The bootstrap provider, the provider of custom machines, and the gateway, as small as can be.
async fn providers(client: kube::Client, truth: Arc<Mutex<Truth>>) {
    let api = |of: &str| -> Api<DynamicObject> { Api::namespaced_with(client.clone(), NAMESPACE, &kind(of)) };
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for bootstrap in api("RKEBootstrap").list(&ListParams::default()).await.unwrap().items {
            bootstrapped(&api("Secret"), &api("RKEBootstrap"), &bootstrap).await;
        }
        for machine in api("CustomMachine").list(&ListParams::default()).await.unwrap().items {
            custom(&api("CustomMachine"), &machine).await;
        }
        let serves = truth.lock().unwrap().serves();
        connected(&client, serves).await;
    }
}

async fn bootstrapped(secrets: &Api<DynamicObject>, api: &Api<DynamicObject>, bootstrap: &DynamicObject) {
    let name = bootstrap.metadata.name.clone().unwrap();
    let owned = bootstrap.metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
    if !owned
        || bootstrap.metadata.deletion_timestamp.is_some()
        || bootstrap.data["status"]["dataSecretName"].is_string()
    {
        return;
    }
    let owner = json!([{"apiVersion": "rke.cattle.io/v1", "kind": "RKEBootstrap", "name": name, "uid": bootstrap.metadata.uid, "controller": true}]);
    let mut words = json!(bootstrap.metadata.labels);
    words[labels::MACHINE_NAME] = name.clone().into();
    let plan = api::names::plan_secret(api::names::Bootstrap(&name));
    let secret = json!({"metadata": {"labels": words, "ownerReferences": owner}, "type": secrets::types::MACHINE_PLAN});
    create(secrets, &kind("Secret"), &plan, secret).await;
    let data = api::names::bootstrap_secret(api::names::Bootstrap(&name));
    create(
        secrets,
        &kind("Secret"),
        &data,
        json!({"metadata": {"ownerReferences": owner}, "stringData": {"value": "#!"}}),
    )
    .await;
    let status = json!({"status": {"dataSecretName": data, "initialization": {"dataSecretCreated": true}}});
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

async fn custom(api: &Api<DynamicObject>, machine: &DynamicObject) {
    let (name, status) = (machine.metadata.name.clone().unwrap(), &machine.data["status"]);
    let joined = machine.data["spec"]["providerID"].is_string();
    if status["conditions"].is_array() && (!joined || status["initialization"]["provisioned"] == true) {
        return;
    }
    let mut patch = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    if joined {
        patch["status"]["initialization"] = json!({"provisioned": true});
    }
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn connected(client: &kube::Client, serves: bool) {
    let management = resource("management.cattle.io", "v3", "Cluster", "clusters");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &management);
    let Some(cluster) = api.get_opt(ID).await.unwrap() else { return };
    let word = if serves { "True" } else { "False" };
    let mut listed = cluster.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_it = |one: &Value| one["type"] == "Connected";
    let found = listed.iter().find(|one| is_it(one)).and_then(|one| one["status"].as_str());
    if found != Some(word) && (serves || found.is_some()) {
        listed.retain(|one| !is_it(one));
        listed.push(json!({"type": "Connected", "status": word}));
        let patch = json!({"status": {"conditions": listed}});
        api.patch_status(ID, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}
