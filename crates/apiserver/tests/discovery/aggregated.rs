//! All at once.

use kubeapi::proto;
use serde_json::{Value, json};

use crate::support::{discovered, discovery, each, registry};

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const V2_BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

#[tokio::test]
async fn every_kubectl_gets_the_newest_form_that_it_knows() {
    let registry = registry().await;
    let newest = format!("{V2},{V2_BETA1},application/json");
    let older = format!("{V2_BETA1},application/json");
    for path in ["/api", "/apis"] {
        for (accept, content_type, api_version) in [
            (newest.as_str(), V2, "apidiscovery.k8s.io/v2"),
            (older.as_str(), V2_BETA1, "apidiscovery.k8s.io/v2beta1"),
        ] {
            let document = discovery(&registry, path, accept).unwrap().unwrap();
            assert_eq!(document.content_type, content_type);
            assert_eq!(document.etag.unwrap().len(), 128);
            let body: Value = serde_json::from_slice(&document.body).unwrap();
            assert_eq!(body["kind"], "APIGroupDiscoveryList");
            assert_eq!(body["apiVersion"], api_version);
        }
    }
}

#[tokio::test]
async fn resources_are_told_with_their_subresources() {
    let registry = registry().await;
    let list = discovered(&registry, "/apis", V2);
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[names.len() - 3..], ["discovery.k8s.io", "forest.example.com", "shop.example.com"]);
    let shop = &list["items"][names.len() - 1];
    assert_eq!(each(&shop["versions"], "version"), ["v1", "v1beta1"]);
    assert_eq!(shop["versions"][0]["freshness"], "Current");
    let all = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    let kind = json!({"group": "shop.example.com", "version": "v1", "kind": "Widget"});
    assert_eq!(
        shop["versions"][0]["resources"][1],
        json!({"resource": "widgets", "responseKind": kind, "scope": "Namespaced", "singularResource": "widget",
            "verbs": all, "shortNames": ["wd"], "categories": ["all", "goods"], "subresources": [
                {"subresource": "status", "responseKind": kind, "verbs": ["get", "patch", "update"]},
                {"subresource": "scale", "verbs": ["get", "patch", "update"],
                 "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}},
        ]})
    );
    let core = discovered(&registry, "/api", V2);
    let pods = core["items"][0]["versions"][0]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["resource"] == "pods");
    let kinds: Vec<&Value> =
        pods.unwrap()["subresources"].as_array().unwrap().iter().map(|sub| &sub["responseKind"]).collect();
    let plain = |kind: &str| json!({"group": "", "version": "", "kind": kind});
    let eviction = json!({"group": "policy", "version": "v1", "kind": "Eviction"});
    assert_eq!(kinds, [&plain("Binding"), &eviction, &plain("Pod")]);
}

#[tokio::test]
async fn the_tag_is_of_the_content_whatever_its_format() {
    let registry = registry().await;
    let json = discovery(&registry, "/apis", V2).unwrap().unwrap();
    let protobuf = V2.replace("application/json", "application/vnd.kubernetes.protobuf");
    let protobuf = discovery(&registry, "/apis", &protobuf).unwrap().unwrap();
    assert_eq!(json.etag, protobuf.etag);
    assert!(protobuf.content_type.starts_with("application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io"));
    assert!(json.headers.contains(&("Vary", "Accept".to_owned())));
    let decoded = proto::decode(&protobuf.body).unwrap();
    let items = serde_json::from_slice::<Value>(&json.body).unwrap()["items"].take();
    assert_eq!(decoded["items"].as_array().unwrap().len(), items.as_array().unwrap().len());
    assert_eq!(decoded["items"][0]["versions"], items[0]["versions"]);
    assert_ne!(json.etag, discovery(&registry, "/api", V2).unwrap().unwrap().etag);
}
