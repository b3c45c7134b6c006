//! From a host's first words to its plan, and what tokens are good for.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway::credential::Credential;
use http::StatusCode;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use plan::document::{Document, File, Plan};
use serde_json::{Value, json};

use crate::nodes::{agent, introduction, token_of};
use crate::world::{ADMIN_TOKEN, CLUSTER, NAMESPACE, World};

async fn can_read(world: &World, token: &str, secret: &str) -> StatusCode {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/{secret}");
    world.ask(&path, &[("authorization", &format!("Bearer {token}"))]).await.0
}

fn trivial_plan() -> Vec<u8> {
    let file = File { path: "/etc/greeting".into(), content: "aGVsbG8K".into(), ..File::default() };
    Document::encode(Plan { files: vec![file], ..Plan::default() }).bytes().to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_machine_registers_and_its_agent_applies_its_plan() {
    let world = World::new().await;
    let (machine, other) = (world.machine("m1").await, world.machine("m2").await);
    let connection = world.registered(&machine.token, "0123abc").await;
    assert_eq!(
        (&connection["namespace"], &connection["secretName"]),
        (&json!(NAMESPACE), &json!(machine.plan))
    );
    let found =
        world.api("cluster.x-k8s.io/v1beta2", "Machine", "machines", NAMESPACE).get("m1").await.unwrap();
    assert_eq!(found.metadata.labels.unwrap()["rke.cattle.io/machine-id"], "0123abc");

    let patch =
        json!({"data": {"plan": STANDARD.encode(trivial_plan()), "plan-state": STANDARD.encode("pending")}});
    let secrets = world.secrets(NAMESPACE);
    secrets.patch(&machine.plan, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let root = tempfile::tempdir().unwrap();
    let running = agent(&world, root.path(), &connection);
    world
        .until("applied", async || {
            let secret = secrets.get(&machine.plan).await.unwrap();
            (secret.data["data"]["plan-state"] == STANDARD.encode("succeeded")).then_some(())
        })
        .await;
    assert_eq!(std::fs::read_to_string(root.path().join("etc/greeting")).unwrap(), "hello\n");
    let bearer = format!("Bearer {ADMIN_TOKEN}");
    let (code, metrics) = world.ask("/metrics", &[("authorization", &bearer)]).await;
    assert_eq!(code, StatusCode::OK);
    for line in
        ["herdsman_agents_connected 1\n", "herdsman_tunnel_sessions 0\n", "herdsman_apiserver_watches "]
    {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    running.abort();

    let token = token_of(&connection);
    assert_eq!(can_read(&world, &token, &machine.plan).await, StatusCode::OK);
    assert_eq!(can_read(&world, &token, &other.plan).await, StatusCode::FORBIDDEN);
    let as_admin = [("authorization", &*format!("Bearer {token}")), ("impersonate-user", "admin")];
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/{}", other.plan);
    assert_eq!(world.ask(&path, &as_admin).await.0, StatusCode::FORBIDDEN);
    // Nothing that opens a door lies in the store.
    let all = secrets.list(&ListParams::default()).await.unwrap();
    let all = serde_json::to_string(&all).unwrap();
    assert!(!all.contains(&token) && !all.contains(&STANDARD.encode(&token)));
}

#[tokio::test(start_paused = true)]
async fn a_machines_token_is_for_one_use() {
    let world = World::new().await;
    let machine = world.machine("m1").await;
    world.registered(&machine.token, "0123abc").await;
    // An installer that lost the answer asks again.
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.registered(&machine.token, "0123abc").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (code, said) = world.register(&machine.token, "0123abc").await;
    assert_eq!(code, StatusCode::UNAUTHORIZED);
    assert!(said.contains("no longer good"), "{said}");
    let late = world.machine("m2").await;
    tokio::time::sleep(Duration::from_secs(31 * 60)).await;
    assert_eq!(world.register(&late.token, "456").await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn what_a_wrong_token_gets() {
    let world = World::new().await;
    let machine = world.machine("m1").await;
    let (_, tunnels) = world.cluster().await;
    let connection = world.registered(&machine.token, "0123abc").await;
    let good = format!("Bearer {}", machine.token);
    for (headers, code, said) in [
        (vec![("x-cattle-id", "1")], 401, "--token"),
        (vec![("authorization", &*good)], 401, "X-Cattle-Id"),
        (introduction("Bearer nonsense", "1"), 401, "not known"),
        (introduction(&format!("Bearer {tunnels}"), "1"), 401, "tunnel"),
        (introduction(&format!("Bearer {}", token_of(&connection)), "1"), 401, "has registered"),
        (introduction(&good, "not a label!"), 400, "X-Cattle-Id"),
    ] {
        let (found, text) = world.ask("/v3/connect/agent", &headers).await;
        assert_eq!(found.as_u16(), code, "{text}");
        assert!(text.contains(said), "{text}");
        assert!(!text.contains("nonsense"));
    }
    let delete = DeleteParams::default();
    world
        .api("cluster.x-k8s.io/v1beta2", "Machine", "machines", NAMESPACE)
        .delete("m1", &delete)
        .await
        .unwrap();
    world
        .until("gone", async || {
            let (code, text) = world.register(&machine.token, "0123abc").await;
            (code == StatusCode::FORBIDDEN && text.contains("machine of this token is gone")).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn who_guesses_is_slowed_down_and_others_are_not() {
    let world = World::new().await;
    let machine = world.machine("m1").await;
    for _ in 0..30 {
        assert_eq!(world.register("wrong", "1").await.0, StatusCode::UNAUTHORIZED);
    }
    let (code, said) = world.register(&machine.token, "1").await;
    assert_eq!(code, StatusCode::TOO_MANY_REQUESTS, "{said}");
    let other = crate::world::pipe(&world.gateway, "203.0.113.99:1".parse().unwrap());
    let bearer = format!("Bearer {}", machine.token);
    let headers = introduction(&bearer, "1");
    let request =
        crate::world::request(http::Method::GET, "/v3/connect/agent", &headers, bytes::Bytes::new());
    assert_eq!(crate::world::send(other, request).await.status(), StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.register(&machine.token, "1").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_registers_again_keeps_its_old_token_until_the_new_one_is_used() {
    let world = World::new().await;
    let machine = world.machine("m1").await;
    let first = token_of(&world.registered(&machine.token, "1").await);
    assert_eq!(can_read(&world, &first, &machine.plan).await, StatusCode::OK);
    let second = token_of(&world.registered(&machine.token, "1").await);
    let third = token_of(&world.registered(&machine.token, "1").await);
    assert_ne!(first, second);
    assert_eq!(
        can_read(&world, &first, &machine.plan).await,
        StatusCode::OK,
        "the installation may break off"
    );
    assert_eq!(can_read(&world, &second, &machine.plan).await, StatusCode::OK);
    world
        .until("replaced", async || {
            (can_read(&world, &first, &machine.plan).await == StatusCode::UNAUTHORIZED).then_some(())
        })
        .await;
    assert_eq!(
        can_read(&world, &third, &machine.plan).await,
        StatusCode::OK,
        "what was made later stays good"
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_that_nobody_uses_do_not_pile_up() {
    let world = World::new().await;
    let machine = world.machine("m1").await;
    for _ in 0..12 {
        world.registered(&machine.token, "1").await;
    }
    let of_agents = ListParams::default().fields("type=herdsman.io/agent-token");
    let left = world.secrets(NAMESPACE).list(&of_agents).await.unwrap().items.len();
    assert!(left <= 6, "{left}");
}

#[tokio::test(start_paused = true)]
async fn a_token_goes_with_its_plan_and_with_its_account() {
    let world = World::new().await;
    let (one, two) = (world.machine("m1").await, world.machine("m2").await);
    let first = token_of(&world.registered(&one.token, "1").await);
    let second = token_of(&world.registered(&two.token, "2").await);
    let delete = DeleteParams::default();
    world.secrets(NAMESPACE).delete(&one.plan, &delete).await.unwrap();
    world.api("v1", "ServiceAccount", "serviceaccounts", NAMESPACE).delete(&two.plan, &delete).await.unwrap();
    for (token, plan) in [(&first, &one.plan), (&second, &two.plan)] {
        world
            .until("refused", async || {
                (can_read(&world, token, plan).await == StatusCode::UNAUTHORIZED).then_some(())
            })
            .await;
    }
    // Nor does a plan of the same name bring it back.
    let of_agents = ListParams::default().fields("type=herdsman.io/agent-token");
    world
        .until("collected", async || {
            let left = world.secrets(NAMESPACE).list(&of_agents).await.unwrap().items;
            left.iter()
                .all(|secret| !secret.metadata.name.as_deref().unwrap().starts_with("m1"))
                .then_some(())
        })
        .await;
    // A token that was taken back by hand.
    let (three, tokens) = (world.machine("m3").await, world.secrets(NAMESPACE));
    let third = token_of(&world.registered(&three.token, "3").await);
    assert_eq!(can_read(&world, &third, &three.plan).await, StatusCode::OK);
    let all = tokens.list(&of_agents).await.unwrap().items;
    let name = all
        .into_iter()
        .filter_map(|secret| secret.metadata.name)
        .find(|name| name.starts_with("m3"))
        .unwrap();
    tokens.delete(&name, &delete).await.unwrap();
    world
        .until("refused", async || {
            (can_read(&world, &third, &three.plan).await == StatusCode::UNAUTHORIZED).then_some(())
        })
        .await;
}

/// What the controller of custom nodes does with a request.
async fn answer_requests(world: &World) {
    let requests = ListParams::default().fields("type=rke.cattle.io/machine-request");
    let secret = world
        .until("a request", async || world.secrets(CLUSTER).list(&requests).await.unwrap().items.pop())
        .await;
    let data = STANDARD.decode(secret.data["data"]["data"].as_str().unwrap()).unwrap();
    let request = provisioning::custom::Request::read(&data).unwrap();
    assert_eq!(
        (request.etcd, request.node_name.as_str(), request.labels["foo"].as_str()),
        (true, "node-1", "bar")
    );
    let name = secret.metadata.name.unwrap();
    assert_eq!(name, request.machine_name());
    world.machine_and_bootstrap(&name).await;
    let id = Patch::Merge(json!({"metadata": {"labels": {"rke.cattle.io/machine-id": request.id}}}));
    let machines = world.api("cluster.x-k8s.io/v1beta2", "Machine", "machines", NAMESPACE);
    machines.patch(&name, &PatchParams::default(), &id).await.unwrap();
    let labels = json!({"rke.cattle.io/machine-name": name, "rke.cattle.io/machine-namespace": NAMESPACE});
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    world.secrets(CLUSTER).patch(&name, &PatchParams::default(), &patch).await.unwrap();
    world.bootstrapped(&name).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_with_the_clusters_token_becomes_a_machine() {
    let world = World::new().await;
    let (nodes, _) = world.cluster().await;
    let (connection, ()) = tokio::join!(world.registered(&nodes, "77"), answer_requests(&world));
    let name = api::names::registered_machine(api::names::Registrant::Custom, "77");
    assert_eq!(connection["secretName"], format!("{name}-machine-plan"));
    assert_eq!(
        can_read(&world, &token_of(&connection), connection["secretName"].as_str().unwrap()).await,
        StatusCode::OK
    );
    assert!(world.secrets(CLUSTER).get_opt(&name).await.unwrap().is_none(), "the request is answered");

    let plan = json!({"files": [{"path": "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", "content": STANDARD.encode(r#"{"x":1}"#)}]});
    let patch = Patch::Merge(json!({"data": {"plan": STANDARD.encode(plan.to_string())}}));
    let secret = connection["secretName"].as_str().unwrap();
    world.secrets(NAMESPACE).patch(secret, &PatchParams::default(), &patch).await.unwrap();
    let bearer = format!("Bearer {nodes}");
    let mut headers = introduction(&bearer, "77");
    world
        .until("config", async || {
            let (code, text) = world.ask("/v3/connect/config-yaml", &headers).await;
            (code == StatusCode::OK)
                .then(|| assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"x": 1})))
        })
        .await;
    assert_eq!(world.ask("/v3/connect/cluster-info", &headers).await.0, StatusCode::BAD_REQUEST);
    headers.push(("x-cattle-field", "kubernetesversion"));
    let (code, text) = world.ask("/v3/connect/cluster-info", &headers).await;
    assert_eq!((code, text.as_str()), (StatusCode::OK, r#"{"kubernetesversion":"v1.34.1+k3s1"}"#));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_nobody_answers_is_told_to_come_again() {
    let world = World::new().await;
    let (nodes, _) = world.cluster().await;
    let (code, said) = world.register(&nodes, "77").await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    assert!(said.contains("not there yet"), "{said}");
    // Its request stays, and the next try finds the answer.
    let (connection, ()) = tokio::join!(world.registered(&nodes, "77"), answer_requests(&world));
    assert_eq!(connection["namespace"], NAMESPACE);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_before_its_plan_waits_for_it() {
    let world = World::new().await;
    let machine = world.machine("m1").await;
    let account = world.api("v1", "ServiceAccount", "serviceaccounts", NAMESPACE);
    let kept = account.get(&machine.plan).await.unwrap();
    account.delete(&machine.plan, &DeleteParams::default()).await.unwrap();
    let later = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        let mut again = kept.clone();
        again.metadata.resource_version = None;
        again.metadata.uid = None;
        account.create(&Default::default(), &again).await.unwrap();
    };
    let (connection, ()) = tokio::join!(world.registered(&machine.token, "1"), later);
    assert_eq!(connection["secretName"], machine.plan);
    assert!(matches!(world.book.find(&token_of(&connection)), Some(Credential::Agent(_))));
}
