//! What a tenant writes in its own namespace, and a host says of itself, gives neither of them anything of another's.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway::TunnelDial;
use http::StatusCode;
use kit::Key;
use kit::access::Dial as _;
use kube::api::{ListParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::cluster::{Cluster, client, dial_in, hello};
use crate::nodes::introduction;
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

#[tokio::test(start_paused = true)]
async fn a_label_makes_no_server() {
    let world = World::new().await;
    let (nodes, _) = world.cluster().await;
    let bearer = format!("Bearer {nodes}");
    let labels = [
        "rke.cattle.io/etcd-role=true",
        "rack=7,rke.cattle.io/control-plane-role=true",
        "cluster.x-k8s.io/set-name=servers",
        "objectset.rio.cattle.io/hash=x",
        "node-role.kubernetes.io/control-plane=true",
    ];
    for given in labels {
        let mut headers = introduction(&bearer, "77");
        headers.retain(|(name, _)| *name != "x-cattle-labels");
        headers.push(("x-cattle-labels", given));
        let (code, said) = world.ask("/v3/connect/agent", &headers).await;
        assert_eq!(code, StatusCode::BAD_REQUEST, "{given}: {said}");
        let name = given.split(',').next_back().unwrap().split('=').next().unwrap();
        assert!(said.contains(name) && said.contains("X-Cattle-Labels"), "{said}");
    }
    let left = world
        .secrets(CLUSTER)
        .list(&ListParams::default().fields("type=rke.cattle.io/machine-request"))
        .await;
    assert!(left.unwrap().items.is_empty(), "nothing was asked for");
}

impl World {
    /// Answers the next request with a machine, as a controller that looks at names alone would.
    async fn answer(&self, machine: &str) {
        let requests = ListParams::default().fields("type=rke.cattle.io/machine-request");
        let secret = self
            .until("a request", async || self.secrets(CLUSTER).list(&requests).await.unwrap().items.pop())
            .await;
        let labels =
            json!({"rke.cattle.io/machine-name": machine, "rke.cattle.io/machine-namespace": NAMESPACE});
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        let name = secret.metadata.name.unwrap();
        self.secrets(CLUSTER).patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// A Machine with everything that belongs to it, of a cluster and with an id.
    async fn bearing(&self, name: &str, cluster: &str, id: &str) {
        self.machine(name).await;
        let machines = self.api("cluster.x-k8s.io/v1beta2", "Machine", "machines", NAMESPACE);
        let labels = json!({"rke.cattle.io/machine-id": id});
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}, "spec": {"clusterName": cluster}}));
        machines.patch(name, &PatchParams::default(), &patch).await.unwrap();
        let kind = kit::KindId::of::<api::capi::v1beta2::Machine>();
        self.until("seen", async || {
            let found = self.caches.of(&kind).get(&Key::new(NAMESPACE, name))?;
            (found.label("rke.cattle.io/machine-id") == Some(id)).then_some(())
        })
        .await;
    }
}

fn name_of(id: &str) -> String {
    api::names::registered_machine(api::names::Registrant::Custom, id)
}

/// Registers, and reads its config, as a host with the cluster's token.
async fn gets_nothing(world: &World, token: &str, id: &str, machine: &str) {
    let ((code, said), ()) = tokio::join!(world.register(token, id), world.answer(machine));
    assert_eq!(code, StatusCode::FORBIDDEN, "{said}");
    assert!(said.contains("cattle-id"), "{said}");
    let bearer = format!("Bearer {token}");
    let (code, said) = world.ask("/v3/connect/config-yaml", &introduction(&bearer, id)).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{said}");
    let tokens = ListParams::default().fields("type=herdsman.io/agent-token");
    assert!(world.secrets(NAMESPACE).list(&tokens).await.unwrap().items.is_empty(), "no token was made");
}

/// The same host id with the token of one cluster and the Machine of another, in one namespace.
#[tokio::test(start_paused = true)]
async fn an_id_of_another_cluster_gives_no_plan() {
    let world = World::new().await;
    let (nodes, _) = world.cluster().await;
    world.bearing(&name_of("77"), "other", "77").await;
    gets_nothing(&world, &nodes, "77", &name_of("77")).await;
}

/// Names are made of 48 bits of the id's hash: an id with the same ones can be searched for.
#[tokio::test(start_paused = true)]
async fn a_name_that_collides_gives_no_plan() {
    let world = World::new().await;
    let (nodes, _) = world.cluster().await;
    world.bearing(&name_of("77"), "pets", "the-one-before").await;
    gets_nothing(&world, &nodes, "77", &name_of("77")).await;
    // Nor does a Machine that the host did not ask for.
    world.bearing("m2", "pets", "78").await;
    gets_nothing(&world, &nodes, "79", "m2").await;
}

/// A machine's own token registers that machine, with no id of another's.
#[tokio::test(start_paused = true)]
async fn a_machine_takes_no_others_id() {
    let world = World::new().await;
    world.bearing("m1", "pets", "1").await;
    let second = world.machine("m2").await;
    let (code, said) = world.register(&second.token, "1").await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{said}");
    assert!(said.contains("cattle-id"), "{said}");
    world.registered(&second.token, "2").await;
}
