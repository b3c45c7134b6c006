//! The same seed gives the same run.

use crate::lifecycle::{K3S, K3S_NEXT, five};
use crate::story;

/// What happened, and the hash of all that was ever written to the management server.
fn run(seed: u64) -> (Vec<String>, String) {
    let mut seen = None;
    story(|| async {
        let story = five(K3S, seed).await;
        story.world.crash("s2").await.unwrap();
        story.world.power_on("s2").unwrap();
        story.edit(|cluster| cluster.spec.kubernetes_version = K3S_NEXT.into());
        story.settled(5, K3S_NEXT).await;
        let events = story.world.events().iter().map(ToString::to_string).collect();
        let hash = story.management.store().log_hash().await.unwrap();
        seen = Some((events, format!("{hash:?}")));
    });
    seen.unwrap()
}

#[test]
fn a_seed_replays() {
    let (first, second) = (run(21), run(21));
    assert_eq!(first.0, second.0, "the same things happened at the same time");
    assert_eq!(first.1, second.1, "the same was written");
}
