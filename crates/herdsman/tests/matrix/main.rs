//! The end-to-end matrix: everything that happens to clusters in their life, for K3s and RKE2, by the product as its users
//! run it, on simulated machines. All scenarios share one server and run side by side: `herdsman up`, and once more `herdsman server` on
//! a real Kubernetes, there with one distribution each (`HERDSMAN_MATRIX=whole` takes both).
//!
//! `HERDSMAN_SCENARIO=roll cargo test --workspace --test matrix -- --ignored` runs those whose names have one of the words
//! (separated by commas) in them. With
//! `HERDSMAN_MATRIX_KUBECONFIG=FILE` they run on a management server that is there already, and has the driver `sim`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod changes;
mod losses;
mod product;
mod reader;
mod replacement;
mod shapes;
mod site;
mod wait;

use std::pin::Pin;
use std::sync::Arc;

use product::Product;
use site::Distro;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

type Scenario = Pin<Box<dyn Future<Output = ()>>>;

/// A scenario, by name.
struct Named {
    name: &'static str,
    run: fn(Arc<Product>, Distro) -> Scenario,
    distros: &'static [Distro],
}

macro_rules! scenario {
    ($module:ident::$name:ident, $distros:expr) => {
        Named {
            name: stringify!($name),
            run: |product, distro| Box::pin($module::$name(product, distro)),
            distros: $distros,
        }
    };
}

/// Scenarios at a time where etcd and an API server take their share of the machine, too: whoever starves them loses its lease.
const BESIDE_KUBERNETES: usize = 3;

const BOTH: &[Distro] = &[Distro::K3s, Distro::Rke2];

/// The longest ones first: they set the pace.
const SCENARIOS: &[Named] = &[
    scenario!(losses::a_dead_server_is_replaced, BOTH),
    scenario!(losses::the_init_node_is_lost, BOTH),
    scenario!(changes::roles_apart, BOTH),
    scenario!(replacement::roll_with_surge, BOTH),
    scenario!(replacement::roll_without_surge, BOTH),
    scenario!(shapes::pools_grow_and_shrink, BOTH),
    scenario!(shapes::one_node, BOTH),
    scenario!(shapes::windows_workers, &[Distro::Rke2]),
];

#[tokio::test]
#[ignore = "default"]
async fn the_matrix() {
    LocalSet::new().run_until(side_by_side(Product::up().await, true, SCENARIOS.len() * 2)).await;
}

#[tokio::test]
#[ignore = "peers: kubernetes, etcd"]
async fn the_matrix_on_a_real_kubernetes() {
    let whole = std::env::var("HERDSMAN_MATRIX").is_ok_and(|word| word == "whole");
    let product = Product::on_kubernetes().await;
    LocalSet::new().run_until(side_by_side(product, whole, BESIDE_KUBERNETES)).await;
}

/// Runs what is wanted: of every scenario each distribution, or one, K3s and RKE2 in turns.
async fn side_by_side(product: Product, whole: bool, at_a_time: usize) {
    let (product, seats) = (Arc::new(product), Arc::new(Semaphore::new(at_a_time)));
    let wanted = std::env::var("HERDSMAN_SCENARIO").unwrap_or_default();
    let mut running = JoinSet::new();
    let mut names = std::collections::BTreeMap::new();
    for (index, scenario) in SCENARIOS.iter().enumerate() {
        let one = &scenario.distros[index % scenario.distros.len()];
        for distro in if whole { scenario.distros } else { std::slice::from_ref(one) } {
            let name = format!("{} {distro}", scenario.name);
            if wanted.split(',').any(|word| name.contains(word)) {
                let (run, product, seats) = (scenario.run, product.clone(), seats.clone());
                let handle = running.spawn_local(async move {
                    let _seat = seats.acquire().await;
                    run(product, *distro).await;
                });
                names.insert(handle.id(), name);
            }
        }
    }
    assert!(!running.is_empty(), "there is no scenario {wanted:?}");
    let mut failed = Vec::new();
    while let Some(outcome) = running.join_next_with_id().await {
        let (id, error) = match outcome {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), Some(error.to_string())),
        };
        println!("{} {}", if error.is_some() { "FAILED" } else { "ok" }, names[&id]);
        failed.extend(error.map(|_| names[&id].clone()));
    }
    assert!(failed.is_empty(), "{failed:?}");
}
