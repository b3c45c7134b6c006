//! Faults by chance, from the first machine on, while a cluster is made and upgraded: once they stop, all is well.

use std::time::Duration;

use clock::{Entropy as _, SeededEntropy};

use crate::control_plane::Story;
use crate::lifecycle::{K3S, K3S_NEXT, SERVER};
use crate::story;

const MACHINES: [&str; 5] = ["s1", "s2", "s3", "w1", "w2"];

/// One fault, or its end.
async fn strike(story: &Story, chance: &mut SeededEntropy) {
    let machine = MACHINES[chance.below(5) as usize];
    let world = &story.world;
    match chance.below(8) {
        0 => world.crash(machine).await.unwrap(),
        1..3 => world.power_on(machine).unwrap(),
        3 => world.partition(&[machine], chance.below(2) == 0).unwrap(),
        4 => world.heal(),
        5 => world.kill_agent(machine).await.unwrap(),
        6 => world.fail_installs(machine, 1).unwrap(),
        _ => {
            let hours = i64::from(chance.below(48)) - 24;
            world.skew_clock(machine, jiff::SignedDuration::from_hours(hours)).unwrap();
        }
    }
}

fn survives(seed: u64) {
    println!("seed {seed}");
    story(|| async {
        let story = Story::new(K3S, seed).await;
        let mut chance = SeededEntropy::new(seed);
        for name in MACHINES {
            let roles: &[&str] = if name.starts_with('s') { &SERVER } else { &["worker"] };
            story.add(name, roles).await;
        }
        for round in 0..20 {
            strike(&story, &mut chance).await;
            for _ in 0..=chance.below(15) {
                story.plan().await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            if round == 10 {
                story.edit(|cluster| cluster.spec.kubernetes_version = K3S_NEXT.into());
            }
        }
        story.world.heal();
        for name in MACHINES {
            story.world.power_on(name).unwrap();
        }
        story.settled(5, K3S_NEXT).await;
        assert_eq!(story.downstream().unwrap().members().len(), 3);
        assert_eq!(story.world.clusters().len(), 1);
        assert_eq!(story.said("would begin a cluster"), 0);
    });
}

#[test]
fn whatever_happens_it_comes_right() {
    let one = std::env::var("HERDSMAN_SEED").ok().and_then(|text| text.parse().ok());
    let seeds: Vec<u64> = one.map_or_else(|| (71..73).collect(), |seed| vec![seed]);
    seeds.into_iter().for_each(survives);
}
