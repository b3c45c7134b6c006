//! Scenarios 7, 8, 9, 19: ends.

use serde_json::{Value, json};

use crate::provider::Speaks;
use crate::world::{World, condition, name, story};

async fn one_machine(world: &World) -> String {
    world.cluster("c").await;
    world.pool("c", "p", 1, json!({})).await;
    world.pool_ready("p", 1).await;
    name(&world.machines("p").await[0])
}

/// A pod on a node, with a budget that never lets it go.
async fn guarded_pod(world: &World, node: &str) {
    use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "guarded", "namespace": "default", "labels": {"app": "guarded"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    });
    world.remote("Pod").create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    // Nothing guards a pod that does not run.
    let running =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let (options, running) = (PatchParams::default(), Patch::Merge(running));
    world.remote("Pod").patch_status("guarded", &options, &running).await.unwrap();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guard", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    });
    let resource = crate::world::resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
    let budgets: Api<DynamicObject> =
        Api::namespaced_with(world.downstream.client("test"), "default", &resource);
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
}

/// Scenario 8: hooks hold the steps, in order, and the times are noted.
#[test]
fn hooks_hold_a_machine() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 21).await;
        let machine = one_machine(&world).await;
        let (drain, terminate) = (
            "pre-drain.delete.hook.machine.cluster.x-k8s.io/a",
            "pre-terminate.delete.hook.machine.cluster.x-k8s.io/b",
        );
        world
            .patch("Machine", &machine, json!({"metadata": {"annotations": {drain: "x", terminate: "y"}}}))
            .await;
        world.delete("Machine", &machine).await;
        world.condition("Machine", &machine, "Deleting", "True", "WaitingForPreDrainHook").await;
        world.patch("Machine", &machine, json!({"metadata": {"annotations": {drain: null}}})).await;
        world.condition("Machine", &machine, "Deleting", "True", "WaitingForPreTerminateHook").await;
        let held = world.get("Machine", &machine).await;
        let progress = &held["status"]["deletion"];
        for field in
            ["waitForPreDrainHookStartTime", "nodeDrainStartTime", "waitForPreTerminateHookStartTime"]
        {
            assert!(progress[field].is_string(), "{field}: {progress}");
        }
        let node = serde_json::to_value(world.remote("Node").get(&machine).await.unwrap()).unwrap();
        assert_eq!(node["spec"]["unschedulable"], true);
        assert!(
            world.find("TestMachine", &machine).await.unwrap()["metadata"]["deletionTimestamp"].is_null()
        );
        world.patch("Machine", &machine, json!({"metadata": {"annotations": {terminate: null}}})).await;
        world
            .until(120, "its end", async || match world.find("Machine", &machine).await {
                None => Ok(()),
                Some(left) => Err(left["status"].to_string()),
            })
            .await;
        assert!(world.remote("Node").get_opt(&machine).await.unwrap().is_none(), "the node is gone, too");
    });
}

/// Scenarios 7 and 9: a budget holds the drain, the condition says which pod, and a limit given later ends it.
#[test]
fn a_blocked_drain_is_told_and_ended_by_its_limit() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 22).await;
        let machine = one_machine(&world).await;
        guarded_pod(&world, &machine).await;
        world.patch("MachineDeployment", "p", json!({"spec": {"replicas": 0}})).await;
        world.condition("Machine", &machine, "Deleting", "True", "DrainingNode").await;
        world.sleep(60).await;
        let held = world.get("Machine", &machine).await;
        let message = condition(&held, "Deleting")["message"].as_str().unwrap().to_owned();
        assert!(message.contains("default/guarded"), "{message}");
        assert!(
            message.contains("cannot evict pod as it would violate the pod's disruption budget."),
            "{message}"
        );
        world.sleep(600).await;
        assert!(world.find("Machine", &machine).await.is_some(), "without a limit it waits");
        let deletion = json!({"nodeDrainTimeoutSeconds": 5});
        world
            .patch("MachineDeployment", "p", json!({"spec": {"template": {"spec": {"deletion": deletion}}}}))
            .await;
        world
            .until(120, "its end", async || match world.find("Machine", &machine).await {
                None => Ok(()),
                Some(left) => Err(left["status"].to_string()),
            })
            .await;
    });
}

/// Scenario 19: workers, then the control plane, then the infrastructure.
#[test]
fn a_cluster_ends_in_order() {
    for speaks in [Speaks::V1Beta1, Speaks::V1Beta2] {
        story(|| async move {
            let world = World::new(speaks, 23).await;
            world.cluster("c").await;
            world.pool("c", "p", 2, json!({})).await;
            world.pool_ready("p", 2).await;
            // The control plane provider takes its machines with it.
            for (kind, name) in [("TestControlPlane", "c"), ("TestCluster", "c")] {
                world.patch(kind, name, json!({"metadata": {"finalizers": ["example.com/held"]}})).await;
            }
            world.delete("Cluster", "c").await;
            world.condition("Cluster", "c", "Deleting", "True", "WaitingForControlPlaneDeletion").await;
            assert_eq!(world.machines("p").await, Vec::<Value>::new());
            assert!(world.get("TestCluster", "c").await["metadata"]["deletionTimestamp"].is_null());
            world.delete("Machine", "c-server").await;
            world
                .until(60, "the last server's end", async || match world.find("Machine", "c-server").await {
                    None => Ok(()),
                    Some(left) => Err(left["status"].to_string()),
                })
                .await;
            world.patch("TestControlPlane", "c", json!({"metadata": {"finalizers": null}})).await;
            world.condition("Cluster", "c", "Deleting", "True", "WaitingForInfrastructureDeletion").await;
            world.patch("TestCluster", "c", json!({"metadata": {"finalizers": null}})).await;
            world
                .until(60, "its end", async || match world.find("Cluster", "c").await {
                    None => Ok(()),
                    Some(left) => Err(left["status"].to_string()),
                })
                .await;
            for kind in [
                "Machine",
                "MachineSet",
                "MachineDeployment",
                "TestMachine",
                "TestConfig",
                "TestMachineTemplate",
            ] {
                world
                    .until(60, kind, async || match world.list(kind).await.len() {
                        0 => Ok(()),
                        left => Err(left.to_string()),
                    })
                    .await;
            }
        });
    }
}
