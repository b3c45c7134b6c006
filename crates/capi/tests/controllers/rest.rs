//! Scenarios 14 and 15: what was taken away comes back, and at rest nothing is written. The same seed gives the same.

use serde_json::{Value, json};

use crate::provider::Speaks;
use crate::world::{World, name, story};

/// Scenario 15: five minutes, not one write.
#[test]
fn nothing_is_written_at_rest() {
    for speaks in [Speaks::V1Beta1, Speaks::V1Beta2] {
        story(|| async move {
            let world = World::new(speaks, 41).await;
            world.cluster("c").await;
            world.pool("c", "p", 3, json!({})).await;
            world.pool_ready("p", 3).await;
            let spec = json!({"clusterName": "c", "selector": {"matchLabels": {"pool": "p"}}});
            world.create("MachineHealthCheck", "h", json!({"spec": spec})).await;
            world.condition("Cluster", "c", "Available", "True", "Available").await;
            world.sleep(60).await;
            let (before, nodes) = (world.revision(), world.downstream.store.view().head());
            world.sleep(300).await;
            assert_eq!(world.revision(), before);
            assert_eq!(world.downstream.store.view().head(), nodes);
        });
    }
}

/// Scenario 14.
#[test]
fn owners_and_finalizers_come_back() {
    story(|| async {
        let world = World::new(Speaks::V1Beta2, 42).await;
        world.cluster("c").await;
        world.pool("c", "p", 2, json!({})).await;
        world.pool_ready("p", 2).await;
        let spec = json!({"clusterName": "c", "selector": {"matchLabels": {"pool": "p"}}});
        world.create("MachineHealthCheck", "h", json!({"spec": spec})).await;
        world.sleep(30).await;
        let kinds = [
            "Cluster",
            "MachineDeployment",
            "MachineSet",
            "Machine",
            "MachineHealthCheck",
            "TestCluster",
            "TestControlPlane",
            "TestMachine",
            "TestConfig",
            "TestMachineTemplate",
            "TestConfigTemplate",
        ];
        let marks = async || -> Vec<(String, Value, Value)> {
            let mut all = Vec::new();
            for kind in kinds {
                for object in world.list(kind).await {
                    // What a provider keeps for itself is the provider's to restore.
                    let finalizers = if kind.starts_with("Test") {
                        json!(null)
                    } else {
                        object["metadata"]["finalizers"].clone()
                    };
                    all.push((
                        format!("{kind} {}", name(&object)),
                        object["metadata"]["ownerReferences"].clone(),
                        finalizers,
                    ));
                }
            }
            all
        };
        let before = marks().await;
        assert!(before.iter().any(|(_, owners, _)| owners.is_array()));
        for kind in kinds {
            for object in world.list(kind).await {
                world
                    .patch(
                        kind,
                        &name(&object),
                        json!({"metadata": {"ownerReferences": null, "finalizers": null}}),
                    )
                    .await;
            }
        }
        world
            .until(120, "what was taken away", async || {
                let now = marks().await;
                if now == before { Ok(()) } else { Err(format!("{now:#?}\n{before:#?}")) }
            })
            .await;
        assert_eq!(world.machines("p").await.len(), 2);
    });
}

/// A day's work, twice from the same seed: the stores' logs are the same.
#[test]
fn a_seed_replays() {
    let log = |seed: u64| {
        let found = std::sync::Arc::new(std::sync::Mutex::new(None));
        let kept = found.clone();
        story(|| async move {
            let world = World::new(Speaks::V1Beta2, seed).await;
            world.cluster("c").await;
            world.pool("c", "p", 2, json!({})).await;
            world.pool_ready("p", 2).await;
            world
                .patch(
                    "MachineDeployment",
                    "p",
                    json!({"spec": {"template": {"spec": {"version": "v1.34.2"}}}}),
                )
                .await;
            world.pool_ready("p", 2).await;
            *kept.lock().unwrap() = Some(world.management.store().log_hash().await.unwrap());
        });
        found.lock().unwrap().take()
    };
    assert_eq!(log(51), log(51));
    assert_ne!(log(51), log(52));
}
