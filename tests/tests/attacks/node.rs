//! A stolen node: what the credential of its agent opens, and what a plan Secret that it has forged is worth where admission was not asked (here
//! the administrator writes it).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{Answer, Cluster, Party, World, decoded, encoded, secrets_path};

const ETCD_ROLE: &str = "rke.cattle.io/etcd-role";
const CONTROL_PLANE_ROLE: &str = "rke.cattle.io/control-plane-role";
const INIT_NODE: &str = "rke.cattle.io/init-node";
const MACHINE_NAME: &str = "rke.cattle.io/machine-name";
const JOIN_URL: &str = "rke.cattle.io/join-url";
const JOIN_URL_FIXED: &str = "rke.cattle.io/join-url-autoset-disabled";
const DRAIN_OPTIONS: &str = "rke.cattle.io/drain-options";
const CORDONED: &str = "unschedulable";

fn plan_path(cluster: &Cluster, machine: &str) -> String {
    format!("{}/{machine}-machine-plan", secrets_path(&cluster.namespace))
}

fn bootstrap_path(cluster: &Cluster, machine: &str) -> String {
    format!("/apis/rke.cattle.io/v1/namespaces/{}/rkebootstraps/{machine}", cluster.namespace)
}

/// The plans of a cluster's machines, server first.
async fn plans(world: &World, cluster: &Cluster) -> Vec<String> {
    let mut all = Vec::new();
    for machine in cluster.servers.iter().chain(&cluster.workers) {
        all.push(decoded(&world.admin.get(&plan_path(cluster, machine)).await.ok(), "plan"));
    }
    all
}

/// Forges a worker's plan Secret, and waits until what it says of the machine is taken off.
async fn forge(world: &World, labels: Value, annotations: Value) {
    let path = plan_path(&world.victim, &world.victim.workers[0]);
    let forged = json!({"metadata": {"labels": labels, "annotations": annotations}});
    world.admin.patch(&path, &forged).await.ok();
    let is_off = |secret: &Value| {
        let metadata = &secret["metadata"];
        [ETCD_ROLE, CONTROL_PLANE_ROLE, INIT_NODE].iter().all(|label| metadata["labels"][*label].is_null())
            && [JOIN_URL, JOIN_URL_FIXED].iter().all(|note| metadata["annotations"][*note].is_null())
            && metadata["labels"][MACHINE_NAME] == world.victim.workers[0].as_str()
    };
    world.until("the worker is shown as a worker", &world.admin, &path, is_off).await;
}

pub(crate) async fn a_worker_stays_a_worker(world: Arc<World>) {
    let before = plans(&world, &world.victim).await;
    let roles = json!({ETCD_ROLE: "true", CONTROL_PLANE_ROLE: "true", INIT_NODE: "true"});
    for _ in 0..3 {
        forge(&world, roles.clone(), json!({})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(plans(&world, &world.victim).await, before, "nobody gets another plan");
    let bootstrap = world.admin.get(&bootstrap_path(&world.victim, &world.victim.workers[0])).await.ok();
    for role in [ETCD_ROLE, CONTROL_PLANE_ROLE, INIT_NODE] {
        assert_eq!(bootstrap["metadata"]["labels"][role], Value::Null, "{role}");
    }
}

pub(crate) async fn a_join_url_steers_nobody(world: Arc<World>) {
    let before = plans(&world, &world.victim).await;
    let evil = "https://evil.example.com:9345";
    let labels = json!({CONTROL_PLANE_ROLE: "true", INIT_NODE: "true"});
    for _ in 0..3 {
        forge(&world, labels.clone(), json!({JOIN_URL: evil, JOIN_URL_FIXED: "true"})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(plans(&world, &world.victim).await, before, "nobody is sent elsewhere");
    for machine in world.victim.servers.iter().chain(&world.victim.workers) {
        let bootstrap = world.admin.get(&bootstrap_path(&world.victim, machine)).await.ok();
        let marks = bootstrap["metadata"]["annotations"].to_string();
        assert!(!marks.contains("evil.example.com"), "{machine}: {marks}");
    }
}

/// A Node of the attacked cluster, by its own credential.
async fn node(world: &World, name: &str) -> Value {
    let path = format!("{}/{}-kubeconfig", secrets_path(&world.victim.namespace), world.victim.name);
    let token = decoded(&world.admin.get(&path).await.ok(), "token");
    let path = format!("/k8s/clusters/{}/api/v1/nodes/{name}", world.victim.id);
    world.bearer(&token).get(&path).await.ok()
}

pub(crate) async fn a_drain_reaches_only_its_own_node(world: Arc<World>) {
    let (server, worker) = (&world.victim.servers[0], &world.victim.workers[0]);
    let options = r#"{"deleteEmptyDirData":true,"disableEviction":true,"enabled":true,"force":true}"#;
    let path = plan_path(&world.victim, worker);
    let mut drained = false;
    for _ in 0..3 {
        let labels = json!({MACHINE_NAME: server, "plan.cattle.io/machine-name": server});
        let forged = json!({"metadata": {"labels": labels, "annotations": {DRAIN_OPTIONS: options}}});
        world.admin.patch(&path, &forged).await.ok();
        for _ in 0..20 {
            assert_ne!(node(&world, server).await["spec"][CORDONED], true, "the server was cordoned");
            drained |= node(&world, worker).await["spec"][CORDONED] == true;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert!(drained, "its own node is drained: the way is open, and leads nowhere else");
    let rest = json!({"metadata": {"annotations": {DRAIN_OPTIONS: null}}});
    world.admin.patch(&path, &rest).await.ok();
}

/// What a node asks for its config file.
async fn config(party: &Party) -> Answer {
    party.ask("GET", "/v3/connect/config-yaml", None, &[("x-cattle-id", "stolen")]).await
}

pub(crate) async fn config_yaml_is_its_own(world: Arc<World>) {
    let (server, worker) = (&world.victim.servers[0], &world.victim.workers[0]);
    let stolen = world.stolen(worker);
    let own = config(&stolen).await.ok();
    let others = config(&world.stolen(server)).await.ok();
    assert_ne!(own, others);
    assert!(own["token"].is_string() && own.get("agent-token").is_none(), "a worker has no server's tokens");
    let path = plan_path(&world.victim, worker);
    for _ in 0..20 {
        let forged =
            json!({"metadata": {"labels": {MACHINE_NAME: server, "plan.cattle.io/machine-name": server}}});
        world.admin.patch(&path, &forged).await.ok();
        assert_eq!(config(&stolen).await.ok(), own);
    }
}

/// A change to a Secret.
type Change = fn(&mut Value);

/// What a party may write of a Secret: its answer to the whole object with a change.
async fn put(party: &Party, path: &str, change: Change) -> Answer {
    // The real agent may be faster.
    for _ in 0..20 {
        let mut secret = party.get(path).await.ok();
        change(&mut secret);
        let answer = party.ask("PUT", path, Some(&secret), &[]).await;
        if answer.status != 409 {
            return answer;
        }
    }
    panic!("{path} changes all the time");
}

pub(crate) async fn an_agent_writes_its_report_and_nothing_else(world: Arc<World>) {
    let worker = &world.victim.workers[0];
    let (stolen, path) = (world.stolen(worker), plan_path(&world.victim, worker));
    let cases: [(&str, Change); 9] = [
        ("metadata.labels", |one| one["metadata"]["labels"][ETCD_ROLE] = "true".into()),
        ("metadata.annotations", |one| one["metadata"]["annotations"][JOIN_URL] = "https://evil:9345".into()),
        ("metadata.annotations", |one| one["metadata"]["annotations"][DRAIN_OPTIONS] = "{}".into()),
        ("metadata.ownerReferences", |one| one["metadata"]["ownerReferences"] = json!([])),
        ("metadata.finalizers", |one| one["metadata"]["finalizers"] = json!(["evil.io/stay"])),
        ("data[plan]", |one| one["data"]["plan"] = encoded("{}").into()),
        ("data[plan-state]", |one| one["data"]["plan-state"] = encoded("pending").into()),
        ("data[own]", |one| one["data"]["own"] = encoded("x").into()),
        ("immutable", |one| one["immutable"] = true.into()),
    ];
    for (field, change) in cases {
        let answer = put(&stolen, &path, change).await;
        assert_eq!(answer.status, 403, "{field}: {answer:?}");
        assert!(answer.body["message"].to_string().contains(field), "{field}: {answer:?}");
    }
    put(&stolen, &path, |one| one["data"]["failed-output"] = "".into()).await.ok();

    // And nothing else of the server is its to read or write.
    let namespace = &world.victim.namespace;
    let other = plan_path(&world.victim, &world.victim.servers[0]);
    for (method, path) in [
        ("GET", other.clone()),
        ("PUT", other),
        ("GET", secrets_path(namespace)),
        ("DELETE", path.clone()),
        ("PATCH", path),
        ("GET", bootstrap_path(&world.victim, worker)),
        ("GET", format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines")),
        ("GET", format!("/api/v1/namespaces/{namespace}/serviceaccounts")),
        ("GET", format!("/k8s/clusters/{}/api/v1/nodes", world.victim.id)),
    ] {
        let body = json!({});
        let answer = stolen.ask(method, &path, (method != "GET").then_some(&body), &[]).await;
        assert!([401, 403].contains(&answer.status), "{method} {path}: {answer:?}");
    }
}
