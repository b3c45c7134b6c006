//! A management cluster, a cluster that is looked after, providers and controllers, on one thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver::auth::SigningKey;
use apiserver::instance::{Instance, Parts};
use apiserver::store::{MemoryStore, Options, Store};
use capi::{ClusterCache, Paces};
use clock::{Clock, RuntimeClock, SeededEntropy};
use kit::Key;
use kit::access::{Dial, DialError, Dialling};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kubeapi::authn::{MASTERS, User};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::cost::Writes;
use crate::provider::{self, Provider, Speaks, plural};

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
        let parts = Parts::new(store.clone(), clock.clone(), entropy, "-- a certificate --", key);
        Server { instance: Instance::start(parts).await.unwrap(), store }
    }

    pub(crate) fn client(&self, name: &str) -> kube::Client {
        kube::Client::new(self.service(name), "default")
    }

    fn service(&self, name: &str) -> apiserver::http::AsUser {
        let user = User { name: name.into(), groups: vec![MASTERS.into()], ..User::default() };
        self.instance.api().as_user(user)
    }
}

/// The way to the one cluster that is looked after. It can be cut.
pub(crate) struct Wire {
    client: kube::Client,
    pub(crate) down: Arc<AtomicBool>,
    /// The token that is good now; a kubeconfig with another one is not accepted.
    pub(crate) token: Arc<Mutex<String>>,
}

impl Dial for Wire {
    fn dial<'a>(&'a self, _: &'a Key, kubeconfig: Kubeconfig) -> Dialling<'a> {
        let (client, down, good) = (self.client.clone(), self.down.clone(), self.token.clone());
        Box::pin(async move {
            let written = serde_json::to_value(&kubeconfig).unwrap();
            let given = written["users"][0]["user"]["token"].as_str().unwrap_or_default().to_owned();
            if down.load(Ordering::Relaxed) {
                return Err(DialError::Kubeconfig("the wire is cut".into()));
            }
            Ok(kube::Client::new(crate::world::cut::Cut { client, down, given, good }, "default"))
        })
    }
}

mod cut {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll};

    use kube::client::Body;

    /// A client whose requests fail while the wire is cut, or the token is not good.
    #[derive(Clone)]
    pub(crate) struct Cut {
        pub(crate) client: kube::Client,
        pub(crate) down: Arc<AtomicBool>,
        pub(crate) given: String,
        pub(crate) good: Arc<Mutex<String>>,
    }

    impl tower::Service<http::Request<Body>> for Cut {
        type Response = http::Response<Body>;
        type Error = std::io::Error;
        type Future = Pin<Box<dyn Future<Output = Result<Self::Response, std::io::Error>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            let (client, down) = (self.client.clone(), self.down.load(Ordering::Relaxed));
            let accepted = *self.good.lock().unwrap() == self.given;
            Box::pin(async move {
                if down {
                    return Err(std::io::ErrorKind::ConnectionReset.into());
                }
                if !accepted {
                    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Unauthorized", "code": 401});
                    let body = Body::from(serde_json::to_vec(&status).unwrap());
                    return Ok(http::Response::builder().status(401).body(body).unwrap());
                }
                client.send(request).await.map_err(std::io::Error::other)
            })
        }
    }
}

/// Where Clusters and Machines are.
pub(crate) enum Management {
    Embedded(Server),
    Real(#[expect(dead_code, reason = "it ends when it is dropped")] Box<peers::Kubernetes>, kube::Client),
}

impl Management {
    pub(crate) fn client(&self, name: &str) -> kube::Client {
        match self {
            Management::Embedded(server) => server.client(name),
            Management::Real(_, client) => client.clone(),
        }
    }

    /// The store of an embedded one.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        match self {
            Management::Embedded(server) => &server.store,
            Management::Real(..) => panic!("a real Kubernetes does not show its store"),
        }
    }
}

/// Everything.
pub(crate) struct World {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) management: Management,
    pub(crate) downstream: Server,
    pub(crate) client: kube::Client,
    pub(crate) speaks: Speaks,
    pub(crate) down: Arc<AtomicBool>,
    pub(crate) token: Arc<Mutex<String>>,
    /// The provider does nothing while this is set.
    pub(crate) hold: Arc<AtomicBool>,
    /// What the controllers write to the management cluster.
    pub(crate) writes: Writes,
    running: JoinSet<()>,
}

/// Runs a story on a runtime of its own, where time is simulated.
pub(crate) fn story<F: Future<Output = ()>>(story: impl FnOnce() -> F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(story());
}

impl World {
    pub(crate) async fn new(speaks: Speaks, seed: u64) -> Self {
        let world = World::without_provider(speaks, seed).await;
        world.with_provider().await
    }

    /// A world in which the provider's kinds are not there yet.
    pub(crate) async fn without_provider(speaks: Speaks, seed: u64) -> Self {
        let clock: Arc<dyn Clock> =
            Arc::new(RuntimeClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let server = Server::start(&clock, seed).await;
        World::around(Management::Embedded(server), clock, speaks, seed).await
    }

    /// A world in real time whose management cluster is a real Kubernetes.
    pub(crate) async fn on_kubernetes(kubernetes: peers::Kubernetes, speaks: Speaks) -> Self {
        let kubeconfig = Kubeconfig::read_from(kubernetes.kubeconfig_path()).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
        let clock: Arc<dyn Clock> = Arc::new(clock::SystemClock);
        let client = kube::Client::try_from(config).unwrap();
        let world = World::around(Management::Real(Box::new(kubernetes), client), clock, speaks, 1).await;
        world.with_provider().await
    }

    async fn around(management: Management, clock: Arc<dyn Clock>, speaks: Speaks, seed: u64) -> Self {
        let downstream = Server::start(&clock, seed + 1).await;
        let client = management.client("test");
        let ours = |crd: &Value| crd["spec"]["group"] == "cluster.x-k8s.io";
        install(&client, api::crd::all().iter().map(|crd| json!(crd)).filter(ours).collect()).await;
        let (down, token) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new("first".to_owned())));
        let wire =
            Wire { client: downstream.client("controllers"), down: down.clone(), token: token.clone() };
        let writes = Writes::default();
        let controllers = match &management {
            Management::Embedded(server) => {
                kube::Client::new(writes.counting(server.service("controllers")), "default")
            }
            Management::Real(_, client) => client.clone(),
        };
        let clusters = ClusterCache::new(controllers.clone(), Arc::new(wire), clock.clone());
        let parts = capi::Parts {
            caches: kit::Caches::new(controllers, capi::entries),
            clock: clock.clone(),
            entropy: Arc::new(Mutex::new(SeededEntropy::new(seed))),
            access: clusters.clone(),
            paces: Paces::default(),
            watch_filter: None,
        };
        let mut running = JoinSet::new();
        running.spawn(capi::run(parts, Some(clusters)));
        let hold = Arc::new(AtomicBool::new(false));
        World { clock, management, downstream, client, speaks, down, token, hold, writes, running }
    }

    pub(crate) async fn with_provider(mut self) -> Self {
        install(&self.client, provider::definitions(self.speaks)).await;
        let provider = Provider {
            speaks: self.speaks,
            client: self.management.client("provider"),
            downstream: self.downstream.client("kubelet"),
            hold: self.hold.clone(),
        };
        self.running.spawn(provider.run());
        self
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "default", &self.resource(kind))
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
        let client = self.downstream.client("test");
        match kind {
            "Node" => Api::all_with(client, &resource("", "v1", "Node", "nodes")),
            "Pod" => Api::namespaced_with(client, "default", &resource("", "v1", "Pod", "pods")),
            kind => panic!("{kind}"),
        }
    }

    pub(crate) async fn create(&self, kind: &str, name: &str, rest: Value) {
        let resource = self.resource(kind);
        let mut document = json!({"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}});
        api_merge(&mut document, &rest);
        self.api(kind)
            .create(&PostParams::default(), &serde_json::from_value(document).unwrap())
            .await
            .unwrap();
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

    /// The revision of the management cluster's store.
    pub(crate) fn revision(&self) -> i64 {
        self.management.store().view().head().0
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
        self.create("TestMachine", &format!("{name}-server"), json!({})).await;
        self.create("Machine", &format!("{name}-server"), json!({
            "metadata": {"labels": {"cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/control-plane-name": name}},
            "spec": {
                "clusterName": name, "version": "v1.34.1", "bootstrap": {"dataSecretName": "given"},
                "infrastructureRef": {"apiGroup": group, "kind": "TestMachine", "name": format!("{name}-server")}
            }
        }))
        .await;
        self.field("Cluster", name, "/status/phase", "Provisioned".into()).await;
    }

    pub(crate) async fn kubeconfig(&self, name: &str, token: &str) {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
        });
        let secret = format!("{name}-kubeconfig");
        let data = json!({"stringData": {"value": kubeconfig.to_string()}});
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
        let options = ListParams::default().labels(&format!("pool={pool}"));
        let list = self.api("Machine").list(&options).await.unwrap();
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

async fn install(client: &kube::Client, definitions: Vec<Value>) {
    let api: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
    );
    for definition in definitions {
        api.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
}
