//! What is measured.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capi::{ClusterCache, Paces};
use clock::{Clock, Monotonic, SystemClock, SystemEntropy};
use kit::access::{Dial, Dialling};
use kit::{Caches, Key, KindId, Object};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::config::{AuthInfo, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::kinds::definitions;
use crate::provider::{CLUSTER, Provider, SPEAKS, kind};

/// How long anything may take.
const LONGEST: Duration = Duration::from_secs(1800);

fn ours(kind: &str) -> KindId {
    KindId::new("cluster.x-k8s.io", "v1beta2", kind, &format!("{}s", kind.to_lowercase()))
}

fn connect(url: &str, name: &str) -> Client {
    let mut config = Config::new(url.parse().unwrap());
    config.auth_info = AuthInfo { token: Some(name.to_owned().into()), ..AuthInfo::default() };
    Client::try_from(config).unwrap()
}

/// Writes of the controllers, by method and resource.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<BTreeMap<String, usize>>>);

impl Writes {
    fn counting(&self, client: Client) -> Client {
        let writes = self.0.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            if request.method() != http::Method::GET {
                let mut parts =
                    request.uri().path().split('/').skip_while(|part| *part != "namespaces").skip(2);
                // Nodes are in no namespace, and all else is.
                let what = format!("{} {}", request.method(), parts.next().unwrap_or("nodes"));
                *writes.lock().unwrap().entry(what).or_default() += 1;
            }
            let client = client.clone();
            async move { client.send(request).await.map_err(std::io::Error::other) }
        });
        Client::new(service, "default")
    }

    /// What was written since the last time.
    fn take(&self) -> BTreeMap<String, usize> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// All clusters' nodes are on one server: each cluster sees its own.
struct Wires {
    nodes: String,
    writes: Writes,
}

impl Dial for Wires {
    fn dial<'a>(&'a self, cluster: &'a Key, _: Kubeconfig) -> Dialling<'a> {
        let (client, name) =
            (self.writes.counting(connect(&self.nodes, &cluster.name)), cluster.name.clone());
        let service = tower::service_fn(move |mut request: http::Request<Body>| {
            if request.method() == http::Method::GET && request.uri().path() == "/api/v1/nodes" {
                let query = request.uri().query().unwrap_or_default();
                let own = format!("/api/v1/nodes?{query}&labelSelector={CLUSTER}%3D{name}");
                *request.uri_mut() = own.parse().unwrap();
            }
            let client = client.clone();
            async move { client.send(request).await.map_err(std::io::Error::other) }
        });
        Box::pin(async move { Ok(Client::new(service, "default")) })
    }
}

struct Herd {
    client: Client,
    caches: Caches,
    writes: Writes,
    /// The same of what is written to the clusters.
    node_writes: Writes,
}

impl Herd {
    async fn start([url, nodes]: [&str; 2]) -> Self {
        let client = connect(url, "test");
        let definition = KindId::new(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        );
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &definition.resource());
        let all = api::crd::all();
        let own = all.iter().map(|crd| json!(crd)).filter(|crd| crd["spec"]["group"] == "cluster.x-k8s.io");
        for definition in own.chain(definitions(SPEAKS)) {
            api.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
        }
        let writes = Writes::default();
        let controllers = writes.counting(connect(url, "controllers"));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let node_writes = Writes::default();
        let wires = Wires { nodes: nodes.to_owned(), writes: node_writes.clone() };
        let clusters = ClusterCache::new(controllers.clone(), Arc::new(wires), clock.clone());
        let caches = Caches::new(controllers, capi::entries);
        let parts = capi::Parts {
            caches: caches.clone(),
            clock,
            entropy: Arc::new(Mutex::new(SystemEntropy)),
            access: clusters.clone(),
            paces: Paces::default(),
            watch_filter: None,
        };
        tokio::spawn(capi::run(parts, Some(clusters)));
        let (provider, nodes) = (connect(url, "provider"), connect(nodes, "provider"));
        let provider = Provider { client: provider, caches: caches.clone(), nodes };
        tokio::spawn(provider.run());
        Herd { client, caches, writes, node_writes }
    }

    async fn create(&self, kind: &KindId, name: &str, rest: Value) {
        let mut document = rest;
        document["apiVersion"] = kind.api_version().into();
        document["kind"] = kind.kind.clone().into();
        document["metadata"]["name"] = name.into();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", &kind.resource());
        api.create(&PostParams::default(), &serde_json::from_value(document).unwrap()).await.unwrap();
    }

    /// A cluster with a server, and a pool of workers.
    async fn cluster(&self, name: &str, workers: usize, surge: Value) {
        let reference =
            |kind: &str, name: &str| json!({"apiGroup": SPEAKS.group(), "kind": kind, "name": name});
        let server = format!("{name}-server");
        self.create(&kind("TestCluster"), name, json!({})).await;
        self.create(&kind("TestControlPlane"), name, json!({"spec": {"version": "v1.34.1"}})).await;
        self.create(&kind("TestMachine"), &server, json!({})).await;
        for template in ["TestMachineTemplate", "TestConfigTemplate"] {
            self.create(&kind(template), name, json!({"spec": {"template": {"spec": {"size": "small"}}}}))
                .await;
        }
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
        });
        let secret = KindId::new("", "v1", "Secret", "secrets");
        let value = json!({"stringData": {"value": kubeconfig.to_string()}});
        self.create(&secret, &format!("{name}-kubeconfig"), value).await;
        let references = json!({
            "infrastructureRef": reference("TestCluster", name), "controlPlaneRef": reference("TestControlPlane", name)
        });
        self.create(&ours("Cluster"), name, json!({"spec": references})).await;
        let labels =
            json!({"cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/control-plane-name": name});
        self.create(
            &ours("Machine"),
            &server,
            json!({"metadata": {"labels": labels}, "spec": {
                "clusterName": name, "version": "v1.34.1", "bootstrap": {"dataSecretName": "given"},
                "infrastructureRef": reference("TestMachine", &server)
            }}),
        )
        .await;
        self.create(&ours("MachineDeployment"), name, json!({"spec": {
            "clusterName": name, "replicas": workers, "selector": {"matchLabels": {"pool": name}},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}}},
            "template": {"metadata": {"labels": {"pool": name}}, "spec": {
                "clusterName": name, "version": "v1.34.1",
                "bootstrap": {"configRef": reference("TestConfigTemplate", name)},
                "infrastructureRef": reference("TestMachineTemplate", name)
            }}
        }}))
        .await;
    }

    /// Waits until all objects of a kind are as they should be, as the caches see them.
    async fn until(&self, kind: &str, count: usize, so: impl Fn(&Object) -> bool) {
        let (cache, begin) = (self.caches.of(&ours(kind)), SystemClock.monotonic());
        loop {
            let there = cache.all();
            let good = there.iter().filter(|object| so(object)).count();
            if good == count && there.len() == count {
                return;
            }
            let passed = SystemClock.monotonic().since(begin);
            assert!(passed < LONGEST, "{good} of {count} {kind}s, {} there", there.len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn deployments_ready(&self, clusters: usize, workers: usize) {
        self.until("MachineDeployment", clusters, |object| {
            let document = object.document();
            let status = &document["status"];
            ["replicas", "availableReplicas", "upToDateReplicas"]
                .iter()
                .all(|field| status[*field] == workers)
                && status["observedGeneration"] == document["metadata"]["generation"]
        })
        .await;
    }
}

fn since(begin: Monotonic) -> f64 {
    SystemClock.monotonic().since(begin).as_secs_f64()
}

/// A line of /proc, in megabytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap() / 1024.0
}

/// Processor time of this process in seconds, in ticks of a hundredth.
fn worked() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn told(writes: &BTreeMap<String, usize>, among: usize) {
    for (what, count) in writes {
        println!("writes {what} {:.2}", *count as f64 / among as f64);
    }
}

/// All writes but events, for each of `among`.
fn further(writes: &BTreeMap<String, usize>, among: usize) -> f64 {
    let patches = writes.iter().filter(|(what, _)| what.starts_with("PATCH"));
    patches.map(|(_, count)| *count as f64).sum::<f64>() / among as f64
}

/// Many clusters of a server and three workers.
pub(crate) async fn fleet(urls: [&str; 2], clusters: usize) {
    let herd = Arc::new(Herd::start(urls).await);
    println!("measured empty_memory {:.1} MB", resident());
    let begin = SystemClock.monotonic();
    let mut making = tokio::task::JoinSet::new();
    let slots = Arc::new(tokio::sync::Semaphore::new(16));
    for number in 0..clusters {
        let slot = slots.clone().acquire_owned().await.unwrap();
        let herd = herd.clone();
        making.spawn(async move {
            herd.cluster(&format!("c{number}"), 3, json!(1)).await;
            drop(slot);
        });
    }
    while making.join_next().await.is_some() {}
    println!("measured created {:.1} s", since(begin));
    herd.until("Cluster", clusters, |object| object.document()["status"]["phase"] == "Provisioned").await;
    println!("measured provisioned {:.1} s", since(begin));
    herd.until("Machine", clusters * 4, |object| object.document()["status"]["phase"] == "Running").await;
    herd.deployments_ready(clusters, 3).await;
    println!("measured running {:.1} s", since(begin));
    println!("measured memory {:.1} MB", resident());
    println!("measured processor {:.1} s", worked());
    told(&herd.writes.take(), clusters);
}

/// Tells, once, what is written for the first worker from its set's scale-up until it is said to run, beside the objects that
/// are made for it. Once nobody waits for it, nothing is counted here.
fn count_first_worker(herd: &Herd) -> mpsc::UnboundedReceiver<f64> {
    let (told, count) = mpsc::unbounded_channel();
    let all = [herd.writes.clone(), herd.node_writes.clone()];
    let (begin, end, asked) = (all.clone(), all, told.clone());
    let replicas = |object: &Option<Arc<Object>>| object.as_ref()?.document()["spec"]["replicas"].as_i64();
    herd.caches.of(&ours("MachineSet")).listen("bench", || {
        Arc::new(move |change| {
            let grows = (replicas(&change.before), replicas(&change.after)) == (Some(0), Some(1));
            if grows && !asked.is_closed() {
                begin.iter().for_each(|writes| drop(writes.take()));
            }
        })
    });
    herd.caches.of(&ours("Machine")).listen("bench", || {
        Arc::new(move |change| {
            let runs = |object: &Option<Arc<Object>>| {
                let worker = object.as_ref().filter(|object| !object.name().ends_with("-server"));
                worker.is_some_and(|object| object.document()["status"]["phase"] == "Running")
            };
            if runs(&change.after) && !runs(&change.before) && !told.is_closed() {
                let _ = told.send(end.iter().map(|writes| further(&writes.take(), 1)).sum());
            }
        })
    });
    count
}

/// The same, for a first worker that is asked for now. When this returns, all has been told of it.
async fn first_worker(herd: &Herd, deployments: &Api<DynamicObject>) -> f64 {
    let mut count = count_first_worker(herd);
    let scale = Patch::Merge(json!({"spec": {"replicas": 1}}));
    deployments.patch("c", &PatchParams::default(), &scale).await.unwrap();
    let count = count.recv().await.unwrap();
    herd.deployments_ready(1, 1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    count
}

/// One cluster whose machines are all replaced, some times.
pub(crate) async fn rollout(urls: [&str; 2], machines: usize, times: usize) {
    let herd = Herd::start(urls).await;
    herd.cluster("c", 0, json!("25%")).await;
    herd.deployments_ready(1, 0).await;
    herd.until("Machine", 1, |object| object.document()["status"]["phase"] == "Running").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let deployments: Api<DynamicObject> =
        Api::namespaced_with(herd.client.clone(), "default", &ours("MachineDeployment").resource());
    println!("measured writes_alone {:.2} writes", first_worker(&herd, &deployments).await);
    herd.writes.take();
    herd.node_writes.take();
    let scale = Patch::Merge(json!({"spec": {"replicas": machines}}));
    deployments.patch("c", &PatchParams::default(), &scale).await.unwrap();
    herd.deployments_ready(1, machines).await;
    let up = herd.writes.take();
    let among = machines - 1;
    println!("measured writes_up_each {:.2} writes", further(&up, among));
    told(&up, among);
    told(&herd.node_writes.take(), among);
    let (begin, before) = (SystemClock.monotonic(), worked());
    for time in 0..times {
        let version = format!("v1.34.{}", time % 2);
        let patch = json!({"spec": {"template": {"spec": {"version": version}}}});
        let patch = Patch::Merge(patch);
        deployments.patch("c", &PatchParams::default(), &patch).await.unwrap();
        herd.until("Machine", machines + 1, |object| {
            let document = object.document();
            document["status"]["phase"] == "Running"
                && (document["spec"]["version"] == version || object.name() == "c-server")
        })
        .await;
        herd.deployments_ready(1, machines).await;
    }
    let among = machines * times;
    println!("measured rollout {:.1} s", since(begin) / times as f64);
    println!("measured processor_each {:.3} ms", (worked() - before) * 1000.0 / among as f64);
    let writes = herd.writes.take();
    println!("measured memory {:.1} MB", resident());
    told(&writes, among);
}
