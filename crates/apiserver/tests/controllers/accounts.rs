use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::support::World;

#[tokio::test(start_paused = true)]
async fn every_namespace_has_an_account_and_the_ca() {
    let world = World::new().await;
    world.ok("POST", "/api/v1/namespaces", json!({"metadata": {"name": "new"}})).await;
    world.settle().await;
    let (account, map) = (
        "/api/v1/namespaces/new/serviceaccounts/default",
        "/api/v1/namespaces/new/configmaps/kube-root-ca.crt",
    );
    let first = world.get(account).await;
    assert_eq!(world.get(map).await["data"], json!({"ca.crt": "the CA"}));
    world.ok("DELETE", account, Value::Null).await;
    world.ok("PATCH", map, json!({"data": {"ca.crt": "mine"}})).await;
    world.settle().await;
    assert_ne!(world.get(account).await["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(world.get(map).await["data"], json!({"ca.crt": "the CA"}));
    world.ok("DELETE", map, Value::Null).await;
    world.settle().await;
    assert!(world.is_there(map).await);
}

#[tokio::test(start_paused = true)]
async fn token_secrets_are_filled_and_go_with_their_account() {
    let world = World::new().await;
    let accounts = "/api/v1/namespaces/n/serviceaccounts";
    let account = world.ok("POST", accounts, json!({"metadata": {"name": "a"}})).await;
    let uid = account["metadata"]["uid"].as_str().unwrap();
    let secret = |name: &str, account: &str| {
        let annotations = json!({"kubernetes.io/service-account.name": account});
        json!({
            "metadata": {"name": name, "annotations": annotations},
            "type": "kubernetes.io/service-account-token",
        })
    };
    let secrets = "/api/v1/namespaces/n/secrets";
    world.ok("POST", secrets, secret("s", "a")).await;
    world.ok("POST", secrets, secret("nobodys", "nobody")).await;
    world.ok("POST", secrets, json!({"metadata": {"name": "other"}})).await;
    world.settle().await;
    let filled = world.get(&format!("{secrets}/s")).await;
    let token = format!("n/a of {uid} for s");
    let data = [("ca.crt", "the CA"), ("namespace", "n"), ("token", token.as_str())];
    for (field, value) in data {
        assert_eq!(filled["data"][field], STANDARD.encode(value), "{field}");
    }
    assert_eq!(filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"], uid);
    assert!(!world.is_there(&format!("{secrets}/nobodys")).await);
    world.ok("DELETE", &format!("{accounts}/a"), Value::Null).await;
    world.settle().await;
    assert!(!world.is_there(&format!("{secrets}/s")).await);
    assert!(world.is_there(&format!("{secrets}/other")).await);
}
