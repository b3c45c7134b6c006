//! Server-side apply and managed fields, where the server has more to do than the library.

use apiserver::store::Write;
use kubeapi::media::PatchType;
use serde_json::{Value, json};

use super::support::{ask, ok, request, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

async fn apply(server: &apiserver::server::Server, url: &str, config: Value) -> (u16, Value) {
    let mut request = request("PATCH", url, Some(config));
    request.patch = PatchType::Apply;
    match server.serve(&request).await {
        Ok(answer) => (answer.code, answer.body),
        Err(status) => (status.code, serde_json::to_value(status).unwrap()),
    }
}

fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries
        .iter()
        .map(|entry| format!("{} {}", entry["manager"], entry["operation"]).replace('"', ""))
        .collect()
}

#[tokio::test]
async fn what_was_stored_without_managed_fields_is_written_as_before_and_can_be_applied() {
    let server = server().await;
    let key = "/registry/core/configmaps/default/a";
    let mut old = map(json!({"k": "v"}));
    old["metadata"] = json!({"name": "a", "namespace": "default", "uid": "u"});
    server.store().write(vec![Write::create(key, old.to_string())]).await.unwrap();
    let patched = ok(&server, "merge", &format!("{MAPS}/a"), json!({"data": {"l": "w"}})).await;
    assert_eq!(managers(&patched), Vec::<String>::new());
    let (code, applied) = apply(&server, &format!("{MAPS}/a?fieldManager=me"), map(json!({"k": "v"}))).await;
    assert_eq!(
        (code, managers(&applied)),
        (200, vec!["me Apply".to_owned(), "before-first-apply Update".to_owned()])
    );
}

#[tokio::test]
async fn nothing_is_written_for_a_time_alone() {
    let server = server().await;
    let url = format!("{MAPS}/a?fieldManager=me");
    let (_, first) = apply(&server, &url, map(json!({"k": "v"}))).await;
    let head = server.store().view().head();
    let (code, again) = apply(&server, &url, map(json!({"k": "v"}))).await;
    assert_eq!((code, &again), (200, &first));
    assert_eq!(ok(&server, "PUT", &format!("{MAPS}/a"), first.clone()).await, first);
    assert_eq!(server.store().view().head(), head);
}

#[tokio::test]
async fn the_servers_own_writes_have_a_name() {
    let server = server().await;
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = ok(&server, "POST", url, definition).await;
    let mut found = managers(&made);
    found.sort();
    assert_eq!(found, ["kube-apiserver Update", "tests Update"]);
    let gone = ask(&server, "DELETE", &format!("{url}/things.example.com"), None).await.unwrap();
    assert_eq!(gone.code, 200);
}
