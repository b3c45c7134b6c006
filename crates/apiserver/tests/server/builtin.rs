//! ConfigMaps, Secrets and Namespaces.

use std::sync::Arc;

use apiserver::server::Server;
use apiserver::store::{Options, SqliteStore};
use serde_json::{Value, json};

use crate::support::{NOW, ask, names, ok, refused, server, server_on};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn at(name: &str) -> String {
    format!("{MAPS}/{name}")
}

async fn life_of_a_config_map(server: &Server) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "uid": "mine", "generation": 9, "labels": {"x": "y"}},
        "data": {"k": "v"},
    });
    let answer = ask(server, "POST", MAPS, Some(map)).await.unwrap();
    assert_eq!((answer.code, answer.warnings.len()), (201, 0));
    let created = answer.body;
    let metadata = &created["metadata"];
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["creationTimestamp"], NOW);
    assert_eq!(metadata["resourceVersion"], "2");
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert_eq!(metadata["generation"], Value::Null);
    assert_eq!(ok(server, "GET", &at("a"), Value::Null).await, created);

    let mut changed = created.clone();
    changed["data"]["k"] = json!("w");
    let updated = ok(server, "PUT", &at("a"), changed.clone()).await;
    assert_eq!((&updated["data"]["k"], &updated["metadata"]["resourceVersion"]), (&json!("w"), &json!("3")));
    assert_eq!(
        refused(server, "PUT", &at("a"), changed).await.message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );

    let again = ok(server, "PUT", &at("a"), updated.clone()).await;
    assert_eq!(again, updated, "what changes nothing is not written");
    for (kind, patch, value) in [
        ("merge", json!({"data": {"k": "1"}}), "1"),
        ("json", json!([{"op": "replace", "path": "/data/k", "value": "2"}]), "2"),
        ("strategic", json!({"data": {"k": "3"}}), "3"),
    ] {
        assert_eq!(ok(server, kind, &at("a"), patch).await["data"]["k"], value);
    }
    let gone = ok(server, "DELETE", &at("a"), Value::Null).await;
    assert_eq!(gone["status"], "Success");
    assert_eq!(gone["details"], json!({"name": "a", "kind": "configmaps", "uid": metadata["uid"]}));
    assert_eq!(refused(server, "GET", &at("a"), Value::Null).await.message, "configmaps \"a\" not found");
}

#[tokio::test]
async fn a_config_map_lives_in_memory() {
    life_of_a_config_map(&server().await).await;
}

#[tokio::test]
async fn a_config_map_lives_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let open = |clock| Arc::new(SqliteStore::open(&path, Options::default(), clock).unwrap()) as Arc<_>;
    life_of_a_config_map(&server_on(open).await).await;
}

#[tokio::test]
async fn refusals_are_in_upstreams_words() {
    let server = server().await;
    ok(&server, "POST", MAPS, json!({"metadata": {"name": "there"}})).await;
    let rows = [
        ("POST", MAPS, json!({"metadata": {"name": "there"}}), 409, "configmaps \"there\" already exists"),
        (
            "POST",
            MAPS,
            json!({}),
            422,
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (
            "POST",
            MAPS,
            json!({"metadata": {"name": "B"}}),
            422,
            "ConfigMap \"B\" is invalid: metadata.name: Invalid value: \"B\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (
            "POST",
            MAPS,
            json!({"metadata": {"name": "b", "namespace": "other"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "POST",
            MAPS,
            json!({"metadata": {"name": "b", "resourceVersion": "7"}}),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            "POST",
            MAPS,
            json!({"apiVersion": "v2", "metadata": {"name": "b"}}),
            400,
            "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\" in scheme \"pkg/runtime/scheme.go:110\"",
        ),
        (
            "POST",
            MAPS,
            json!({"metadata": {"name": "b"}, "data": {"k": 1}}),
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "POST",
            MAPS,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}),
            400,
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/there",
            json!({"metadata": {"name": "there", "uid": "x", "annotations": {"a": 1}}}),
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.annotations of type string",
        ),
        (
            "POST",
            "/api/v1/namespaces/no/configmaps",
            json!({"metadata": {"name": "b"}}),
            404,
            "namespaces \"no\" not found",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/configmaps?fieldValidation=Strict",
            json!({"metadata": {"name": "b"}, "x": 1, "y": 2}),
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"x\", unknown field \"y\"",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/things",
            json!({}),
            404,
            "the server could not find the requested resource",
        ),
        (
            "POST",
            "/api/v1/configmaps",
            json!({}),
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/configmaps/there/status",
            Value::Null,
            404,
            "the server could not find the requested resource",
        ),
        (
            "DELETE",
            "/api/v1/namespaces",
            Value::Null,
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/there",
            json!({"metadata": {"name": "b"}}),
            400,
            "the name of the object (b) does not match the name on the URL (there)",
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/b",
            json!({"metadata": {"name": "b"}}),
            404,
            "configmaps \"b\" not found",
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/there",
            json!({"metadata": {"name": "there"}, "data": {"a b": ""}}),
            422,
            "ConfigMap \"there\" is invalid: data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        ),
        (
            "GET",
            "/api/v1/configmaps?fieldSelector=data.x=y",
            Value::Null,
            400,
            "\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            "GET",
            "/api/v1/configmaps?resourceVersion=x",
            Value::Null,
            400,
            "invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            "GET",
            "/api/v1/configmaps?resourceVersion=99",
            Value::Null,
            504,
            "Timeout: Too large resource version: 99, current: 2",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default/configmaps/there",
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "77"}}),
            409,
            "Operation cannot be fulfilled on ConfigMap \"there\": the ResourceVersion in the precondition (77) does not match the ResourceVersion in record (2). The object might have been modified",
        ),
    ];
    for (method, url, body, code, message) in rows {
        let status = refused(&server, method, url, body).await;
        assert_eq!((status.code, status.message.as_str()), (code, message), "{method} {url}");
    }
}

#[tokio::test]
async fn unknown_fields_are_dropped_with_a_warning() {
    let server = server().await;
    let body = |name: &str| Some(json!({"metadata": {"name": name, "foo": 1}, "x": 1}));
    for (name, validation, warnings) in [
        ("a", "", vec!["unknown field \"metadata.foo\"", "unknown field \"x\""]),
        ("b", "?fieldValidation=Ignore", vec![]),
    ] {
        let answer = ask(&server, "POST", &format!("{MAPS}{validation}"), body(name)).await.unwrap();
        assert_eq!(answer.warnings, warnings);
        assert_eq!((&answer.body["x"], &answer.body["metadata"]["foo"]), (&Value::Null, &Value::Null));
    }
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let server = server().await;
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let dry = ok(&server, "POST", &format!("{MAPS}?dryRun=All"), map.clone()).await;
    assert!(dry["metadata"]["uid"].is_string() && dry["metadata"]["resourceVersion"].is_null());
    assert_eq!(refused(&server, "GET", &at("a"), Value::Null).await.code, 404);
    let created = ok(&server, "POST", MAPS, map).await;
    let patch = json!({"data": {"k": "w"}});
    assert_eq!(ok(&server, "merge", &format!("{}?dryRun=All", at("a")), patch).await["data"]["k"], "w");
    ok(&server, "DELETE", &format!("{}?dryRun=All", at("a")), Value::Null).await;
    assert_eq!(ok(&server, "GET", &at("a"), Value::Null).await, created);
}

#[tokio::test]
async fn names_are_generated() {
    let server = server().await;
    for _ in 0..20 {
        ok(&server, "POST", MAPS, json!({"metadata": {"generateName": "a-"}})).await;
    }
    let list = ok(&server, "GET", MAPS, Value::Null).await;
    assert_eq!(names(&list).len(), 20);
    assert!(names(&list).iter().all(|name| name.starts_with("a-") && name.len() == 7));
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let server = server().await;
    ok(&server, "POST", MAPS, json!({"metadata": {"name": "a", "finalizers": ["x.io/y"]}})).await;
    let held = ok(&server, "DELETE", &at("a"), Value::Null).await;
    assert_eq!((&held["kind"], &held["metadata"]["deletionTimestamp"]), (&json!("ConfigMap"), &json!(NOW)));
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(ok(&server, "DELETE", &at("a"), Value::Null).await, held, "once is enough");
    let added = json!({"metadata": {"finalizers": ["x.io/y", "x.io/z"]}});
    let status = refused(&server, "merge", &at("a"), added).await;
    assert_eq!(
        status.message,
        "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.io/z\"}"
    );
    ok(&server, "merge", &at("a"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(refused(&server, "GET", &at("a"), Value::Null).await.code, 404);
}

#[tokio::test]
async fn propagation_is_a_finalizer() {
    let server = server().await;
    for (policy, finalizers) in [("Orphan", json!(["orphan"])), ("Foreground", json!(["foregroundDeletion"]))]
    {
        ok(&server, "POST", MAPS, json!({"metadata": {"name": "a"}})).await;
        let held =
            ok(&server, "DELETE", &format!("{}?propagationPolicy={policy}", at("a")), Value::Null).await;
        assert_eq!(held["metadata"]["finalizers"], finalizers);
        ok(&server, "merge", &at("a"), json!({"metadata": {"finalizers": null}})).await;
    }
}

#[tokio::test]
async fn secrets_take_plain_texts_and_may_be_sealed() {
    let server = server().await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "hello"}, "immutable": true});
    let created = ok(&server, "POST", SECRETS, secret).await;
    assert_eq!(created["data"], json!({"k": "aGVsbG8="}));
    assert_eq!((&created["type"], &created["stringData"]), (&json!("Opaque"), &Value::Null));
    let url = format!("{SECRETS}/s");
    for (patch, message) in [
        (
            json!({"data": {"k": "eA=="}}),
            "Secret \"s\" is invalid: data: Forbidden: field is immutable when `immutable` is set",
        ),
        (
            json!({"immutable": null}),
            "Secret \"s\" is invalid: immutable: Forbidden: field is immutable when `immutable` is set",
        ),
        (json!({"type": "x"}), "Secret \"s\" is invalid: type: Invalid value: \"x\": field is immutable"),
    ] {
        assert_eq!(refused(&server, "merge", &url, patch).await.message, message);
    }
    ok(&server, "merge", &url, json!({"metadata": {"labels": {"a": "b"}}})).await;
    let typed = ok(&server, "GET", &format!("{SECRETS}?fieldSelector=type=Opaque"), Value::Null).await;
    assert_eq!(names(&typed), ["s"]);
}

#[tokio::test]
async fn a_namespace_goes_slowly() {
    let server = server().await;
    let refusal = refused(&server, "DELETE", "/api/v1/namespaces/default", Value::Null).await;
    assert_eq!(refusal.message, "namespaces \"default\" is forbidden: this namespace may not be deleted");
    let namespace = ok(&server, "POST", "/api/v1/namespaces", json!({"metadata": {"name": "mine"}})).await;
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "mine");
    assert_eq!(
        (&namespace["spec"]["finalizers"], &namespace["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    let going = ok(&server, "DELETE", "/api/v1/namespaces/mine", Value::Null).await;
    assert_eq!(going["status"]["phase"], "Terminating");
    let status =
        refused(&server, "POST", "/api/v1/namespaces/mine/configmaps", json!({"metadata": {"name": "a"}}))
            .await;
    assert_eq!(
        (status.code, status.message.as_str()),
        (
            403,
            "configmaps \"a\" is forbidden: unable to create new content in namespace mine because it is being terminated"
        )
    );
    let finalized = json!({"metadata": {"name": "mine"}, "spec": {"finalizers": []}});
    ok(&server, "PUT", "/api/v1/namespaces/mine/finalize", finalized).await;
    assert_eq!(refused(&server, "GET", "/api/v1/namespaces/mine", Value::Null).await.code, 404);
}

#[tokio::test]
async fn events_expire() {
    let server = server().await;
    let events = "/api/v1/namespaces/default/events";
    ok(&server, "POST", events, json!({"metadata": {"name": "e"}, "involvedObject": {"name": "p"}})).await;
    let found =
        ok(&server, "GET", &format!("{events}?fieldSelector=involvedObject.name=p"), Value::Null).await;
    assert_eq!(names(&found), ["e"]);
    let later = NOW.parse::<jiff::Timestamp>().unwrap() + std::time::Duration::from_secs(3600);
    assert_eq!(server.store().expire(later).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patches_at_the_same_time_all_count() {
    let server = Arc::new(server().await);
    ok(&server, "POST", MAPS, json!({"metadata": {"name": "a"}})).await;
    let patches = (0..16).map(|index| {
        let server = server.clone();
        tokio::spawn(async move {
            let patch = json!({"data": {format!("k{index}"): "v"}});
            ok(&server, "merge", &at("a"), patch).await;
        })
    });
    for patch in patches.collect::<Vec<_>>() {
        patch.await.unwrap();
    }
    let map = ok(&server, "GET", &at("a"), Value::Null).await;
    assert_eq!(map["data"].as_object().unwrap().len(), 16);
}
