//! Scenarios 7, 8, 9, 19: ends.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::world::{World, condition, name};

scenarios! {
    21 hooks_hold_a_machine: V1Beta1 V1Beta2;
    22 a_blocked_drain_is_told_and_ended_by_its_limit: V1Beta2;
    23 a_cluster_ends_in_order: V1Beta1 V1Beta2;
    24 rules_say_which_pods_a_drain_waits_for: V1Beta2;
    25 a_machine_stays_until_its_volumes_are_detached: V1Beta1 V1Beta2;
}

async fn one_machine(world: &World) -> String {
    world.cluster("c").await;
    world.pool("c", "p", 1, json!({})).await;
    world.pool_ready("p", 1).await;
    name(&world.machines("p").await[0])
}

/// A pod that runs on a node. Its label `app` is its name.
async fn pod(world: &World, name: &str, node: &str) {
    world
        .create_remote(
            "Pod",
            json!({
                "apiVersion": "v1", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
            }),
        )
        .await;
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    world.patch_remote_status("Pod", name, status).await;
}

/// Waits until a machine's end waits for something, and says so.
async fn deleting(world: &World, machine: &str, reason: &str, told: &str) {
    world.condition("Machine", machine, "Deleting", "True", reason).await;
    world
        .until(120, told, async || {
            let held = world.get("Machine", machine).await;
            let message = condition(&held, "Deleting")["message"].as_str().unwrap_or_default().to_owned();
            if message.contains(told) { Ok(()) } else { Err(message) }
        })
        .await;
}

/// Scenario 8: hooks hold the steps, in order, and the times are noted.
async fn hooks_hold_a_machine(world: World) {
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
    // However long it takes, longer than a Node's deletion may: the Node goes all the same.
    world.while_nothing_happens(60).await;
    let held = world.get("Machine", &machine).await;
    let progress = &held["status"]["deletion"];
    for field in ["waitForPreDrainHookStartTime", "nodeDrainStartTime", "waitForPreTerminateHookStartTime"] {
        assert!(progress[field].is_string(), "{field}: {progress}");
    }
    let node = serde_json::to_value(world.remote("Node").get(&machine).await.unwrap()).unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert!(world.find("TestMachine", &machine).await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    world.patch("Machine", &machine, json!({"metadata": {"annotations": {terminate: null}}})).await;
    world.gone("Machine", &machine).await;
    assert!(world.remote("Node").get_opt(&machine).await.unwrap().is_none(), "the node is gone, too");
}

/// Scenarios 7 and 9: a budget holds the drain, the condition says which pod, and a limit given later ends it.
async fn a_blocked_drain_is_told_and_ended_by_its_limit(world: World) {
    let machine = one_machine(&world).await;
    pod(&world, "guarded", &machine).await;
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}});
    let budget = json!({"apiVersion": "policy/v1", "metadata": {"name": "guard", "namespace": "default"}, "spec": spec});
    world.create_remote("PodDisruptionBudget", budget).await;
    world.patch("MachineDeployment", "p", json!({"spec": {"replicas": 0}})).await;
    deleting(&world, &machine, "DrainingNode", "default/guarded").await;
    let refused = "cannot evict pod as it would violate the pod's disruption budget.";
    deleting(&world, &machine, "DrainingNode", refused).await;
    world.while_nothing_happens(600).await;
    assert!(world.find("Machine", &machine).await.is_some(), "without a limit it waits");
    let deletion = json!({"nodeDrainTimeoutSeconds": world.span(5, 1)});
    world
        .patch("MachineDeployment", "p", json!({"spec": {"template": {"spec": {"deletion": deletion}}}}))
        .await;
    world.gone("Machine", &machine).await;
}

fn rule(app: &str, drain: Value) -> Value {
    json!({"spec": {
        "drain": drain,
        "machines": [{"selector": {"matchLabels": {"pool": "p"}}, "clusterSelector": {"matchLabels": {"careful": "yes"}}}],
        "pods": [{"selector": {"matchLabels": {"app": app}}}]
    }})
}

/// MachineDrainRules: one pod is left alone, one is waited for, the others go in the order that is asked for.
async fn rules_say_which_pods_a_drain_waits_for(world: World) {
    world.create("MachineDrainRule", "left", rule("left", json!({"behavior": "Skip"}))).await;
    world.create("MachineDrainRule", "job", rule("job", json!({"behavior": "WaitCompleted"}))).await;
    world.create("MachineDrainRule", "last", rule("last", json!({"behavior": "Drain", "order": 10}))).await;
    let machine = one_machine(&world).await;
    world.patch("Cluster", "c", json!({"metadata": {"labels": {"careful": "yes"}}})).await;
    for name in ["left", "job", "first", "last"] {
        pod(&world, name, &machine).await;
    }
    world.delete("Machine", &machine).await;
    deleting(&world, &machine, "DrainingNode", "default/job").await;
    let evicted = async |name: &str| {
        let found = world.remote("Pod").get_opt(name).await.unwrap();
        found.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    };
    world
        .until(120, "the first pod's turn", async || match evicted("first").await {
            true => Ok(()),
            false => Err("it stays".into()),
        })
        .await;
    assert!(!evicted("last").await && !evicted("left").await && !evicted("job").await);
    // Nobody stops pods here: there is no kubelet.
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    let _ = world.remote("Pod").delete("first", &now).await;
    world
        .until(120, "the last pod's turn", async || match evicted("last").await {
            true => Ok(()),
            false => Err("it stays".into()),
        })
        .await;
    let _ = world.remote("Pod").delete("last", &now).await;
    deleting(&world, &machine, "DrainingNode", "waiting for completion").await;
    assert!(!evicted("left").await && !evicted("job").await);
    world.patch_remote_status("Pod", "job", json!({"phase": "Succeeded"})).await;
    world.gone("Machine", &machine).await;
    assert!(!evicted("left").await, "it was left alone to the end");
}

/// Volumes that are attached are waited for.
async fn a_machine_stays_until_its_volumes_are_detached(world: World) {
    let machine = one_machine(&world).await;
    let claim = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"});
    world
        .create_remote(
            "PersistentVolume",
            json!({"apiVersion": "v1", "metadata": {"name": "volume"}, "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": claim,
                "csi": {"driver": "csi.example.com", "volumeHandle": "one"}
            }}),
        )
        .await;
    world
        .create_remote(
            "VolumeAttachment",
            json!({"apiVersion": "storage.k8s.io/v1", "metadata": {"name": "attached"}, "spec": {
                "attacher": "csi.example.com", "nodeName": machine, "source": {"persistentVolumeName": "volume"}
            }}),
        )
        .await;
    world.patch_remote_status("VolumeAttachment", "attached", json!({"attached": true})).await;
    world.delete("Machine", &machine).await;
    deleting(&world, &machine, "WaitingForVolumeDetach", "default/data").await;
    assert!(world.get("TestMachine", &machine).await["metadata"]["deletionTimestamp"].is_null());
    world.while_nothing_happens(120).await;
    assert!(world.find("Machine", &machine).await.is_some());
    world.remote("VolumeAttachment").delete("attached", &DeleteParams::default()).await.unwrap();
    world.gone("Machine", &machine).await;
}

/// Scenario 19: workers, then the control plane, then the infrastructure.
async fn a_cluster_ends_in_order(world: World) {
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
    world.gone("Machine", "c-server").await;
    world.patch("TestControlPlane", "c", json!({"metadata": {"finalizers": null}})).await;
    world.condition("Cluster", "c", "Deleting", "True", "WaitingForInfrastructureDeletion").await;
    world.patch("TestCluster", "c", json!({"metadata": {"finalizers": null}})).await;
    world.gone("Cluster", "c").await;
    for kind in
        ["Machine", "MachineSet", "MachineDeployment", "TestMachine", "TestConfig", "TestMachineTemplate"]
    {
        world
            .until(60, kind, async || match world.list(kind).await.len() {
                0 => Ok(()),
                left => Err(left.to_string()),
            })
            .await;
    }
}
