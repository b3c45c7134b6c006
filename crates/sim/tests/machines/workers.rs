//! Windows, manifests, pods, and what a machine does not have.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::control_plane::Story;
use crate::lifecycle::{ALL, K3S, RKE2, five};
use crate::story;

#[test]
fn a_windows_worker_joins() {
    story(|| async {
        let story = Story::new(RKE2, 41).await;
        story.add("linux", &ALL).await;
        story.add("win", &["worker", "windows"]).await;
        story.settled(2, RKE2).await;
        let node = story.nodes().await.into_iter().find(|node| node["metadata"]["name"] == "win").unwrap();
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "windows");
        assert_eq!(node["status"]["nodeInfo"]["operatingSystem"], "windows");
    });
}

#[test]
fn manifests_come_and_go() {
    story(|| async {
        let story = Story::new(K3S, 42).await;
        let addon = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: mine\n  namespace: default\n";
        story.edit(|cluster| cluster.spec.configuration.additional_manifest = addon.into());
        story.add("one", &ALL).await;
        story.settled(1, K3S).await;
        let maps = || Api::<ConfigMap>::default_namespaced(story.downstream().unwrap().client());
        let is_there = async || maps().get_opt("mine").await.unwrap().is_some();
        story.until(60, "the manifest is applied", async |_| is_there().await).await;
        story.edit(|cluster| cluster.spec.configuration.additional_manifest = String::new());
        story.until(60, "the manifest is gone", async |_| !is_there().await).await;
    });
}

#[test]
fn pods_run_and_are_evicted() {
    story(|| async {
        let story = five(K3S, 43).await;
        let client = story.downstream().unwrap().client();
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "web"}]},
                },
            },
        }))
        .unwrap();
        let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
        deployments.create(&PostParams::default(), &deployment).await.unwrap();
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        let on = async |node: &str| -> Vec<String> {
            let list = pods.list(&ListParams::default()).await.unwrap().items;
            let running = list.iter().map(|pod| json!(pod)).filter(|pod| {
                pod["status"]["phase"] == "Running"
                    && pod["spec"]["nodeName"].as_str().unwrap().starts_with(node)
            });
            running.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        story.until(60, "three pods run", async |_| on("").await.len() == 3).await;
        assert_eq!(on("s").await.len(), 0, "servers take none that do not tolerate it");
        let nodes: Api<Node> = Api::all(client.clone());
        let cordon = json!({"spec": {"unschedulable": true}});
        nodes.patch("w1", &PatchParams::default(), &Patch::Merge(&cordon)).await.unwrap();
        for name in on("w1").await {
            pods.evict(&name, &EvictParams::default()).await.unwrap();
        }
        story.until(120, "all are on the other one", async |_| on("w2").await.len() == 3).await;
        assert_eq!(on("w1").await.len(), 0);
        deployments.delete("web", &DeleteParams::default()).await.unwrap();
        story.until(120, "they go with it", async |_| on("").await.is_empty()).await;
    });
}

#[test]
fn a_name_is_taken_once() {
    story(|| async {
        let story = Story::new(K3S, 44).await;
        story.add("one", &ALL).await;
        let machines = story.world.machines();
        let again = machines.create("one", sim::CreateOptions::default()).await.unwrap_err();
        assert_eq!(again.to_string(), "there is a machine \"one\" already");
        let wrong = machines.create("../one", sim::CreateOptions::default()).await.unwrap_err();
        assert!(wrong.to_string().starts_with("machine \"../one\": a name has"), "{wrong}");
        machines.remove("other").await.unwrap();
    });
}
