//! Clusters of every shape: made, grown, shrunk, deleted.

use std::sync::Arc;

use crate::product::Product;
use crate::site::{ALL, Distro, SERVER, Site, pool, with};
use serde_json::json;

/// One node that does everything: its API is away while it restarts, and that is all.
pub(crate) async fn one_node(product: Arc<Product>, distro: Distro) {
    let site = Site::create(product, distro, "one", &[pool("all", 1, ALL)]).await;
    let before = site.identities().await;

    site.edit(|spec| spec["rkeConfig"]["machineGlobalConfig"]["kubelet-arg"] = json!(["max-pods=200"])).await;
    site.settles().await;
    site.edit(|spec| spec["kubernetesVersion"] = distro.next_version().into()).await;
    site.settles().await;
    assert_eq!(site.identities().await, before, "managed, not replaced");

    site.deletes().await;
}

/// Three servers and two workers, each pool up and down, the init node among those that go.
pub(crate) async fn pools_grow_and_shrink(product: Arc<Product>, distro: Distro) {
    let pools = [pool("servers", 3, SERVER), pool("workers", 2, &["worker"])];
    let site = Site::create(product, distro, "pools", &pools).await;
    let reader = site.reader(None).await;

    site.scale("workers", 3).await;
    site.scale("servers", 4).await;
    site.settles().await;

    let init = site.init_machine().await.unwrap();
    site.doom(&init).await;
    site.scale("workers", 1).await;
    site.scale("servers", 3).await;
    site.settles().await;
    assert!(!site.machines_of("servers").await.contains(&init), "the init node went");
    assert_ne!(site.init_machine().await.unwrap(), init);

    // A change reaches all of them, in the order of tiers, with one machine of each at a time.
    let before = site.identities().await;
    site.edit(|spec| {
        spec["kubernetesVersion"] = distro.next_version().into();
        spec["rkeConfig"]["upgradeStrategy"] =
            json!({"controlPlaneConcurrency": "1", "workerConcurrency": "1"});
    })
    .await;
    site.settles().await;
    assert_eq!(site.identities().await, before, "managed, not replaced");
    reader.stop_without_failure().await;

    // Down to one, where the API may be away for a moment, and to none of a pool.
    site.scale("servers", 1).await;
    site.scale("workers", 0).await;
    site.settles().await;
    site.deletes().await;
}

/// Workers with Windows beside a Linux control plane.
pub(crate) async fn windows_workers(product: Arc<Product>, distro: Distro) {
    let windows = with(pool("windows", 2, &["worker"]), &json!({"machineOS": "windows"}));
    let site = Site::create(product, distro, "win", &[pool("linux", 1, ALL), windows]).await;
    let systems = async || {
        let nodes = site.nodes().await.unwrap();
        nodes.iter().filter(|node| node["status"]["nodeInfo"]["operatingSystem"] == "windows").count()
    };
    assert_eq!(systems().await, 2);
    let before = site.identities().await;
    site.edit(|spec| {
        spec["kubernetesVersion"] = distro.next_version().into();
        let drain = json!({"enabled": true, "timeout": 60});
        spec["rkeConfig"]["upgradeStrategy"]["workerDrainOptions"] = drain;
    })
    .await;
    site.settles().await;
    assert_eq!(site.identities().await, before, "managed, not replaced");
    site.scale("windows", 1).await;
    site.settles().await;
    assert_eq!(systems().await, 1);
    site.deletes().await;
}
