//! Group by group.

use kubeapi::proto;
use serde_json::{Value, json};

use crate::support::{ask, discovered, discovery, each, registry, server};

#[tokio::test]
async fn resources_of_a_definition_are_told_with_their_subresources() {
    let registry = registry().await;
    let list = discovered(&registry, "/apis/shop.example.com/v1", "");
    let all = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    assert_eq!(
        list,
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "shop.example.com/v1", "resources": [
            {"name": "anvils", "singularName": "anvil", "namespaced": false, "kind": "Anvil", "verbs": all,
             "storageVersionHash": "NtkbaP9lpjw="},
            {"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget", "verbs": all,
             "shortNames": ["wd"], "categories": ["all", "goods"], "storageVersionHash": "1eOuwF5L+ZU="},
            {"name": "widgets/status", "singularName": "", "namespaced": true, "kind": "Widget",
             "verbs": ["get", "patch", "update"]},
            {"name": "widgets/scale", "singularName": "", "namespaced": true, "kind": "Scale",
             "group": "autoscaling", "version": "v1", "verbs": ["get", "patch", "update"]},
        ]})
    );
    // The hash is that of the version in which objects are stored.
    let older = discovered(&registry, "/apis/shop.example.com/v1beta1/", "");
    assert_eq!(older["resources"][0]["storageVersionHash"], "1eOuwF5L+ZU=");
}

#[tokio::test]
async fn groups_come_by_priority_and_versions_by_maturity() {
    let registry = registry().await;
    let groups = discovered(&registry, "/apis", "application/json");
    let names = each(&groups["groups"], "name");
    assert_eq!(names[..3], ["apps", "events.k8s.io", "authentication.k8s.io"]);
    assert_eq!(names[names.len() - 3..], ["discovery.k8s.io", "shop.example.com", "forest.example.com"]);
    let forest = discovered(&registry, "/apis/forest.example.com", "");
    assert_eq!((&forest["kind"], &forest["apiVersion"]), (&json!("APIGroup"), &json!("v1")));
    assert_eq!(each(&forest["versions"], "version"), ["v2beta1", "v1beta2", "v1alpha1"]);
    assert_eq!(forest["preferredVersion"]["groupVersion"], "forest.example.com/v2beta1");
}

#[tokio::test]
async fn a_definition_that_goes_takes_nothing_new() {
    let server = server().await;
    let finalizers = json!({"metadata": {"finalizers": ["example.com/wait"]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/oaks.forest.example.com";
    ask(&server, "PATCH", path, Some(finalizers)).await;
    ask(&server, "DELETE", path, None).await;
    let list = discovered(&server.registry(), "/apis/forest.example.com/v1beta2", "");
    assert_eq!(list["resources"][0]["verbs"], json!(["delete", "deletecollection", "get", "list", "watch"]));
}

#[tokio::test]
async fn formats_are_negotiated() {
    let registry = registry().await;
    for (path, kind) in [
        ("/api", "APIVersions"),
        ("/api/v1", "APIResourceList"),
        ("/apis", "APIGroupList"),
        ("/apis/apps", "APIGroup"),
        ("/apis/apps/v1", "APIResourceList"),
    ] {
        let json = discovered(&registry, path, "application/json");
        assert_eq!(json["kind"], kind);
        let yaml = discovery(&registry, path, "application/yaml").unwrap().unwrap();
        assert_eq!(yaml.content_type, "application/yaml");
        let yaml: Value = serde_saphyr::from_slice(&yaml.body).unwrap();
        assert_eq!(yaml, json);
        let both = "application/vnd.kubernetes.protobuf,application/json";
        let protobuf = discovery(&registry, path, both).unwrap().unwrap();
        assert_eq!(protobuf.content_type, "application/vnd.kubernetes.protobuf");
        let decoded = proto::decode(&protobuf.body).unwrap();
        assert_eq!(decoded["kind"], kind);
        for field in ["versions", "groups", "resources", "preferredVersion"] {
            assert_eq!(decoded.get(field), json.get(field), "{path} {field}");
        }
        let status = discovery(&registry, path, "text/plain").unwrap().unwrap_err();
        assert_eq!(status.code, 406);
    }
}

#[tokio::test]
async fn what_is_not_served_has_no_document() {
    let registry = registry().await;
    for path in [
        "/",
        "/apis/nope",
        "/apis/nope/v1",
        "/apis/shop.example.com/v9",
        "/api/v1/pods",
        "/version",
        "/apis//v1",
    ] {
        assert_eq!(discovery(&registry, path, ""), None, "{path}");
    }
    for path in ["/api/v2", "/apis/apps/v2"] {
        let status = discovery(&registry, path, "").unwrap().unwrap_err();
        assert_eq!(
            (status.code, status.message.as_str()),
            (404, "the server could not find the requested resource")
        );
    }
}
