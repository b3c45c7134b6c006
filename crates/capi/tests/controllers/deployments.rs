//! Scenarios 4, 5, 6: machines that follow their template.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::world::{World, condition, name};

scenarios! {
    11 machines_come_up: V1Beta1 V1Beta2;
    12 a_rollout_keeps_to_its_bounds: V1Beta2;
    13 a_deleted_machine_is_replaced_by_a_new_one: V1Beta2;
    14 the_marked_machine_goes_first: V1Beta2;
    15 metadata_follows_in_place: V1Beta2;
    16 a_rollout_is_paused_half_way: V1Beta2;
    17 machines_wait_for_a_control_plane_that_is_ready_for_them: V1Beta1 V1Beta2;
}

/// A pool under both contracts.
async fn machines_come_up(world: World) {
    world.cluster("c").await;
    world.pool("c", "p", 3, json!({})).await;
    world.pool_ready("p", 3).await;
    for machine in world.machines("p").await {
        let id = name(&machine);
        assert_eq!(machine["status"]["phase"], "Running", "{machine}");
        assert_eq!(machine["status"]["nodeRef"]["name"], id.as_str());
        assert_eq!(machine["spec"]["providerID"], format!("test://{id}"));
        assert_eq!(machine["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
        for kind in ["TestMachine", "TestConfig"] {
            let made = world.get(kind, &id).await;
            assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], machine["metadata"]["uid"], "{kind}");
            assert_eq!(made["spec"]["size"], "small");
            assert_eq!(made["metadata"]["annotations"]["cluster.x-k8s.io/cloned-from-name"], "p");
        }
        let node = serde_json::to_value(world.remote("Node").get(&id).await.unwrap()).unwrap();
        assert_eq!(node["metadata"]["annotations"]["cluster.x-k8s.io/machine"], id.as_str());
        assert_eq!(node["metadata"]["annotations"]["cluster.x-k8s.io/owner-kind"], "MachineSet");
    }
    let pool = world.get("MachineDeployment", "p").await;
    assert_eq!(pool["status"]["phase"], "Running");
    assert_eq!(condition(&pool, "Available")["status"], "True");
    assert_eq!(pool["metadata"]["annotations"]["machinedeployment.clusters.x-k8s.io/revision"], "1");
    world.condition("Cluster", "c", "WorkersAvailable", "True", "Available").await;
}

fn strategy(surge: u32, unavailable: u32) -> Value {
    let update = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    json!({"spec": {"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": update}}}})
}

fn version(version: &str) -> Value {
    json!({"spec": {"template": {"spec": {"version": version}}}})
}

/// Scenario 4: the bounds hold all the way.
async fn a_rollout_keeps_to_its_bounds(world: World) {
    world.cluster("c").await;
    for (surge, unavailable, least, most) in [(1, 0, 3, 4), (0, 1, 2, 3), (2, 1, 2, 5)] {
        let pool = format!("p-{surge}-{unavailable}");
        world.pool("c", &pool, 3, strategy(surge, unavailable)).await;
        world.pool_ready(&pool, 3).await;
        let old: BTreeSet<String> = world.machines(&pool).await.iter().map(name).collect();
        world.patch("MachineDeployment", &pool, version("v1.34.2")).await;
        world
            .until(1800, "the rollout", async || {
                let machines = world.machines(&pool).await;
                let up = machines.iter().filter(|machine| {
                    machine["metadata"]["deletionTimestamp"].is_null()
                        && condition(machine, "Available")["status"] == "True"
                });
                let up = up.count();
                assert!(up >= least, "{up} of at least {least}");
                assert!(machines.len() <= most, "{} of at most {most}", machines.len());
                let new = machines.iter().filter(|machine| !old.contains(&name(machine)));
                if new.count() == 3 && machines.len() == 3 { Ok(()) } else { Err(String::new()) }
            })
            .await;
        world.pool_ready(&pool, 3).await;
        world.condition("MachineDeployment", &pool, "RollingOut", "False", "NotRollingOut").await;
        world
            .until(60, "one set", async || match world.sets(&pool).await.len() {
                1 => Ok(()),
                more => Err(more.to_string()),
            })
            .await;
        let pool = world.get("MachineDeployment", &pool).await;
        assert_eq!(pool["metadata"]["annotations"]["machinedeployment.clusters.x-k8s.io/revision"], "2");
    }
}

/// The versions of a pool's machines, sorted.
async fn versions(world: &World) -> Vec<String> {
    let machines = world.machines("p").await;
    let mut all: Vec<String> =
        machines.iter().map(|machine| machine["spec"]["version"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

/// Scenario 5.
async fn a_deleted_machine_is_replaced_by_a_new_one(world: World) {
    world.cluster("c").await;
    world.pool("c", "p", 3, json!({"spec": {"rollout": {"strategy": {"type": "OnDelete"}}}})).await;
    world.pool_ready("p", 3).await;
    world.patch("MachineDeployment", "p", version("v1.34.2")).await;
    world.while_nothing_happens(60).await;
    assert_eq!(versions(&world).await, ["v1.34.1", "v1.34.1", "v1.34.1"], "nothing happens by itself");
    let first = name(&world.machines("p").await[0]);
    world.delete("Machine", &first).await;
    world
        .until(300, "a replacement", async || {
            let now = versions(&world).await;
            if now == ["v1.34.1", "v1.34.1", "v1.34.2"] { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
}

/// Scenario 6.
async fn the_marked_machine_goes_first(world: World) {
    world.cluster("c").await;
    world.pool("c", "p", 3, json!({})).await;
    world.pool_ready("p", 3).await;
    let marked = name(&world.machines("p").await[1]);
    world
        .patch(
            "Machine",
            &marked,
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "yes"}}}),
        )
        .await;
    world.patch("MachineDeployment", "p", json!({"spec": {"replicas": 2}})).await;
    world.pool_ready("p", 2).await;
    let left: Vec<String> = world.machines("p").await.iter().map(name).collect();
    assert!(!left.contains(&marked), "{left:?}");
}

/// Labels, annotations and timeouts follow without a rollout, and go again; what others wrote stays.
async fn metadata_follows_in_place(world: World) {
    world.cluster("c").await;
    world.pool("c", "p", 1, json!({"spec": {"template": {"metadata": {"labels": {"tier": "one"}}}}})).await;
    world.pool_ready("p", 1).await;
    let machine = name(&world.machines("p").await[0]);
    world.patch("Machine", &machine, json!({"metadata": {"labels": {"mine": "x"}}})).await;
    let template = json!({"metadata": {"labels": {"tier": null, "zone": "b"}}, "spec": {"deletion": {"nodeDrainTimeoutSeconds": 7}}});
    world.patch("MachineDeployment", "p", json!({"spec": {"template": template}})).await;
    world.field("Machine", &machine, "/spec/deletion/nodeDrainTimeoutSeconds", 7.into()).await;
    for kind in ["Machine", "TestMachine", "TestConfig"] {
        world.field(kind, &machine, "/metadata/labels/zone", "b".into()).await;
        world.field(kind, &machine, "/metadata/labels/tier", json!(null)).await;
    }
    world.field("Machine", &machine, "/metadata/labels/mine", "x".into()).await;
    assert_eq!(world.list("MachineSet").await.len(), 1, "no rollout");
}

/// A deployment that is paused in the middle of a rollout goes no further, but is scaled, old and new alike.
async fn a_rollout_is_paused_half_way(world: World) {
    world.cluster("c").await;
    world.pool("c", "p", 4, strategy(1, 0)).await;
    world.pool_ready("p", 4).await;
    // Nothing new comes up, so that the rollout stays where it is.
    world.place.hold.store(true, std::sync::atomic::Ordering::Relaxed);
    world.patch("MachineDeployment", "p", version("v1.34.2")).await;
    let count = async |version: &str| versions(&world).await.iter().filter(|one| *one == version).count();
    world
        .until(120, "the first new machine", async || match count("v1.34.2").await {
            0 => Err("none".into()),
            _ => Ok(()),
        })
        .await;
    world.patch("MachineDeployment", "p", json!({"spec": {"paused": true}})).await;
    world.observed("MachineDeployment", "p").await;
    world.place.hold.store(false, std::sync::atomic::Ordering::Relaxed);
    world
        .until(300, "rest", async || {
            let machines = world.machines("p").await;
            let still = machines.iter().all(|machine| condition(machine, "Available")["status"] == "True");
            if still { Ok(()) } else { Err(format!("{machines:?}")) }
        })
        .await;
    let half = versions(&world).await;
    assert!(half.contains(&"v1.34.1".to_owned()) && half.contains(&"v1.34.2".to_owned()), "{half:?}");
    world.while_nothing_happens(120).await;
    assert_eq!(versions(&world).await, half, "it goes no further");
    world.patch("MachineDeployment", "p", json!({"spec": {"replicas": 8}})).await;
    world
        .until(300, "as many as asked for", async || {
            let all = versions(&world).await;
            if all.len() >= 8 { Ok(()) } else { Err(format!("{all:?}")) }
        })
        .await;
    world.while_nothing_happens(60).await;
    let scaled = versions(&world).await;
    assert!(scaled.len() <= 9, "{scaled:?}");
    let old = |all: &[String]| all.iter().filter(|one| *one == "v1.34.1").count();
    assert!(old(&scaled) > old(&half), "the old ones grow with the new ones: {scaled:?}");
    world.patch("MachineDeployment", "p", json!({"spec": {"paused": false}})).await;
    world.pool_ready("p", 8).await;
    assert_eq!(count("v1.34.2").await, 8);
}

/// No kubelet is newer than its API server, and nobody joins a control plane that is being upgraded.
async fn machines_wait_for_a_control_plane_that_is_ready_for_them(world: World) {
    world.cluster("c").await;
    world.pool("c", "p", 1, version("v1.35.0")).await;
    let blocked = async |why: &str| {
        world
            .until(120, why, async || {
                let sets = world.list("MachineSet").await;
                let told = sets.first().map(|set| condition(set, "ScalingUp")["message"].to_string());
                match told.filter(|told| told.contains(why)) {
                    Some(_) => Ok(()),
                    None => Err(format!("{sets:?}")),
                }
            })
            .await;
        assert_eq!(world.machines("p").await.len(), 0);
    };
    blocked("\\\"KubernetesVersionSkew\\\" preflight check failed").await;
    world.patch("TestControlPlane", "c", json!({"spec": {"version": "v1.35.0"}})).await;
    blocked("is upgrading (\\\"ControlPlaneIsStable\\\" preflight check failed)").await;
    world.patch_status("TestControlPlane", "c", json!({"version": "v1.35.0"})).await;
    world.pool_ready("p", 1).await;
}
