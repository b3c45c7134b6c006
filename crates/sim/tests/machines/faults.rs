//! What goes wrong, and comes right again.

use std::time::Duration;

use crate::control_plane::Story;
use crate::lifecycle::{ALL, K3S, K3S_NEXT, five};
use crate::story;

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn a_machine_that_loses_its_power_comes_back_as_it_was() {
    story(|| async {
        let story = five(K3S, 11).await;
        story.world.crash("w1").await.unwrap();
        pass(60).await;
        assert_eq!(story.ready().await.len(), 4, "nobody hears of it any more");
        story.world.power_on("w1").unwrap();
        story.settled(5, K3S).await;
        assert_eq!(story.said("starts k3s"), 5, "nothing was installed twice");
        assert_eq!(story.said("registered"), 5, "nobody registered twice");
    });
}

#[test]
fn without_a_quorum_there_is_no_api_and_with_it_there_is_again() {
    story(|| async {
        let story = five(K3S, 12).await;
        let cluster = story.downstream().unwrap();
        story.world.crash("s1").await.unwrap();
        assert!(cluster.serves(), "two of three are enough");
        story.world.crash("s2").await.unwrap();
        assert!(!cluster.serves(), "one of three is not");
        pass(120).await;
        story.world.power_on("s2").unwrap();
        pass(10).await;
        assert!(cluster.serves());
        story.world.power_on("s1").unwrap();
        story.settled(5, K3S).await;
        assert_eq!(cluster.members().len(), 3);
    });
}

#[test]
fn the_smaller_side_of_a_partition_does_not_serve() {
    story(|| async {
        let story = five(K3S, 13).await;
        story.world.partition(&["s1", "w1"], true).unwrap();
        pass(90).await;
        let ready = story.ready().await;
        assert_eq!(ready.keys().collect::<Vec<_>>(), ["s2", "s3", "w2"]);
        story.world.heal();
        story.settled(5, K3S).await;
    });
}

#[test]
fn an_installer_that_fails_is_tried_again() {
    story(|| async {
        let story = Story::new(K3S, 14).await;
        story.add("one", &ALL).await;
        story.world.fail_installs("one", 2).unwrap();
        story.settled(1, K3S).await;
        assert_eq!(story.said("installer of k3s fails"), 2);
        story.world.hide_images("one", true).unwrap();
        story.edit(|cluster| cluster.spec.kubernetes_version = K3S_NEXT.into());
        for _ in 0..60 {
            story.plan().await;
            pass(1).await;
        }
        assert_eq!(story.ready().await["one"], K3S);
        story.world.hide_images("one", false).unwrap();
        story.settled(1, K3S_NEXT).await;
    });
}

#[test]
fn a_killed_agent_and_a_wrong_clock_change_nothing() {
    story(|| async {
        let story = Story::new(K3S, 15).await;
        story.add("one", &ALL).await;
        story.settled(1, K3S).await;
        story.world.skew_clock("one", jiff::SignedDuration::from_hours(-48)).unwrap();
        story.world.kill_agent("one").await.unwrap();
        story.world.slow_down("one", 10).unwrap();
        story.edit(|cluster| cluster.spec.kubernetes_version = K3S_NEXT.into());
        story.settled(1, K3S_NEXT).await;
        assert_eq!(story.said("the bootstrap script fails"), 0);
    });
}
