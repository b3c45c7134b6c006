use apiserver::controllers::first_objects;
use serde_json::{Value, json};

use super::support::{World, settings};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

#[tokio::test(start_paused = true)]
async fn a_second_start_writes_nothing() {
    let world = World::new().await;
    for url in [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/kube-system",
        "/api/v1/namespaces/kube-public",
        "/api/v1/namespaces/kube-node-lease",
        "/api/v1/namespaces/n/serviceaccounts/default",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin",
    ] {
        assert!(world.is_there(url).await, "{url}");
    }
    let service = world.get("/api/v1/namespaces/default/services/kubernetes").await;
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    let head = world.server.store().view().head();
    first_objects(&world.server, &settings()).await.unwrap();
    world.settle().await;
    assert_eq!(world.server.store().view().head(), head);
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_away_comes_back_unless_it_is_to_be_left_alone() {
    let world = World::new().await;
    let discovery = format!("{ROLES}/system:discovery");
    let before = world.get(&discovery).await;
    world.ok("PATCH", &discovery, json!({"rules": []})).await;
    let basic = format!("{ROLES}/system:basic-user");
    let alone = json!({"rbac.authorization.kubernetes.io/autoupdate": "false"});
    world.ok("PATCH", &basic, json!({"metadata": {"annotations": alone}, "rules": []})).await;
    let binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:discovery";
    world.ok("PATCH", binding, json!({"subjects": []})).await;
    world.ok("DELETE", &format!("{ROLES}/cluster-admin"), Value::Null).await;
    let moved = settings();
    let moved = apiserver::controllers::Settings { advertised: Some(([192, 0, 2, 2].into(), 443)), ..moved };
    first_objects(&world.server, &moved).await.unwrap();
    let restored = world.get(&discovery).await;
    assert_eq!(rule_urls(&restored), rule_urls(&before));
    assert_eq!(world.get(&basic).await["rules"], Value::Null);
    assert_eq!(world.get(binding).await["subjects"].as_array().unwrap().len(), 1);
    assert!(world.is_there(&format!("{ROLES}/cluster-admin")).await);
    let endpoints = world.get("/api/v1/namespaces/default/endpoints/kubernetes").await;
    assert_eq!(endpoints["subsets"][0]["addresses"], json!([{"ip": "192.0.2.2"}]));
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    assert_eq!(world.get(slice).await["ports"][0]["port"], 443);
}

fn rule_urls(role: &Value) -> Vec<&str> {
    let rules = role["rules"].as_array().unwrap().iter();
    let urls = rules.flat_map(|rule| rule["nonResourceURLs"].as_array().unwrap());
    let mut urls: Vec<&str> = urls.map(|url| url.as_str().unwrap()).collect();
    urls.sort_unstable();
    urls
}

#[tokio::test(start_paused = true)]
async fn nobody_outside_can_keep_a_server_from_starting() {
    let world = World::new().await;
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let everything = json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": everything}, "validations": [{"expression": "false"}]}});
    world.ok("POST", &format!("{admission}/validatingadmissionpolicies"), policy).await;
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    world.ok("POST", &format!("{admission}/validatingadmissionpolicybindings"), binding).await;
    let role = format!("{ROLES}/system:discovery");
    world.ok("DELETE", &role, Value::Null).await;
    first_objects(&world.server, &settings()).await.unwrap();
    assert!(world.is_there(&role).await);
}
