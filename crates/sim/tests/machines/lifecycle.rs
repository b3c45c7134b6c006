//! Clusters from their first machine to their last.

use crate::control_plane::Story;
use crate::story;

pub(crate) const K3S: &str = "v1.34.2+k3s1";
pub(crate) const K3S_NEXT: &str = "v1.35.0+k3s1";
pub(crate) const RKE2: &str = "v1.34.2+rke2r1";
pub(crate) const SERVER: [&str; 2] = ["etcd", "control-plane"];
pub(crate) const ALL: [&str; 3] = ["etcd", "control-plane", "worker"];

/// Three servers and two workers.
pub(crate) async fn five(version: &str, seed: u64) -> Story {
    populate(Story::new(version, seed).await, version).await
}

pub(crate) async fn populate(story: Story, version: &str) -> Story {
    for name in ["s1", "s2", "s3"] {
        story.add(name, &SERVER).await;
    }
    for name in ["w1", "w2"] {
        story.add(name, &["worker"]).await;
    }
    story.settled(5, version).await;
    story
}

#[test]
fn one_server_becomes_a_node() {
    story(|| async {
        let story = Story::new(K3S, 1).await;
        story.add("one", &ALL).await;
        story.settled(1, K3S).await;
        let headers = story.management.registered("token-of-one").unwrap();
        assert_eq!(headers["x-cattle-id"].len(), 63, "as the installer makes it up");
        assert_eq!(headers["x-cattle-role-etcd"], "false", "roles are the Machine's");
        let node = &story.nodes().await[0];
        assert_eq!(node["spec"]["providerID"], "k3s://one");
        assert_eq!(node["metadata"]["labels"]["rke.cattle.io/machine"], "uid-one");
        assert_eq!(node["metadata"]["labels"]["node-role.kubernetes.io/etcd"], "true");
        assert_eq!(node["status"]["addresses"][0]["address"], "10.42.0.1");
    });
}

#[test]
fn five_machines_are_upgraded_one_after_the_other() {
    story(|| async {
        let story = five(K3S, 2).await;
        assert_eq!(story.downstream().unwrap().members().len(), 3);
        assert_eq!(story.said("begins on"), 1);
        let uids = async || -> Vec<_> {
            story.nodes().await.iter().map(|node| node["metadata"]["uid"].clone()).collect()
        };
        let before = uids().await;
        story.edit(|cluster| cluster.spec.kubernetes_version = K3S_NEXT.into());
        story.settled(5, K3S_NEXT).await;
        assert_eq!(before, uids().await, "nodes are managed, not replaced");
        assert_eq!(story.said("has no API any more"), 0, "one server at a time");
        assert_eq!(story.said(&format!("starts k3s {K3S_NEXT}")), 5, "each once");
    });
}

#[test]
fn rke2_with_split_roles() {
    story(|| async {
        let story = Story::new(RKE2, 3).await;
        story.add("e1", &["etcd"]).await;
        story.add("c1", &["control-plane"]).await;
        story.add("w1", &["worker"]).await;
        story.settled(3, RKE2).await;
        assert_eq!(story.downstream().unwrap().members().len(), 1);
        let node = story.nodes().await.into_iter().find(|node| node["metadata"]["name"] == "e1").unwrap();
        assert_eq!(node["spec"]["taints"][0]["key"], "node-role.kubernetes.io/etcd");
        assert_eq!(node["spec"]["providerID"], "rke2://e1");
    });
}

#[test]
fn a_member_leaves_before_its_machine_does() {
    story(|| async {
        let story = five(K3S, 4).await;
        story.delete("s1");
        story.until(600, "s1 is gone", async |story| story.world.machines().addresses("s1").is_none()).await;
        assert_eq!(story.downstream().unwrap().members().len(), 2);
        assert_eq!(story.said("leaves etcd"), 1);
        story.settled(4, K3S).await;
        story.add("s4", &SERVER).await;
        story.settled(5, K3S).await;
        assert_eq!(story.downstream().unwrap().members().len(), 3);
    });
}

#[test]
fn nothing_is_left_of_a_cluster_without_machines() {
    story(|| async {
        let story = five(K3S, 5).await;
        for name in ["w1", "w2", "s1", "s2", "s3"] {
            story.remove(name).await;
        }
        assert!(story.world.clusters().is_empty());
        assert!(story.world.machines().names().is_empty());
        let directory = story.directory.path();
        for part in ["machines", "clusters"] {
            assert_eq!(std::fs::read_dir(directory.join(part)).unwrap().count(), 0, "{part}");
        }
    });
}
