//! Custom resources of several versions.

use std::sync::{Arc, Mutex};

use apiserver::convert::{Converter, Converting};
use apiserver::server::{EventType, Server};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::hook::{Hook, Manner};
use crate::support::{names, new_server, ok, refused, server, watch};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A kind whose size is a number in v1, where it is stored, and a text in v2.
fn definition(conversion: Value) -> Value {
    let version = |name: &str, size: Value| {
        let spec = json!({"type": "object", "properties": {
            "size": size, "color": {"type": "string", "default": format!("{name}-red")}}});
        json!({"name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", json!({"type": "integer"})), version("v2", json!({"type": "string"}))],
            "conversion": conversion},
    })
}

fn by_webhook(client: Value) -> Value {
    json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}})
}

/// A URL that nobody listens at.
fn nowhere() -> Value {
    by_webhook(json!({"url": "https://127.0.0.1:1/convert"}))
}

fn url(version: &str, name: &str) -> String {
    format!("/apis/x.io/{version}/namespaces/default/things{}{name}", if name.is_empty() { "" } else { "/" })
}

fn thing(version: &str, name: &str, size: Value) -> Value {
    json!({"apiVersion": format!("x.io/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": {"size": size}})
}

/// Numbers become texts and texts numbers.
pub(crate) fn converted(mut object: Value, to: &str) -> Value {
    let size = &mut object["spec"]["size"];
    *size = match (to, &*size) {
        ("x.io/v1", Value::String(text)) => text.parse::<i64>().unwrap().into(),
        ("x.io/v2", Value::Number(number)) => number.to_string().into(),
        (_, other) => other.clone(),
    };
    object["metadata"]["annotations"]["was"] = object["apiVersion"].clone();
    object["apiVersion"] = json!(to);
    object
}

/// Remembers how many objects it got at a time.
#[derive(Default)]
struct Sizes(Mutex<Vec<usize>>);

impl Converter for Sizes {
    fn handles(&self, group: &str, kind: &str) -> bool {
        (group, kind) == ("x.io", "Thing")
    }

    fn convert<'a>(&'a self, objects: Vec<Value>, to: &'a str) -> Converting<'a> {
        self.0.lock().unwrap().push(objects.len());
        if objects.iter().any(|object| object["spec"]["size"] == 13) {
            return Box::pin(async { Err("13 is not a text".into()) });
        }
        let converted = objects.into_iter().map(|object| converted(object, to)).collect();
        Box::pin(async move { Ok(converted) })
    }
}

async fn in_process() -> (Server, Arc<Sizes>) {
    let sizes = Arc::new(Sizes::default());
    let server = new_server(|server| server.with_converter(sizes.clone())).await;
    ok(&server, "POST", CRDS, definition(nowhere())).await;
    (server, sizes)
}

fn stored(server: &Server, name: &str) -> Value {
    let view = server.store().view();
    let bytes = &view.get(&format!("/registry/x.io/things/default/{name}")).unwrap().value();
    serde_json::from_slice(bytes).unwrap()
}

#[tokio::test]
async fn objects_are_stored_in_one_version_and_seen_in_all() {
    let (server, _) = in_process().await;
    let created = ok(&server, "POST", &url("v2", ""), thing("v2", "a", json!("5"))).await;
    assert_eq!((&created["apiVersion"], &created["spec"]["size"]), (&json!("x.io/v2"), &json!("5")));
    // The default is the one of the version that was written.
    assert_eq!(stored(&server, "a")["spec"], json!({"size": 5, "color": "v2-red"}));
    assert_eq!(ok(&server, "GET", &url("v1", "a"), Value::Null).await["spec"]["size"], 5);
    let patch = json!({"spec": {"size": "6"}, "metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}});
    let patched = ok(&server, "merge", &url("v2", "a"), patch).await;
    assert_eq!((&patched["spec"]["size"], &patched["metadata"]["generation"]), (&json!("6"), &json!(2)));
    let mut updated = ok(&server, "GET", &url("v1", "a"), Value::Null).await;
    assert_eq!(updated["spec"]["size"], 6);
    assert_eq!(updated["metadata"]["uid"], created["metadata"]["uid"]);
    updated["spec"]["size"] = json!(7);
    ok(&server, "PUT", &url("v1", "a"), updated).await;
    assert_eq!(ok(&server, "GET", &url("v2", "a"), Value::Null).await["spec"]["size"], "7");
    let bad = refused(&server, "POST", &url("v2", ""), thing("v2", "b", json!(5))).await;
    assert_eq!(bad.code, 422, "validated in the version of the request");
}

#[tokio::test]
async fn a_list_is_converted_in_one_go() {
    let (server, sizes) = in_process().await;
    for name in ["a", "b", "c"] {
        ok(&server, "POST", &url("v1", ""), thing("v1", name, json!(1))).await;
    }
    assert!(sizes.0.lock().unwrap().is_empty(), "nothing to convert yet");
    let list = ok(&server, "GET", &url("v2", ""), Value::Null).await;
    assert_eq!((names(&list).len(), &list["items"][0]["spec"]["size"]), (3, &json!("1")));
    assert_eq!(*sizes.0.lock().unwrap(), [3]);
}

#[tokio::test]
async fn a_change_of_the_storage_version_leaves_old_objects_readable() {
    let (server, _) = in_process().await;
    ok(&server, "POST", &url("v1", ""), thing("v1", "a", json!(1))).await;
    let swap = json!([{"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true}]);
    let crd = ok(&server, "json", &format!("{CRDS}/things.x.io"), swap).await;
    assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v2"]));
    for (version, size) in [("v1", json!(1)), ("v2", json!("1"))] {
        assert_eq!(ok(&server, "GET", &url(version, "a"), Value::Null).await["spec"]["size"], size);
    }
    ok(&server, "merge", &url("v1", "a"), json!({"spec": {"size": 2}})).await;
    assert_eq!(stored(&server, "a")["spec"]["size"], "2");
    assert_eq!(ok(&server, "GET", &url("v1", "a"), Value::Null).await["spec"]["size"], 2);
}

#[tokio::test]
async fn watches_convert() {
    let (server, _) = in_process().await;
    ok(&server, "POST", &url("v1", ""), thing("v1", "a", json!(1))).await;
    let initial = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watching = watch(&server, &format!("{}?{initial}", url("v2", ""))).unwrap();
    ok(&server, "merge", &url("v1", "a"), json!({"spec": {"size": 2}})).await;
    ok(&server, "DELETE", &url("v1", "a"), Value::Null).await;
    for (kind, size) in [(EventType::Added, "1"), (EventType::Modified, "2"), (EventType::Deleted, "2")] {
        let event = watching.next().await.unwrap().unwrap();
        assert_eq!((event.event, &event.object["spec"]["size"]), (kind, &json!(size)));
    }
    ok(&server, "POST", &url("v1", ""), thing("v1", "b", json!(13))).await;
    assert_eq!(
        watching.next().await.unwrap_err().message,
        "conversion webhook for x.io/v1, Kind=Thing failed: 13 is not a text"
    );
}

#[tokio::test]
async fn without_a_strategy_only_the_version_changes() {
    let sizes = Arc::new(Sizes::default());
    let server = new_server(|server| server.with_converter(sizes.clone())).await;
    ok(&server, "POST", CRDS, definition(json!({"strategy": "None"}))).await;
    ok(&server, "POST", &url("v1", ""), thing("v1", "a", json!(1))).await;
    let seen = ok(&server, "GET", &url("v2", "a"), Value::Null).await;
    assert_eq!((&seen["apiVersion"], &seen["spec"]["size"]), (&json!("x.io/v2"), &json!(1)));
    assert!(sizes.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_webhook_converts() {
    let hook = Hook::start(Manner::Good).await;
    let server = server().await;
    let client =
        json!({"url": format!("https://127.0.0.1:{}/convert", hook.port), "caBundle": hook.ca_bundle()});
    ok(&server, "POST", CRDS, definition(by_webhook(client))).await;
    ok(&server, "POST", &url("v2", ""), thing("v2", "a", json!("5"))).await;
    assert_eq!(stored(&server, "a")["spec"]["size"], 5);
    assert_eq!(ok(&server, "GET", &url("v2", "a"), Value::Null).await["spec"]["size"], "5");
    let seen = hook.seen();
    assert_eq!(seen[0]["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(seen[0]["request"]["desiredAPIVersion"], "x.io/v1");
    assert_eq!(seen[0]["request"]["objects"][0]["metadata"]["resourceVersion"], Value::Null);
    assert_eq!(hook.connections(), 1, "a connection is used again");
}

#[tokio::test]
async fn a_webhook_is_found_by_its_service() {
    let hook = Hook::start(Manner::Good).await;
    let server = server().await;
    let client = json!({"service": {"namespace": "default", "name": "hook", "path": "/convert"},
        "caBundle": hook.ca_bundle()});
    ok(&server, "POST", CRDS, definition(by_webhook(client))).await;
    ok(&server, "POST", &url("v1", ""), thing("v1", "a", json!(5))).await;
    let failed = "conversion webhook for x.io/v1, Kind=Thing failed: Post \"https://hook.default.svc:443/convert?timeout=30s\"";
    let status = refused(&server, "GET", &url("v2", "a"), Value::Null).await;
    assert_eq!((status.code, status.message), (500, format!("{failed}: service \"hook\" not found")));
    let service = json!({"metadata": {"name": "hook"},
        "spec": {"type": "ClusterIP", "clusterIP": "None", "ports": [{"port": 443, "protocol": "TCP"}]}});
    ok(&server, "POST", "/api/v1/namespaces/default/services", service).await;
    let status = refused(&server, "GET", &url("v2", "a"), Value::Null).await;
    assert_eq!(status.message, format!("{failed}: no endpoints available for service \"hook\""));
    let slice = json!({"metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": hook.port, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}]});
    // The API refuses addresses of the loopback.
    let key = "/registry/discovery.k8s.io/endpointslices/default/hook-1";
    server
        .store()
        .write(vec![apiserver::store::Write::create(key, slice.to_string().into_bytes())])
        .await
        .unwrap();
    assert_eq!(ok(&server, "GET", &url("v2", "a"), Value::Null).await["spec"]["size"], "5");
}

#[tokio::test]
async fn what_webhooks_get_wrong_is_told() {
    let about = "conversion webhook for x.io/v1, Kind=Thing";
    for (manner, wanted) in [
        (Manner::OtherUid, "failed: expected response.uid=\"UID\", got \"other\"".to_owned()),
        (Manner::Failure, "failed: cannot do it".into()),
        (Manner::Nothing, "returned 0 objects, expected 1".into()),
        (
            Manner::Untouched,
            "returned invalid object at index 0: invalid groupVersion (expected x.io/v2, received x.io/v1)"
                .into(),
        ),
        (Manner::Renamed, "returned invalid object: must have the same name: a != other".into()),
        (
            Manner::Code500,
            "failed: an error on the server (\"broken\") has prevented the request from succeeding".into(),
        ),
        (Manner::Code404, "failed: the server could not find the requested resource".into()),
    ] {
        let hook = Hook::start(manner).await;
        let server = server().await;
        let client =
            json!({"url": format!("https://127.0.0.1:{}/convert", hook.port), "caBundle": hook.ca_bundle()});
        ok(&server, "POST", CRDS, definition(by_webhook(client))).await;
        ok(&server, "POST", &url("v1", ""), thing("v1", "a", json!(5))).await;
        let status = refused(&server, "GET", &url("v2", "a"), Value::Null).await;
        let uid = hook.seen()[0]["request"]["uid"].as_str().unwrap().to_owned();
        assert_eq!(status.message, format!("{about} {}", wanted.replace("UID", &uid)));
        assert_eq!((status.code, status.reason.as_str()), (500, ""));
    }
}

#[tokio::test]
async fn webhooks_that_cannot_be_trusted_or_reached_are_not_asked() {
    let (hook, other) = (Hook::start(Manner::Good).await, Hook::start(Manner::Good).await);
    let place = format!("https://127.0.0.1:{}/convert", hook.port);
    let post =
        |url: &str| format!("conversion webhook for x.io/v1, Kind=Thing failed: Post \"{url}?timeout=30s\"");
    let no_bundle = STANDARD.encode("-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n");
    for (client, wanted) in [
        (
            json!({"url": place, "caBundle": other.ca_bundle()}),
            format!(
                "{}: tls: failed to verify certificate: x509: certificate signed by unknown authority",
                post(&place)
            ),
        ),
        (
            json!({"url": "https://127.0.0.1:1/", "caBundle": hook.ca_bundle()}),
            format!("{}: dial tcp 127.0.0.1:1: connect: connection refused", post("https://127.0.0.1:1/")),
        ),
        (
            json!({"url": place, "caBundle": no_bundle}),
            "conversion webhook for x.io/v1, Kind=Thing failed: unable to load root certificates: unable to parse bytes as PEM block".into(),
        ),
    ] {
        let server = server().await;
        ok(&server, "POST", CRDS, definition(by_webhook(client))).await;
        ok(&server, "POST", &url("v1", ""), thing("v1", "a", json!(5))).await;
        assert_eq!(refused(&server, "GET", &url("v2", "a"), Value::Null).await.message, wanted);
    }
    assert!(hook.seen().is_empty());
}

#[tokio::test]
async fn a_watch_ends_with_its_definition() {
    let crd = format!("{CRDS}/things.x.io");
    let described =
        json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "d"}]);
    let labelled = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
    for (method, body, ends, deleted) in [
        ("json", labelled, false, false),
        ("json", described, true, false),
        ("DELETE", Value::Null, true, true),
    ] {
        let (server, _) = in_process().await;
        let mut watching = watch(&server, &format!("{}?watch=1&resourceVersion=1", url("v1", ""))).unwrap();
        ok(&server, "POST", &url("v1", ""), thing("v1", "a", json!(1))).await;
        ok(&server, method, &crd, body).await;
        assert_eq!(watching.next().await.unwrap().unwrap().event, EventType::Added);
        if deleted {
            assert_eq!(watching.next().await.unwrap().unwrap().event, EventType::Deleted);
        } else {
            // What comes after the change is told to who watches after it.
            ok(&server, "merge", &url("v1", "a"), json!({"spec": {"size": 2}})).await;
        }
        match ends {
            true => assert_eq!(watching.next().await.unwrap(), None),
            false => assert_eq!(watching.next().await.unwrap().unwrap().event, EventType::Modified),
        }
    }
}

#[tokio::test]
async fn objects_follow_a_change_of_their_schema() {
    let (server, _) = in_process().await;
    ok(&server, "POST", &url("v1", ""), thing("v1", "old", json!(1))).await;
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let change = json!([{"op": "remove", "path": format!("{path}/size")},
        {"op": "add", "path": format!("{path}/new"), "value": {"type": "string", "default": "x"}}]);
    ok(&server, "json", &format!("{CRDS}/things.x.io"), change).await;
    ok(&server, "POST", &url("v1", ""), thing("v1", "young", json!(1))).await;
    for name in ["old", "young"] {
        let seen = ok(&server, "GET", &url("v1", name), Value::Null).await;
        assert_eq!(seen["spec"], json!({"color": "v1-red", "new": "x"}), "{name}");
    }
}

/// Objects are written while their schema changes: every write counts, and none is left as an older schema has it.
#[tokio::test]
async fn writes_go_on_while_the_schema_changes() {
    let (server, _) = in_process().await;
    ok(&server, "POST", &url("v1", ""), thing("v1", "a", json!(0))).await;
    let change = async {
        for round in 0..20 {
            let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/round";
            let field = json!({"type": "integer", "default": round});
            let change = json!([{"op": "add", "path": path, "value": field}]);
            ok(&server, "json", &format!("{CRDS}/things.x.io"), change).await;
            tokio::task::yield_now().await;
        }
    };
    let write = async {
        for _ in 0..60 {
            let size =
                ok(&server, "GET", &url("v1", "a"), Value::Null).await["spec"]["size"].as_i64().unwrap();
            let patch = json!({"spec": {"size": size + 1, "round": null}});
            ok(&server, "merge", &url("v1", "a"), patch).await;
            tokio::task::yield_now().await;
        }
    };
    futures_util::future::join(change, write).await;
    ok(&server, "merge", &url("v1", "a"), json!({"spec": {"round": null}})).await;
    assert_eq!(
        ok(&server, "GET", &url("v1", "a"), Value::Null).await["spec"],
        json!({"size": 60, "color": "v1-red", "round": 19})
    );
}
