//! What a tenant writes in its own namespace, and a host says of itself, gives neither of them anything of another's.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway::TunnelDial;
use http::StatusCode;
use kit::Key;
use kit::access::Dial as _;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::cluster::{Cluster, client, dial_in, hello};
use crate::world::{CLUSTER, NAMESPACE, TENANT, World};

const API: &str = "/k8s/clusters/c-m-abcdefgh/api/v1/namespaces/default/configmaps";

impl World {
    /// A provisioning cluster of the tenant's whose status says the victim's id.
    async fn pretender(&self, name: &str) -> Value {
        let cluster = json!({
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
            "metadata": {"name": name, "namespace": TENANT, "annotations": {
                "provisioning.cattle.io/management-cluster-name": CLUSTER}},
            "spec": {"kubernetesVersion": "v1.34.1+k3s1", "rkeConfig": {}},
        });
        let made = self.create("clusters", cluster).await;
        self.set_status("clusters", &made, json!({"clusterName": CLUSTER})).await;
        let kind = kit::KindId::of::<api::provisioning::v1::Cluster>();
        self.until("seen", async || {
            let found = self.caches.of(&kind).get(&Key::new(TENANT, name))?;
            (found.document()["status"]["clusterName"] == CLUSTER).then_some(())
        })
        .await;
        made
    }

    /// The Secret of a kubeconfig with this token.
    async fn kubeconfig(&self, namespace: &str, cluster: &str, token: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": format!("{cluster}-kubeconfig"), "namespace": namespace},
            "data": {"token": STANDARD.encode(token)},
        });
        self.create("secrets", secret).await;
    }

    async fn code(&self, path: &str, token: &str) -> StatusCode {
        self.ask(path, &[("authorization", &format!("Bearer {token}"))]).await.0
    }
}

/// The reported takeover: the first Cluster in the order of keys that said an id had it.
#[tokio::test(start_paused = true)]
async fn a_secret_opens_no_other_cluster() {
    let world = World::new().await;
    let (_, token) = world.cluster().await;
    let cluster = Cluster::new(&world).await;
    let _agent = dial_in(&world, &cluster, &token);
    world.gateway.downstreams().wait_for(CLUSTER).await;
    let (real, forged) = (format!("kubeconfig-{CLUSTER}:real"), format!("kubeconfig-{CLUSTER}:x"));
    world.kubeconfig(NAMESPACE, "pets", &real).await;
    world.until("open", async || (world.code(API, &real).await == StatusCode::OK).then_some(())).await;
    // Keys sort by namespace, then name: one before the victim's, one after.
    for name in ["a-first", "z-last"] {
        world.pretender(name).await;
        world.kubeconfig(TENANT, name, &forged).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.code(API, &forged).await, StatusCode::UNAUTHORIZED);
    assert_eq!(world.code(API, &real).await, StatusCode::OK, "the owner is not locked out");
}

/// While the owner of a management cluster is not bound to a UID, a cluster of that name has to say its id; another's does not help.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_made_again_is_another() {
    let world = World::new().await;
    world.cluster().await;
    let real = format!("kubeconfig-{CLUSTER}:real");
    world.kubeconfig(NAMESPACE, "pets", &real).await;
    let open = async || world.code(API, &real).await == StatusCode::SERVICE_UNAVAILABLE;
    world.until("known, and not connected", async || open().await.then_some(())).await;
    let clusters = world.api("provisioning.cattle.io/v1", "Cluster", "clusters", NAMESPACE);
    clusters.delete("pets", &Default::default()).await.unwrap();
    let again = json!({
        "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "metadata": {"name": "pets", "namespace": NAMESPACE},
        "spec": {"kubernetesVersion": "v1.34.1+k3s1", "rkeConfig": {}},
    });
    let again = world.create("clusters", again).await;
    world.set_status("clusters", &again, json!({"clusterName": CLUSTER})).await;
    let shut = async || world.code(API, &real).await == StatusCode::UNAUTHORIZED;
    world.until("shut", async || shut().await.then_some(())).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(shut().await);
}

#[tokio::test(start_paused = true)]
async fn a_registration_token_of_ones_own_making_is_none() {
    let world = World::new().await;
    world.cluster().await;
    let cluster = Cluster::new(&world).await;
    let secret = |name: &str, uid: &Value, value: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": format!("crt-token-{name}"), "namespace": TENANT, "ownerReferences": [{
                "apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken", "name": name, "uid": uid}]},
            "data": {"token": STANDARD.encode(value)},
        })
    };
    // With an owner that does not exist, with one for the victim, with one for a cluster that is called as the namespace.
    world.create("secrets", secret("default-token", &json!("made-up"), "first")).await;
    for (name, named, value) in [("system", CLUSTER, "second"), ("third", TENANT, "third")] {
        let token = json!({
            "apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken",
            "metadata": {"name": name, "namespace": TENANT}, "spec": {"clusterName": named},
        });
        let token = world.create("clusterregistrationtokens", token).await;
        world.create("secrets", secret(name, &token["metadata"]["uid"], value)).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    for token in ["first", "second", "third"] {
        let (code, said) = world.register(token, "77").await;
        assert_eq!(code, StatusCode::UNAUTHORIZED, "{token}: {said}");
        let mut agent = client(&world, &cluster);
        let opened = agent.once(&hello(token, &cluster.params()), &mut |_| {}).await;
        assert!(opened.is_err(), "{token} opened a tunnel");
    }
    assert!(world.hub.clients().is_empty());
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

/// Our controllers reach a cluster with its administrator's account: not for whoever writes its URL into a kubeconfig.
#[tokio::test(start_paused = true)]
async fn a_url_leads_controllers_to_no_other_cluster() {
    let world = World::new().await;
    let (_, token) = world.cluster().await;
    let cluster = Cluster::new(&world).await;
    let dial = TunnelDial::new(world.gateway.downstreams().clone());
    let victims = kubeconfig(&format!("https://herd.example.com/k8s/clusters/{CLUSTER}"));
    let (evil, owner) = (Key::new(TENANT, "evil"), Key::new(NAMESPACE, "pets"));
    world.pretender("evil").await;
    // Whether the victim is connected is not the tenant's to know.
    assert_eq!(dial.awaits(&evil, &victims), None);
    assert!(dial.awaits(&owner, &victims).is_some());
    let _agent = dial_in(&world, &cluster, &token);
    world.gateway.downstreams().wait_for(CLUSTER).await;
    let before = cluster.dialled.load(Ordering::Relaxed);
    for key in [&evil, &Key::new(TENANT, "pets"), &Key::new(NAMESPACE, "other")] {
        let refused = dial.dial(key, victims.clone()).await.err().unwrap().to_string();
        assert!(refused.contains("another cluster"), "{refused}");
        let unknown = kubeconfig("https://herd.example.com/k8s/clusters/c-m-notthere");
        assert_eq!(dial.dial(key, unknown).await.err().unwrap().to_string(), refused, "both say the same");
    }
    assert_eq!(cluster.dialled.load(Ordering::Relaxed), before);
    assert!(dial.dial(&owner, victims).await.is_ok());
}
