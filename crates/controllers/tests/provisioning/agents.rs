//! Agents take the binary of a new server, wave by wave.

use std::collections::BTreeSet;

use plan::binary::{Binaries, REFUSED, RUNNING, WANTED, Wanted};
use serde_json::{Value, json};

use crate::world::{World, story};

/// The plan Secrets, by name.
async fn plans(world: &World) -> Vec<Value> {
    let secrets = world.list("Secret").await;
    secrets.into_iter().filter(|one| one["type"] == "rke.cattle.io/machine-plan").collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

async fn say(world: &World, plan: &str, note: &str, value: &str) {
    world.patch("Secret", plan, json!({"metadata": {"annotations": {note: value}}})).await;
}

/// Those that were asked for the binary `new`.
async fn asked(world: &World) -> BTreeSet<String> {
    let wants = |plan: &Value| {
        let text = plan["metadata"]["annotations"][WANTED].as_str().unwrap_or_default();
        Wanted::read(text).is_some_and(|wanted| wanted.binaries["amd64"] == "new")
    };
    plans(world).await.iter().filter(|plan| wants(plan)).map(|plan| name(plan).to_owned()).collect()
}

/// A cluster whose agents all run the binary `old`, and a server that comes back with `new`.
async fn upgraded(seed: u64) -> World {
    let mut world = World::new(seed).await;
    world.cluster("prod", 3, 4).await;
    world.pool_ready("prod-servers", 3).await;
    world.pool_ready("prod-workers", 4).await;
    for plan in plans(&world).await {
        say(&world, name(&plan), RUNNING, "amd64:old").await;
    }
    world.stop().await;
    world.offer.binaries = Binaries::from([("amd64".to_owned(), "new".to_owned())]);
    world.start();
    world.sleep(30).await;
    world
}

#[test]
fn waves_grow_and_workers_come_first() {
    story(|| async {
        let world = upgraded(31).await;
        let (mut done, mut waves) = (BTreeSet::new(), Vec::new());
        while done.len() < 7 {
            let now = asked(&world).await;
            let wave: Vec<String> = now.difference(&done).cloned().collect();
            assert!(!wave.is_empty(), "nobody is asked after {waves:?}");
            world.sleep(60).await;
            assert_eq!(asked(&world).await, now, "a wave waits for the one before");
            for plan in &wave {
                say(&world, plan, RUNNING, "amd64:new").await;
            }
            waves.push(wave);
            done = now;
            world.sleep(30).await;
        }
        assert_eq!(waves.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2, 3], "{waves:?}");
        let workers: Vec<&String> = waves[..3].iter().flatten().collect();
        assert!(workers.iter().all(|plan| plan.contains("-workers-")), "{waves:?}");
        world.sleep(60).await;
        let before = world.revision();
        world.sleep(300).await;
        assert_eq!(world.revision(), before, "at rest, not one write");
    });
}

#[test]
fn a_bad_binary_stops_with_the_first_one() {
    story(|| async {
        let world = upgraded(32).await;
        let first = asked(&world).await;
        let [plan] = &first.iter().collect::<Vec<_>>()[..] else { panic!("{first:?}") };
        say(&world, plan, REFUSED, "new").await;
        world.sleep(60).await;
        let events = world.list("Event").await;
        assert!(events.iter().any(|event| event["reason"] == "AgentUpdateFailed"), "{events:?}");
        world.sleep(7200).await;
        assert_eq!(asked(&world).await, first, "nobody else is asked");
    });
}

#[test]
fn who_does_not_want_it_is_not_asked() {
    story(|| async {
        let mut world = upgraded(33).await;
        let first = asked(&world).await;
        world.create("Setting", "agent-updates", json!({"value": "off"})).await;
        for plan in &first {
            say(&world, plan, RUNNING, "amd64:new").await;
        }
        world.sleep(300).await;
        assert_eq!(asked(&world).await, first, "it is switched off");

        // One machine is held back, and is the only one that stays as it is.
        let held =
            plans(&world).await.iter().map(|plan| name(plan).to_owned()).find(|plan| !first.contains(plan));
        let held = held.unwrap();
        let machine =
            world.get("Secret", &held).await["metadata"]["labels"]["rke.cattle.io/machine-name"].clone();
        let hold = json!({"metadata": {"annotations": {"herdsman.io/hold-agent": "true"}}});
        world.patch("Machine", machine.as_str().unwrap(), hold).await;
        world.patch("Setting", "agent-updates", json!({"value": ""})).await;
        world.stop().await;
        world.start();
        for _ in 0..20 {
            world.sleep(60).await;
            for plan in asked(&world).await {
                say(&world, &plan, RUNNING, "amd64:new").await;
            }
        }
        let all = asked(&world).await;
        assert!(all.len() == 6 && !all.contains(&held), "{held}: {all:?}");
    });
}
