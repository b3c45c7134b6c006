//! Changes in place: config and version, with drain, a budget, and several nodes at a time.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::product::Product;
use crate::reader::ready_pods;
use crate::site::{Distro, Site, pool};
use crate::wait::so;

/// Pods of the application, and how many of them must be there at any time.
const PODS: usize = 4;
const NEEDED: usize = 3;

/// Three etcd, two control plane and three worker machines.
pub(crate) async fn roles_apart(product: Arc<Product>, distro: Distro) {
    let pools =
        [pool("etcd", 3, &["etcd"]), pool("planes", 2, &["controlPlane"]), pool("workers", 3, &["worker"])];
    let site = Site::create(product, distro, "split", &pools).await;
    let before = site.identities().await;
    deploy(&site, PODS, NEEDED).await;

    // A change of config: one node after the other is drained, and takes pods again.
    let reader = site.reader(Some(PODS)).await;
    site.edit(|spec| {
        spec["rkeConfig"]["machineGlobalConfig"]["kubelet-arg"] = json!(["max-pods=200"]);
        spec["rkeConfig"]["upgradeStrategy"] = strategy("1");
    })
    .await;
    site.settles().await;
    let seen = reader.stop_without_failure().await;
    assert_eq!(seen.most_cordoned, (1, 1), "one server and one worker at a time");
    assert_eq!(seen.cordoned.len(), 8, "each node was drained: {:?}", seen.cordoned);
    assert!(seen.fewest_pods >= Some(NEEDED), "the budget was broken: {:?}", seen.fewest_pods);
    assert_eq!(site.identities().await, before, "managed, not replaced");

    // A minor version, two at a time: etcd still goes one by one.
    let reader = site.reader(Some(PODS)).await;
    site.edit(|spec| {
        spec["kubernetesVersion"] = distro.next_version().into();
        spec["rkeConfig"]["upgradeStrategy"] = strategy("2");
    })
    .await;
    site.settles().await;
    let seen = reader.stop_without_failure().await;
    assert!(seen.most_cordoned.0 <= 2 && seen.most_cordoned.1 <= 2, "{:?}", seen.most_cordoned);
    assert_eq!(seen.cordoned.len(), 8, "each node was drained: {:?}", seen.cordoned);
    assert!(seen.fewest_pods >= Some(NEEDED), "the budget was broken: {:?}", seen.fewest_pods);
    assert_eq!(site.identities().await, before, "managed, not replaced");
    site.deletes().await;
}

/// So many at a time, each drained.
fn strategy(concurrency: &str) -> Value {
    let drain = json!({"enabled": true, "timeout": 120});
    json!({
        "controlPlaneConcurrency": concurrency, "controlPlaneDrainOptions": drain,
        "workerConcurrency": concurrency, "workerDrainOptions": drain,
    })
}

/// Runs an application of so many pods with a budget.
pub(crate) async fn deploy(site: &Site, pods: usize, needed: usize) {
    let client = site.downstream().await;
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": pods, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }))
    .unwrap();
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"minAvailable": needed, "selector": {"matchLabels": {"app": "web"}}},
    }))
    .unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    site.until("the application runs", async || {
        let ready = ready_pods(client).await.map_err(|error| error.to_string())?;
        so(ready == pods, || format!("{ready} of {pods} pods are ready"))
    })
    .await;
}
