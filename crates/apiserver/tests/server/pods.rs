//! What happens to pods and Services over time and at once.

use apiserver::server::EventType;
use serde_json::{Value, json};

use crate::support::{ask, ok, server, watch};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"a": "b"}}, "spec": {
        "nodeName": node, "containers": [{"name": "a", "image": "i"}],
    }})
}

#[tokio::test]
async fn a_pod_is_seen_to_be_going_before_it_is_gone() {
    let server = server().await;
    ok(&server, "POST", PODS, pod("p", "")).await;
    let mut watching = watch(&server, &format!("{PODS}?watch=true")).unwrap();
    let gone = ok(&server, "DELETE", &format!("{PODS}/p"), Value::Null).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let event = watching.next().await.unwrap().unwrap();
        seen.push((event.event, event.object["metadata"]["deletionGracePeriodSeconds"].clone()));
    }
    let wanted =
        [(EventType::Added, Value::Null), (EventType::Modified, json!(0)), (EventType::Deleted, json!(0))];
    assert_eq!(seen, wanted);
    assert_eq!(gone["metadata"]["deletionGracePeriodSeconds"], 0);
}

#[tokio::test]
async fn services_at_once_get_addresses_of_their_own() {
    let server = server().await;
    let mut requests = tokio::task::JoinSet::new();
    let server = std::sync::Arc::new(server);
    for index in 0..20 {
        let server = server.clone();
        requests.spawn(async move {
            let body = json!({"metadata": {"name": format!("s{index}")}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}});
            ask(&server, "POST", SERVICES, Some(body)).await.unwrap().body
        });
    }
    let services = requests.join_all().await;
    let distinct = |pointer: &str| {
        let values = services.iter().map(|one| one.pointer(pointer).unwrap().to_string());
        values.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!(distinct("/spec/clusterIP"), 20);
    assert_eq!(distinct("/spec/ports/0/nodePort"), 20);
}

#[tokio::test]
async fn the_api_gets_the_first_address() {
    let server = server().await;
    let body = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 443}]}});
    let other = ok(&server, "POST", SERVICES, body("other")).await;
    assert_eq!(other["spec"]["clusterIP"], "10.96.1.0");
    let api = ok(&server, "POST", SERVICES, body("kubernetes")).await;
    assert_eq!(api["spec"]["clusterIP"], "10.96.0.1");
    let dry = ok(&server, "POST", &format!("{SERVICES}?dryRun=All"), body("dry")).await;
    let next = ok(&server, "POST", SERVICES, body("next")).await;
    assert_eq!(dry["spec"]["clusterIP"], next["spec"]["clusterIP"]);
}

#[tokio::test]
async fn no_more_pods_are_evicted_at_once_than_the_budget_has() {
    let server = std::sync::Arc::new(server().await);
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    ok(&server, "POST", BUDGETS, budget).await;
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 3}});
    ok(&server, "merge", &format!("{BUDGETS}/b/status"), status).await;
    let running =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let mut requests = tokio::task::JoinSet::new();
    for index in 0..8 {
        let name = format!("p{index}");
        ok(&server, "POST", PODS, pod(&name, "n")).await;
        ok(&server, "merge", &format!("{PODS}/{name}/status"), running.clone()).await;
        let server = server.clone();
        requests.spawn(async move {
            let body = json!({"metadata": {"name": name}});
            match ask(&server, "POST", &format!("{PODS}/{name}/eviction"), Some(body)).await {
                Ok(answer) => answer.code,
                Err(status) => status.code,
            }
        });
    }
    let mut codes = requests.join_all().await;
    codes.sort_unstable();
    assert_eq!(codes, [201, 201, 201, 429, 429, 429, 429, 429]);
    let budget = ok(&server, "GET", &format!("{BUDGETS}/b"), Value::Null).await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert_eq!(budget["status"]["disruptedPods"].as_object().unwrap().len(), 3);
}
