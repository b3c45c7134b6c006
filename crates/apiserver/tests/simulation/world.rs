use std::sync::Arc;

use apiserver::auth::SigningKey;
use apiserver::instance::{Instance, Parts};
use apiserver::store::{MemoryStore, Options, Store};
use clock::{Clock, RuntimeClock, SeededEntropy};
use kubeapi::authn::{MASTERS, User};

use crate::cuts::Cutting;

/// A server in the process, with all that it does by itself.
pub(crate) struct World {
    pub(crate) instance: Instance,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        let clock: Arc<dyn Clock> =
            Arc::new(RuntimeClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
        let key = SigningKey::from_pem(include_str!("../data/sa.key")).unwrap();
        let entropy = Box::new(SeededEntropy::new(seed));
        let parts = Parts::new(store.clone(), clock.clone(), entropy, "-- a certificate --", key);
        World { instance: Instance::start(parts).await.unwrap(), store, clock }
    }

    fn service(&self, name: &str) -> apiserver::http::AsUser {
        let user = User { name: name.into(), groups: vec![MASTERS.into()], ..User::default() };
        self.instance.api().as_user(user)
    }

    pub(crate) fn client(&self, name: &str) -> kube::Client {
        kube::Client::new(self.service(name), "default")
    }

    /// A client whose watches break.
    pub(crate) fn shaky_client(&self, name: &str, seed: u64) -> (kube::Client, Cutting) {
        let service = Cutting::new(self.service(name), seed);
        (kube::Client::new(service.clone(), "default"), service)
    }
}
