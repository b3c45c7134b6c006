use std::time::Duration;

use apiserver::store::{Options, Revision};
use serde_json::{Value, json};

use super::support::World;

/// Moves both clocks.
async fn pass(world: &World, time: Duration) {
    world.clock.advance(time);
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn events_go_after_an_hour() {
    let world = World::new().await;
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "n", "name": "p"},
    });
    world.ok("POST", "/api/v1/namespaces/n/events", event).await;
    for (minutes, there) in [(58, true), (4, false)] {
        pass(&world, Duration::from_secs(minutes * 60)).await;
        assert_eq!(world.is_there("/api/v1/namespaces/n/events/e").await, there, "after {minutes} minutes");
    }
}

#[tokio::test(start_paused = true)]
async fn history_is_trimmed() {
    let options = Options { history_age: Duration::from_secs(600), ..Options::default() };
    let world = World::with(1, options).await;
    let floor = || world.server.store().view().floor();
    pass(&world, Duration::from_secs(300)).await;
    assert_eq!(floor(), Revision::ZERO);
    let head = world.server.store().view().head();
    pass(&world, Duration::from_secs(301)).await;
    pass(&world, Duration::from_secs(301)).await;
    assert_eq!(floor(), head);
    world.ok("DELETE", "/api/v1/namespaces/n", Value::Null).await;
    world.settle().await;
    assert!(!world.is_there("/api/v1/namespaces/n").await);
}
