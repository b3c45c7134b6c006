//! The process ends and begins again: machines and clusters are where they were.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use sim::{Stores, World};

use crate::control_plane::Story;
use crate::lifecycle::{ALL, K3S};

#[test]
fn a_world_is_opened_again() {
    // SQLite has a thread of its own: time must not run ahead of it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut story = Story::new(K3S, 31).await;
        story.settings.stores = Stores::Sqlite;
        story.settings.delays = sim::Delays::NONE;
        story.world = World::open(story.settings.clone()).await.unwrap();
        story.add("one", &ALL).await;
        story.settled(1, K3S).await;
        let cluster = story.downstream().unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let metadata = ObjectMeta { name: Some("kept".into()), ..ObjectMeta::default() };
        maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await.unwrap();
        story.world.stop().await;
        drop((cluster, maps));

        story.world = open(&story).await;
        let cluster = story.downstream().unwrap();
        while !cluster.serves() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        assert!(maps.get_opt("kept").await.unwrap().is_some());
        let nodes: Api<Node> = Api::all(cluster.client());
        assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1);
        story.settled(1, K3S).await;
        story.world.stop().await;
    });
}

/// The stores are closed a moment after the world has stopped.
async fn open(story: &Story) -> World {
    for _ in 0..500 {
        match World::open(story.settings.clone()).await {
            Ok(world) => return world,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    World::open(story.settings.clone()).await.unwrap()
}
