//! OpenAPI: addresses, formats and caching, and what kubectl looks for.

use std::sync::Arc;

use apiserver::openapi::OpenApi;
use apiserver::registry::Registry;
use kubeapi::request::Query;
use serde_json::{Value, json};

use crate::support::{ask, opened, registry, server};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

#[tokio::test]
async fn the_index_leads_to_every_document() {
    let registry = registry().await;
    let api = OpenApi::default();
    let index = opened(&registry, "/openapi/v3");
    let paths = index["paths"].as_object().unwrap();
    assert!(
        ["api/v1", "apis/apps/v1", "apis/shop.example.com/v1beta1"]
            .iter()
            .all(|path| paths.contains_key(*path))
    );
    for (path, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let (address, query) = url.split_once('?').unwrap();
        assert_eq!(address, format!("/openapi/v3/{path}"));
        let document =
            api.answer(&registry, address, &Query::parse(query), "application/json").unwrap().unwrap();
        assert_eq!(document.moved, None);
        assert_eq!(format!("hash={}", document.etag.unwrap()), query);
        let cache = document.headers.iter().find(|(name, _)| *name == "Cache-Control").unwrap();
        assert!(cache.1.starts_with("public, immutable"));
        let body: Value = serde_json::from_slice(&document.body).unwrap();
        assert_eq!(body["openapi"], "3.0.0");
        assert!(!body["paths"].as_object().unwrap().is_empty(), "{path}");
    }
}

#[tokio::test]
async fn an_old_hash_leads_to_the_new_one() {
    let server = server().await;
    let api = OpenApi::default();
    let path = "/openapi/v3/apis/forest.example.com/v1beta2";
    let tag = |query: &str| {
        let query = Query::parse(query);
        api.answer(&server.registry(), path, &query, "").unwrap().unwrap()
    };
    let before = tag("");
    assert_eq!((&before.moved, before.headers.len()), (&None, 1));
    let hash = before.etag.unwrap();
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/oaks.forest.example.com";
    let schema =
        json!({"openAPIV3Schema": {"type": "object", "properties": {"leaves": {"type": "integer"}}}});
    let version =
        |name: &str| json!({"name": name, "served": true, "storage": name == "v2beta1", "schema": schema});
    let versions = ["v1alpha1", "v2beta1", "v1beta2"].map(version);
    ask(&server, "PATCH", definition, Some(json!({"spec": {"versions": versions}}))).await;
    let after = tag(&format!("hash={hash}"));
    let new = after.etag.unwrap();
    assert_ne!(new, hash);
    assert_eq!(after.moved.unwrap(), format!("{path}?hash={new}"));
    assert!(after.body.is_empty());
    // Version 2 is one document: it changes with any part.
    let v2 = |registry: &Arc<Registry>| {
        api.answer(registry, "/openapi/v2", &Query::default(), V2_PROTOBUF).unwrap().unwrap()
    };
    let (new, old) = (v2(&server.registry()), v2(&registry().await));
    assert!(new.etag != old.etag && new.body != old.body);
    assert_eq!(v2(&server.registry()), new);
    // What did not change keeps its address.
    assert_eq!(
        opened(&registry().await, "/openapi/v3")["paths"]["api/v1"],
        opened(&server.registry(), "/openapi/v3")["paths"]["api/v1"]
    );
}

#[tokio::test]
async fn formats_are_negotiated() {
    let registry = registry().await;
    let api = OpenApi::default();
    let v3 = "/openapi/v3/apis/shop.example.com/v1";
    let protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    for (path, accept, content_type) in [
        ("/openapi/v2", "", Some("application/json")),
        ("/openapi/v2", V2_PROTOBUF, Some(protobuf)),
        ("/openapi/v2", protobuf, Some(protobuf)),
        ("/openapi/v2", "text/plain", None),
        (v3, "*/*", Some("application/json")),
        (
            v3,
            "application/com.github.proto-openapi.spec.v3@v1.0+protobuf,application/json",
            Some("application/json"),
        ),
        (v3, "text/plain", None),
        ("/openapi/v3", "text/plain", Some("application/json")),
    ] {
        let answer = api.answer(&registry, path, &Query::default(), accept).unwrap();
        assert_eq!(
            answer.as_ref().ok().map(|document| document.content_type.as_str()),
            content_type,
            "{path} {accept}"
        );
        assert!(answer.is_ok() || answer.unwrap_err().code == 406);
    }
    for path in [
        "/openapi",
        "/openapi/v3/",
        "/openapi/v3/apis/nope/v1",
        "/openapi/v3/api/v2",
        "/openapi/v2/",
        "/openapi/v4",
    ] {
        assert_eq!(api.answer(&registry, path, &Query::default(), ""), None, "{path}");
    }
}

/// kubectl since 1.29, before it sends an object: the PATCH operation of the kind has to have this parameter.
#[tokio::test]
async fn kubectl_finds_that_fields_are_validated() {
    let registry = registry().await;
    for (path, group, version, kind) in [
        ("/openapi/v3/api/v1", "", "v1", "Secret"),
        ("/openapi/v3/apis/apps/v1", "apps", "v1", "Deployment"),
        ("/openapi/v3/apis/shop.example.com/v1", "shop.example.com", "v1", "Anvil"),
        ("/openapi/v2", "shop.example.com", "v1", "Widget"),
    ] {
        let document = opened(&registry, path);
        let wanted = json!({"group": group, "version": version, "kind": kind});
        let patches: Vec<&Value> = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .filter_map(|item| item.get("patch"))
            .filter(|patch| patch["x-kubernetes-group-version-kind"] == wanted)
            .collect();
        assert!(!patches.is_empty(), "{kind}");
        for patch in patches {
            let names: Vec<&str> = patch["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["name"].as_str().unwrap())
                .collect();
            assert!(names.contains(&"fieldValidation") && names.contains(&"dryRun"), "{kind} {names:?}");
        }
    }
}

/// kubectl explain: from the resource's path to the kind, from the kind to its schema.
#[tokio::test]
async fn kubectl_finds_what_a_resource_is_made_of() {
    let registry = registry().await;
    for (document, path, schema, field) in [
        (
            "/openapi/v3/api/v1",
            "/api/v1/namespaces/{namespace}/secrets",
            "io.k8s.api.core.v1.Secret",
            "stringData",
        ),
        ("/openapi/v3/api/v1", "/api/v1/namespaces", "io.k8s.api.core.v1.Namespace", "spec"),
        (
            "/openapi/v3/apis/shop.example.com/v1",
            "/apis/shop.example.com/v1/namespaces/{namespace}/widgets",
            "com.example.shop.v1.Widget",
            "status",
        ),
    ] {
        let document = opened(&registry, document);
        let kind = &document["paths"][path]["get"]["x-kubernetes-group-version-kind"];
        let schema = &document["components"]["schemas"][schema];
        assert!(schema["x-kubernetes-group-version-kind"].as_array().unwrap().contains(kind), "{path}");
        assert!(schema["properties"].get(field).is_some(), "{path}");
    }
}
