use serde_json::{Value, json};

use super::support::World;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

#[tokio::test(start_paused = true)]
async fn roles_gather_rules_of_others_as_they_come_and_go() {
    let world = World::new().await;
    let view = world.get(&format!("{ROLES}/view")).await;
    assert!(!view["rules"].as_array().unwrap().is_empty());
    let rule = json!({"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"]});
    let label = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    world.ok("POST", ROLES, json!({"metadata": {"name": "z", "labels": label}, "rules": [rule]})).await;
    world.settle().await;
    // The roles that gather `view` have it too.
    for name in ["view", "edit", "admin"] {
        let role = world.get(&format!("{ROLES}/{name}")).await;
        assert!(role["rules"].as_array().unwrap().contains(&rule), "{name}");
    }
    world.ok("DELETE", &format!("{ROLES}/z"), Value::Null).await;
    world.settle().await;
    assert_eq!(world.get(&format!("{ROLES}/view")).await["rules"], view["rules"]);
}
