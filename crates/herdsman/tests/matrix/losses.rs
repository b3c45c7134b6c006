//! Servers that are lost: dead ones that a health check finds, the init node, and one that somebody deletes.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::product::Product;
use crate::site::{Distro, SERVER, Site, pool, with};

/// Three servers that a health check looks after, and a worker.
fn pools() -> [Value; 2] {
    let checked = json!({"unhealthyNodeTimeout": "5s", "maxUnhealthy": "1"});
    [with(pool("servers", 3, SERVER), &checked), pool("workers", 1, &["worker"])]
}

/// A server that is not the init node dies; its health check has it replaced. Another is deleted by hand.
pub(crate) async fn a_dead_server_is_replaced(product: Arc<Product>, distro: Distro) {
    let site = Site::create(product, distro, "dead", &pools()).await;
    let init = site.init_machine().await.unwrap();
    let worker = site.machines_of("workers").await;
    let others: Vec<String> =
        site.machines_of("servers").await.into_iter().filter(|one| *one != init).collect();
    let reader = site.reader(None).await;

    site.crash(&others[0]).await;
    site.gone(&BTreeSet::from([others[0].clone()])).await;
    site.settles().await;
    assert_eq!(site.init_machine().await.unwrap(), init);

    site.delete_machine(&others[1]).await;
    site.gone(&BTreeSet::from([others[1].clone()])).await;
    site.settles().await;
    assert_eq!(site.machines_of("workers").await, worker, "nobody else is touched");
    reader.stop_without_failure().await;
    site.deletes().await;
}

/// The init node dies and is replaced; another takes its place. Then that one is deleted by hand.
pub(crate) async fn the_init_node_is_lost(product: Arc<Product>, distro: Distro) {
    let site = Site::create(product, distro, "init", &pools()).await;
    let first = site.init_machine().await.unwrap();
    let reader = site.reader(None).await;

    site.crash(&first).await;
    site.gone(&BTreeSet::from([first.clone()])).await;
    site.settles().await;
    let second = site.init_machine().await.unwrap();
    assert_ne!(second, first);

    site.delete_machine(&second).await;
    site.gone(&BTreeSet::from([second.clone()])).await;
    site.settles().await;
    assert_ne!(site.init_machine().await.unwrap(), second);
    reader.stop_without_failure().await;
    site.deletes().await;
}
