//! What a real server refuses, in its words. The answers were recorded from one.

use apiserver::server::Server;
use serde_json::{Value, json};

use crate::support::{ask, names, ok, refused, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const THINGS: &str = "/apis/x.io/v1/namespaces/default/things";

async fn with_things() -> Server {
    let server = server().await;
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}}]},
    });
    ok(&server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
    ok(&server, "POST", THINGS, thing(json!({"name": "a"}))).await;
    ok(&server, "POST", MAPS, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await;
    server
}

fn thing(metadata: Value) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": metadata, "spec": {"size": 1}})
}

/// The end of a patch's refusal, after the object that it made.
#[tokio::test]
async fn patches_that_make_something_else_are_invalid() {
    let server = with_things().await;
    let (map, thing) = (format!("{MAPS}/a"), format!("{THINGS}/a"));
    let strict = |url: &str| format!("{url}?fieldValidation=Strict");
    for (method, url, patch, end) in [
        (
            "merge",
            map.clone(),
            json!({"data": {"k": 1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "json",
            map.clone(),
            json!([{"op": "add", "path": "/data", "value": "x"}]),
            "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "merge",
            map.clone(),
            json!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "merge",
            map.clone(),
            json!({"metadata": {"creationTimestamp": "x"}}),
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        ),
        (
            "merge",
            map.clone(),
            json!({"kind": "Other"}),
            "no kind \"Other\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:110\"",
        ),
        ("merge", strict(&map), json!({"extra": 1}), "strict decoding error: unknown field \"extra\""),
        (
            "strategic",
            strict(&map),
            json!({"extra": 1}),
            "\"map[extra:1]\": strict decoding error: unknown field \"extra\"",
        ),
        (
            "merge",
            strict(&thing),
            json!({"spec": {"x": 1}}),
            "strict decoding error: unknown field \"spec.x\"",
        ),
        (
            "merge",
            thing.clone(),
            json!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            "merge",
            thing.clone(),
            json!({"metadata": "x"}),
            "json: cannot unmarshal string into Go value of type v1.ObjectMeta",
        ),
    ] {
        let status = refused(&server, method, &url, patch.clone()).await;
        let start = " \"\" is invalid: patch: Invalid value: \"";
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{url} {patch}");
        assert!(status.message.starts_with(start) && status.message.ends_with(end), "{}", status.message);
        assert_eq!(status.details.unwrap().causes[0].field, "patch");
    }
    // A strategic patch does not get to say what the object is.
    ok(&server, "strategic", &map, json!({"kind": "Secret", "apiVersion": "v2"})).await;
}

#[tokio::test]
async fn requests_are_refused_in_upstreams_words() {
    let server = with_things().await;
    let lease = |spec: Value| json!({"metadata": {"name": "l"}, "spec": spec});
    let (map, thing_a) = (format!("{MAPS}/a"), format!("{THINGS}/a"));
    let none = Value::Null;
    for (method, url, body, code, message) in [
        (
            "merge",
            thing_a.clone(),
            json!({"kind": "Other"}),
            422,
            "Other.x.io \"a\" is invalid: kind: Invalid value: \"Other\": must be Thing",
        ),
        (
            "merge",
            thing_a.clone(),
            json!({"apiVersion": "x.io/v2"}),
            422,
            "Thing.x.io \"a\" is invalid: apiVersion: Invalid value: \"x.io/v2\": must be x.io/v1",
        ),
        (
            "merge",
            thing_a.clone(),
            json!({"metadata": {"uid": "b"}}),
            422,
            "Thing.x.io \"a\" is invalid: metadata.uid: Invalid value: \"b\": field is immutable",
        ),
        (
            "merge",
            map.clone(),
            json!({"metadata": {"resourceVersion": "x"}}),
            500,
            "strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            "PUT",
            map.clone(),
            json!({"metadata": {}}),
            400,
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            "GET",
            format!("{map}?resourceVersion=x"),
            none.clone(),
            500,
            "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            "GET",
            format!("{MAPS}?resourceVersion=x"),
            none.clone(),
            400,
            "invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            "GET",
            format!("{MAPS}?continue=abc"),
            none.clone(),
            400,
            "invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of value",
        ),
        ("GET", format!("{thing_a}/nope"), none.clone(), 404, "things.x.io \"a\" not found"),
        (
            "DELETE",
            format!("{thing_a}/status"),
            none.clone(),
            405,
            "delete is not supported on resources of kind \"things.x.io\"",
        ),
        (
            "DELETE",
            "/apis/x.io/v1/things".into(),
            none.clone(),
            404,
            "the server could not find the requested resource",
        ),
        (
            "DELETE",
            "/api/v1/configmaps".into(),
            none.clone(),
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "POST",
            MAPS.into(),
            json!([1]),
            400,
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (5b315d)",
        ),
        (
            "POST",
            MAPS.into(),
            json!({"metadata": {"name": "f", "finalizers": ["bad"]}}),
            422,
            "ConfigMap \"f\" is invalid: metadata.finalizers[0]: Invalid value: \"bad\": name is neither a standard finalizer name nor is it fully qualified",
        ),
        (
            "POST",
            THINGS.into(),
            thing(json!({"name": "b", "labels": {"a": 5}})),
            400,
            "Thing in version \"v1\" cannot be handled as a Thing: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            "POST",
            LEASES.into(),
            lease(json!({"leaseDurationSeconds": 1.5})),
            400,
            "Lease in version \"v1\" cannot be handled as a Lease: json: cannot unmarshal number 1.5 into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32",
        ),
        (
            "POST",
            LEASES.into(),
            lease(json!({"leaseDurationSeconds": 9_999_999_999_i64})),
            400,
            "Lease in version \"v1\" cannot be handled as a Lease: json: cannot unmarshal number 9999999999 into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32",
        ),
        (
            "POST",
            LEASES.into(),
            lease(json!({"renewTime": "2026-01-01T00:00:00Z"})),
            400,
            "Lease in version \"v1\" cannot be handled as a Lease: parsing time \"2026-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/secrets".into(),
            json!({"metadata": {"name": "s"}, "data": {"a": "?"}}),
            400,
            "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 0",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/secrets".into(),
            json!({"metadata": {"name": "s"}, "data": {"a": 1}}),
            400,
            "Secret in version \"v1\" cannot be handled as a Secret: json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        (
            "POST",
            "/apis/apps/v1/namespaces/default/deployments".into(),
            json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": ["x"]}}}}),
            400,
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field PodSpec.spec.template.spec.containers of type v1.Container",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/persistentvolumeclaims".into(),
            json!({"metadata": {"name": "p"}, "spec": {"resources": {"requests": {"storage": "abc"}}}}),
            400,
            "PersistentVolumeClaim in version \"v1\" cannot be handled as a PersistentVolumeClaim: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        let status = refused(&server, method, &url, body.clone()).await;
        assert_eq!((status.code, status.message.as_str()), (code, message), "{method} {url} {body}");
    }
}

#[tokio::test]
async fn unwise_finalizers_of_custom_objects_are_warned_of_once() {
    let server = with_things().await;
    let warning = "metadata.finalizers: \"bad\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers";
    let body = thing(json!({"name": "b", "finalizers": ["bad", "x.io/good"]}));
    assert_eq!(ask(&server, "POST", THINGS, Some(body)).await.unwrap().warnings, [warning]);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let answer = ask(&server, "merge", &format!("{THINGS}/b"), Some(label)).await.unwrap();
    assert!(answer.warnings.is_empty());
}

#[tokio::test]
async fn a_limited_deletion_goes_page_by_page() {
    let server = server().await;
    for name in ["a", "b", "c"] {
        ok(&server, "POST", MAPS, json!({"metadata": {"name": name}})).await;
    }
    let gone = ok(&server, "DELETE", &format!("{MAPS}?limit=2"), Value::Null).await;
    assert_eq!((names(&gone), &gone["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(1)));
    let token = gone["metadata"]["continue"].as_str().unwrap();
    let gone = ok(&server, "DELETE", &format!("{MAPS}?limit=2&continue={token}"), Value::Null).await;
    assert_eq!((names(&gone), &gone["metadata"]["continue"]), (vec!["c"], &Value::Null));
    assert!(names(&ok(&server, "GET", MAPS, Value::Null).await).is_empty());
}

#[tokio::test]
async fn values_are_kept_as_go_writes_them() {
    let server = server().await;
    let lease = json!({"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-01T00:00:00.123456+01:00"}});
    let lease = ok(&server, "POST", LEASES, lease).await;
    assert_eq!(lease["spec"]["renewTime"], "2025-12-31T23:00:00.123456Z");
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"},
        "firstTimestamp": "2026-01-01T00:00:00.5+01:00"});
    let event = ok(&server, "POST", "/api/v1/namespaces/default/events", event).await;
    assert_eq!(event["firstTimestamp"], "2025-12-31T23:00:00Z");
}
