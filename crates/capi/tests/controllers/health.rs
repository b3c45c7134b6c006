//! Scenarios 10 and 11: unhealthy machines.

use std::collections::BTreeSet;

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::provider::Speaks;
use crate::world::{World, name, story};

async fn pool_with_check(world: &World, check: serde_json::Value) -> Vec<String> {
    world.cluster("c").await;
    world.pool("c", "p", 3, json!({})).await;
    world.pool_ready("p", 3).await;
    let mut spec = json!({"clusterName": "c", "selector": {"matchLabels": {"pool": "p"}}});
    crate::world::api_merge(&mut spec, &check);
    world.create("MachineHealthCheck", "h", json!({"spec": spec})).await;
    world.field("MachineHealthCheck", "h", "/status/currentHealthy", 3.into()).await;
    world.machines("p").await.iter().map(name).collect()
}

/// Scenario 10.
#[test]
fn a_machine_whose_node_is_gone_is_replaced() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 31).await;
        let before = pool_with_check(&world, json!({})).await;
        world.remote("Node").delete(&before[0], &DeleteParams::default()).await.unwrap();
        world
            .until(300, "a replacement", async || {
                let now: BTreeSet<String> = world.machines("p").await.iter().map(name).collect();
                if now.len() == 3 && !now.contains(&before[0]) { Ok(()) } else { Err(format!("{now:?}")) }
            })
            .await;
        world.pool_ready("p", 3).await;
        world.field("MachineHealthCheck", "h", "/status/currentHealthy", 3.into()).await;
    });
}

/// Scenario 11: too many at once are left alone, and that is said.
#[test]
fn too_many_unhealthy_machines_are_left_alone() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 32).await;
        let check = json!({
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 60}]},
            "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}}
        });
        let machines = pool_with_check(&world, check).await;
        let now = world.clock.now().to_string();
        let sick = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "sick",
            "lastHeartbeatTime": now, "lastTransitionTime": now}]}});
        for node in &machines[..2] {
            world
                .remote("Node")
                .patch_status(node, &PatchParams::default(), &Patch::Merge(sick.clone()))
                .await
                .unwrap();
        }
        world.condition("MachineHealthCheck", "h", "RemediationAllowed", "False", "TooManyUnhealthy").await;
        world.condition("Machine", &machines[0], "HealthCheckSucceeded", "False", "UnhealthyNode").await;
        world.sleep(600).await;
        let left: Vec<String> = world.machines("p").await.iter().map(name).collect();
        assert_eq!(left, machines);
        world.field("MachineHealthCheck", "h", "/status/remediationsAllowed", 0.into()).await;
    });
}

/// A user marks a machine: it is replaced, whatever it looks like.
#[test]
fn a_marked_machine_is_replaced() {
    story(|| async {
        let world = World::new(Speaks::V1Beta1, 33).await;
        let machines = pool_with_check(&world, json!({})).await;
        let mark = json!({"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}});
        world.patch("Machine", &machines[2], mark).await;
        world
            .until(300, "a replacement", async || {
                let now: BTreeSet<String> = world.machines("p").await.iter().map(name).collect();
                if now.len() == 3 && !now.contains(&machines[2]) { Ok(()) } else { Err(format!("{now:?}")) }
            })
            .await;
    });
}
