//! In front of a Kubernetes that is somewhere else: here, another server over TLS on the loopback.

use std::sync::Arc;

use clock::{Clock as _, SeededEntropy, SystemClock};
use gateway::certificates::Authority;
use gateway::{Authorities, Book, Certificates, Kubernetes, PassThrough, Settings};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::nodes::token_of;
use crate::world::{ADMIN_TOKEN, GIVEN_TOKEN, NAMESPACE, World, request};

/// The way to an API server that is not asked in this process. It knows no tokens of agents.
async fn elsewhere() -> (TcpListener, Certificates, kube::Config) {
    let mut entropy = SeededEntropy::new(51);
    let authorities = Authorities::only(Authority::new(SystemClock.now(), &mut entropy).unwrap());
    let shown =
        Certificates::issued(authorities, vec!["127.0.0.1".into()], Arc::new(SystemClock), Box::new(entropy));
    let shown = shown.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let ca = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, shown.trusted());
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": {"token": ADMIN_TOKEN}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }))
    .unwrap();
    let config = kit::access::read(kubeconfig).await.unwrap();
    (listener, shown, config)
}

async fn world() -> World {
    let (listener, shown, config) = elsewhere().await;
    let tls = shown.server_config().unwrap();
    let behind = move |api: apiserver::http::Api, book: Book| -> Arc<dyn Kubernetes> {
        tokio::spawn(apiserver::http::listen(api, listener, Some(tls), std::time::Duration::from_secs(5)));
        Arc::new(PassThrough::new(config, book).unwrap())
    };
    World::behind(false, behind, Settings::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_act_by_impersonation_and_others_by_their_own_rights() {
    let world = world().await;
    let (machine, other) = (world.machine("m1").await, world.machine("m2").await);
    let token = token_of(&world.registered(&machine.token, "1").await);
    let bearer = format!("Bearer {token}");
    let path = |plan: &str| format!("/api/v1/namespaces/{NAMESPACE}/secrets/{plan}");
    let own = [("authorization", &*bearer)];
    assert_eq!(world.ask(&path(&machine.plan), &own).await.0, StatusCode::OK);
    assert_eq!(world.ask(&path(&other.plan), &own).await.0, StatusCode::FORBIDDEN);
    // Our credentials may impersonate; an agent that asks for it acts as itself all the same.
    for (name, value) in [
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
    ] {
        let (code, said) = world.ask(&path(&other.plan), &[own[0], (name, value)]).await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{name}");
        assert!(said.contains(&format!("system:serviceaccount:{NAMESPACE}:{}", machine.plan)), "{said}");
    }
    let unknown = [("authorization", "Bearer hat_nonsense")];
    assert_eq!(world.ask(&path(&machine.plan), &unknown).await.0, StatusCode::UNAUTHORIZED);
    // Without credentials nobody acts by ours.
    let (code, said) = world.ask(&path(&machine.plan), &[]).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert!(said.contains("system:anonymous"), "{said}");
    let admin = format!("Bearer {ADMIN_TOKEN}");
    assert_eq!(world.ask(&path(&other.plan), &[("authorization", &admin)]).await.0, StatusCode::OK);
    let as_node = [("authorization", &*admin), ("impersonate-user", "nobody")];
    assert_eq!(world.ask(&path(&other.plan), &as_node).await.0, StatusCode::FORBIDDEN);

    // The gateway's own administrator, whom the server behind does not know.
    let given = format!("Bearer {GIVEN_TOKEN}");
    assert_eq!(world.ask(&path(&other.plan), &[("authorization", &given)]).await.0, StatusCode::OK);
    let as_node = [("authorization", &*given), ("impersonate-user", "nobody")];
    assert_eq!(world.ask(&path(&other.plan), &as_node).await.0, StatusCode::FORBIDDEN);
    let (code, said) = world.ask("/k8s/clusters/c-m-abcdefgh/api", &[("authorization", &given)]).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE, "{said}");
    assert_eq!(world.ask("/k8s/clusters/c-m-abcdefgh/api", &own).await.0, StatusCode::FORBIDDEN);

    // A watch comes as it happens, a write arrives whole.
    let watched = format!(
        "/api/v1/namespaces/{NAMESPACE}/secrets?watch=true&fieldSelector=metadata.name%3D{}",
        machine.plan
    );
    let mut watch = world.send(request(Method::GET, &watched, &own, bytes::Bytes::new())).await;
    assert_eq!(watch.status(), StatusCode::OK);
    let (_, text) = world.ask(&path(&machine.plan), &own).await;
    let mut secret: Value = serde_json::from_str(&text).unwrap();
    secret["data"] = json!({"applied-output": "A".repeat(400_000)});
    let headers = [own[0], ("content-type", "application/json")];
    let put = request(Method::PUT, &path(&machine.plan), &headers, secret.to_string().into());
    assert_eq!(world.send(put).await.status(), StatusCode::OK);
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("\"MODIFIED\"") {
        let frame = watch.body_mut().frame().await.unwrap().unwrap();
        seen.extend_from_slice(&frame.into_data().unwrap());
    }
}
