//! A small control plane controller: it gathers, has the real planner decide, and does what it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::catalogue::{annotations, conditions, labels};
use api::rke::v1::RKEControlPlaneSpec;
use clock::{Clock, RuntimeClock, SystemClock};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use plan::orchestrator;
use plan::secret::{Changes, Data};
use planner::{
    Address, Bootstrap, CapiCluster, Cluster, ClusterAgent, Decision, Machine, MachineName, MemberRemoval,
    Memo, PlanView, Release, Snapshot, State, Tokens, decide_with,
};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use sim::{CreateOptions, Delays, Downstream, Registration, Settings, Stores, World};

use crate::management::{Management, NAMESPACE, URL};

/// A world with one cluster in it.
pub(crate) struct Story {
    pub(crate) management: Management,
    pub(crate) world: World,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) settings: Settings,
    machines: Mutex<BTreeMap<String, Ours>>,
    state: Mutex<Kept>,
}

/// What the management cluster would know of a machine beside its plan Secret.
#[derive(Clone)]
struct Ours {
    labels: BTreeMap<String, String>,
    deleting_since: Option<Timestamp>,
    has_hook: bool,
}

struct Kept {
    cluster: Arc<Cluster>,
    state: State,
    memo: Memo,
    applied: Option<RKEControlPlaneSpec>,
    last: Decision,
}

impl Story {
    pub(crate) async fn new(version: &str, seed: u64) -> Self {
        Story::at("2026-01-01T00:00:00Z".parse().unwrap(), version, seed).await
    }

    /// One that begins at some time.
    pub(crate) async fn at(began: Timestamp, version: &str, seed: u64) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::starting_at(began));
        let management = Management::start(&clock, seed).await;
        Story::around(management, clock, version, seed).await
    }

    /// One whose server speaks TLS.
    pub(crate) async fn secure(version: &str, seed: u64) -> Self {
        // Certificates are checked against the real time.
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::starting_at(SystemClock.now()));
        let directory = tempfile::tempdir().unwrap();
        let management = Management::secure(&clock, seed, directory.path()).await;
        Story::around(management, clock, version, seed).await
    }

    async fn around(management: Management, clock: Arc<dyn Clock>, version: &str, seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            directory: directory.path().to_owned(),
            seed,
            clock: clock.clone(),
            uplink: Arc::new(management.clone()),
            delays: Delays::default(),
            stores: Stores::Memory,
        };
        let world = World::open(settings.clone()).await.unwrap();
        let cluster = Cluster {
            namespace: NAMESPACE.into(),
            name: "prod".into(),
            spec: RKEControlPlaneSpec {
                kubernetes_version: version.into(),
                cluster_name: "prod".into(),
                management_cluster_name: "c-m-1".into(),
                ..RKEControlPlaneSpec::default()
            },
            agent: Some(ClusterAgent {
                image: "herdsman/cluster-agent:v1".into(),
                server_url: management.url().into(),
                ca_checksum: checksum(management.authority()),
                token: "registration-token".into(),
                ..ClusterAgent::default()
            }),
            ..Cluster::default()
        };
        let capi = CapiCluster { infrastructure_provisioned: true, ..CapiCluster::default() };
        let state = State { capi: Some(capi), has_kubeconfig: true, ..State::default() };
        let kept = Kept {
            cluster: Arc::new(cluster),
            state,
            memo: Memo::default(),
            applied: None,
            last: Decision::default(),
        };
        Story {
            management,
            world,
            clock,
            directory,
            settings,
            machines: Mutex::default(),
            state: Mutex::new(kept),
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn edit(&self, change: impl FnOnce(&mut Cluster)) {
        let mut kept = self.kept();
        let mut cluster = (*kept.cluster).clone();
        change(&mut cluster);
        kept.cluster = Arc::new(cluster);
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.management.client(), NAMESPACE)
    }

    /// Makes a machine with its plan Secret and its bootstrap script.
    pub(crate) async fn add(&self, name: &str, roles: &[&str]) {
        let words = role_labels(name, roles);
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(format!("{name}-plan")),
                labels: Some(words.clone()),
                ..ObjectMeta::default()
            },
            type_: Some("rke.cattle.io/machine-plan".into()),
            ..Secret::default()
        };
        self.secrets().create(&PostParams::default(), &secret).await.unwrap();
        let windows = roles.contains(&"windows");
        let ours = Ours { labels: words, deleting_since: None, has_hook: roles.contains(&"etcd") };
        self.machines.lock().unwrap().insert(name.to_owned(), ours);
        let registration = Registration {
            server: self.management.url().into(),
            token: format!("token-of-{name}"),
            ca_checksum: checksum(self.management.authority()),
            ..Registration::default()
        };
        let script = match windows {
            false => registration.script(),
            true => format!(
                "function Invoke-WinsInstaller {{}}\n$env:CATTLE_SERVER = '{URL}'\n$env:CATTLE_TOKEN = 'token-of-{name}'\n$env:CATTLE_ROLE_NONE = 'true'\n"
            ),
        };
        let options = CreateOptions { script: Some(script), ..CreateOptions::default() };
        self.world.machines().create(name, options).await.unwrap();
    }

    pub(crate) fn delete(&self, name: &str) {
        let now = self.clock.now();
        self.machines.lock().unwrap().get_mut(name).unwrap().deleting_since.get_or_insert(now);
    }

    /// The simulated cluster.
    pub(crate) fn downstream(&self) -> Option<Downstream> {
        self.world.clusters().into_iter().next()
    }

    pub(crate) async fn nodes(&self) -> Vec<Value> {
        let Some(cluster) = self.downstream() else { return Vec::new() };
        let nodes: Api<Node> = Api::all(cluster.client());
        let list = nodes.list(&ListParams::default()).await.unwrap();
        list.items.iter().map(|node| json!(node)).collect()
    }

    /// Names of nodes that are ready, with their versions.
    pub(crate) async fn ready(&self) -> BTreeMap<String, String> {
        let mut ready = BTreeMap::new();
        for node in self.nodes().await {
            let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True") {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                ready.insert(
                    text(&node["metadata"]["name"]),
                    text(&node["status"]["nodeInfo"]["kubeletVersion"]),
                );
            }
        }
        ready
    }

    async fn gather(&self) -> Snapshot {
        let nodes = self.nodes().await;
        let ours = self.machines.lock().unwrap().clone();
        let list = self.secrets().list(&ListParams::default()).await.unwrap();
        let mut machines = BTreeMap::new();
        for secret in list.items {
            let name = secret.metadata.name.clone().unwrap_or_default();
            let Some(name) = name.strip_suffix("-plan") else { continue };
            let Some(known) = ours.get(name) else { continue };
            let id = format!("uid-{name}");
            let node =
                nodes.iter().find(|node| node["metadata"]["labels"][labels::MACHINE_UID] == id.as_str());
            let machine = Machine {
                id,
                labels: known.labels.clone(),
                deleting_since: known.deleting_since,
                infrastructure_ready: true,
                has_hook: known.has_hook,
                node: node.map(node_view),
                // The stand-in has no RKEBootstraps: the Secret keeps both.
                bootstrap: Bootstrap {
                    labels: secret.metadata.labels.clone().unwrap_or_default(),
                    annotations: secret.metadata.annotations.clone().unwrap_or_default(),
                },
                plan: PlanView::read(secret.metadata.annotations.clone().unwrap_or_default(), &data(&secret)),
                ..Machine::default()
            };
            machines.insert(MachineName::from(name), Arc::new(machine));
        }
        let mut kept = self.kept();
        kept.state.spec_is_applied = kept.applied.as_ref() == Some(&kept.cluster.spec);
        kept.state.agent_connected = !self.management.hub().clients().is_empty();
        Snapshot { now: self.clock.now(), cluster: kept.cluster.clone(), state: kept.state.clone(), machines }
    }

    /// One look: upkeep of the Secrets, a decision, and what it says.
    pub(crate) async fn plan(&self) {
        self.upkeep().await;
        let snapshot = self.gather().await;
        let decision = {
            let mut kept = self.kept();
            decide_with(&snapshot, &mut kept.memo)
        };
        assert_eq!(decision.refused, [], "the linter has nothing to say");
        self.act(&decision).await;
        self.kept().last = decision;
    }

    async fn upkeep(&self) {
        for secret in self.secrets().list(&ListParams::default()).await.unwrap().items {
            let notes = secret.metadata.annotations.clone().unwrap_or_default();
            let update = orchestrator::upkeep(&data(&secret), &notes, self.clock.now());
            if !update.is_empty() {
                let notes: Map<String, Value> =
                    update.annotations.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
                self.patch(
                    &secret,
                    json!({"metadata": {"annotations": notes}, "data": changes(&update.data)}),
                )
                .await;
            }
        }
    }

    /// The write counts only if the Secret is as it was read.
    async fn patch(&self, secret: &Secret, mut patch: Value) -> bool {
        patch["metadata"]["resourceVersion"] = json!(secret.metadata.resource_version);
        let name = secret.metadata.name.clone().unwrap();
        match self.secrets().patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 409 => false,
            Err(error) => panic!("{error}"),
        }
    }

    async fn act(&self, decision: &Decision) {
        if decision.make_tokens {
            let tokens = Tokens { server: "server-token".into(), agent: "agent-token".into() };
            self.edit(|cluster| cluster.tokens = Some(tokens));
        }
        let touched: BTreeSet<&MachineName> = decision.marks.keys().chain(decision.writes.keys()).collect();
        for name in touched {
            let secret = self.secrets().get(&format!("{name}-plan")).await.unwrap();
            let mut patch = json!({"metadata": {"labels": {}, "annotations": {}}, "data": {}});
            if let Some(marks) = decision.marks.get(name) {
                for (key, value) in &marks.labels {
                    patch["metadata"]["labels"][*key] = json!(value);
                }
                for (key, value) in marks.annotations.iter().chain(&marks.handshake) {
                    patch["metadata"]["annotations"][*key] = json!(value);
                }
            }
            if let Some(write) = decision.writes.get(name) {
                let update =
                    orchestrator::deliver(&data(&secret), &write.plan, write.terms, self.clock.now())
                        .unwrap();
                for (key, value) in update.annotations {
                    patch["metadata"]["annotations"][key] = value.into();
                }
                patch["data"] = changes(&update.data);
            }
            self.patch(&secret, patch).await;
        }
        for release in &decision.releases {
            self.release(release).await;
        }
        let mut kept = self.kept();
        if let Some(initialized) = decision.status.initialized {
            kept.state.initialized = initialized;
        }
        if decision
            .status
            .conditions
            .get(conditions::BOOTSTRAPPED)
            .is_some_and(|found| found.status == "True")
        {
            kept.state.bootstrapped = true;
        }
        kept.state.epoch = decision.status.epoch.or(kept.state.epoch);
        if decision.status.spec_applied {
            kept.applied = Some(kept.cluster.spec.clone());
        }
    }

    async fn release(&self, release: &Release) {
        match release {
            Release::RemoveMember { node, .. } => {
                let nodes: Api<Node> = Api::all(self.downstream().unwrap().client());
                let ask = match self.kept().cluster.spec.kubernetes_version.contains("k3s") {
                    true => annotations::ETCD_REMOVE_K3S,
                    false => annotations::ETCD_REMOVE_RKE2,
                };
                let patch = json!({"metadata": {"annotations": {ask: "true"}}});
                nodes.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
            }
            Release::DropHook { machine, .. } => {
                self.machines.lock().unwrap().get_mut(machine.as_str()).unwrap().has_hook = false;
            }
        }
        // As Cluster API would: the machine goes, then its node.
        let gone: Vec<String> = {
            let machines = self.machines.lock().unwrap();
            let going = |ours: &Ours| ours.deleting_since.is_some() && !ours.has_hook;
            machines.iter().filter(|(_, ours)| going(ours)).map(|(name, _)| name.clone()).collect()
        };
        for name in gone {
            self.remove(&name).await;
        }
    }

    /// Removes a machine, its node and its Secret.
    pub(crate) async fn remove(&self, name: &str) {
        self.machines.lock().unwrap().remove(name);
        let client = self.downstream().map(|cluster| cluster.client());
        self.world.machines().remove(name).await.unwrap();
        if let (Some(client), Some(_)) = (client, self.downstream()) {
            let nodes: Api<Node> = Api::all(client);
            let _ = nodes.delete(name, &DeleteParams::default()).await;
        }
        self.secrets().delete(&format!("{name}-plan"), &DeleteParams::default()).await.unwrap();
    }

    /// Plans until something is so.
    pub(crate) async fn until(&self, seconds: u64, what: &str, so: impl AsyncFn(&Story) -> bool) {
        for _ in 0..seconds {
            self.plan().await;
            if so(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let waits: Vec<String> = self.kept().last.waits.iter().map(|wait| wait.message.clone()).collect();
        let events: String = self.world.events().iter().map(|event| format!("{event}\n")).collect();
        panic!("{what}: not after {seconds} s\nwaits: {waits:#?}\n{events}");
    }

    /// Plans until so many nodes are ready in a version, and nothing is waited for.
    pub(crate) async fn settled(&self, nodes: usize, version: &str) {
        self.until(600, &format!("{nodes} nodes of {version}"), async |story| {
            let ready = story.ready().await;
            let all = ready.len() == nodes && ready.values().all(|found| found == version);
            all && story.kept().last.waits.is_empty()
        })
        .await;
    }

    pub(crate) fn said(&self, what: &str) -> usize {
        self.world.events().iter().filter(|event| event.what.contains(what)).count()
    }
}

fn node_view(node: &Value) -> planner::Node {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let notes = &node["metadata"]["annotations"];
    let either =
        |keys: [&str; 2]| keys.iter().any(|key| notes[*key].as_str().is_some_and(|value| !value.is_empty()));
    let removal = match () {
        () if either([annotations::ETCD_REMOVED_NODE_NAME_K3S, annotations::ETCD_REMOVED_NODE_NAME_RKE2]) => {
            MemberRemoval::Done
        }
        () if either([annotations::ETCD_REMOVE_K3S, annotations::ETCD_REMOVE_RKE2]) => MemberRemoval::Asked,
        () => MemberRemoval::default(),
    };
    let addresses = node["status"]["addresses"].as_array().cloned().unwrap_or_default();
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|one| one["type"] == "Ready");
    planner::Node {
        name: text(&node["metadata"]["name"]),
        provider_id: text(&node["spec"]["providerID"]),
        kubelet_version: text(&node["status"]["nodeInfo"]["kubeletVersion"]),
        addresses: addresses
            .iter()
            .map(|one| Address { kind: text(&one["type"]), address: text(&one["address"]) })
            .collect(),
        ready: ready.map(|one| one["status"] == "True"),
        lost: ready.is_some_and(|one| one["status"] == "Unknown"),
        removal,
    }
}

/// As scripts have it; none for nothing.
pub(crate) fn checksum(authority: &str) -> String {
    if authority.is_empty() {
        return String::new();
    }
    Sha256::digest(authority).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn data(secret: &Secret) -> Data {
    secret.data.clone().unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
}

fn changes(changes: &Changes) -> Value {
    use base64::Engine as _;
    let encode =
        |value: &Option<Vec<u8>>| value.as_ref().map(|value| base64::prelude::BASE64_STANDARD.encode(value));
    changes.iter().map(|(key, value)| (key.to_string(), json!(encode(value)))).collect::<Map<_, _>>().into()
}

fn role_labels(name: &str, roles: &[&str]) -> BTreeMap<String, String> {
    let mut words = BTreeMap::from([
        (labels::CLUSTER_NAME.to_owned(), "prod".to_owned()),
        (labels::MACHINE_NAME.to_owned(), name.to_owned()),
        (labels::PLAN_MACHINE_NAME.to_owned(), name.to_owned()),
        (labels::MACHINE_ID.to_owned(), format!("id-{name}")),
    ]);
    for role in roles {
        let (label, value) = match *role {
            "etcd" => (labels::ETCD_ROLE, "true"),
            "control-plane" => (labels::CONTROL_PLANE_ROLE, "true"),
            "worker" => (labels::WORKER_ROLE, "true"),
            "windows" => (labels::OS, "windows"),
            other => panic!("no role {other:?}"),
        };
        words.insert(label.to_owned(), value.to_owned());
    }
    words
}
