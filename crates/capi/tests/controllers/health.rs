//! Scenarios 10 and 11: unhealthy machines.

use std::collections::BTreeSet;

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::world::{World, condition, name};

scenarios! {
    31 a_machine_whose_node_is_gone_is_replaced: V1Beta1 V1Beta2;
    32 too_many_unhealthy_machines_are_left_alone: V1Beta2;
    33 a_marked_machine_is_replaced: V1Beta1;
    34 somebody_else_repairs: V1Beta1 V1Beta2;
}

async fn pool_with_check(world: &World, check: Value) -> Vec<String> {
    world.cluster("c").await;
    world.pool("c", "p", 3, json!({})).await;
    world.pool_ready("p", 3).await;
    let mut spec = json!({"clusterName": "c", "selector": {"matchLabels": {"pool": "p"}}});
    crate::world::api_merge(&mut spec, &check);
    world.create("MachineHealthCheck", "h", json!({"spec": spec})).await;
    world.field("MachineHealthCheck", "h", "/status/currentHealthy", 3.into()).await;
    world.machines("p").await.iter().map(name).collect()
}

/// A check by which nodes that are not ready are unhealthy after a while.
fn not_ready(world: &World, remediation: Value) -> Value {
    let timeout = world.span(60, 2);
    json!({
        "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": timeout}]},
        "remediation": remediation
    })
}

async fn set_ready(world: &World, node: &str, status: &str) {
    let now = world.clock().now().to_string();
    let told = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "told", "lastHeartbeatTime": now, "lastTransitionTime": now});
    let all = [
        told("Ready", status),
        told("MemoryPressure", "False"),
        told("DiskPressure", "False"),
        told("PIDPressure", "False"),
    ];
    world.patch_remote_status("Node", node, json!({"conditions": all})).await;
}

async fn replaced(world: &World, machine: &str) {
    world
        .until(300, "a replacement", async || {
            let now: BTreeSet<String> = world.machines("p").await.iter().map(name).collect();
            if now.len() == 3 && !now.contains(machine) { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
}

/// Scenario 10.
async fn a_machine_whose_node_is_gone_is_replaced(world: World) {
    let before = pool_with_check(&world, json!({})).await;
    world.remote("Node").delete(&before[0], &DeleteParams::default()).await.unwrap();
    replaced(&world, &before[0]).await;
    world.pool_ready("p", 3).await;
    world.field("MachineHealthCheck", "h", "/status/currentHealthy", 3.into()).await;
}

/// Scenario 11: too many at once are left alone, and that is said.
async fn too_many_unhealthy_machines_are_left_alone(world: World) {
    let check = not_ready(&world, json!({"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}}));
    let machines = pool_with_check(&world, check).await;
    for node in &machines[..2] {
        set_ready(&world, node, "False").await;
    }
    world.condition("MachineHealthCheck", "h", "RemediationAllowed", "False", "TooManyUnhealthy").await;
    world.condition("Machine", &machines[0], "HealthCheckSucceeded", "False", "UnhealthyNode").await;
    world.while_nothing_happens(600).await;
    let left: Vec<String> = world.machines("p").await.iter().map(name).collect();
    assert_eq!(left, machines);
    world.field("MachineHealthCheck", "h", "/status/remediationsAllowed", 0.into()).await;
}

/// A user marks a machine: it is replaced, whatever it looks like.
async fn a_marked_machine_is_replaced(world: World) {
    let machines = pool_with_check(&world, json!({})).await;
    let mark = json!({"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}});
    world.patch("Machine", &machines[2], mark).await;
    replaced(&world, &machines[2]).await;
}

/// External remediation: a request is made for whoever repairs, and taken back when the machine is well.
async fn somebody_else_repairs(world: World) {
    let template = |kind: &str| {
        let version = format!("{}/v1", world.speaks.group());
        json!({"templateRef": {"apiVersion": version, "kind": kind, "name": "t"}})
    };
    let check = not_ready(&world, template("UnheardOfTemplate"));
    let machines = pool_with_check(&world, check).await;
    set_ready(&world, &machines[0], "False").await;
    let waits = |reason: &'static str| {
        world.condition("Machine", &machines[0], "ExternallyRemediated", "False", reason)
    };
    // What is found of a machine is said also where nobody can be asked to repair it.
    waits("RemediationTemplateNotFound").await;
    world.condition("Machine", &machines[0], "HealthCheckSucceeded", "False", "UnhealthyNode").await;
    world
        .patch(
            "MachineHealthCheck",
            "h",
            json!({"spec": {"remediation": template("TestRemediationTemplate")}}),
        )
        .await;
    world.sleep(world.span(70, 7)).await;
    waits("RemediationTemplateNotFound").await;
    let spec = json!({"spec": {"template": {"spec": {"by": "hand"}}}});
    world.create("TestRemediationTemplate", "t", spec).await;
    waits("WaitingForRemediation").await;
    let request = world.get("TestRemediation", &machines[0]).await;
    assert_eq!(request["spec"], json!({"by": "hand"}));
    let owner = &request["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("Machine"), &json!(machines[0])));
    world.while_nothing_happens(120).await;
    assert!(world.get("Machine", &machines[0]).await["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(world.list("TestRemediation").await.len(), 1);
    set_ready(&world, &machines[0], "True").await;
    world.gone("TestRemediation", &machines[0]).await;
    world.condition("Machine", &machines[0], "HealthCheckSucceeded", "True", "HealthCheckSucceeded").await;
    let machine = world.get("Machine", &machines[0]).await;
    assert!(condition(&machine, "ExternallyRemediated").is_null(), "{machine}");
    assert!(condition(&machine, "OwnerRemediated").is_null(), "the owner was never asked");
}
