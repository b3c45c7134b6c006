//! A management cluster, the gateway in front of it, and people who ask.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::rke::v1::RKEBootstrap;
use api::{capi, names};
use apiserver::auth::SigningKey;
use apiserver::auth::Tokens;
use apiserver::instance::{Instance, Parts};
use apiserver::store::{MemoryStore, Options};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clock::{Clock, RuntimeClock, SeededEntropy};
use gateway::{Book, Embedded, Gateway, Kubernetes, Later, Public, Settings};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kit::Caches;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kubeapi::authn::{MASTERS, User};
use provisioning::bootstrap::token::Lifetimes;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tunnel::Hub;

pub(crate) const NAMESPACE: &str = "fleet-default";
pub(crate) const CLUSTER: &str = "c-m-abcdefgh";
/// The namespace of a tenant who attacks.
pub(crate) const TENANT: &str = "team-b";
/// The administrator's at the gateway; the API server itself does not know it.
pub(crate) const GIVEN_TOKEN: &str = "hdm_given";
pub(crate) const ADMIN_TOKEN: &str = "the-administrators";

/// The administrator's token, and those of agents.
struct Admin(Option<Book>);

impl Tokens for Admin {
    fn holder<'a>(&'a self, token: &'a str) -> Later<'a, Result<Option<User>, String>> {
        Box::pin(async move {
            match (&self.0, token) {
                (_, ADMIN_TOKEN) => Ok(Some(admin())),
                (Some(book), token) => book.who(token).await,
                (None, _) => Ok(None),
            }
        })
    }
}

pub(crate) fn admin() -> User {
    User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(RuntimeClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()))
}

/// An API server in this process; agents' tokens are good there if it is given a book.
pub(crate) async fn server(clock: &Arc<dyn Clock>, seed: u64, book: Option<Book>) -> Instance {
    let store = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
    let key = SigningKey::from_pem(include_str!("../../../apiserver/tests/data/sa.key")).unwrap();
    let mut parts =
        Parts::new(store, clock.clone(), Box::new(SeededEntropy::new(seed)), "-- a certificate --", key);
    parts.tokens = Some(Arc::new(Admin(book)));
    parts.namespaces = vec![NAMESPACE.into(), CLUSTER.into(), TENANT.into(), "cattle-global-data".into()];
    Instance::start(parts).await.unwrap()
}

pub(crate) fn resource(api_version: &str, kind: &str, plural: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: api_version.into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

pub(crate) struct World {
    pub(crate) clock: Arc<dyn Clock>,
    _instance: Instance,
    pub(crate) client: kube::Client,
    pub(crate) caches: Caches,
    pub(crate) book: Book,
    pub(crate) hub: Hub,
    pub(crate) gateway: Gateway,
    pub(crate) public: watch::Sender<Public>,
    _running: JoinSet<()>,
}

/// Kinds that the gateway looks at, and those that own what it looks at.
const KINDS: [&str; 7] = [
    "clusters.management.cattle.io",
    "clusterregistrationtokens.management.cattle.io",
    "clusters.provisioning.cattle.io",
    "machines.cluster.x-k8s.io",
    "clusters.cluster.x-k8s.io",
    "rkebootstraps.rke.cattle.io",
    "custommachines.rke.cattle.io",
];

impl World {
    /// The gateway in front of a server in the same process.
    pub(crate) async fn new() -> Self {
        World::behind(true, |api, _| Arc::new(Embedded(api)), Settings::default()).await
    }

    /// The same with another way to the server, which may or may not know the gateway's tokens.
    pub(crate) async fn behind(
        knows_tokens: bool,
        kubernetes: impl FnOnce(apiserver::http::Api, Book) -> Arc<dyn Kubernetes>,
        settings: Settings,
    ) -> Self {
        let clock = clock();
        let given = [(GIVEN_TOKEN, gateway::admin::user())];
        let book = Book::with(clock.clone(), Lifetimes::default(), given);
        let instance = server(&clock, 1, knows_tokens.then(|| book.clone())).await;
        let client = kube::Client::new(instance.api().as_user(admin()), "default");
        install(&client).await;
        let caches = Caches::new(client.clone(), kit::index::entries);
        let hub =
            Hub::new(tunnel::session::Settings::default(), clock.clone(), Box::new(SeededEntropy::new(2)));
        let said = Public { url: "https://herd.example.com".into(), ca_certificates: "PEM\n".into() };
        let (public, told) = watch::channel(said);
        let gateway = Gateway::new(gateway::Parts {
            kubernetes: kubernetes(instance.api().clone(), book.clone()),
            caches: caches.clone(),
            book: book.clone(),
            hub: hub.clone(),
            clock: clock.clone(),
            entropy: Arc::new(Mutex::new(SeededEntropy::new(3))),
            public: told,
            settings,
        });
        let mut running = JoinSet::new();
        let runs = gateway.clone();
        running.spawn(async move { runs.run().await });
        assert!(book.wait_ready().await);
        World { clock, client, caches, book, hub, gateway, public, _instance: instance, _running: running }
    }

    /// A connection to the gateway.
    pub(crate) fn pipe(&self) -> DuplexStream {
        pipe(&self.gateway, "203.0.113.7:1000".parse().unwrap())
    }

    pub(crate) fn api(
        &self,
        api_version: &str,
        kind: &str,
        plural: &str,
        namespace: &str,
    ) -> Api<DynamicObject> {
        let resource = resource(api_version, kind, plural);
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    pub(crate) fn secrets(&self, namespace: &str) -> Api<DynamicObject> {
        self.api("v1", "Secret", "secrets", namespace)
    }

    /// Makes an object; gives it as it was stored.
    pub(crate) async fn create(&self, plural: &str, document: Value) -> Value {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&document["apiVersion"]), text(&document["kind"]));
        let api = self.api(&version, &kind, plural, &text(&document["metadata"]["namespace"]));
        let made =
            api.create(&PostParams::default(), &serde_json::from_value(document.clone()).unwrap()).await;
        serde_json::to_value(made.unwrap_or_else(|error| panic!("{document}: {error}"))).unwrap()
    }

    pub(crate) async fn set_status(&self, plural: &str, object: &Value, status: Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let api = self.api(
            &text(&object["apiVersion"]),
            &text(&object["kind"]),
            plural,
            &text(&metadata["namespace"]),
        );
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&text(&metadata["name"]), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Asks the gateway, on a connection of its own.
    pub(crate) async fn ask(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, String) {
        let answer = self.send(request(Method::GET, path, headers, Bytes::new())).await;
        let code = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        send(self.pipe(), request).await
    }

    /// Waits until something is so.
    pub(crate) async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        for _ in 0..2_000 {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not {what}");
    }
}

pub(crate) fn pipe(gateway: &Gateway, from: SocketAddr) -> DuplexStream {
    let (near, far) = tokio::io::duplex(64 << 10);
    let gateway = gateway.clone();
    tokio::spawn(async move { gateway.serve(far, Some(from)).await });
    near
}

pub(crate) fn request(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path).header("host", "herd.example.com");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body)).unwrap()
}

pub(crate) async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> Response<Incoming>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    sender.send_request(request).await.unwrap()
}

async fn install(client: &kube::Client) {
    let definitions =
        resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &definitions);
    for definition in api::crd::all() {
        if !KINDS.contains(&definition.metadata.name.as_deref().unwrap()) {
            continue;
        }
        let definition = serde_json::from_value(json!(definition)).unwrap();
        api.create(&PostParams::default(), &definition).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// A machine with everything that the bootstrap controller makes for it.
pub(crate) struct Machine {
    pub(crate) plan: String,
    /// What its script introduces itself with.
    pub(crate) token: String,
}

impl World {
    /// The Machine of a cluster, and all of its objects.
    pub(crate) async fn machine(&self, name: &str) -> Machine {
        self.machine_and_bootstrap(name).await;
        self.bootstrapped(name).await
    }

    /// The Machine and its bootstrap object, without anything that follows of them.
    pub(crate) async fn machine_and_bootstrap(&self, name: &str) {
        let machine = self.create(
            "machines",
            json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": name, "namespace": NAMESPACE, "labels": {
                    "rke.cattle.io/cluster-name": "pets", "cluster.x-k8s.io/cluster-name": "pets"}},
                "spec": {
                    "clusterName": "pets",
                    "bootstrap": {"configRef": {"apiGroup": "rke.cattle.io", "kind": "RKEBootstrap", "name": name}},
                    "infrastructureRef": {"apiGroup": "rke.cattle.io", "kind": "CustomMachine", "name": name},
                },
            }),
        )
        .await;
        let owner = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name,
            "uid": machine["metadata"]["uid"], "controller": true,
        });
        self.create(
            "rkebootstraps",
            json!({
                "apiVersion": "rke.cattle.io/v1", "kind": "RKEBootstrap",
                "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]},
                "spec": {"clusterName": "pets"},
            }),
        )
        .await;
    }

    /// What the bootstrap controller makes for a Machine: what its decision says, and a token for the account.
    pub(crate) async fn bootstrapped(&self, name: &str) -> Machine {
        let get = async |version: &str, kind: &str, plural: &str| {
            let found = self.api(version, kind, plural, NAMESPACE).get(name).await.unwrap();
            serde_json::to_value(found).unwrap()
        };
        let bootstrap: RKEBootstrap =
            serde_json::from_value(get("rke.cattle.io/v1", "RKEBootstrap", "rkebootstraps").await).unwrap();
        let machine: capi::v1beta2::Machine =
            serde_json::from_value(get("cluster.x-k8s.io/v1beta2", "Machine", "machines").await).unwrap();
        let cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "pets", "namespace": NAMESPACE},
            "spec": {"controlPlaneRef": {"apiGroup": "rke.cattle.io", "kind": "RKEControlPlane", "name": "pets"}},
            "status": {"initialization": {"infrastructureProvisioned": true}},
        }))
        .unwrap();
        let outcome = provisioning::bootstrap::decide(&provisioning::bootstrap::Facts {
            bootstrap: &bootstrap,
            machine: Some(&machine),
            cluster: Some(&cluster),
            control_plane: Some(&api::rke::v1::RKEControlPlane::default()),
            token: None,
            server: &provisioning::bootstrap::Server::default(),
        })
        .unwrap();
        for object in &outcome.objects {
            let kind = object.id().kind;
            let plural = format!("{}s", kind.to_lowercase());
            self.create(&plural, object.document().clone()).await;
        }
        let account = names::bootstrap_secret(names::Bootstrap(name));
        self.create(
            "secrets",
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                "metadata": {"name": format!("{account}-token"), "namespace": NAMESPACE, "annotations": {
                    "kubernetes.io/service-account.name": account, "rke.cattle.io/bootstrap-token": "true"}},
            }),
        )
        .await;
        let token = self
            .until("a token", async || {
                let found = self.secrets(NAMESPACE).get(&format!("{account}-token")).await.unwrap();
                STANDARD.decode(found.data["data"]["token"].as_str()?).ok()
            })
            .await;
        let token = provisioning::bootstrap::token::introduction(&token);
        self.until("known", async || self.book.find(&token)).await;
        Machine { plan: names::plan_secret(names::Bootstrap(name)), token }
    }

    /// A management cluster with the cluster that it stands for, and its tokens: for nodes, for tunnels.
    pub(crate) async fn cluster(&self) -> (String, String) {
        let cluster = self
            .create(
                "clusters",
                json!({
                    "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
                    "metadata": {"name": "pets", "namespace": NAMESPACE},
                    "spec": {"kubernetesVersion": "v1.34.1+k3s1", "rkeConfig": {}},
                }),
            )
            .await;
        self.set_status("clusters", &cluster, json!({"clusterName": CLUSTER})).await;
        let owner = format!("{NAMESPACE}/pets/{}", cluster["metadata"]["uid"].as_str().unwrap());
        self.create(
            "clusters",
            json!({
                "apiVersion": "management.cattle.io/v3", "kind": "Cluster",
                "metadata": {"name": CLUSTER, "annotations": {"herdsman.io/owner": owner}},
                "spec": {"displayName": "pets"},
            }),
        )
        .await;
        let tokens = ["default-token", "system"].map(|name| (name, format!("value-of-{name}")));
        for (name, value) in &tokens {
            self.registration_token(name, value).await;
        }
        let [nodes, tunnels] = tokens.map(|(_, value)| value);
        self.until("known", async || self.book.find(&nodes).and(self.book.find(&tunnels))).await;
        let caches = &self.caches;
        let kind = kit::KindId::of::<api::provisioning::v1::Cluster>();
        self.until("seen", async || {
            let found = caches.of(&kind).get(&kit::Key::new(NAMESPACE, "pets"))?;
            (found.document()["status"]["clusterName"] == CLUSTER).then_some(())
        })
        .await;
        (nodes, tunnels)
    }

    async fn registration_token(&self, name: &str, value: &str) {
        let token = self
            .create(
                "clusterregistrationtokens",
                json!({
                    "apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken",
                    "metadata": {"name": name, "namespace": CLUSTER}, "spec": {"clusterName": CLUSTER},
                }),
            )
            .await;
        self.create(
            "secrets",
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": {"name": format!("crt-token-{name}"), "namespace": CLUSTER, "ownerReferences": [{
                    "apiVersion": "management.cattle.io/v3", "kind": "ClusterRegistrationToken",
                    "name": name, "uid": token["metadata"]["uid"]}]},
                "data": {"token": STANDARD.encode(value)},
            }),
        )
        .await;
    }
}
