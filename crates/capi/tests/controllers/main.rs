//! The controllers with providers of both contracts: each scenario is written once and runs on the embedded server in
//! simulated time, and on a real Kubernetes in real time.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::pin::Pin;

use provider::Speaks;
use world::World;

/// Scenarios: a seed, a name, the contracts that they are told with.
macro_rules! scenarios {
    ($($seed:literal $name:ident: $($speaks:ident)+;)+) => {
        /// All of them, for another world.
        pub(crate) const ALL: &[crate::Scenario] = &[$($(crate::Scenario {
            name: stringify!($name),
            speaks: crate::provider::Speaks::$speaks,
            run: |world| Box::pin($name(world)),
        },)+)+];

        mod simulated {
            use crate::provider::Speaks;
            use crate::world::{World, story};

            $(#[test]
            fn $name() {
                for speaks in [$(Speaks::$speaks),+] {
                    story(|| async move { super::$name(World::simulated(speaks, $seed).await).await });
                }
            })+
        }
    };
}

mod clusterctl;
mod clusters;
mod cost;
mod deployments;
mod health;
mod kinds;
mod kubernetes;
mod place;
mod provider;
mod removal;
mod rest;
mod site;
mod versions;
mod world;

/// One scenario, told with one contract.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    name: &'static str,
    speaks: Speaks,
    run: fn(World) -> Pin<Box<dyn Future<Output = ()>>>,
}
