//! A custom resource, from its definition on.

use apiserver::server::Server;
use serde_json::{Value, json};

use crate::support::{ask, names, ok, refused, server};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/x.io/v1/namespaces/default/things";

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1},
            "color": {"type": "string", "default": "red"},
            "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]},
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    }});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}}, "selectableFields": [{"jsonPath": ".spec.color"}]})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", true), version("v1beta1", false)]},
    })
}

fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

async fn with_things() -> Server {
    let server = server().await;
    ok(&server, "POST", CRDS, definition()).await;
    server
}

#[tokio::test]
async fn a_definition_is_served_at_once() {
    let server = server().await;
    assert_eq!(refused(&server, "GET", THINGS, Value::Null).await.code, 404);
    let crd = ok(&server, "POST", CRDS, definition()).await;
    let conditions = crd["status"]["conditions"].as_array().unwrap();
    let held: Vec<&str> = conditions.iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert_eq!(held, ["NamesAccepted", "Established"]);
    assert!(conditions.iter().all(|one| one["status"] == "True"));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["spec"]["names"]["listKind"], "ThingList");
    assert_eq!(ok(&server, "GET", THINGS, Value::Null).await["kind"], "ThingList");
    let url = format!("{CRDS}/things.x.io");
    let unserved = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
    assert_eq!(ok(&server, "json", &url, unserved).await["metadata"]["generation"], 2);
    let beta = "/apis/x.io/v1beta1/namespaces/default/things";
    assert_eq!(refused(&server, "GET", beta, Value::Null).await.code, 404);
    ok(&server, "DELETE", &url, Value::Null).await;
    assert_eq!(refused(&server, "GET", THINGS, Value::Null).await.code, 404);
}

#[tokio::test]
async fn a_wrong_definition_is_refused() {
    let server = server().await;
    let mut crd = definition();
    crd["metadata"]["name"] = json!("other.x.io");
    let status = refused(&server, "POST", CRDS, crd).await;
    assert_eq!(status.code, 422);
    assert_eq!(
        status.message,
        "CustomResourceDefinition.apiextensions.k8s.io \"other.x.io\" is invalid: metadata.name: Invalid value: \"other.x.io\": must be spec.names.plural+\".\"+spec.group"
    );
}

#[tokio::test]
async fn objects_are_defaulted_pruned_and_validated() {
    let server = with_things().await;
    let body = thing("a", json!({"size": 2, "extra": 1}));
    let answer = ask(&server, "POST", THINGS, Some(body.clone())).await.unwrap();
    assert_eq!(answer.body["spec"], json!({"size": 2, "color": "red"}));
    assert_eq!(answer.body["metadata"]["generation"], 1);
    assert_eq!(answer.warnings, ["unknown field \"spec.extra\""]);
    let url = format!("{THINGS}/a");
    let strict = format!("{THINGS}?fieldValidation=Strict");
    for (method, url, body, code, message) in [
        (
            "POST",
            strict.as_str(),
            body,
            400,
            "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown field \"spec.extra\"",
        ),
        (
            "POST",
            THINGS,
            thing("b", json!({})),
            422,
            "Thing.x.io \"b\" is invalid: [spec.size: Required value, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]",
        ),
        (
            "POST",
            THINGS,
            thing("b", json!({"size": 0})),
            422,
            "Thing.x.io \"b\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            "POST",
            THINGS,
            json!({"apiVersion": "x.io/v1", "kind": "Thong", "metadata": {"name": "b"}}),
            422,
            "Thong.x.io \"b\" is invalid: kind: Invalid value: \"Thong\": must be Thing",
        ),
        (
            "PUT",
            &url,
            thing("a", json!({"size": 3})),
            422,
            "things.x.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        ),
        (
            "strategic",
            &url,
            json!({}),
            415,
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json",
        ),
    ] {
        let status = refused(&server, method, url, body).await;
        assert_eq!((status.code, status.message.as_str()), (code, message), "{method} {url}");
    }
}

#[tokio::test]
async fn the_status_is_a_subresource() {
    let server = with_things().await;
    let mut body = thing("a", json!({"size": 2}));
    body["status"] = json!({"ready": true});
    assert_eq!(ok(&server, "POST", THINGS, body).await["status"], Value::Null);
    let (url, status) = (format!("{THINGS}/a"), format!("{THINGS}/a/status"));
    let both = json!({"spec": {"size": 3}, "status": {"ready": true}});
    let by_status = ok(&server, "merge", &status, both.clone()).await;
    assert_eq!((&by_status["spec"]["size"], &by_status["status"]["ready"]), (&json!(2), &json!(true)));
    assert_eq!(by_status["metadata"]["generation"], 1);
    let mut unready = both;
    unready["status"]["ready"] = json!(false);
    let by_object = ok(&server, "merge", &url, unready).await;
    assert_eq!((&by_object["spec"]["size"], &by_object["status"]["ready"]), (&json!(3), &json!(true)));
    assert_eq!(by_object["metadata"]["generation"], 2);
}

#[tokio::test]
async fn transition_rules_see_the_old_object() {
    let server = with_things().await;
    ok(&server, "POST", THINGS, thing("a", json!({"size": 2, "fixed": "x"}))).await;
    let status = refused(&server, "merge", &format!("{THINGS}/a"), json!({"spec": {"fixed": "y"}})).await;
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert!(status.message.contains("spec.fixed") && status.message.contains("is fixed"), "{status}");
}

#[tokio::test]
async fn versions_differ_in_their_name_only() {
    let server = with_things().await;
    let beta = "/apis/x.io/v1beta1/namespaces/default/things";
    let mut body = thing("a", json!({"size": 2}));
    body["apiVersion"] = json!("x.io/v1beta1");
    let created = ok(&server, "POST", beta, body.clone()).await;
    assert_eq!(created["apiVersion"], "x.io/v1beta1");
    let read = ok(&server, "GET", &format!("{THINGS}/a"), Value::Null).await;
    assert_eq!((&read["apiVersion"], &read["metadata"]), (&json!("x.io/v1"), &created["metadata"]));
    let status = refused(&server, "POST", THINGS, body).await;
    assert_eq!(
        status.message,
        "the API version in the data (x.io/v1beta1) does not match the expected API version (x.io/v1)"
    );
}

#[tokio::test]
async fn selectable_fields_select() {
    let server = with_things().await;
    ok(&server, "POST", THINGS, thing("a", json!({"size": 1}))).await;
    ok(&server, "POST", THINGS, thing("b", json!({"size": 1, "color": "blue"}))).await;
    let blue = ok(&server, "GET", &format!("{THINGS}?fieldSelector=spec.color%3Dblue"), Value::Null).await;
    assert_eq!(names(&blue), ["b"]);
    let status = refused(&server, "GET", &format!("{THINGS}?fieldSelector=spec.size%3D1"), Value::Null).await;
    assert_eq!(status.message, "field label not supported: spec.size");
}

#[tokio::test]
async fn a_definition_goes_with_its_objects() {
    let server = with_things().await;
    ok(&server, "POST", THINGS, thing("free", json!({"size": 1}))).await;
    let mut held = thing("held", json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    ok(&server, "POST", THINGS, held).await;
    let url = format!("{CRDS}/things.x.io");
    let going = ok(&server, "DELETE", &url, Value::Null).await;
    assert_eq!(going["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(names(&ok(&server, "GET", THINGS, Value::Null).await), ["held"]);
    let status = refused(&server, "POST", THINGS, thing("new", json!({"size": 1}))).await;
    assert_eq!(status.code, 405);
    assert_eq!(status.message, "create not allowed while custom resource definition is terminating");
    ok(&server, "merge", &format!("{THINGS}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(refused(&server, "GET", &url, Value::Null).await.code, 404);
    assert_eq!(refused(&server, "GET", THINGS, Value::Null).await.code, 404);
    ok(&server, "POST", CRDS, definition()).await;
    assert_eq!(names(&ok(&server, "GET", THINGS, Value::Null).await).len(), 0);
}

#[tokio::test]
async fn names_are_free_again() {
    let server = with_things().await;
    let mut rival = definition();
    rival["metadata"]["name"] = json!("stuff.x.io");
    rival["spec"]["names"]["plural"] = json!("stuff");
    let refused_names = ok(&server, "POST", CRDS, rival).await;
    let conditions = &refused_names["status"]["conditions"];
    assert_eq!(
        (&conditions[0]["type"], &conditions[0]["status"]),
        (&json!("NamesAccepted"), &json!("False"))
    );
    let stuff = "/apis/x.io/v1/namespaces/default/stuff";
    assert_eq!(refused(&server, "GET", stuff, Value::Null).await.code, 404);
    ok(&server, "DELETE", &format!("{CRDS}/things.x.io"), Value::Null).await;
    assert_eq!(ok(&server, "GET", stuff, Value::Null).await["kind"], "ThingList");
}

#[tokio::test]
async fn users_of_deprecated_versions_are_warned() {
    let server = server().await;
    let mut crd = definition();
    crd["spec"]["versions"][1]["deprecated"] = json!(true);
    ok(&server, "POST", CRDS, crd).await;
    let list = ask(&server, "GET", "/apis/x.io/v1beta1/things", None).await.unwrap();
    assert_eq!(list.warnings, ["x.io/v1beta1 Thing is deprecated; use x.io/v1 Thing"]);
}

#[tokio::test]
async fn a_scale_is_a_number_of_replicas() {
    let server = server().await;
    let mut crd = definition();
    let paths = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"});
    crd["spec"]["versions"][0]["subresources"]["scale"] = paths;
    ok(&server, "POST", CRDS, crd).await;
    ok(&server, "POST", THINGS, thing("a", json!({"size": 2}))).await;
    let url = format!("{THINGS}/a/scale");
    let scale = ok(&server, "GET", &url, Value::Null).await;
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!((&scale["spec"], &scale["status"]), (&json!({"replicas": 2}), &json!({"replicas": 0})));
    let mut wanted = scale.clone();
    wanted["spec"]["replicas"] = json!(5);
    assert_eq!(ok(&server, "PUT", &url, wanted.clone()).await["spec"]["replicas"], 5);
    assert_eq!(refused(&server, "PUT", &url, wanted).await.reason, "Conflict");
    assert_eq!(ok(&server, "merge", &url, json!({"spec": {"replicas": 7}})).await["spec"]["replicas"], 7);
    let object = ok(&server, "GET", &format!("{THINGS}/a"), Value::Null).await;
    assert_eq!((&object["spec"]["size"], &object["metadata"]["generation"]), (&json!(7), &json!(3)));
    for (replicas, message) in [
        (
            -1,
            "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            0,
            "Thing.x.io \"a\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
    ] {
        let status = refused(&server, "merge", &url, json!({"spec": {"replicas": replicas}})).await;
        assert_eq!(status.message, message);
    }
}

#[tokio::test]
async fn a_deployment_is_scaled() {
    let server = server().await;
    let url = "/apis/apps/v1/namespaces/default/deployments";
    let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": pod});
    ok(&server, "POST", url, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    let scale = ok(&server, "merge", &format!("{url}/d/scale"), json!({"spec": {"replicas": 4}})).await;
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(4), &json!("app=web")));
}

#[tokio::test]
async fn a_schema_is_known_in_all_its_parts() {
    let server = server().await;
    let mut crd = definition();
    let more = json!({"type": "object", "properties": {
        "ports": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "enum": ["a", "b"]}},
        "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "either": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "maybe": {"type": "object", "nullable": true, "default": {"x": 1}, "properties": {"x": {"type": "integer"}}},
    }});
    crd["spec"]["versions"] = json!([{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": more}}}}]);
    let created =
        ask(&server, "POST", &format!("{CRDS}?fieldValidation=Strict"), Some(crd.clone())).await.unwrap();
    assert_eq!(created.body["spec"]["versions"], crd["spec"]["versions"]);
    let spec = json!({"ports": ["a"], "labels": {"x": "y"}, "free": {"deep": {"er": [1]}}, "either": "1%", "maybe": null});
    let made =
        ok(&server, "POST", &format!("{THINGS}?fieldValidation=Strict"), thing("a", spec.clone())).await;
    assert_eq!(made["spec"], spec);
    let status =
        refused(&server, "merge", &format!("{THINGS}/a"), json!({"spec": {"ports": ["a", "a"]}})).await;
    assert_eq!(status.message, "Thing.x.io \"a\" is invalid: spec.ports[1]: Duplicate value: \"a\"");
}
