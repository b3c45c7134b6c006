//! The controllers are stopped at every moment and started again: no server is lost, none is made twice.

use std::time::Duration;

use serde_json::json;

use crate::scripted::Outcome::{HalfWay, Well};
use crate::world::{World, story};

/// Moments of a command that takes three seconds, in milliseconds.
const MOMENTS: [u64; 11] = [0, 50, 120, 300, 700, 1500, 2900, 3050, 3200, 3500, 4000];

#[test]
fn stopped_at_every_moment_of_a_server_s_coming() {
    story(async || {
        let mut world = World::new().await;
        for moment in MOMENTS {
            let name = format!("m{moment}");
            world.machine(&name, json!({})).await;
            tokio::time::sleep(Duration::from_millis(moment)).await;
            world.stop().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            world.start();
            world.condition("ScriptedMachine", &name, "Ready", "True").await;
            assert_eq!(world.servers(|servers| servers.there.len()), 1, "{moment} ms");
            world.delete("ScriptedMachine", &name).await;
            world.gone("ScriptedMachine", &name).await;
            assert_eq!(world.servers(|servers| servers.there.len()), 0, "{moment} ms");
            assert_eq!(world.leftovers(&name).await, Vec::<String>::new(), "{moment} ms");
        }
    });
}

#[test]
fn stopped_at_every_moment_of_a_server_s_going() {
    story(async || {
        let mut world = World::new().await;
        for moment in MOMENTS {
            let name = format!("m{moment}");
            world.machine(&name, json!({})).await;
            world.condition("ScriptedMachine", &name, "Ready", "True").await;
            world.delete("ScriptedMachine", &name).await;
            tokio::time::sleep(Duration::from_millis(moment)).await;
            world.stop().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            world.start();
            world.gone("ScriptedMachine", &name).await;
            assert_eq!(world.servers(|servers| servers.there.len()), 0, "{moment} ms");
            assert_eq!(world.leftovers(&name).await, Vec::<String>::new(), "{moment} ms");
        }
    });
}

#[test]
fn stopped_again_and_again() {
    story(async || {
        let mut world = World::new().await;
        world.then(&[Well, HalfWay, Well, HalfWay]);
        world.machine("m", json!({})).await;
        for moment in 0..40_u64 {
            tokio::time::sleep(Duration::from_millis(170 * (moment % 23))).await;
            world.stop().await;
            world.start();
        }
        world.condition("ScriptedMachine", "m", "Ready", "True").await;
        assert_eq!(world.servers(|servers| servers.there.len()), 1);
        world.delete("ScriptedMachine", "m").await;
        for moment in 0..20_u64 {
            tokio::time::sleep(Duration::from_millis(170 * (moment % 23))).await;
            world.stop().await;
            world.start();
        }
        world.gone("ScriptedMachine", "m").await;
        assert_eq!(world.servers(|servers| servers.there.len()), 0);
        assert_eq!(world.leftovers("m").await, Vec::<String>::new());
    });
}
