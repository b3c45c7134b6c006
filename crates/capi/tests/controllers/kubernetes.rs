//! The way of a cluster on a real Kubernetes, in real time: what a simulation cannot show is that a real API server takes
//! what the controllers write.

use serde_json::json;

use crate::provider::Speaks;
use crate::world::{World, condition, name};

/// From nothing to a pool, through a rollout, a drain that hooks hold, and to nothing.
async fn way(speaks: Speaks) {
    let world = World::on_kubernetes(peers::Kubernetes::start().unwrap(), speaks).await;
    world.cluster("c").await;
    world.condition("Cluster", "c", "Available", "True", "Available").await;
    world.pool("c", "p", 2, json!({})).await;
    world.pool_ready("p", 2).await;
    let spec = json!({"clusterName": "c", "selector": {"matchLabels": {"pool": "p"}}});
    world.create("MachineHealthCheck", "h", json!({"spec": spec})).await;
    world.field("MachineHealthCheck", "h", "/status/currentHealthy", 2.into()).await;

    // At rest nothing is written.
    world.sleep(3).await;
    let revisions = async || -> Vec<String> {
        let mut all = Vec::new();
        for kind in [
            "Cluster",
            "Machine",
            "MachineSet",
            "MachineDeployment",
            "MachineHealthCheck",
            "TestMachine",
            "TestConfig",
        ] {
            all.extend(
                world.list(kind).await.iter().map(|object| object["metadata"]["resourceVersion"].to_string()),
            );
        }
        all
    };
    let before = revisions().await;
    world.sleep(15).await;
    assert_eq!(revisions().await, before);

    // Metadata follows and goes again, by managed fields as this server keeps them.
    let first = name(&world.machines("p").await[0]);
    world
        .patch(
            "MachineDeployment",
            "p",
            json!({"spec": {"template": {"metadata": {"labels": {"zone": "b"}}}}}),
        )
        .await;
    world.field("TestMachine", &first, "/metadata/labels/zone", "b".into()).await;
    world
        .patch(
            "MachineDeployment",
            "p",
            json!({"spec": {"template": {"metadata": {"labels": {"zone": null}}}}}),
        )
        .await;
    world.field("TestMachine", &first, "/metadata/labels/zone", json!(null)).await;
    world.field("Machine", &first, "/metadata/labels/zone", json!(null)).await;

    world
        .patch("MachineDeployment", "p", json!({"spec": {"template": {"spec": {"version": "v1.34.2"}}}}))
        .await;
    world
        .until(300, "the rollout", async || {
            let machines = world.machines("p").await;
            assert!(machines.len() <= 3, "{} of at most 3", machines.len());
            let new = machines.iter().filter(|machine| machine["spec"]["version"] == "v1.34.2");
            if new.count() == 2 && machines.len() == 2 { Ok(()) } else { Err(format!("{machines:?}")) }
        })
        .await;
    world.pool_ready("p", 2).await;
    assert_eq!(condition(&world.get("MachineDeployment", "p").await, "Available")["status"], "True");

    let held = name(&world.machines("p").await[0]);
    let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/mine";
    world.patch("Machine", &held, json!({"metadata": {"annotations": {hook: "x"}}})).await;
    world.delete("Machine", &held).await;
    world.condition("Machine", &held, "Deleting", "True", "WaitingForPreTerminateHook").await;
    world.patch("Machine", &held, json!({"metadata": {"annotations": {hook: null}}})).await;
    world.pool_ready("p", 2).await;

    world.delete("Cluster", "c").await;
    world.delete("Machine", "c-server").await;
    for kind in ["Cluster", "Machine", "MachineSet", "MachineDeployment", "TestMachine", "TestCluster"] {
        world
            .until(120, kind, async || match world.list(kind).await.len() {
                0 => Ok(()),
                _ => Err(format!("{:?}", world.list(kind).await)),
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs cargo xtask peers"]
async fn a_cluster_lives_on_a_real_kubernetes_contract_v1beta1() {
    way(Speaks::V1Beta1).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs cargo xtask peers"]
async fn a_cluster_lives_on_a_real_kubernetes_contract_v1beta2() {
    way(Speaks::V1Beta2).await;
}
