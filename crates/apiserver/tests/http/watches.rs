//! Watches over HTTP: framing, shapes, bookmarks, ends.

use std::time::Duration;

use apiserver::http::{Api, Body};
use apiserver::store::Options;
use http_body_util::BodyExt;
use kubeapi::proto::{self, Limits};
use serde_json::{Value, json};

use crate::support::{api, api_with, ok, request, widgets};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// The events of a watch as they come.
struct Events {
    body: Body,
    read: Vec<u8>,
    protobuf: bool,
}

impl Events {
    /// The next event's type and object; none if the stream has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(event) = self.split() {
                return Some(event);
            }
            let Some(frame) = self.body.frame().await else {
                assert!(self.read.is_empty(), "the stream ends within an event");
                return None;
            };
            self.read.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }

    fn split(&mut self) -> Option<(String, Value)> {
        let (event, rest) = match self.protobuf {
            true => {
                let (frame, rest) = proto::split_watch_frame(&self.read, Limits::ANSWER).unwrap()?;
                (proto::decode_watch_event(frame, Limits::ANSWER).unwrap(), rest.to_vec())
            }
            false => {
                let end = self.read.iter().position(|byte| *byte == b'\n')?;
                let event: Value = serde_json::from_slice(&self.read[..end]).unwrap();
                let kind = event["type"].as_str().unwrap().to_owned();
                ((kind, event["object"].clone()), self.read[end + 1..].to_vec())
            }
        };
        self.read = rest;
        Some(event)
    }
}

async fn watch(api: &Api, url: &str, accept: &str) -> Events {
    let response = api.handle(request("GET", url, &[("Accept", accept)], "")).await;
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(response.status(), 200, "{url}");
    let protobuf = content_type == "application/vnd.kubernetes.protobuf;stream=watch";
    assert!(protobuf || content_type == "application/json", "{content_type}");
    Events { body: response.into_body(), read: Vec::new(), protobuf }
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn named(name: &str) -> Value {
    json!(name)
}

#[tokio::test]
async fn events_come_as_lines_or_frames() {
    let api = api().await;
    ok(&api, "POST", SECRETS, &secret("a")).await;
    for (accept, protobuf) in [
        ("application/json", false),
        ("application/json;stream=watch", false),
        ("application/vnd.kubernetes.protobuf;stream=watch", true),
        ("application/vnd.kubernetes.protobuf", true),
    ] {
        let mut events = watch(&api, &format!("{SECRETS}?watch=true"), accept).await;
        assert_eq!(events.protobuf, protobuf);
        let (kind, object) = events.next().await.unwrap();
        assert_eq!((&*kind, &object["metadata"]["name"]), ("ADDED", &named("a")));
        assert_eq!(object["kind"], "Secret");
        ok(&api, "POST", SECRETS, &secret("b")).await;
        ok(&api, "DELETE", &format!("{SECRETS}/b"), &Value::Null).await;
        for expected in ["ADDED", "DELETED"] {
            let (kind, object) = events.next().await.unwrap();
            assert_eq!((&*kind, &object["metadata"]["name"]), (expected, &named("b")));
        }
    }
}

#[tokio::test]
async fn the_old_paths_still_watch() {
    let api = api().await;
    ok(&api, "POST", SECRETS, &secret("a")).await;
    ok(&api, "POST", SECRETS, &secret("b")).await;
    let mut events = watch(&api, "/api/v1/watch/namespaces/default/secrets/b", "").await;
    assert_eq!(events.next().await.unwrap().1["metadata"]["name"], "b");
}

#[tokio::test]
async fn only_the_first_table_describes_its_columns() {
    let api = api().await;
    ok(&api, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widgets()).await;
    for name in ["a", "b"] {
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 3},
        });
        ok(&api, "POST", WIDGETS, &widget).await;
    }
    let url = format!("{WIDGETS}?watch=1");
    let mut tables = watch(&api, &url, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    for (name, described) in [("a", true), ("b", false)] {
        let (_, table) = tables.next().await.unwrap();
        assert_eq!(table["rows"][0]["cells"], json!([name, 3]));
        assert_eq!(table["columnDefinitions"].is_array(), described);
    }
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let (_, object) = watch(&api, &url, accept).await.next().await.unwrap();
    assert_eq!((&object["kind"], object.get("spec")), (&json!("PartialObjectMetadata"), None));
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut frames = watch(&api, &url, accept).await;
    assert!(frames.protobuf);
    assert_eq!(frames.next().await.unwrap().1["metadata"]["name"], "a");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_about_once_a_minute_to_who_knows_them() {
    let api = api().await;
    let mut events =
        watch(&api, &format!("{SECRETS}?watch=1&resourceVersion=1&allowWatchBookmarks=1"), "").await;
    ok(&api, "POST", "/api/v1/namespaces", &secret("elsewhere")).await;
    let head = api.server().store().view().head().to_string();
    for _ in 0..3 {
        let before = tokio::time::sleep(Duration::from_secs(53));
        let after = tokio::time::sleep(Duration::from_secs(61));
        tokio::pin!(before, after);
        tokio::select! {
            biased;
            _ = events.next() => panic!("a bookmark came too early"),
            () = &mut before => {}
        }
        let (kind, object) = tokio::select! {
            biased;
            event = events.next() => event.unwrap(),
            () = &mut after => panic!("no bookmark came"),
        };
        assert_eq!((&*kind, &object["metadata"]["resourceVersion"]), ("BOOKMARK", &json!(head)));
    }
    let mut silent =
        watch(&api, &format!("{SECRETS}?watch=1&resourceVersion=1&timeoutSeconds=600"), "").await;
    assert_eq!(silent.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn watches_end_in_time_or_with_the_server() {
    let api = api().await;
    let url = |query: &str| format!("{SECRETS}?watch=1&resourceVersion=1{query}");
    let mut short = watch(&api, &url("&timeoutSeconds=5"), "").await;
    let mut long = watch(&api, &url(""), "").await;
    tokio::select! {
        biased;
        event = short.next() => assert_eq!(event, None),
        () = tokio::time::sleep(Duration::from_secs(6)) => panic!("the watch goes on"),
    }
    tokio::select! {
        biased;
        _ = long.next() => panic!("the watch ended"),
        () = tokio::time::sleep(Duration::from_secs(1799)) => {}
    }
    api.close();
    assert_eq!(long.next().await, None);
}

#[tokio::test]
async fn watches_that_cannot_start_are_refused() {
    let api = api().await;
    for (query, accept, code) in [
        ("watch=1", "application/yaml", 406),
        ("watch=1&resourceVersion=x", "", 500),
        ("watch=1&resourceVersion=1&resourceVersionMatch=Exact", "", 422),
        ("watch=1&resourceVersion=99", "", 410),
    ] {
        let url = format!("{SECRETS}?{query}");
        let response = api.handle(request("GET", &url, &[("Accept", accept)], "")).await;
        assert_eq!(response.status(), code, "{query}");
    }
}

#[tokio::test]
async fn lost_history_ends_a_watch_with_an_error() {
    let api = api_with(Options { watch_buffer: 2, ..Options::default() }).await;
    for accept in ["", "application/vnd.kubernetes.protobuf"] {
        let from = api.server().store().view().head();
        let mut events = watch(&api, &format!("{SECRETS}?watch=1&resourceVersion={from}"), accept).await;
        // More changes than a watch may lag behind, then no more history.
        for _ in 0..9 {
            ok(&api, "POST", SECRETS, &json!({"metadata": {"generateName": "x-"}})).await;
        }
        let head = api.server().store().view().head();
        api.server().store().compact(head).await.unwrap();
        let mut kinds = Vec::new();
        let mut last = Value::Null;
        while let Some((kind, object)) = events.next().await {
            kinds.push(kind);
            last = object;
        }
        assert_eq!(
            (kinds.first().map(String::as_str), kinds.last().unwrap().as_str()),
            (Some("ADDED"), "ERROR")
        );
        assert_eq!((&last["code"], &last["reason"]), (&json!(410), &json!("Expired")));
    }
}
