use std::sync::Arc;

use apiserver::controllers::{Progress, Running, Settings, TokenSecret, first_objects, run};
use apiserver::server::{Notes, Request, Server};
use apiserver::store::{MemoryStore, Options, Store};
use clock::{Clock, ManualClock, SeededEntropy};
use jiff::Timestamp;
use kubeapi::Status;
use kubeapi::authn::User;
use kubeapi::media::PatchType;
use kubeapi::request::{Query, Target};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// When these tests begin.
pub(crate) const NOW: &str = "2026-01-02T03:04:05Z";

/// A server with its first objects and all controllers.
pub(crate) struct World {
    pub(crate) server: Arc<Server>,
    pub(crate) clock: Arc<ManualClock>,
    running: Running,
    stop: oneshot::Sender<()>,
}

pub(crate) fn settings() -> Settings {
    let mint = |wanted: &TokenSecret<'_>| {
        Ok(format!("{}/{} of {} for {}", wanted.namespace, wanted.account, wanted.account_uid, wanted.secret))
    };
    Settings {
        namespaces: vec!["n".into()],
        advertised: Some(([192, 0, 2, 1].into(), 6443)),
        ..Settings::new("the CA", Arc::new(mint))
    }
}

pub(crate) fn server_on(
    seed: u64,
    store: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Store>,
) -> (Arc<Server>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(NOW.parse::<Timestamp>().unwrap()));
    let server = Server::new(store(clock.clone()), clock.clone(), Box::new(SeededEntropy::new(seed)));
    (Arc::new(server), clock)
}

impl World {
    pub(crate) async fn new() -> Self {
        World::with(1, Options::default()).await
    }

    pub(crate) async fn with(seed: u64, options: Options) -> Self {
        World::on(seed, |clock| Arc::new(MemoryStore::new(options, clock))).await
    }

    pub(crate) async fn on(seed: u64, store: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Store>) -> Self {
        let (server, clock) = server_on(seed, store);
        first_objects(&server, &settings()).await.unwrap();
        let world = World::start(server, clock);
        world.settle().await;
        world
    }

    /// Starts the controllers of a server.
    pub(crate) fn start(server: Arc<Server>, clock: Arc<ManualClock>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let running = run(server.clone(), settings(), async move { drop(stopped.await) });
        World { server, clock, running, stop }
    }

    /// Stops the controllers. The server goes on.
    pub(crate) async fn stop(self) -> (Arc<Server>, Arc<ManualClock>) {
        self.stop.send(()).unwrap();
        self.running.ended().await;
        (self.server, self.clock)
    }

    pub(crate) fn progress(&self) -> &Progress {
        self.running.progress()
    }

    /// Waits until nothing is left to do.
    pub(crate) async fn settle(&self) {
        loop {
            let head = self.server.store().view().head();
            assert!(self.progress().reached(head).await);
            if self.server.store().view().head() == head {
                return;
            }
        }
    }

    pub(crate) async fn ask(&self, method: &str, url: &str, body: Value) -> Result<Value, Status> {
        ask(&self.server, method, url, body).await
    }

    /// The body of an answer that has to be good.
    pub(crate) async fn ok(&self, method: &str, url: &str, body: Value) -> Value {
        match self.ask(method, url, body).await {
            Ok(body) => body,
            Err(status) => panic!("{method} {url}: {status:?}"),
        }
    }

    pub(crate) async fn get(&self, url: &str) -> Value {
        self.ok("GET", url, Value::Null).await
    }

    pub(crate) async fn is_there(&self, url: &str) -> bool {
        match self.ask("GET", url, Value::Null).await {
            Ok(_) => true,
            Err(status) => {
                assert_eq!(status.code, 404, "{status:?}");
                false
            }
        }
    }

    /// Creates a ConfigMap and gives its UID.
    pub(crate) async fn map(&self, namespace: &str, name: &str, owners: Value) -> String {
        let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
        let url = format!("/api/v1/namespaces/{namespace}/configmaps");
        let made = self.ok("POST", &url, object).await;
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// The names of the ConfigMaps in a namespace that a test has made.
    pub(crate) async fn maps(&self, namespace: &str) -> Vec<String> {
        let list = self.get(&format!("/api/v1/namespaces/{namespace}/configmaps")).await;
        let names = list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str());
        names.flatten().filter(|name| *name != "kube-root-ca.crt").map(str::to_owned).collect()
    }
}

/// A reference to a ConfigMap.
pub(crate) fn owner(name: &str, uid: &str, blocks: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": blocks})
}

/// A definition of a kind `Thing` of group `example.com`.
pub(crate) fn things() -> Value {
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(crate) async fn ask(server: &Server, method: &str, url: &str, body: Value) -> Result<Value, Status> {
    let body = (!body.is_null()).then_some(body);
    server.serve(&request(method, url, body)).await.map(|answer| answer.body)
}

fn request(method: &str, url: &str, body: Option<Value>) -> Request {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let query = Query::parse(query);
    let Ok(Target::Resource(target)) = Target::parse(method, path, &query) else { panic!("{method} {url}") };
    let user = User { name: "admin".into(), groups: vec!["system:masters".into()], ..User::default() };
    Request {
        target,
        query,
        body,
        patch: PatchType::Merge,
        user,
        user_agent: "tests".into(),
        notes: Notes::default(),
    }
}
