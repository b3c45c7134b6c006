//! Herdsman as its attackers meet it: each tries, with the rights and credentials it would really have, to get at what is another's.
//! One file per actor. All attacks run against one `herdsman up` with two running clusters (simulated machines).
//!
//! `HERDSMAN_ATTACK=tenant,an_annotation cargo test --workspace --test attacks -- --ignored` runs those whose names contain one of the words.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "attacks/neighbour.rs"]
mod neighbour;
#[path = "attacks/node.rs"]
mod node;
#[path = "attacks/tenant.rs"]
mod tenant;
#[path = "attacks/world.rs"]
mod world;

use std::pin::Pin;
use std::sync::Arc;

use world::World;

type Attacking = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An attack, by its actor and what must hold.
struct Attack {
    name: &'static str,
    run: fn(Arc<World>) -> Attacking,
}

macro_rules! attack {
    ($actor:ident::$name:ident) => {
        Attack {
            name: concat!(stringify!($actor), "::", stringify!($name)),
            run: |world| Box::pin($actor::$name(world)),
        }
    };
}

/// They run one after the other, in this order.
const ATTACKS: &[Attack] = &[
    attack!(neighbour::without_a_token_nothing_is_given),
    attack!(neighbour::a_label_makes_no_server),
    attack!(neighbour::an_id_of_another_cluster_gives_no_plan),
    attack!(tenant::rights_end_at_the_namespace),
    attack!(tenant::an_annotation_takes_no_cluster),
    attack!(tenant::a_status_takes_no_cluster),
    attack!(tenant::a_namespace_is_not_adopted),
    attack!(tenant::a_secret_opens_no_other_cluster),
    attack!(tenant::a_registration_token_of_its_own_is_none),
    attack!(tenant::a_control_plane_reads_no_other_token),
    attack!(node::a_worker_stays_a_worker),
    attack!(node::a_join_url_steers_nobody),
    attack!(node::a_drain_reaches_only_its_own_node),
    attack!(node::config_yaml_is_its_own),
    attack!(node::an_agent_writes_its_report_and_nothing_else),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "default"]
async fn attacks_on_the_embedded_server() {
    let wanted = std::env::var("HERDSMAN_ATTACK").unwrap_or_default();
    let chosen = ATTACKS.iter().filter(|attack| wanted.split(',').any(|word| attack.name.contains(word)));
    let chosen: Vec<&Attack> = chosen.collect();
    assert!(!chosen.is_empty(), "there is no attack {wanted:?}");
    let world = Arc::new(World::start().await);
    let mut worked = Vec::new();
    for attack in chosen {
        let held = tokio::spawn((attack.run)(world.clone())).await.is_ok();
        println!("{} {}", if held { "ok" } else { "FAILED" }, attack.name);
        worked.extend((!held).then_some(attack.name));
    }
    assert!(worked.is_empty(), "{worked:?}\n{}", world.log());
}
