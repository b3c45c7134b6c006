//! What a node can do with its own credential, and whoever may write in its namespace, to be taken for another machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::nodes::{introduction, token_of};
use crate::world::{Machine, NAMESPACE, World};

/// Two machines, each with a plan that says whose it is, and the token of the first one's agent.
async fn two(world: &World) -> (Machine, Machine, String) {
    world.cluster().await;
    let (one, two) = (world.machine("m1").await, world.machine("m2").await);
    for (machine, word) in [(&one, "first"), (&two, "second")] {
        let config = STANDARD.encode(json!({"token": word}).to_string());
        let file = json!({"path": "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", "content": config});
        let plan = STANDARD.encode(json!({"files": [file]}).to_string());
        patch(world, &machine.plan, json!({"data": {"plan": plan}})).await;
    }
    let token = token_of(&world.registered(&one.token, "1").await);
    (one, two, token)
}

async fn patch(world: &World, secret: &str, patch: Value) {
    let secrets = world.secrets(NAMESPACE);
    let written = secrets.patch(secret, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let version = written.metadata.resource_version.unwrap().parse().unwrap();
    world.caches.of(&gateway::book::secrets()).expect_revision(version).wait().await;
}

/// What a token is answered for its config file.
async fn config(world: &World, token: &str) -> (StatusCode, String) {
    let bearer = format!("Bearer {token}");
    world.ask("/v3/connect/config-yaml", &introduction(&bearer, "1")).await
}

async fn uid(world: &World, kind: &str, plural: &str, name: &str) -> Value {
    let found = world.api("rke.cattle.io/v1", kind, plural, NAMESPACE).get(name).await.unwrap();
    found.metadata.uid.into()
}

#[tokio::test(start_paused = true)]
async fn a_label_shows_no_other_config() {
    let world = World::new().await;
    let (one, _, token) = two(&world).await;
    let forged = json!({
        "rke.cattle.io/machine-name": "m2", "plan.cattle.io/machine-name": "m2", "rke.cattle.io/cluster-name": "other",
    });
    patch(&world, &one.plan, json!({"metadata": {"labels": forged}})).await;
    let (code, text) = config(&world, &token).await;
    assert_eq!((code, text.as_str()), (StatusCode::OK, r#"{"token":"first"}"#));
    let bearer = format!("Bearer {token}");
    let mut headers = introduction(&bearer, "1");
    headers.push(("x-cattle-field", "kubernetesversion"));
    let (code, text) = world.ask("/v3/connect/cluster-info", &headers).await;
    assert_eq!((code, text.as_str()), (StatusCode::OK, r#"{"kubernetesversion":"v1.34.1+k3s1"}"#));
}

#[tokio::test(start_paused = true)]
async fn an_owner_reference_shows_no_other_config() {
    let world = World::new().await;
    let (one, _, token) = two(&world).await;
    let owner = json!({"apiVersion": "rke.cattle.io/v1", "kind": "RKEBootstrap", "name": "m2", "controller": true,
        "uid": uid(&world, "RKEBootstrap", "rkebootstraps", "m2").await});
    patch(&world, &one.plan, json!({"metadata": {"ownerReferences": [owner]}})).await;
    let (code, text) = config(&world, &token).await;
    assert_eq!((code, text.as_str()), (StatusCode::OK, r#"{"token":"first"}"#));
}

#[tokio::test(start_paused = true)]
async fn a_label_on_an_account_makes_it_no_other_machines() {
    let world = World::new().await;
    let (one, two, _) = two(&world).await;
    let accounts = world.api("v1", "ServiceAccount", "serviceaccounts", NAMESPACE);
    let bootstrap = api::names::bootstrap_secret(api::names::Bootstrap("m1"));
    for account in [&one.plan, &bootstrap] {
        let forged = Patch::Merge(json!({"metadata": {"labels": {"rke.cattle.io/machine-name": "m2"}}}));
        accounts.patch(account, &PatchParams::default(), &forged).await.unwrap();
    }
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let connection = world.registered(&one.token, "1").await;
    assert_eq!(connection["secretName"], one.plan.as_str());
    assert_ne!(connection["secretName"], two.plan.as_str());
    let (code, text) = config(&world, &token_of(&connection)).await;
    assert_eq!((code, text.as_str()), (StatusCode::OK, r#"{"token":"first"}"#));
}

#[tokio::test(start_paused = true)]
async fn a_token_secret_leads_to_no_other_account() {
    let world = World::new().await;
    let (one, two, token) = two(&world).await;
    assert!(world.book.agent(&token).is_some());
    // Somebody who may write Secrets makes a token of their own, for their own plan and another's account.
    let plan = world.secrets(NAMESPACE).get(&one.plan).await.unwrap();
    for (name, account) in [("other", two.plan.as_str()), ("default", "default")] {
        let own = format!("hat_{name}");
        let hash = gateway::credential::Hash::of(&own);
        world
            .create(
                "secrets",
                json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "herdsman.io/agent-token",
                    "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [{
                        "apiVersion": "v1", "kind": "Secret", "name": one.plan, "uid": plan.metadata.uid}]},
                    "data": {"hash": STANDARD.encode(hash.hex()), "serviceAccount": STANDARD.encode(account)},
                }),
            )
            .await;
        world.until("filed", async || world.book.find(&own)).await;
        assert!(world.book.agent(&own).is_none(), "{account}");
        assert_ne!(config(&world, &own).await.0, StatusCode::OK, "{account}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_the_same_name_is_another() {
    let world = World::new().await;
    let (one, _, token) = two(&world).await;
    assert_eq!(config(&world, &token).await.0, StatusCode::OK);
    // The Machine is made anew; what belonged to the first one is still there.
    let machines = world.api("cluster.x-k8s.io/v1beta2", "Machine", "machines", NAMESPACE);
    let mut again = machines.get("m1").await.unwrap();
    let orphan =
        DeleteParams { propagation_policy: Some(kube::api::PropagationPolicy::Orphan), ..Default::default() };
    machines.delete("m1", &orphan).await.unwrap();
    world.until("gone", async || machines.get_opt("m1").await.unwrap().is_none().then_some(())).await;
    again.metadata.uid = None;
    again.metadata.resource_version = None;
    machines.create(&Default::default(), &again).await.unwrap();
    world.until("refused", async || (config(&world, &token).await.0 != StatusCode::OK).then_some(())).await;
    assert!(world.book.agent(&token).is_none());
    assert_ne!(world.register(&one.token, "1").await.0, StatusCode::OK);
}
