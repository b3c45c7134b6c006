//! Machines that are replaced because what they are made from changed.

use std::sync::Arc;

use serde_json::json;

use crate::changes::deploy;
use crate::product::Product;
use crate::site::{ALL, Distro, Site, name, pool, with};
use crate::wait::so;

/// A new machine first, then an old one goes.
pub(crate) async fn roll_with_surge(product: Arc<Product>, distro: Distro) {
    let rolling = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let site = Site::create(product, distro, "surge", &[with(pool("all", 3, ALL), &rolling)]).await;
    let old = site.machines_of("all").await;
    let reader = site.reader(None).await;
    site.resize("all", "8192").await;
    site.gone(&old).await;
    site.settles().await;
    reader.stop_without_failure().await;
    for node in site.nodes().await.unwrap() {
        assert_eq!(node["status"]["capacity"]["memory"], "8Gi", "the new machines have what was asked for");
    }
    site.deletes().await;
}

/// An old machine goes first. Its node is drained before; pods that a budget keeps there hold it up for so long and no longer.
pub(crate) async fn roll_without_surge(product: Arc<Product>, distro: Distro) {
    let fields = json!({
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        "drainBeforeDelete": true, "drainBeforeDeleteTimeout": "10s",
    });
    let site = Site::create(product, distro, "tight", &[with(pool("all", 3, ALL), &fields)]).await;
    let old = site.machines_of("all").await;
    // Three pods, each of which must stay: whatever is drained waits for its timeout.
    deploy(&site, 3, 3).await;
    let reader = site.reader(None).await;
    site.resize("all", "8192").await;
    site.until("a machine waits for its drain", async || {
        let machines = site.machines().await;
        let drains = |machine: &serde_json::Value| {
            let all = machine["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let text = |one: &serde_json::Value| one["message"].as_str().unwrap_or_default().to_owned();
            all.iter().any(|one| one["type"] == "Deleting" && text(one).contains("Drain not completed"))
        };
        let names: Vec<_> = machines.iter().map(name).collect();
        so(machines.iter().any(drains), || format!("none of {names:?} does"))
    })
    .await;
    site.gone(&old).await;
    site.settles().await;
    reader.stop_without_failure().await;
    site.deletes().await;
}
