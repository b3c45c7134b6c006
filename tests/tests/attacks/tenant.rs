//! A tenant: every right in one namespace, none elsewhere.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::world::{
    ATTACKER, Answer, Cluster, Party, VICTIM, World, cluster_path, condition, decoded, encoded, secrets_path,
    text,
};

const ASKED: &str = "provisioning.cattle.io/management-cluster-name";

/// The path of the nodes of a cluster, through its proxy.
fn nodes(id: &str) -> String {
    format!("/k8s/clusters/{id}/api/v1/nodes")
}

/// A cluster without machines, which names an id.
fn asking(name: &str, id: &str) -> Value {
    json!({
        "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
        "metadata": {"name": name, "namespace": ATTACKER.0, "annotations": {ASKED: id}},
        "spec": {"kubernetesVersion": "v1.34.2+k3s1", "rkeConfig": {}},
    })
}

/// Makes the cluster as if admission had not been asked.
async fn forced(world: &World, name: &str, id: &str) {
    let path = format!("/apis/provisioning.cattle.io/v1/namespaces/{}/clusters", ATTACKER.0);
    world.admin.post(&path, &asking(name, id)).await.ok();
}

/// Deletes it and waits until it is gone.
async fn deleted(world: &World, name: &str) {
    let path = cluster_path(ATTACKER.0, name);
    world.admin.delete(&path).await;
    world.until("its end", &world.admin, &path, |answer| answer["code"] == 404).await;
}

/// Everything of the victim's that others could have changed.
async fn state(world: &World, victim: &Cluster) -> Value {
    let get = async |path: String| world.admin.get(&path).await.ok();
    let cluster = get(cluster_path(&victim.namespace, &victim.name)).await;
    let half = get(format!("/apis/management.cattle.io/v3/clusters/{}", victim.id)).await;
    let namespace = get(format!("/api/v1/namespaces/{}", victim.id)).await;
    let mut conditions = half["status"]["conditions"].clone();
    for one in conditions.as_array_mut().unwrap() {
        one["lastUpdateTime"] = Value::Null;
    }
    json!([
        cluster["status"],
        conditions,
        half["metadata"]["annotations"],
        namespace["metadata"]["annotations"]
    ])
}

/// The victim's own way in.
async fn owner(world: &World) -> Party {
    let path = format!("{}/{}-kubeconfig", secrets_path(&world.victim.namespace), world.victim.name);
    world.bearer(&decoded(&world.admin.get(&path).await.ok(), "token"))
}

/// The condition of a cluster that names what is not its own.
async fn refused(world: &World, name: &str) {
    let path = cluster_path(ATTACKER.0, name);
    let wanted = |one: &Value| {
        condition(one, "RKECluster")
            .is_some_and(|one| one["status"] == "False" && text(&one["message"]).contains("the id"))
    };
    world.until("a condition", &world.admin, &path, wanted).await;
}

/// A tenant asks for another's id, at the door and past it.
pub(super) async fn an_annotation_takes_no_cluster(world: Arc<World>) {
    let tenant = world.tenant(ATTACKER.0).await;
    let path = format!("/apis/provisioning.cattle.io/v1/namespaces/{}/clusters", ATTACKER.0);
    let Answer { status, body } = tenant.post(&path, &asking("evil", &world.victim.id)).await;
    assert!(status == 422 && text(&body["message"]).contains(ASKED), "{status} {body}");

    let before = state(&world, &world.victim).await;
    forced(&world, "evil", &world.victim.id).await;
    refused(&world, "evil").await;
    assert_eq!(state(&world, &world.victim).await, before);
    deleted(&world, "evil").await;
    assert_eq!(state(&world, &world.victim).await, before);
    owner(&world).await.get(&nodes(&world.victim.id)).await.ok();
}

/// A tenant may write the status of its clusters: it is put right.
pub(super) async fn a_status_takes_no_cluster(world: Arc<World>) {
    let tenant = world.tenant(ATTACKER.0).await;
    let (before, path) = (state(&world, &world.victim).await, cluster_path(ATTACKER.0, ATTACKER.1));
    let status = json!({"status": {"clusterName": world.victim.id}});
    tenant.patch(&format!("{path}/status"), &status).await.ok();
    world
        .until("its own id", &tenant, &path, |one| one["status"]["clusterName"] == world.own.id.as_str())
        .await;
    assert_eq!(state(&world, &world.victim).await, before);
}

/// A namespace that was not made for a cluster stays as it is, and stays.
pub(super) async fn a_namespace_is_not_adopted(world: Arc<World>) {
    world.namespace("team-c").await;
    let path = "/api/v1/namespaces/team-c";
    let before = world.admin.get(path).await.ok();
    forced(&world, "squatter", "team-c").await;
    refused(&world, "squatter").await;
    deleted(&world, "squatter").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.admin.get(path).await.ok(), before);
}

/// A Secret with a token for the victim's proxy, of a cluster that says the victim's id. The owner's token stays good.
pub(super) async fn a_secret_opens_no_other_cluster(world: Arc<World>) {
    let tenant = world.tenant(ATTACKER.0).await;
    let id = &world.victim.id;
    let token = format!("kubeconfig-{id}:x");
    forced(&world, "a-thief", id).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": "a-thief-kubeconfig", "namespace": ATTACKER.0}, "data": {"token": encoded(&token)},
    });
    tenant.post(&secrets_path(ATTACKER.0), &secret).await.ok();
    // In status, too, again and again: between a write and the reconcile that puts it right nothing opens either.
    let status = json!({"status": {"clusterName": id}});
    let path = format!("{}/status", cluster_path(ATTACKER.0, "a-thief"));
    for _ in 0..5 {
        tenant.patch(&path, &status).await.ok();
        let answer = world.bearer(&token).get(&nodes(id)).await;
        assert_eq!(answer.status, 401, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    owner(&world).await.get(&nodes(id)).await.ok();
    // What its own kubeconfig opens is its own cluster.
    let path = format!("{}/{}-kubeconfig", secrets_path(ATTACKER.0), ATTACKER.1);
    let own = world.bearer(&decoded(&tenant.get(&path).await.ok(), "token"));
    own.get(&nodes(&world.own.id)).await.ok();
    let answer = own.get(&nodes(id)).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    deleted(&world, "a-thief").await;
}

/// A ClusterRegistrationToken and its Secret in the tenant's namespace register nothing.
pub(super) async fn a_registration_token_of_its_own_is_none(world: Arc<World>) {
    let tenant = world.tenant(ATTACKER.0).await;
    let path = format!("/apis/management.cattle.io/v3/namespaces/{}/clusterregistrationtokens", ATTACKER.0);
    let token = json!({
        "apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken",
        "metadata": {"name": "mine", "namespace": ATTACKER.0}, "spec": {"clusterName": world.victim.id},
    });
    let made = tenant.post(&path, &token).await.ok();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": "crt-token-mine", "namespace": ATTACKER.0, "ownerReferences": [{
            "apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken", "name": "mine",
            "uid": made["metadata"]["uid"]}]},
        "data": {"token": encoded("a-token-of-my-own")},
    });
    tenant.post(&secrets_path(ATTACKER.0), &secret).await.ok();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let host = world.bearer("a-token-of-my-own");
    let answer = host.ask("GET", "/v3/connect/agent", None, &[("x-cattle-id", "0123456789abcdef")]).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    let shown = tenant.get(&format!("{path}/mine")).await.ok();
    assert!(shown["status"]["nodeCommand"].is_null(), "{shown}");
}

/// A control plane that names the victim's id: the token of the victim's tunnel is not rendered into the tenant's plans.
pub(super) async fn a_control_plane_reads_no_other_token(world: Arc<World>) {
    let tenant = world.tenant(ATTACKER.0).await;
    let path = format!("{}/crt-token-system", secrets_path(&world.victim.id));
    let hunted = decoded(&world.admin.get(&path).await.ok(), "token");
    let control_plane =
        format!("/apis/rke.cattle.io/v1/namespaces/{}/rkecontrolplanes/{}", ATTACKER.0, ATTACKER.1);
    let plan = format!("{}/{}-machine-plan", secrets_path(ATTACKER.0), world.own.servers[0]);
    let patch = json!({"spec": {"managementClusterName": world.victim.id}});
    for _ in 0..10 {
        tenant.patch(&control_plane, &patch).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let secret = tenant.get(&plan).await.ok();
        let plan: Value = serde_json::from_str(&decoded(&secret, "plan")).unwrap();
        let files = plan["files"].as_array().unwrap().iter();
        let leaked =
            files.filter(|file| decoded(&json!({"data": file}), "content").contains(&hunted)).count();
        assert_eq!(leaked, 0);
    }
}

/// The ground that the other attacks stand on: the tenant is one.
pub(super) async fn rights_end_at_the_namespace(world: Arc<World>) {
    let tenant = world.tenant(ATTACKER.0).await;
    tenant.get(&secrets_path(ATTACKER.0)).await.ok();
    for path in [
        secrets_path(VICTIM.0),
        cluster_path(VICTIM.0, VICTIM.1),
        format!("/apis/management.cattle.io/v3/clusters/{}", world.victim.id),
        format!("/k8s/clusters/{}/api/v1/nodes", world.victim.id),
    ] {
        let answer = tenant.get(&path).await;
        assert_eq!(answer.status, 403, "{path}: {answer:?}");
    }
}
