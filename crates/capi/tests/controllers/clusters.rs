//! Scenarios 1, 2, 3, 12, 13, 18: clusters and the way to them.

use serde_json::{Value, json};

use crate::provider::Speaks;
use crate::world::{World, condition, story};

/// Scenario 1, with a provider that is installed later: everything is picked up without a restart.
#[test]
fn a_cluster_waits_for_its_infrastructure() {
    story(|| async {
        let world = World::without_provider(Speaks::V1Beta2, 1).await;
        let group = world.speaks.group();
        let reference = |kind: &str| json!({"apiGroup": group, "kind": kind, "name": "c"});
        world.create("Cluster", "c", json!({"spec": {"infrastructureRef": reference("TestCluster")}})).await;
        world.condition("Cluster", "c", "InfrastructureReady", "Unknown", "InternalError").await;
        let world = world.with_provider().await;
        world.condition("Cluster", "c", "InfrastructureReady", "False", "ObjectDoesNotExist").await;
        world.create("TestCluster", "c", json!({})).await;
        world.field("Cluster", "c", "/status/phase", "Provisioned".into()).await;
        world.condition("Cluster", "c", "InfrastructureReady", "True", "Ready").await;
    });
}

/// Scenarios 2 and 3.
#[test]
fn clusters_are_provisioned_under_both_contracts() {
    for speaks in [Speaks::V1Beta1, Speaks::V1Beta2] {
        story(|| async move {
            let world = World::new(speaks, 2).await;
            world.cluster("c").await;
            world.condition("Cluster", "c", "ControlPlaneInitialized", "True", "Initialized").await;
            world.condition("Cluster", "c", "Available", "True", "Available").await;
            let cluster = world.get("Cluster", "c").await;
            assert_eq!(cluster["spec"]["controlPlaneEndpoint"], json!({"host": "10.0.0.1", "port": 6443}));
            assert_eq!(
                cluster["status"]["failureDomains"],
                json!([{"name": "a"}, {"name": "b", "controlPlane": true}])
            );
            let initialization = &cluster["status"]["initialization"];
            assert_eq!(
                *initialization,
                json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true})
            );
            let old = cluster["status"]["deprecated"]["v1beta1"]["conditions"].as_array().unwrap();
            for type_ in ["Ready", "InfrastructureReady", "ControlPlaneReady", "ControlPlaneInitialized"] {
                assert!(
                    old.iter().any(|one| one["type"] == type_ && one["status"] == "True"),
                    "{type_}: {old:?}"
                );
            }
            let owner = world.get("TestCluster", "c").await;
            assert_eq!(owner["metadata"]["ownerReferences"][0]["kind"], "Cluster");
            assert_eq!(owner["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "c");
        });
    }
}

/// Scenario 18.
#[test]
fn nothing_is_done_to_a_paused_cluster() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 3).await;
        world.cluster("c").await;
        world.pool("c", "p", 1, json!({})).await;
        world.pool_ready("p", 1).await;
        world.patch("Cluster", "c", json!({"spec": {"paused": true}})).await;
        for (kind, name) in [("Cluster", "c"), ("MachineDeployment", "p")] {
            world.condition(kind, name, "Paused", "True", "Paused").await;
        }
        world.patch("MachineDeployment", "p", json!({"spec": {"replicas": 3}})).await;
        world.sleep(30).await;
        assert_eq!(world.machines("p").await.len(), 1);
        let before = world.revision();
        world.sleep(120).await;
        assert_eq!(world.revision(), before);
        world.patch("Cluster", "c", json!({"spec": {"paused": false}})).await;
        world.pool_ready("p", 3).await;
        world.condition("Cluster", "c", "Paused", "False", "NotPaused").await;
    });
}

/// Scenario 13: a cluster that is not reached is not touched, and says so after a while.
#[test]
fn a_cluster_that_is_not_reached_keeps_its_machines() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 4).await;
        world.cluster("c").await;
        world.pool("c", "p", 2, json!({})).await;
        world.pool_ready("p", 2).await;
        world.create("MachineHealthCheck", "h", json!({"spec": {
            "clusterName": "c", "selector": {"matchLabels": {"pool": "p"}},
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 60}]}
        }}))
        .await;
        let machines: Vec<Value> = world.machines("p").await;
        world.down.store(true, std::sync::atomic::Ordering::Relaxed);
        world.condition("Cluster", "c", "RemoteConnectionProbe", "False", "ProbeFailed").await;
        world.sleep(120).await;
        let name = crate::world::name(&machines[0]);
        assert_eq!(
            condition(&world.get("Machine", &name).await, "NodeHealthy")["status"],
            "True",
            "within the grace period"
        );
        world.condition("Machine", &name, "NodeHealthy", "Unknown", "ConnectionDown").await;
        world.sleep(600).await;
        assert_eq!(world.machines("p").await.len(), machines.len());
        world.down.store(false, std::sync::atomic::Ordering::Relaxed);
        world.condition("Machine", &name, "NodeHealthy", "True", "NodeHealthy").await;
        world.condition("Cluster", "c", "RemoteConnectionProbe", "True", "ProbeSucceeded").await;
    });
}

/// Scenario 12: credentials that are not good any more are replaced at once.
#[test]
fn a_rotated_kubeconfig_is_taken_up() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 5).await;
        world.cluster("c").await;
        world.condition("Cluster", "c", "RemoteConnectionProbe", "True", "ProbeSucceeded").await;
        *world.token.lock().unwrap() = "second".into();
        world.kubeconfig("c", "second").await;
        let begin = world.clock.now();
        world.sleep(11).await;
        world.pool("c", "p", 1, json!({})).await;
        world.pool_ready("p", 1).await;
        assert!(world.clock.now().duration_since(begin).as_secs() < 40);
        world.condition("Cluster", "c", "RemoteConnectionProbe", "True", "ProbeSucceeded").await;
    });
}
