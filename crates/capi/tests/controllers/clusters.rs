//! Scenarios 1, 2, 3, 12, 13, 18: clusters and the way to them.

use serde_json::{Value, json};

use crate::world::{World, condition, name};

scenarios! {
    1 a_cluster_waits_for_its_infrastructure: Late;
    2 clusters_are_provisioned: V1Beta1 V1Beta2;
    3 nothing_is_done_to_a_paused_cluster: V1Beta1 V1Beta2;
    4 a_cluster_that_is_not_reached_keeps_its_machines: V1Beta2;
    5 a_rotated_kubeconfig_is_taken_up: V1Beta2;
    6 a_cluster_without_a_provider_of_its_control_plane_gets_a_kubeconfig: V1Beta1 V1Beta2;
    7 columns_and_scale_are_there_for_kubectl: V1Beta2;
    8 a_new_kubeconfig_is_used_while_the_old_one_still_works: V1Beta2;
    9 nothing_is_made_of_a_topology_and_that_is_said: V1Beta2;
}

/// Scenario 1, with a provider that is installed later: everything is picked up without a restart.
async fn a_cluster_waits_for_its_infrastructure(world: World) {
    let group = world.speaks.group();
    let reference = |kind: &str| json!({"apiGroup": group, "kind": kind, "name": "c"});
    world.create("Cluster", "c", json!({"spec": {"infrastructureRef": reference("TestCluster")}})).await;
    world.condition("Cluster", "c", "InfrastructureReady", "Unknown", "InternalError").await;
    world.install_provider().await;
    world.condition("Cluster", "c", "InfrastructureReady", "False", "ObjectDoesNotExist").await;
    world.create("TestCluster", "c", json!({})).await;
    world.field("Cluster", "c", "/status/phase", "Provisioned".into()).await;
    world.condition("Cluster", "c", "InfrastructureReady", "True", "Ready").await;
}

/// Scenarios 2 and 3.
async fn clusters_are_provisioned(world: World) {
    world.cluster("c").await;
    world.condition("Cluster", "c", "ControlPlaneInitialized", "True", "Initialized").await;
    world.condition("Cluster", "c", "Available", "True", "Available").await;
    let cluster = world.get("Cluster", "c").await;
    assert_eq!(cluster["spec"]["controlPlaneEndpoint"], json!({"host": "10.0.0.1", "port": 6443}));
    assert_eq!(
        cluster["status"]["failureDomains"],
        json!([{"name": "a"}, {"name": "b", "controlPlane": true}])
    );
    assert_eq!(
        cluster["status"]["initialization"],
        json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true})
    );
    let old = cluster["status"]["deprecated"]["v1beta1"]["conditions"].as_array().unwrap();
    for type_ in ["Ready", "InfrastructureReady", "ControlPlaneReady", "ControlPlaneInitialized"] {
        assert!(old.iter().any(|one| one["type"] == type_ && one["status"] == "True"), "{type_}: {old:?}");
    }
    let owner = world.get("TestCluster", "c").await;
    assert_eq!(owner["metadata"]["ownerReferences"][0]["kind"], "Cluster");
    assert_eq!(owner["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "c");
}

/// Scenario 18.
async fn nothing_is_done_to_a_paused_cluster(world: World) {
    world.cluster("c").await;
    world.pool("c", "p", 1, json!({})).await;
    world.pool_ready("p", 1).await;
    world.patch("Cluster", "c", json!({"spec": {"paused": true}})).await;
    let set = name(&world.list("MachineSet").await[0]);
    let machine = name(&world.machines("p").await[0]);
    for (kind, name) in
        [("Cluster", "c"), ("MachineDeployment", "p"), ("MachineSet", &set), ("Machine", &machine)]
    {
        world.condition(kind, name, "Paused", "True", "Paused").await;
    }
    world.patch("MachineDeployment", "p", json!({"spec": {"replicas": 3}})).await;
    world.while_nothing_happens(30).await;
    assert_eq!(world.machines("p").await.len(), 1);
    let before = world.revisions().await;
    world.while_nothing_happens(120).await;
    assert_eq!(world.revisions().await, before);
    world.patch("Cluster", "c", json!({"spec": {"paused": false}})).await;
    world.pool_ready("p", 3).await;
    world.condition("Cluster", "c", "Paused", "False", "NotPaused").await;
}

/// Scenario 13: a cluster that is not reached is not touched, and says so after a while.
async fn a_cluster_that_is_not_reached_keeps_its_machines(world: World) {
    world.cluster("c").await;
    world.pool("c", "p", 2, json!({})).await;
    world.pool_ready("p", 2).await;
    world.create("MachineHealthCheck", "h", json!({"spec": {
        "clusterName": "c", "selector": {"matchLabels": {"pool": "p"}},
        "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": world.span(60, 1)}]}
    }}))
    .await;
    let machines: Vec<Value> = world.machines("p").await;
    world.place.down.store(true, std::sync::atomic::Ordering::Relaxed);
    world.condition("Cluster", "c", "RemoteConnectionProbe", "False", "ProbeFailed").await;
    let machine = name(&machines[0]);
    if !world.site.is_real() {
        world.sleep(120).await;
        let healthy = condition(&world.get("Machine", &machine).await, "NodeHealthy")["status"].clone();
        assert_eq!(healthy, "True", "within the grace period");
    }
    world.condition("Machine", &machine, "NodeHealthy", "Unknown", "ConnectionDown").await;
    world.while_nothing_happens(600).await;
    assert_eq!(world.machines("p").await.len(), machines.len());
    world.place.down.store(false, std::sync::atomic::Ordering::Relaxed);
    world.condition("Machine", &machine, "NodeHealthy", "True", "NodeHealthy").await;
    world.condition("Cluster", "c", "RemoteConnectionProbe", "True", "ProbeSucceeded").await;
}

/// Scenario 12: credentials that are not good any more are replaced at once.
async fn a_rotated_kubeconfig_is_taken_up(world: World) {
    world.cluster("c").await;
    world.condition("Cluster", "c", "RemoteConnectionProbe", "True", "ProbeSucceeded").await;
    *world.place.token.lock().unwrap() = "second".into();
    world.kubeconfig("c", "second").await;
    let begin = world.clock().now();
    world.sleep(world.span(11, 2)).await;
    world.pool("c", "p", 1, json!({})).await;
    world.pool_ready("p", 1).await;
    if !world.site.is_real() {
        assert!(world.clock().now().duration_since(begin).as_secs() < 40, "without the wait after a failure");
    }
    world.condition("Cluster", "c", "RemoteConnectionProbe", "True", "ProbeSucceeded").await;
}

/// Whoever replaces a kubeconfig in time never loses the cluster: the new one is tried as soon as it is there, and the old
/// one is kept until it works.
async fn a_new_kubeconfig_is_used_while_the_old_one_still_works(world: World) {
    world.cluster("c").await;
    world.condition("Cluster", "c", "RemoteConnectionProbe", "True", "ProbeSucceeded").await;
    let tried = |token: &str| world.place.dialled.lock().unwrap().iter().any(|one| one == token);
    world.kubeconfig("c", "second").await;
    world.sleep(2).await;
    assert!(tried("second"), "it is not waited for a failure");
    // It is not good yet, and nothing is lost by that.
    world.pool("c", "p", 1, json!({})).await;
    world.pool_ready("p", 1).await;
    *world.place.token.lock().unwrap() = "second".into();
    world.sleep(world.span(11, 3)).await;
    world.patch("MachineDeployment", "p", json!({"spec": {"replicas": 2}})).await;
    world.pool_ready("p", 2).await;
    world.condition("Cluster", "c", "RemoteConnectionProbe", "True", "ProbeSucceeded").await;
    let probe = condition(&world.get("Cluster", "c").await, "RemoteConnectionProbe");
    let first = probe["lastTransitionTime"].clone();
    world.while_nothing_happens(60).await;
    assert_eq!(
        condition(&world.get("Cluster", "c").await, "RemoteConnectionProbe")["lastTransitionTime"],
        first
    );
}

/// A ClusterClass is not known here: whoever refers to one is told so, and nothing is taken for done.
async fn nothing_is_made_of_a_topology_and_that_is_said(world: World) {
    let topology = json!({"classRef": {"name": "small"}, "version": "v1.34.1"});
    world.create("Cluster", "c", json!({"spec": {"topology": topology}})).await;
    world.condition("Cluster", "c", "TopologyReconciled", "False", "ReconcileFailed").await;
    world.condition("Cluster", "c", "InfrastructureReady", "False", "ObjectDoesNotExist").await;
    world.condition("Cluster", "c", "ControlPlaneAvailable", "False", "ObjectDoesNotExist").await;
    world.condition("Cluster", "c", "Available", "False", "NotAvailable").await;
    let status = world.get("Cluster", "c").await["status"].clone();
    assert_eq!((&status["phase"], &status["initialization"]), (&json!("Pending"), &Value::Null));
    world.while_nothing_happens(60).await;
    assert_eq!(world.get("Cluster", "c").await["status"], status);
}

/// An authority, as its user would give it.
fn authority() -> Value {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    json!({"stringData": {"tls.crt": certificate.pem(), "tls.key": key.serialize_pem()}})
}

/// Machines alone are a control plane, too: the core signs a kubeconfig then, and the first server's node says that
/// there is one.
async fn a_cluster_without_a_provider_of_its_control_plane_gets_a_kubeconfig(world: World) {
    let group = world.speaks.group();
    // What the core signs has no token.
    world.place.token.lock().unwrap().clear();
    world.create("Secret", "c-ca", authority()).await;
    world.create("TestCluster", "c", json!({})).await;
    let reference = json!({"apiGroup": group, "kind": "TestCluster", "name": "c"});
    world.create("Cluster", "c", json!({"spec": {"infrastructureRef": reference}})).await;
    world.server("c").await;
    world.field("Secret", "c-kubeconfig", "/type", "cluster.x-k8s.io/secret".into()).await;
    let secret = world.get("Secret", "c-kubeconfig").await;
    assert_eq!(secret["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "c");
    assert_eq!(secret["metadata"]["ownerReferences"][0]["kind"], "Cluster");
    assert!(secret["metadata"]["ownerReferences"][0]["controller"].is_null());
    assert!(secret["data"]["value"].is_string());
    world.condition("Cluster", "c", "ControlPlaneInitialized", "True", "Initialized").await;
    world.condition("Machine", "c-server", "Ready", "True", "Ready").await;
    let before = secret["metadata"]["resourceVersion"].clone();
    world.while_nothing_happens(120).await;
    assert_eq!(world.get("Secret", "c-kubeconfig").await["metadata"]["resourceVersion"], before);
}

/// Scenario 17.
async fn columns_and_scale_are_there_for_kubectl(world: World) {
    world.cluster("c").await;
    world.pool("c", "p", 1, json!({})).await;
    world.pool_ready("p", 1).await;
    let path =
        |plural: &str| format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/{plural}", world.namespace);
    let scale = format!("{}/p/scale", path("machinedeployments"));
    let request = http::Request::patch(scale)
        .header("content-type", "application/merge-patch+json")
        .body(serde_json::to_vec(&json!({"spec": {"replicas": 2}})).unwrap())
        .unwrap();
    let scaled: Value = world.client.request(request).await.unwrap();
    assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    world.pool_ready("p", 2).await;
    for (plural, wanted) in [
        ("clusters", &["NAME", "AVAILABLE", "PHASE", "AGE"][..]),
        (
            "machinedeployments",
            &["CLUSTER", "DESIRED", "CURRENT", "READY", "AVAILABLE", "UP-TO-DATE", "PHASE"],
        ),
        ("machinesets", &["CLUSTER", "DESIRED", "CURRENT", "READY", "AVAILABLE"]),
        ("machines", &["CLUSTER", "NODE NAME", "READY", "AVAILABLE", "PHASE"]),
    ] {
        let request = http::Request::get(path(plural))
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .unwrap();
        let table: Value = world.client.request(request).await.unwrap();
        let columns = table["columnDefinitions"].as_array().unwrap().iter();
        let columns: Vec<String> = columns.map(|one| one["name"].as_str().unwrap().to_uppercase()).collect();
        for column in wanted {
            assert!(columns.iter().any(|one| one == column), "{plural}: {column} in {columns:?}");
        }
    }
    // And by the program itself, where there is a server for it.
    if let Some(mut kubectl) = world.kubectl() {
        let said =
            peers::command::run(kubectl.args(["scale", "machinedeployment/p", "--replicas=1"])).unwrap();
        assert!(said.contains("scaled"), "{said}");
        world.pool_ready("p", 1).await;
    }
    if let Some(mut kubectl) = world.kubectl() {
        let said = peers::command::run(kubectl.args(["get", "machinedeployments", "-o", "wide"])).unwrap();
        assert!(said.starts_with("NAME") && said.contains("Running"), "{said}");
    }
}
