//! Scenarios 4, 5, 6, 7: machines that follow their template.

use std::collections::BTreeSet;

use serde_json::json;

use crate::provider::Speaks;
use crate::world::{World, condition, name, story};

/// A pool under both contracts.
#[test]
fn machines_come_up() {
    for speaks in [Speaks::V1Beta1, Speaks::V1Beta2] {
        story(|| async move {
            let world = World::new(speaks, 11).await;
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
                    assert_eq!(
                        made["metadata"]["ownerReferences"][0]["uid"], machine["metadata"]["uid"],
                        "{kind}"
                    );
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
        });
    }
}

/// Scenario 4: the bounds hold all the way.
#[test]
fn a_rollout_keeps_to_its_bounds() {
    for (surge, unavailable, least, most) in [(1, 0, 3, 4), (0, 1, 2, 3), (2, 1, 2, 5)] {
        story(|| async move {
            let world = World::new(Speaks::V1Beta2, 12).await;
            world.cluster("c").await;
            let update = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": update});
            world.pool("c", "p", 3, json!({"spec": {"rollout": {"strategy": strategy}}})).await;
            world.pool_ready("p", 3).await;
            let old: BTreeSet<String> = world.machines("p").await.iter().map(name).collect();
            world
                .patch(
                    "MachineDeployment",
                    "p",
                    json!({"spec": {"template": {"spec": {"version": "v1.34.2"}}}}),
                )
                .await;
            world
                .until(1800, "the rollout", async || {
                    let machines = world.machines("p").await;
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
            world.pool_ready("p", 3).await;
            world.condition("MachineDeployment", "p", "RollingOut", "False", "NotRollingOut").await;
            world
                .until(60, "one set", async || match world.list("MachineSet").await.len() {
                    1 => Ok(()),
                    more => Err(more.to_string()),
                })
                .await;
            let pool = world.get("MachineDeployment", "p").await;
            assert_eq!(pool["metadata"]["annotations"]["machinedeployment.clusters.x-k8s.io/revision"], "2");
        });
    }
}

/// Scenario 5.
#[test]
fn a_deleted_machine_is_replaced_by_a_new_one() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 13).await;
        world.cluster("c").await;
        world.pool("c", "p", 3, json!({"spec": {"rollout": {"strategy": {"type": "OnDelete"}}}})).await;
        world.pool_ready("p", 3).await;
        world
            .patch("MachineDeployment", "p", json!({"spec": {"template": {"spec": {"version": "v1.34.2"}}}}))
            .await;
        world.sleep(60).await;
        let versions = async || -> Vec<String> {
            let mut all: Vec<String> = world
                .machines("p")
                .await
                .iter()
                .map(|machine| machine["spec"]["version"].as_str().unwrap().to_owned())
                .collect();
            all.sort();
            all
        };
        assert_eq!(versions().await, ["v1.34.1", "v1.34.1", "v1.34.1"], "nothing happens by itself");
        let first = name(&world.machines("p").await[0]);
        world.delete("Machine", &first).await;
        world
            .until(300, "a replacement", async || {
                let now = versions().await;
                if now == ["v1.34.1", "v1.34.1", "v1.34.2"] { Ok(()) } else { Err(format!("{now:?}")) }
            })
            .await;
    });
}

/// Scenario 6.
#[test]
fn the_marked_machine_goes_first() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 14).await;
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
    });
}

/// Labels, annotations and timeouts follow without a rollout, and go again; what others wrote stays.
#[test]
fn metadata_follows_in_place() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 15).await;
        world.cluster("c").await;
        world
            .pool("c", "p", 1, json!({"spec": {"template": {"metadata": {"labels": {"tier": "one"}}}}}))
            .await;
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
    });
}
