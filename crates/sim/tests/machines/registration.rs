//! How machines find their server, and whom they trust.

use std::time::Duration;

use sim::fleet::{Fleet, muster};
use sim::{CreateOptions, Registration};
use tunnel::ClientKey;

use crate::control_plane::{Story, checksum};
use crate::lifecycle::{ALL, K3S};
use crate::management::URL;
use crate::story;

#[test]
fn the_server_is_trusted_by_its_checksum() {
    story(|| async {
        let story = Story::secure(K3S, 61).await;
        let registration = Registration {
            server: story.management.url().into(),
            token: "token-of-x".into(),
            ca_checksum: checksum("another authority"),
            ..Registration::default()
        };
        let options = CreateOptions { script: Some(registration.script()), ..CreateOptions::default() };
        story.world.machines().create("x", options).await.unwrap();
        story.add("one", &ALL).await;
        story.settled(1, K3S).await;
        story.management.hub().wait_for(&ClientKey::new("c-m-1").unwrap()).await;
        assert_eq!(
            story.said("the bootstrap script fails: cannot use the server: the CA at /cacerts has"),
            1
        );
        assert!(story.management.registered("token-of-x").is_none());
    });
}

#[test]
fn a_fleet_registers_by_hand() {
    story(|| async {
        let story = Story::new(K3S, 62).await;
        let fleet = Fleet {
            server: URL.into(),
            token: "token-of-all".into(),
            machines: 5,
            servers: 3,
            prefix: "edge".into(),
            ..Fleet::default()
        };
        assert_eq!(muster(&story.world, &fleet).await.unwrap(), 5);
        assert_eq!(muster(&story.world, &fleet).await.unwrap(), 0, "they are there");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(story.said("registered"), 5);
        let last = story.management.registered("token-of-all").unwrap();
        assert_eq!(last["x-cattle-node-name"].to_str().unwrap().split('-').next(), Some("edge"));
    });
}
