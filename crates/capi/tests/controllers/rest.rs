//! Scenarios 14 and 15: what was taken away comes back, and at rest nothing is written. The same seed gives the same, and
//! so does another process that takes over.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::provider::Speaks;
use crate::site::Management;
use crate::world::{KINDS, World, name, story};

scenarios! {
    41 nothing_is_written_at_rest: V1Beta1 V1Beta2;
    42 owners_and_finalizers_come_back: V1Beta1 V1Beta2;
}

async fn pool_with_check(world: &World, replicas: i32) {
    world.cluster("c").await;
    world.pool("c", "p", replicas, json!({})).await;
    world.pool_ready("p", replicas.into()).await;
    let spec = json!({"clusterName": "c", "selector": {"matchLabels": {"pool": "p"}}});
    world.create("MachineHealthCheck", "h", json!({"spec": spec})).await;
    world.condition("Cluster", "c", "Available", "True", "Available").await;
    world.field("MachineHealthCheck", "h", "/status/currentHealthy", replicas.into()).await;
    world.sleep(world.span(60, 8)).await;
}

/// Scenario 15: five minutes, not one write.
async fn nothing_is_written_at_rest(world: World) {
    pool_with_check(&world, 3).await;
    let before = world.revisions().await;
    world.sleep(world.span(300, 20)).await;
    assert_eq!(world.revisions().await, before);
}

/// Owners and finalizers of everything that we look after.
async fn marks(world: &World) -> Vec<(String, Value, Value)> {
    let mut all = Vec::new();
    for kind in KINDS {
        for object in world.list(kind).await {
            // What a provider keeps for itself is the provider's to restore.
            let theirs = kind.starts_with("Test");
            let finalizers = if theirs { json!(null) } else { object["metadata"]["finalizers"].clone() };
            let owners = object["metadata"]["ownerReferences"].clone();
            all.push((format!("{kind} {}", name(&object)), owners, finalizers));
        }
    }
    all
}

/// Scenario 14.
async fn owners_and_finalizers_come_back(world: World) {
    pool_with_check(&world, 2).await;
    let before = marks(&world).await;
    assert!(before.iter().any(|(_, owners, _)| owners.is_array()));
    for kind in KINDS {
        for object in world.list(kind).await {
            let bare = json!({"metadata": {"ownerReferences": null, "finalizers": null}});
            world.patch(kind, &name(&object), bare).await;
        }
    }
    world
        .until(120, "what was taken away", async || {
            let now = marks(&world).await;
            if now == before { Ok(()) } else { Err(format!("{now:#?}\n{before:#?}")) }
        })
        .await;
    assert_eq!(world.machines("p").await.len(), 2);
}

/// A process is killed in the middle of a rollout. Another one takes its lease and goes on: no machine is made twice, and
/// the rollout ends as it would have.
pub(crate) async fn another_process_takes_over(world: World) {
    world.site.elect(&["a", "b"]);
    world.cluster("c").await;
    world.pool("c", "p", 3, json!({})).await;
    world.pool_ready("p", 3).await;
    let old: BTreeSet<String> = world.machines("p").await.iter().map(name).collect();
    let template = json!({"spec": {"template": {"spec": {"version": "v1.34.2"}}}});
    world.patch("MachineDeployment", "p", template).await;
    let within = async || -> usize {
        let machines = world.machines("p").await;
        assert!(machines.len() <= 4, "{machines:?}");
        machines.iter().filter(|machine| !old.contains(&name(machine))).count()
    };
    world
        .until(300, "the first new machine", async || match within().await {
            0 => Err("none yet".into()),
            _ => Ok(()),
        })
        .await;
    let leader = world.site.leader().await.unwrap();
    world.site.kill(&leader);
    world
        .until(1800, "the rollout", async || match (within().await, world.machines("p").await.len()) {
            (3, 3) => Ok(()),
            (new, all) => Err(format!("{new} of {all}")),
        })
        .await;
    world.pool_ready("p", 3).await;
    assert_ne!(world.site.leader().await.unwrap(), leader);
    assert_eq!(world.list("TestMachine").await.len(), 4, "one each, and the server's");
}

#[test]
fn another_process_takes_over_in_simulated_time() {
    story(|| async { another_process_takes_over(World::simulated(Speaks::V1Beta2, 43).await).await });
}

/// A day's work, twice from the same seed: the stores' logs are the same.
#[test]
fn a_seed_replays() {
    let log = |seed: u64| {
        let found = std::sync::Arc::new(std::sync::Mutex::new(None));
        let kept = found.clone();
        story(|| async move {
            let world = World::simulated(Speaks::V1Beta2, seed).await;
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
            let Management::Embedded(server) = &world.site.management else { return };
            *kept.lock().unwrap() = Some(server.store.log_hash().await.unwrap());
        });
        found.lock().unwrap().take()
    };
    assert!(log(51).is_some());
    assert_eq!(log(51), log(51));
    assert_ne!(log(51), log(52));
}
