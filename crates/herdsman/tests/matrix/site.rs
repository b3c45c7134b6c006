//! One cluster under test: what is asked of it, and how it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use plan::secret::PlanSecret;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::product::{self, Product};
use crate::reader::Reader;
use crate::wait::{so, until};

const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const MACHINES: &str = "rke-machine.cattle.io/v1";
const CONFIGS: &str = "rke-machine-config.cattle.io/v1";

/// What nodes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distro {
    K3s,
    Rke2,
}

impl fmt::Display for Distro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Distro::K3s => "k3s",
            Distro::Rke2 => "rke2",
        })
    }
}

impl Distro {
    /// The version that clusters begin with.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Distro::K3s => "v1.34.2+k3s1",
            Distro::Rke2 => "v1.34.2+rke2r1",
        }
    }

    /// The next minor version.
    pub(crate) fn next_version(self) -> &'static str {
        match self {
            Distro::K3s => "v1.35.0+k3s1",
            Distro::Rke2 => "v1.35.0+rke2r1",
        }
    }
}

/// A pool: so many machines with these roles (`etcd`, `controlPlane`, `worker`).
pub(crate) fn pool(name: &str, quantity: u64, roles: &[&str]) -> Value {
    let mut pool = json!({"name": name, "quantity": quantity});
    for role in roles {
        pool[format!("{role}Role")] = true.into();
    }
    pool
}

/// A pool with more fields.
pub(crate) fn with(mut pool: Value, fields: &Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        pool[key] = value.clone();
    }
    pool
}

/// Roles of servers that run nothing else, and of those that run everything.
pub(crate) const SERVER: &[&str] = &["etcd", "controlPlane"];
pub(crate) const ALL: &[&str] = &["etcd", "controlPlane", "worker"];

/// A cluster under test.
pub(crate) struct Site {
    pub(crate) product: Arc<Product>,
    pub(crate) name: String,
    downstream: OnceCell<Client>,
}

impl Site {
    /// Asks for a cluster, and waits until it is there. The driver's fields of each pool are in a config of its own.
    pub(crate) async fn create(product: Arc<Product>, distro: Distro, name: &str, pools: &[Value]) -> Self {
        let site = Site { product, name: format!("{distro}-{name}"), downstream: OnceCell::new() };
        let mut named = Vec::new();
        for pool in pools {
            let config = format!("{}-{}", site.name, pool["name"].as_str().unwrap());
            site.apply(json!({
                "apiVersion": CONFIGS, "kind": "SimConfig", "metadata": {"name": config}, "memory": "4096",
            }))
            .await;
            let reference = json!({"machineConfigRef": {"kind": "SimConfig", "name": config}});
            named.push(with(pool.clone(), &reference));
        }
        site.apply(json!({
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "metadata": {"name": site.name},
            "spec": {"kubernetesVersion": distro.version(), "rkeConfig": {"machinePools": named}},
        }))
        .await;
        site.settles().await;
        site
    }

    async fn apply(&self, object: Value) {
        let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let api = self.product.objects(version, kind);
        let params = PatchParams::apply("matrix").force();
        api.patch(object["metadata"]["name"].as_str().unwrap(), &params, &Patch::Apply(&object))
            .await
            .unwrap();
    }

    /// Changes fields of the Cluster's spec.
    pub(crate) async fn edit(&self, change: impl Fn(&mut Value)) {
        let clusters = self.product.objects("provisioning.cattle.io/v1", "Cluster");
        loop {
            let mut cluster = clusters.get(&self.name).await.unwrap();
            change(&mut cluster.data["spec"]);
            match clusters.replace(&self.name, &Default::default(), &cluster).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("{}: {error}", self.name),
            }
        }
    }

    /// Asks for so many machines of a pool.
    pub(crate) async fn scale(&self, pool: &str, quantity: u64) {
        self.edit(|spec| {
            let pools = spec["rkeConfig"]["machinePools"].as_array_mut().unwrap();
            pools.iter_mut().find(|one| one["name"] == pool).unwrap()["quantity"] = quantity.into();
        })
        .await;
    }

    /// Changes a driver's field of a pool: its machines are replaced.
    pub(crate) async fn resize(&self, pool: &str, memory: &str) {
        let configs = self.product.objects(CONFIGS, "SimConfig");
        let patch = json!({"memory": memory});
        let name = format!("{}-{pool}", self.name);
        configs.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Waits until all that was asked for is so.
    pub(crate) async fn settles(&self) {
        self.until("everything is as asked for", async || self.is_settled().await).await;
    }

    /// Waits until something is so; if it takes too long, shows how the cluster stands.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> Result<(), String>) {
        let Err(why) = until(&mut is_so).await else { return };
        let tree = self.product.says(&["describe", &self.name]).await;
        let waits = self.product.says(&["explain", &format!("cluster/{}", self.name)]).await;
        panic!("{}: not so: {what}: {why}\n{tree}\n{waits}", self.name);
    }

    async fn is_settled(&self) -> Result<(), String> {
        let cluster = self.cluster().await;
        so(observed(&cluster), || "the cluster is not observed".into())?;
        so(is_true(&cluster, "Ready"), || format!("the cluster: {}", cluster["status"]["conditions"]))?;
        let control_plane = self.get("rke.cattle.io/v1", "RKEControlPlane", &self.name).await?;
        so(observed(&control_plane), || "the control plane is not observed".into())?;
        so(is_true(&control_plane, "Ready"), || "the control plane is not ready".into())?;
        let wanted: u64 = self.pools(&cluster).map(|pool| pool["quantity"].as_u64().unwrap()).sum();
        let machines = self.machines().await;
        so(machines.len() as u64 == wanted, || format!("{} machines, not {wanted}", machines.len()))?;
        for machine in &machines {
            let well = machine["status"]["phase"] == "Running" && is_true(machine, "NodeReady");
            so(well, || format!("machine {}: {}", machine["metadata"]["name"], machine["status"]["phase"]))?;
        }
        for secret in self.plans().await {
            let read = plan_of(&secret);
            so(read.plan_applied(), || format!("{} is not applied", secret["metadata"]["name"]))?;
        }
        let version = &cluster["spec"]["kubernetesVersion"];
        let nodes = self.nodes().await.map_err(|error| error.to_string())?;
        so(nodes.len() as u64 == wanted, || format!("{} nodes, not {wanted}", nodes.len()))?;
        for node in &nodes {
            let well = is_true(node, "Ready") && node["spec"]["unschedulable"] != true;
            so(well, || format!("node {} is not ready or cordoned", node["metadata"]["name"]))?;
            let runs = &node["status"]["nodeInfo"]["kubeletVersion"];
            so(runs == version, || format!("node {} runs {runs}", node["metadata"]["name"]))?;
        }
        Ok(())
    }

    /// The Cluster.
    pub(crate) async fn cluster(&self) -> Value {
        self.get("provisioning.cattle.io/v1", "Cluster", &self.name).await.unwrap()
    }

    fn pools<'a>(&self, cluster: &'a Value) -> impl Iterator<Item = &'a Value> + use<'a> {
        cluster["spec"]["rkeConfig"]["machinePools"].as_array().unwrap().iter()
    }

    async fn get(&self, api_version: &str, kind: &str, name: &str) -> Result<Value, String> {
        let found = self.product.objects(api_version, kind).get(name).await;
        found.map(|object| json!(object)).map_err(|error| error.to_string())
    }

    async fn list(&self, api_version: &str, kind: &str, label: &str) -> Vec<Value> {
        let params = ListParams::default().labels(&format!("{label}={}", self.name));
        let found = self.product.objects(api_version, kind).list(&params).await.unwrap();
        found.items.iter().map(|object| json!(object)).collect()
    }

    /// All Machines, those that go included.
    pub(crate) async fn machines(&self) -> Vec<Value> {
        self.list(CAPI, "Machine", "cluster.x-k8s.io/cluster-name").await
    }

    /// The names of a pool's Machines.
    pub(crate) async fn machines_of(&self, pool: &str) -> BTreeSet<String> {
        let machines = self.machines().await;
        let mine = machines
            .iter()
            .filter(|machine| machine["metadata"]["labels"]["rke.cattle.io/rke-machine-pool-name"] == pool);
        mine.map(|machine| name(machine).to_owned()).collect()
    }

    /// The plan Secrets.
    pub(crate) async fn plans(&self) -> Vec<Value> {
        let all = self.list("v1", "Secret", "rke.cattle.io/cluster-name").await;
        all.into_iter().filter(|secret| secret["type"] == "rke.cattle.io/machine-plan").collect()
    }

    /// The Machine whose server began the cluster, or took over from it.
    pub(crate) async fn init_machine(&self) -> Option<String> {
        let plans = self.plans().await;
        let labels = |plan: &Value| plan["metadata"]["labels"].clone();
        let init = plans.iter().map(labels).find(|labels| labels["rke.cattle.io/init-node"] == "true")?;
        init["rke.cattle.io/machine-name"].as_str().map(str::to_owned)
    }

    /// A client of the downstream cluster, through its tunnel.
    pub(crate) async fn downstream(&self) -> &Client {
        let make = async || product::client(&self.product.says(&["kubeconfig", &self.name]).await).await;
        self.downstream.get_or_init(make).await
    }

    /// The nodes of the downstream cluster.
    pub(crate) async fn nodes(&self) -> kube::Result<Vec<Value>> {
        let nodes = Api::<Node>::all(self.downstream().await.clone());
        Ok(nodes.list(&ListParams::default()).await?.items.iter().map(|node| json!(node)).collect())
    }

    /// Reads the downstream cluster from now on. `pods` is how many the application has.
    pub(crate) async fn reader(&self, pods: Option<usize>) -> Reader {
        Reader::start(self.downstream().await.clone(), pods)
    }

    /// The UIDs of all Machines, infrastructure machines and Nodes.
    pub(crate) async fn identities(&self) -> BTreeMap<String, String> {
        let mut all = self.machines().await;
        all.extend(self.list(MACHINES, "SimMachine", "cluster.x-k8s.io/cluster-name").await);
        all.extend(self.nodes().await.unwrap());
        let identity = |object: &Value| {
            let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
            (format!("{} {}", object["kind"], name(object)), uid)
        };
        all.iter().map(identity).collect()
    }

    /// Pulls the plug of a Machine's server.
    pub(crate) async fn crash(&self, machine: &str) {
        let found = self.get(CAPI, "Machine", machine).await.unwrap();
        let name = found["spec"]["infrastructureRef"]["name"].as_str().unwrap();
        let patch = json!({"metadata": {"annotations": {"sim.herdsman.io/power": "off"}}});
        let machines = self.product.objects(MACHINES, "SimMachine");
        machines.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Marks a Machine as the one that goes first when its pool shrinks.
    pub(crate) async fn doom(&self, machine: &str) {
        let patch = json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "true"}}});
        let machines = self.product.objects(CAPI, "Machine");
        machines.patch(machine, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// `kubectl delete machine`.
    pub(crate) async fn delete_machine(&self, machine: &str) {
        self.product.objects(CAPI, "Machine").delete(machine, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until none of these Machines is there.
    pub(crate) async fn gone(&self, machines: &BTreeSet<String>) {
        self.until("machines are gone", async || {
            let left: Vec<String> = self
                .machines()
                .await
                .iter()
                .map(|one| name(one).to_owned())
                .filter(|one| machines.contains(one))
                .collect();
            so(left.is_empty(), || format!("{left:?} are there"))
        })
        .await;
    }

    /// Deletes the cluster; nothing of it is left, of whatever kind.
    pub(crate) async fn deletes(self) {
        let cluster = self.cluster().await;
        let id = cluster["status"]["clusterName"].as_str().unwrap().to_owned();
        let clusters = self.product.objects("provisioning.cattle.io/v1", "Cluster");
        clusters.delete(&self.name, &DeleteParams::default()).await.unwrap();
        self.until("nothing is left", async || {
            let left = self.mentions(&[&self.name, &id]).await;
            so(left.is_empty(), || format!("{left:?}"))
        })
        .await;
    }

    /// Every object of every kind that has one of these words in it; events, which tell of what was, aside.
    async fn mentions(&self, words: &[&str]) -> Vec<String> {
        let known = kube::discovery::Discovery::new(self.product.client.clone()).run().await.unwrap();
        let mut found = Vec::new();
        for (resource, capabilities) in known.groups().flat_map(|group| group.recommended_resources()) {
            if resource.kind == "Event" || !capabilities.supports_operation("list") {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(self.product.client.clone(), &resource);
            let Ok(all) = api.list(&ListParams::default()).await else { continue };
            for object in all.items {
                let text = json!(object).to_string();
                let whole = |word: &str| {
                    text.match_indices(word).any(|(at, _)| {
                        let edge = |byte: Option<u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
                        edge(text.as_bytes().get(at.wrapping_sub(1)).copied())
                            && edge(text.as_bytes().get(at + word.len()).copied())
                    })
                };
                if words.iter().any(|word| whole(word)) {
                    let namespace = object.metadata.namespace.unwrap_or_default();
                    found.push(format!(
                        "{} {namespace}/{}",
                        resource.kind,
                        object.metadata.name.unwrap_or_default()
                    ));
                }
            }
        }
        found
    }
}

/// What a plan Secret says.
pub(crate) fn plan_of(secret: &Value) -> PlanSecret {
    let secret: Secret = serde_json::from_value(secret.clone()).unwrap();
    let data = secret.data.unwrap_or_default();
    PlanSecret::read(&data.into_iter().map(|(key, value)| (key, value.0)).collect())
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Whether a condition is true.
pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    let all = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().any(|one| one["type"] == condition && one["status"] == "True")
}

/// Whether its controller has seen an object as it is now.
fn observed(object: &Value) -> bool {
    object["status"]["observedGeneration"].as_i64() >= object["metadata"]["generation"].as_i64()
}
