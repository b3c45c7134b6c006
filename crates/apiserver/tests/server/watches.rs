//! Watches.

use std::collections::BTreeMap;

use apiserver::server::{EventType, Server, Watching};
use apiserver::store::Revision;
use clock::Entropy;
use serde_json::{Value, json};

use crate::support::{ok, server, watch};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn put(server: &Server, name: &str, label: &str) {
    let map = json!({"metadata": {"name": name, "labels": {"l": label}}});
    let url = format!("{MAPS}/{name}");
    match is_there(server, name) {
        true => ok(server, "PUT", &url, map).await,
        false => ok(server, "POST", MAPS, map).await,
    };
}

/// Type, name, label and revision of the next event.
async fn next(watching: &mut Watching) -> (EventType, String, String, String) {
    let event = watching.next().await.unwrap().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &event.object["metadata"];
    (event.event, text(&metadata["name"]), text(&metadata["labels"]["l"]), text(&metadata["resourceVersion"]))
}

fn event(kind: EventType, name: &str, label: &str, revision: &str) -> (EventType, String, String, String) {
    (kind, name.into(), label.into(), revision.into())
}

#[tokio::test]
async fn changes_are_told_in_order_from_a_revision() {
    let server = server().await;
    put(&server, "a", "1").await;
    let mut watching = watch(&server, &format!("{MAPS}?watch=1&resourceVersion=1")).unwrap();
    put(&server, "a", "2").await;
    ok(&server, "DELETE", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!(next(&mut watching).await, event(EventType::Added, "a", "1", "2"));
    assert_eq!(next(&mut watching).await, event(EventType::Modified, "a", "2", "3"));
    assert_eq!(next(&mut watching).await, event(EventType::Deleted, "a", "2", "4"));
    let bookmark = watching.bookmark().unwrap();
    assert_eq!(bookmark.event.as_str(), "BOOKMARK");
    assert_eq!(bookmark.object["metadata"]["resourceVersion"], "4");
    assert_eq!(bookmark.object["kind"], "ConfigMap");
}

#[tokio::test]
async fn objects_come_into_a_selection_and_leave_it() {
    let server = server().await;
    let mut watching =
        watch(&server, &format!("{MAPS}?watch=1&resourceVersion=1&labelSelector=l%3Dx")).unwrap();
    for label in ["y", "x", "x2", "y"] {
        put(&server, "a", label).await;
    }
    put(&server, "a", "x").await;
    assert_eq!(next(&mut watching).await, event(EventType::Added, "a", "x", "3"));
    assert_eq!(next(&mut watching).await, event(EventType::Deleted, "a", "x", "4"));
    assert_eq!(next(&mut watching).await, event(EventType::Added, "a", "x", "6"));
}

#[tokio::test]
async fn what_is_there_comes_first() {
    let server = server().await;
    put(&server, "a", "1").await;
    put(&server, "b", "1").await;
    for query in [
        "allowWatchBookmarks=true",
        "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    ] {
        let mut watching = watch(&server, &format!("{MAPS}?watch=1&{query}")).unwrap();
        assert!(watching.bookmark().is_none(), "not before all has been told");
        assert_eq!(next(&mut watching).await, event(EventType::Added, "a", "1", "2"));
        assert_eq!(next(&mut watching).await, event(EventType::Added, "b", "1", "3"));
        let end = watching.next().await.unwrap().unwrap();
        assert_eq!(end.event, EventType::Bookmark);
        assert_eq!(end.object["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    }
}

#[tokio::test]
async fn old_revisions_are_gone() {
    let server = server().await;
    put(&server, "a", "1").await;
    put(&server, "a", "2").await;
    server.store().compact(Revision(3)).await.unwrap();
    let status = watch(&server, &format!("{MAPS}?watch=1&resourceVersion=1")).unwrap_err();
    assert_eq!(
        (status.code, status.reason.as_str(), status.message.as_str()),
        (410, "Expired", "too old resource version: 1 (3)")
    );
    assert_eq!(watch(&server, &format!("{MAPS}?watch=1&resourceVersion=9")).unwrap_err().code, 410);
}

#[tokio::test]
async fn one_object_is_watched_by_name() {
    let server = server().await;
    for url in [
        format!("{MAPS}?watch=1&resourceVersion=1&fieldSelector=metadata.name%3Db"),
        "/api/v1/watch/namespaces/default/configmaps/b?resourceVersion=1".to_owned(),
    ] {
        let mut watching = watch(&server, &url).unwrap();
        put(&server, "a", "1").await;
        put(&server, "b", "1").await;
        assert_eq!(next(&mut watching).await.1, "b");
    }
}

/// A client that lists once and then follows a watch, which is cut off now and then, ends with what is there.
#[tokio::test]
async fn a_follower_ends_equal_to_the_store() {
    for seed in 0..20 {
        let mut entropy = clock::SeededEntropy::new(seed);
        let server = server().await;
        let mut mirror: BTreeMap<String, Value> = BTreeMap::new();
        let mut revision = "1".to_owned();
        for _ in 0..20 {
            for _ in 0..entropy.below(6) {
                let name = ["a", "b", "c"][entropy.below(3) as usize];
                let there = is_there(&server, name);
                match (entropy.below(3), there) {
                    (0, true) => drop(ok(&server, "DELETE", &format!("{MAPS}/{name}"), Value::Null).await),
                    (draw, _) => put(&server, name, ["x", "y", "x"][draw as usize]).await,
                }
            }
            let url = format!("{MAPS}?watch=1&labelSelector=l%3Dx&resourceVersion={revision}");
            let mut watching = watch(&server, &url).unwrap();
            // Not all of it: what is left comes with the next watch.
            for _ in 0..entropy.below(4) {
                follow(&mut watching, &mut mirror, &mut revision).await;
            }
        }
        let url = format!("{MAPS}?watch=1&labelSelector=l%3Dx&resourceVersion={revision}");
        let mut watching = watch(&server, &url).unwrap();
        while follow(&mut watching, &mut mirror, &mut revision).await {}
        let list = ok(&server, "GET", &format!("{MAPS}?labelSelector=l%3Dx"), Value::Null).await;
        assert_eq!(json!(mirror.values().collect::<Vec<_>>()), list["items"], "seed {seed}");
    }
}

fn is_there(server: &Server, name: &str) -> bool {
    server.store().view().get(&format!("/registry/core/configmaps/default/{name}")).is_some()
}

/// Takes one event, if there is one by now.
async fn follow(
    watching: &mut Watching,
    mirror: &mut BTreeMap<String, Value>,
    revision: &mut String,
) -> bool {
    let waited = tokio::time::timeout(std::time::Duration::from_millis(1), watching.next()).await;
    let Ok(Some(event)) = waited.map(Result::unwrap) else { return false };
    let name = event.object["metadata"]["name"].as_str().unwrap().to_owned();
    event.object["metadata"]["resourceVersion"].as_str().unwrap().clone_into(revision);
    let before = match event.event {
        EventType::Deleted => mirror.remove(&name),
        _ => mirror.insert(name, event.object),
    };
    assert_eq!(before.is_none(), event.event == EventType::Added);
    true
}
