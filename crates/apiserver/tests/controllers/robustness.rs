//! Slow watches, compacted logs, full disks, restarts: work is done all the same.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::store::{
    Answer, Commit, Error, LogHash, MemoryStore, Options, Page, Query, Revision, Scope, Store, Stored, View,
    Watch, Write,
};
use clock::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::support::{World, ask, owner};

const DELETE: &str = "/api/v1/namespaces/n/configmaps/o";

async fn with_dependents(world: &World, count: usize) {
    let o = world.map("n", "o", json!([])).await;
    for index in 0..count {
        world.map("n", &format!("d{index}"), json!([owner("o", &o, true)])).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_behind_goes_on() {
    let options = Options { watch_buffer: 2, ..Options::default() };
    for compact in [false, true] {
        let world = World::with(1, options.clone()).await;
        with_dependents(&world, 50).await;
        world.ok("DELETE", DELETE, Value::Null).await;
        if compact {
            let head = world.server.store().view().head();
            world.server.store().compact(head).await.unwrap();
        }
        world.settle().await;
        assert_eq!(world.maps("n").await, [""; 0], "{compact}");
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_that_start_late_find_what_is_to_be_done() {
    for policy in ["Background", "Foreground", "Orphan"] {
        let world = World::new().await;
        with_dependents(&world, 3).await;
        world.map("default", "m", json!([])).await;
        world.ok("POST", "/api/v1/namespaces", json!({"metadata": {"name": "x"}})).await;
        let (server, clock) = world.stop().await;
        let urls = [
            format!("{DELETE}?propagationPolicy={policy}"),
            "/api/v1/namespaces/x".to_owned(),
            "/api/v1/namespaces/default/serviceaccounts/default".to_owned(),
        ];
        for url in urls {
            ask(&server, "DELETE", &url, Value::Null).await.unwrap();
        }
        let world = World::start(server, clock);
        world.settle().await;
        let left = if policy == "Orphan" { 3 } else { 0 };
        assert_eq!(world.maps("n").await.len(), left, "{policy}");
        assert_eq!(world.maps("default").await, ["m"], "{policy}");
        assert!(!world.is_there("/api/v1/namespaces/x").await, "{policy}");
        assert!(world.is_there("/api/v1/namespaces/default/serviceaccounts/default").await, "{policy}");
    }
}

/// A store that has no room for some of its writes.
struct Full {
    store: MemoryStore,
    refusals: Arc<AtomicUsize>,
}

impl Store for Full {
    fn write(&self, transaction: Vec<Write>) -> Answer<'_, Commit> {
        let counted =
            self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match counted {
            Ok(_) => Box::pin(ready(Err(Error::DiskFull))),
            Err(_) => self.store.write(transaction),
        }
    }
    fn view(&self) -> Arc<View> {
        self.store.view()
    }
    fn get<'a>(&'a self, key: &'a str, at: Option<Revision>) -> Answer<'a, Option<Arc<Stored>>> {
        self.store.get(key, at)
    }
    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.store.list(query)
    }
    fn watch(&self, scope: Scope, after: Revision) -> Result<Watch, Error> {
        self.store.watch(scope, after)
    }
    fn expire(&self, now: Timestamp) -> Answer<'_, usize> {
        self.store.expire(now)
    }
    fn compact(&self, floor: Revision) -> Answer<'_, ()> {
        self.store.compact(floor)
    }
    fn trim(&self, now: Timestamp) -> Answer<'_, Revision> {
        self.store.trim(now)
    }
    fn log_hash(&self) -> Answer<'_, LogHash> {
        self.store.log_hash()
    }
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_when_there_is_room_again() {
    let refusals = Arc::new(AtomicUsize::new(0));
    let full = |clock: Arc<dyn Clock>| -> Arc<dyn Store> {
        Arc::new(Full { store: MemoryStore::new(Options::default(), clock), refusals: refusals.clone() })
    };
    let world = World::on(1, full).await;
    with_dependents(&world, 5).await;
    world.ok("DELETE", DELETE, Value::Null).await;
    refusals.store(100, Ordering::SeqCst);
    world.settle().await;
    assert_eq!(refusals.load(Ordering::SeqCst), 0);
    assert_eq!(world.maps("n").await, [""; 0]);
}
