use apiserver::store::{LogHash, Options};
use clock::{Entropy, SeededEntropy};
use serde_json::{Value, json};

use super::support::{DEFINITIONS, World, owner, things};

/// A busy while: families of objects, namespaces and kinds that come and go.
async fn story(seed: u64) -> LogHash {
    let world = World::with(seed, Options::default()).await;
    let mut dice = SeededEntropy::new(seed);
    world.ok("POST", DEFINITIONS, things()).await;
    let mut made: Vec<(String, String)> = Vec::new();
    for index in 0..60 {
        let name = format!("m{index}");
        let chosen = (!made.is_empty() && dice.below(3) > 0)
            .then(|| made[dice.below(u32::try_from(made.len()).unwrap()) as usize].clone());
        let owners: Vec<Value> =
            chosen.iter().map(|(name, uid)| owner(name, uid, dice.below(2) == 0)).collect();
        let uid = world.map("n", &name, json!(owners)).await;
        made.push((name, uid));
        if dice.below(4) == 0 {
            let policy = ["Background", "Foreground", "Orphan"][dice.below(3) as usize];
            let (name, _) = &made[dice.below(u32::try_from(made.len()).unwrap()) as usize];
            let url = format!("/api/v1/namespaces/n/configmaps/{name}?propagationPolicy={policy}");
            let _gone_already = world.ask("DELETE", &url, Value::Null).await;
        }
        if dice.below(5) == 0 {
            tokio::task::yield_now().await;
        }
    }
    world.ok("POST", "/api/v1/namespaces", json!({"metadata": {"generateName": "x-"}})).await;
    world.ok("DELETE", "/api/v1/namespaces/n", Value::Null).await;
    world.settle().await;
    assert!(!world.is_there("/api/v1/namespaces/n").await);
    world.server.store().log_hash().await.unwrap()
}

fn run(seed: u64) -> LogHash {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(story(seed))
}

#[test]
fn a_seed_gives_the_same_log() {
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
