//! What a server may do to an agent.

use std::time::Duration;

use plan::PlanSecret;
use plan::secret::{Data, PlanState};
use serde_json::Value;

use crate::support::{Said, World, commands, delivery};

const HOUR: Duration = Duration::from_secs(3600);

fn succeeded(secret: &PlanSecret) -> bool {
    secret.state == Some(PlanState::Succeeded) && secret.plan_applied()
}

/// A world in which a plan was applied.
async fn applied() -> World {
    let mut world = World::new().await;
    world.server.create(&delivery(commands(&["one"]), Some("pending"))).await;
    world.start();
    world.until("succeeded", succeeded).await;
    world
}

#[tokio::test(start_paused = true)]
async fn others_write_too() {
    let mut world = World::new().await;
    world.server.create(&delivery(commands(&["one"]), Some("pending"))).await;
    let write = |value: &[u8]| Data::from([("somebody".to_owned(), value.to_vec())]);
    // In the way of the claim, of its second try, and then of the result.
    world.server.race(vec![write(b"else"), write(b"more"), Data::new(), write(b"again")]);
    world.start();
    world.until("succeeded", succeeded).await;
    assert_eq!(world.server.data().await["somebody"], b"again");
    assert_eq!(world.script.runs(), ["one"], "a conflict is no reason to run it again");
}

#[tokio::test(start_paused = true)]
async fn a_new_plan_while_another_is_reported() {
    let mut world = World::new().await;
    world.server.create(&delivery(commands(&["one"]), Some("pending"))).await;
    world.script.on("one", Said::Hangs);
    world.start();
    world.until_runs(1).await;
    world.kill().await;
    world.script.on("one", Said::Output("", 0));
    world.server.race(vec![delivery(commands(&["two"]), Some("pending"))]);
    world.start();
    let secret = world.until("succeeded", succeeded).await;
    assert_eq!(world.script.runs(), ["one", "one", "two"]);
    assert_eq!(secret.applied_output.get().unwrap().keys().collect::<Vec<_>>(), ["two"]);
    assert_eq!(secret.revision.get(), Some(&2));
}

#[tokio::test(start_paused = true)]
async fn answers_get_lost() {
    let mut world = World::new().await;
    world.server.create(&delivery(commands(&["one"]), Some("pending"))).await;
    world.server.lose_answers(2);
    world.start();
    let secret = world.until("succeeded", succeeded).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!((world.script.runs().len(), secret.revision.get()), (1, Some(&1)));
}

#[tokio::test(start_paused = true)]
async fn connections_break_and_the_server_is_away() {
    let mut world = applied().await;
    world.server.cut();
    world.server.set(&delivery(commands(&["two"]), Some("pending"))).await;
    world.until("succeeded", succeeded).await;
    let away = world.server.go_away();
    tokio::time::sleep(HOUR).await;
    world.server.come_back(away);
    world.server.set(&delivery(commands(&["three"]), Some("pending"))).await;
    world.until("succeeded", succeeded).await;
    assert_eq!(world.script.runs(), ["one", "two", "three"]);
    world.restart().await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_is_believed() {
    let world = applied().await;
    // Many revisions later, the server is back at the time when the first plan was applied.
    let then = world.server.data().await;
    for n in 0..300_u32 {
        world.server.set(&Data::from([("other".into(), n.to_string().into_bytes())])).await;
    }
    let high: u64 = version(&world.server.document().await);
    world.server.set(&delivery(commands(&["two"]), Some("pending"))).await;
    world.until("succeeded", succeeded).await;
    world.server.restore(&then).await;
    assert!(version(&world.server.document().await) < high);
    world.server.set(&delivery(commands(&["three"]), Some("pending"))).await;
    world.until("succeeded", succeeded).await;
    assert_eq!(world.script.runs(), ["one", "two", "three"]);
}

fn version(document: &Value) -> u64 {
    document["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_server_restored_to_in_progress_gets_the_result_again() {
    let world = applied().await;
    let mut then = delivery(commands(&["one"]), Some("in-progress"));
    then.insert("plan-revision".into(), b"1".to_vec());
    world.server.restore(&then).await;
    let secret = world.until("succeeded", succeeded).await;
    assert_eq!(secret.applied_output.get().unwrap()["one"], b"one\n");
    assert_eq!(world.script.runs(), ["one"]);
}

#[tokio::test(start_paused = true)]
async fn the_secret_is_deleted_and_made_again() {
    let world = applied().await;
    world.server.delete().await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.script.runs(), ["one"]);
    world.server.create(&delivery(commands(&["one"]), Some("pending"))).await;
    world.until("succeeded", succeeded).await;
    assert_eq!(world.script.runs(), ["one", "one"], "it is another delivery");
}

#[tokio::test(start_paused = true)]
async fn there_is_no_secret_yet() {
    let mut world = World::new().await;
    world.start();
    tokio::time::sleep(HOUR).await;
    world.server.create(&delivery(commands(&["one"]), None)).await;
    world.until("applied", PlanSecret::plan_applied).await;
    assert_eq!(world.script.runs(), ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_mistaken_does_not_wedge_it() {
    let mut world = World::new().await;
    world.server.create(&delivery(commands(&["one"]), Some("pending"))).await;
    world.server.deny(3);
    world.start();
    world.until("succeeded", succeeded).await;
    assert_eq!(world.script.runs(), ["one"]);
}
