//! Clusters that dial in, and who reaches them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use gateway::TunnelDial;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::Key;
use kit::access::Dial as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tunnel::ClientKey;

use crate::cluster::{ADDRESS, Cluster, client, dial_in, hello};
use crate::world::{ADMIN_TOKEN, CLUSTER, NAMESPACE, World, request};

const PODS: &str = "/k8s/clusters/c-m-abcdefgh/api/v1/namespaces/default/configmaps";

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

async fn connected(world: &World) -> Option<Value> {
    let cluster = world.api("management.cattle.io/v3", "Cluster", "clusters", "").get(CLUSTER).await.unwrap();
    let conditions = cluster.data["status"]["conditions"].as_array()?.clone();
    conditions.into_iter().find(|one| one["type"] == "Connected")
}

#[tokio::test(start_paused = true)]
async fn a_cluster_dials_in_and_is_reached() {
    let world = World::new().await;
    let (_, token) = world.cluster().await;
    let admin = bearer(ADMIN_TOKEN);
    let (code, said) = world.ask(PODS, &[("authorization", &admin)]).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    assert!(said.contains("has never been connected"), "{said}");

    let cluster = Cluster::new(&world).await;
    let agent = dial_in(&world, &cluster, &token);
    world.until("connected", async || connected(&world).await.filter(|one| one["status"] == "True")).await;
    let (code, list) = world.ask(PODS, &[("authorization", &admin)]).await;
    assert_eq!(code, StatusCode::OK, "{list}");
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap()["kind"], "ConfigMapList");

    // A watch comes through as it happens; what is written comes through, too.
    let path = format!("{PODS}?watch=true&fieldSelector=metadata.name%3Dnews");
    let watch = world.send(request(Method::GET, &path, &[("authorization", &admin)], Bytes::new())).await;
    assert_eq!(watch.status(), StatusCode::OK);
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "news"}}).to_string();
    let headers = [("authorization", &*admin), ("content-type", "application/json")];
    let made = world.send(request(Method::POST, PODS, &headers, body.into())).await;
    assert_eq!(made.status(), StatusCode::CREATED);
    let frame = watch.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&frame).unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("news")));
    let found = cluster.instance.api().as_user(crate::world::admin());
    let downstream = kube::Client::new(found, "default");
    let maps: Api<ConfigMap> = Api::namespaced(downstream, "default");
    assert!(maps.get_opt("news").await.unwrap().is_some());

    // What its agent said is kept, the token in a Secret.
    let kept = world.api("management.cattle.io/v3", "Cluster", "clusters", "").get(CLUSTER).await.unwrap();
    assert_eq!(kept.data["status"]["apiEndpoint"], format!("https://{ADDRESS}"));
    let name = kept.data["status"]["serviceAccountTokenSecret"].as_str().unwrap();
    let secret = world.secrets("cattle-global-data").get(name).await.unwrap();
    assert_eq!(secret.data["data"]["credential"], STANDARD.encode(ADMIN_TOKEN));
    assert_eq!(secret.metadata.owner_references.unwrap()[0].name, CLUSTER);

    // Away for a moment is not away.
    agent.abort();
    let since = connected(&world).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(connected(&world).await, since);
    let agent = dial_in(&world, &cluster, &token);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(connected(&world).await, since);
    agent.abort();
    let lost =
        world.until("lost", async || connected(&world).await.filter(|one| one["status"] == "False")).await;
    assert_eq!(lost["reason"], "Disconnected");
    let (code, said) = world.ask(PODS, &[("authorization", &admin)]).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    assert!(said.contains("cluster c-m-abcdefgh is not connected"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn what_controllers_watch_in_a_cluster_shares_one_connection() {
    let world = World::new().await;
    let (_, token) = world.cluster().await;
    let cluster = Cluster::new(&world).await;
    let _agent = dial_in(&world, &cluster, &token);
    world.gateway.downstreams().wait_for(CLUSTER).await;
    let client = world.gateway.downstreams().client(CLUSTER).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let before = cluster.dialled.load(Ordering::Relaxed);
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(maps.watch(&WatchParams::default(), "0").await.unwrap().boxed());
    }
    let news = serde_json::from_value(json!({"metadata": {"name": "news"}})).unwrap();
    maps.create(&PostParams::default(), &news).await.unwrap();
    for watch in &mut watches {
        let is_told = |event: &WatchEvent<ConfigMap>| matches!(event, WatchEvent::Added(map) if map.metadata.name.as_deref() == Some("news"));
        while !is_told(&watch.next().await.unwrap().unwrap()) {}
    }
    assert_eq!(cluster.dialled.load(Ordering::Relaxed), before + 1);
}

#[tokio::test(start_paused = true)]
async fn another_protocol_passes_through() {
    let world = World::new().await;
    let (_, token) = world.cluster().await;
    let cluster = Cluster::new(&world).await;
    let _agent = dial_in(&world, &cluster, &token);
    world.gateway.downstreams().wait_for(CLUSTER).await;
    for protocol in ["SPDY/3.1", "websocket"] {
        let headers = [
            ("authorization", &*bearer(ADMIN_TOKEN)),
            ("connection", "Upgrade"),
            ("upgrade", protocol),
            ("impersonate-user", "somebody-else"),
        ];
        let ask = request(Method::POST, "/k8s/clusters/c-m-abcdefgh/exec?command=ls", &headers, Bytes::new());
        let mut answer = world.send(ask).await;
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(
            (&answer.headers()["upgrade"], &answer.headers()["x-stream-protocol-version"]),
            (&protocol.parse().unwrap(), &"v4.channel.k8s.io".parse().unwrap())
        );
        let mut stream = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
        let greeting = format!("Bearer {ADMIN_TOKEN} /exec?command=ls\n");
        let mut heard = vec![0; greeting.len()];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(String::from_utf8(heard).unwrap(), greeting);
        // More than any buffer on the way.
        let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
        let (mut from, mut to) = tokio::io::split(stream);
        let writing = async {
            to.write_all(&sent).await.unwrap();
            to.shutdown().await.unwrap();
        };
        let mut received = Vec::new();
        let ((), read) = tokio::join!(writing, from.read_to_end(&mut received));
        read.unwrap();
        assert!(received == sent, "{} of {}", received.len(), sent.len());
    }
}

#[tokio::test(start_paused = true)]
async fn only_who_owns_a_cluster_reaches_it() {
    let world = World::new().await;
    let (nodes, token) = world.cluster().await;
    let machine = world.machine("m1").await;
    let cluster = Cluster::new(&world).await;
    let _agent = dial_in(&world, &cluster, &token);
    world.gateway.downstreams().wait_for(CLUSTER).await;
    let of_node = crate::nodes::token_of(&world.registered(&machine.token, "1").await);
    for (token, code) in [
        (None, 401),
        (Some("nonsense"), 401),
        (Some(&*nodes), 401),
        (Some(&*token), 401),
        (Some(&*of_node), 403),
    ] {
        let value = token.map(bearer);
        let headers: Vec<_> = value.iter().map(|value| ("authorization", &**value)).collect();
        let (found, said) = world.ask(PODS, &headers).await;
        assert_eq!(found.as_u16(), code, "{token:?} {said}");
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["kind"], "Status");
    }
    // A ServiceAccount that owns the cluster, as the one in its kubeconfig does.
    world
        .create("serviceaccounts", json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "owner", "namespace": CLUSTER}}))
        .await;
    world
        .create("secrets", json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "owner", "namespace": CLUSTER, "annotations": {"kubernetes.io/service-account.name": "owner"}}}))
        .await;
    let jwt = world
        .until("a token", async || {
            let secret = world.secrets(CLUSTER).get("owner").await.unwrap();
            STANDARD.decode(secret.data["data"]["token"].as_str()?).ok()
        })
        .await;
    let value = bearer(&String::from_utf8(jwt).unwrap());
    assert_eq!(world.ask(PODS, &[("authorization", &value)]).await.0, StatusCode::FORBIDDEN);
    let rbac = "rbac.authorization.k8s.io";
    world
        .create("clusterroles", json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "owner"}, "rules": [
            {"apiGroups": ["management.cattle.io"], "resources": ["clusters"], "resourceNames": [CLUSTER], "verbs": ["own"]}]}))
        .await;
    world
        .create("clusterrolebindings", json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "owner"},
            "subjects": [{"kind": "ServiceAccount", "name": "owner", "namespace": CLUSTER}],
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "owner"}}))
        .await;
    world
        .until("allowed", async || {
            (world.ask(PODS, &[("authorization", &value)]).await.0 == StatusCode::OK).then_some(())
        })
        .await;
    // Its rights end with its roles; what was found is believed for ten seconds.
    let bindings = world.api(&format!("{rbac}/v1"), "ClusterRoleBinding", "clusterrolebindings", "");
    bindings.delete("owner", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(world.ask(PODS, &[("authorization", &value)]).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn a_clusters_kubeconfig_opens_that_cluster_alone() {
    let world = World::new().await;
    let (_, token) = world.cluster().await;
    let cluster = Cluster::new(&world).await;
    let _agent = dial_in(&world, &cluster, &token);
    world.gateway.downstreams().wait_for(CLUSTER).await;
    let of_cluster = format!("kubeconfig-{CLUSTER}:secret");
    let value = bearer(&of_cluster);
    let code = async |path: &str| world.ask(path, &[("authorization", &value)]).await.0;
    assert_eq!(code(PODS).await, StatusCode::UNAUTHORIZED);
    let kept = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": "pets-kubeconfig", "namespace": NAMESPACE}, "data": {"token": STANDARD.encode(&of_cluster)}});
    world.create("secrets", kept).await;
    world.until("open", async || (code(PODS).await == StatusCode::OK).then_some(())).await;
    assert_eq!(code("/k8s/clusters/c-m-other000/api").await, StatusCode::UNAUTHORIZED);
    assert_eq!(code("/api/v1/secrets").await, StatusCode::UNAUTHORIZED);
    let wrong = bearer(&format!("kubeconfig-{CLUSTER}:guess"));
    assert_eq!(world.ask(PODS, &[("authorization", &wrong)]).await.0, StatusCode::UNAUTHORIZED);
    world.secrets(NAMESPACE).delete("pets-kubeconfig", &DeleteParams::default()).await.unwrap();
    world.until("shut", async || (code(PODS).await == StatusCode::UNAUTHORIZED).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_manifest_makes_a_cluster_dial_in() {
    let world = World::new().await;
    let (nodes, tunnels) = world.cluster().await;
    let path = |token: &str| format!("/v3/import/{token}_{CLUSTER}.yaml");
    for token in ["nonsense", &nodes] {
        assert_eq!(world.ask(&path(token), &[]).await.0, StatusCode::NOT_FOUND);
    }
    let of_another = format!("/v3/import/{tunnels}_c-m-another.yaml");
    assert_eq!(
        world.ask(&of_another, &[]).await.0,
        StatusCode::NOT_FOUND,
        "the token is of another cluster than the URL"
    );
    let (code, said) = world.ask(&path(&tunnels), &[]).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    assert!(said.contains("desiredAgentImage"), "{said}");
    let patch = Patch::Merge(json!({"spec": {"desiredAgentImage": "rancher/agent:v1"}}));
    let clusters = world.api("management.cattle.io/v3", "Cluster", "clusters", "");
    clusters.patch(CLUSTER, &PatchParams::default(), &patch).await.unwrap();
    let manifest = world
        .until("offered", async || {
            let (code, text) = world.ask(&path(&tunnels), &[]).await;
            (code == StatusCode::OK).then_some(text)
        })
        .await;
    assert!(manifest.contains("rancher/agent:v1") && manifest.contains(&tunnels));
}

#[tokio::test(start_paused = true)]
async fn only_a_clusters_own_token_opens_a_tunnel() {
    let world = World::new().await;
    let (nodes, token) = world.cluster().await;
    let machine = world.machine("m1").await;
    let of_node = crate::nodes::token_of(&world.registered(&machine.token, "1").await);
    let cluster = Cluster::new(&world).await;
    for (token, params, said) in [
        ("nonsense", cluster.params(), "401"),
        ("", cluster.params(), "401"),
        (&of_node, cluster.params(), "401"),
        (&nodes, cluster.params(), "400"),
        (&token, STANDARD.encode("{}"), "400"),
    ] {
        let error = client(&world, &cluster).once(&hello(token, &params), &mut |_| {}).await.unwrap_err();
        assert!(format!("{error:?}").contains(said), "{error:?}");
    }
    assert!(world.hub.clients().is_empty());
    // Rancher's agent opens a second tunnel, for its own server in the cluster.
    let mut second = hello("", "");
    second.headers.clear();
    second.headers.insert("authorization", format!("Bearer stv-cluster-{token}").parse().unwrap());
    let mut agent = client(&world, &cluster);
    let agent = tokio::spawn(async move { agent.once(&second, &mut |_| {}).await });
    world.hub.wait_for(&ClientKey::new(format!("stv-cluster-{CLUSTER}")).unwrap()).await;
    agent.abort();
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_ends_with_its_token_and_with_its_cluster() {
    let world = World::new().await;
    let (_, token) = world.cluster().await;
    let cluster = Cluster::new(&world).await;
    let mut first = client(&world, &cluster);
    let said = hello(&token, &cluster.params());
    let session = tokio::spawn(async move { first.once(&said, &mut |_| {}).await });
    world.gateway.downstreams().wait_for(CLUSTER).await;
    world.until("connected", async || connected(&world).await.filter(|one| one["status"] == "True")).await;
    // It is replaced: the new one is good, the old one ends when its grace period does.
    let patch = Patch::Merge(json!({"data": {"token": STANDARD.encode("another")}}));
    world.secrets(CLUSTER).patch("crt-token-system", &PatchParams::default(), &patch).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), session).await.unwrap().unwrap().unwrap();
    assert!(!world.gateway.downstreams().connected(CLUSTER));
    world.until("known", async || world.book.find("another")).await;
    let mut second = client(&world, &cluster);
    let said = hello("another", &cluster.params());
    let session = tokio::spawn(async move { second.once(&said, &mut |_| {}).await });
    world.gateway.downstreams().wait_for(CLUSTER).await;
    let clusters = world.api("management.cattle.io/v3", "Cluster", "clusters", "");
    clusters.delete(CLUSTER, &DeleteParams::default()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), session).await.unwrap().unwrap().unwrap();
    assert!(!world.gateway.downstreams().connected(CLUSTER));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_reached_by_whichever_way_there_is() {
    let world = World::new().await;
    let (_, token) = world.cluster().await;
    let cluster = Cluster::new(&world).await;
    let mut on_server = cluster.clone();
    on_server.address = "10.0.0.5:6443";
    let endpoint = async || {
        let found =
            world.api("management.cattle.io/v3", "Cluster", "clusters", "").get(CLUSTER).await.unwrap();
        found.data["status"]["apiEndpoint"].clone()
    };
    let admin = bearer(ADMIN_TOKEN);
    let reached = async || world.ask(PODS, &[("authorization", &admin)]).await.0 == StatusCode::OK;
    // First the agent on a server, then the one in the cluster, each of which dials its own address only.
    let first = dial_in(&world, &on_server, &token);
    world.until("connected", async || connected(&world).await.filter(|one| one["status"] == "True")).await;
    assert!(reached().await);
    assert_eq!(endpoint().await, "https://10.0.0.5:6443");
    let second = dial_in(&world, &cluster, &token);
    world.until("both", async || (world.hub.clients().len() == 2).then_some(())).await;
    for _ in 0..5 {
        assert!(reached().await);
    }
    assert_eq!(endpoint().await, "https://10.0.0.5:6443", "nothing is written for another way");
    first.abort();
    world.until("one", async || (world.hub.clients().len() == 1).then_some(())).await;
    assert!(reached().await, "by the other way, with what the first one said");
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(connected(&world).await.unwrap()["status"], "True");
    second.abort();
    let _again = dial_in(&world, &cluster, &token);
    world.until("kept", async || (endpoint().await == format!("https://{ADDRESS}")).then_some(())).await;
    assert!(reached().await);
}

fn kubeconfig(server: &str) -> Kubeconfig {
    serde_json::from_value(json!({
        "clusters": [{"name": "cluster", "cluster": {"server": server}}],
        "users": [{"name": "user", "user": {"token": "not needed"}}],
        "contexts": [{"name": "default", "context": {"cluster": "cluster", "user": "user"}}],
        "current-context": "default",
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn controllers_reach_a_cluster_the_moment_it_dials_in() {
    let world = World::new().await;
    let (_, token) = world.cluster().await;
    let cluster = Cluster::new(&world).await;
    let dial = TunnelDial::new(world.gateway.downstreams().clone());
    let key = Key::new(NAMESPACE, "pets");
    let ours = kubeconfig(&format!("https://herd.example.com/k8s/clusters/{CLUSTER}"));
    let later = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        (dial_in(&world, &cluster, &token), world.clock.monotonic())
    };
    let (reached, (agent, came)) = tokio::join!(
        async { (dial.dial(&key, ours.clone()).await.unwrap(), world.clock.monotonic()) },
        later
    );
    assert!(reached.1.since(came) < Duration::from_secs(1));
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(reached.0.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    assert_eq!(nodes.list(&Default::default()).await.unwrap().items.len(), 1);
    // The same client goes on when the agent is another one.
    agent.abort();
    let _agent = dial_in(&world, &cluster, &token);
    assert_eq!(nodes.list(&Default::default()).await.unwrap().items.len(), 1);
    // Other kubeconfigs mean what they say.
    assert!(dial.dial(&key, kubeconfig("https://127.0.0.1:1")).await.is_ok());
}
