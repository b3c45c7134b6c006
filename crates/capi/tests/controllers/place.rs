//! The clusters that are looked after: one for each scenario, and the wires to them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use api::conversion::{self, ApiVersions};
use apiserver::auth::SigningKey;
use apiserver::convert::{Converter, Converting};
use apiserver::instance::{Instance, Parts};
use apiserver::store::{MemoryStore, Options, Store};
use clock::{Clock, SeededEntropy};
use kit::Key;
use kit::access::{Dial, DialError, Dialling};
use kube::client::Body;
use kube::config::Kubeconfig;
use kubeapi::authn::{MASTERS, User};
use serde_json::Value;

use crate::cost::Writes;

/// Conversion of our kinds. Providers here have one version.
struct Conversion;

impl ApiVersions for Conversion {
    fn api_version(&self, group: &str, _: &str) -> Result<String, String> {
        Ok(format!("{group}/v1"))
    }
}

impl Converter for Conversion {
    fn handles(&self, group: &str, _: &str) -> bool {
        group == "cluster.x-k8s.io"
    }

    fn convert<'a>(&'a self, objects: Vec<Value>, to: &'a str) -> Converting<'a> {
        let convert = |object| conversion::convert(object, to, self).map_err(|error| error.to_string());
        Box::pin(std::future::ready(objects.into_iter().map(convert).collect()))
    }
}

/// A Kubernetes API in the process.
pub(crate) struct Server {
    instance: Instance,
    pub(crate) store: Arc<dyn Store>,
}

impl Server {
    pub(crate) async fn start(clock: &Arc<dyn Clock>, seed: u64) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
        let key = SigningKey::from_pem(include_str!("../../../apiserver/tests/data/sa.key")).unwrap();
        let entropy = Box::new(SeededEntropy::new(seed));
        let parts = Parts::new(store.clone(), clock.clone(), entropy, "-- a certificate --", key);
        let parts = Parts { converters: vec![Arc::new(Conversion)], ..parts };
        Server { instance: Instance::start(parts).await.unwrap(), store }
    }

    pub(crate) fn client(&self, name: &str) -> kube::Client {
        kube::Client::new(self.service(name), "default")
    }

    pub(crate) fn service(&self, name: &str) -> apiserver::http::AsUser {
        let user = User { name: name.into(), groups: vec![MASTERS.into()], ..User::default() };
        self.instance.api().as_user(user)
    }
}

/// The cluster of one scenario, and what the scenario does to the way there.
pub(crate) struct Place {
    pub(crate) downstream: Server,
    /// The wire is cut.
    pub(crate) down: Arc<AtomicBool>,
    /// The token that is good now; a kubeconfig with another one is not accepted.
    pub(crate) token: Arc<Mutex<String>>,
    /// The provider does nothing here while this is set.
    pub(crate) hold: AtomicBool,
    /// The tokens that the cluster was dialled with.
    pub(crate) dialled: Mutex<Vec<String>>,
    /// What the controllers write to it.
    pub(crate) writes: Writes,
}

impl Place {
    pub(crate) async fn new(clock: &Arc<dyn Clock>, seed: u64) -> Arc<Self> {
        Arc::new(Place {
            downstream: Server::start(clock, seed).await,
            down: Arc::default(),
            token: Arc::new(Mutex::new("first".to_owned())),
            hold: AtomicBool::new(false),
            dialled: Mutex::default(),
            writes: Writes::default(),
        })
    }
}

/// All places, by the namespace that their scenario has in the management cluster.
#[derive(Default)]
pub(crate) struct Places(Mutex<BTreeMap<String, Arc<Place>>>);

impl Places {
    pub(crate) fn add(&self, namespace: &str, place: Arc<Place>) {
        self.0.lock().unwrap().insert(namespace.into(), place);
    }

    pub(crate) fn of(&self, namespace: &str) -> Option<Arc<Place>> {
        self.0.lock().unwrap().get(namespace).cloned()
    }
}

impl Dial for Places {
    fn dial<'a>(&'a self, cluster: &'a Key, kubeconfig: Kubeconfig) -> Dialling<'a> {
        Box::pin(async move {
            let refused = |why: &str| DialError::Kubeconfig(why.into());
            let place = self.of(&cluster.namespace).ok_or_else(|| refused("there is no such place"))?;
            let written = serde_json::to_value(&kubeconfig).unwrap();
            let given = written["users"][0]["user"]["token"].as_str().unwrap_or_default().to_owned();
            place.dialled.lock().unwrap().push(given.clone());
            if place.down.load(Ordering::Relaxed) {
                return Err(refused("the wire is cut"));
            }
            let client = place.downstream.client("controllers");
            Ok(kube::Client::new(Cut { client, place, given }, "default"))
        })
    }
}

/// A client whose requests fail while the wire is cut, or the token is not good.
#[derive(Clone)]
struct Cut {
    client: kube::Client,
    place: Arc<Place>,
    given: String,
}

impl tower::Service<http::Request<Body>> for Cut {
    type Response = http::Response<Body>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, std::io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (client, down) = (self.client.clone(), self.place.down.load(Ordering::Relaxed));
        let writes = self.place.writes.clone();
        let accepted = *self.place.token.lock().unwrap() == self.given;
        Box::pin(async move {
            if down {
                return Err(std::io::ErrorKind::ConnectionReset.into());
            }
            if !accepted {
                let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Unauthorized", "code": 401});
                let body = Body::from(serde_json::to_vec(&status).unwrap());
                return Ok(http::Response::builder().status(401).body(body).unwrap());
            }
            let request = writes.note(request);
            client.send(request).await.map_err(std::io::Error::other)
        })
    }
}
