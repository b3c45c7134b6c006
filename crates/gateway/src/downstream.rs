//! Clusters with a tunnel: how each is reached, and that it is.
//!
//! A tunnel's client says with every session where its cluster's API is, who vouches for it, and how to be somebody there
//! ([`params`](crate::params)). That is kept where Rancher keeps it, so that another server, or this one after a restart, knows it: in
//! the management Cluster's `status.apiEndpoint` and `status.caCert`, and a Secret that `status.serviceAccountTokenSecret` names.
//!
//! A cluster may have several ways at once: agents on its servers, replicas of the agent in the cluster, each with an address of
//! its own. Whose certificate and account count is settled once ([`Params`]); what is dialled is the address of the way that is taken.

mod keep;
mod ways;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::management::v3::Cluster;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::Clock;
use kit::{Cache, Caches, Key, KindId};
use kube::config::Kubeconfig;
use tokio::sync::Notify;
use tunnel::{ClientKey, Hub};

use crate::book;
use crate::credential::Hash;
use crate::forward::{self, Backend, Purpose};
use crate::lineage::Lineage;
use crate::params::Params;
use ways::{Through, Ways};

/// How long a request waits for a tunnel that is away: an agent that was restarted is back in a moment.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the tokens of clusters are, as in Rancher.
const TOKENS: &str = api::catalogue::namespaces::CATTLE_GLOBAL_DATA;

/// Why a cluster is not reached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing has ever dialled in for it.
    #[error("cluster {0} has never been connected: its agent has not dialled in yet")]
    NeverConnected(String),
    /// Its agent has no session now.
    #[error("cluster {0} is not connected: its agent has no session with the server")]
    NotConnected(String),
    /// What was said of it cannot be used.
    #[error("the API of cluster {id} cannot be used as its agent describes it: {why}")]
    Unusable {
        /// Which.
        id: String,
        /// Why not.
        why: String,
    },
}

/// All clusters with a tunnel. Clones are the same.
#[derive(Clone)]
pub struct Downstreams(Arc<Inner>);

struct Inner {
    hub: Hub,
    caches: Caches,
    clock: Arc<dyn Clock>,
    clusters: Arc<Cache>,
    secrets: Arc<Cache>,
    lineage: Lineage,
    entries: Mutex<BTreeMap<String, Entry>>,
    /// Told when a client has said something of its cluster.
    said: Notify,
}

#[derive(Clone, Default)]
struct Entry {
    /// Whose certificate and account count.
    params: Option<Params>,
    ways: Ways,
    backend: Option<(Params, Backend)>,
    client: Option<(Params, kube::Client)>,
}

impl std::fmt::Debug for Downstreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.lock().keys()).finish()
    }
}

/// A management cluster needs no history here.
fn trim(document: &mut serde_json::Value) {
    if let Some(metadata) = document["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}

impl Downstreams {
    /// Those whose tunnels end at a hub.
    pub fn new(hub: Hub, caches: Caches, clock: Arc<dyn Clock>) -> Self {
        let clusters = caches.of_cluster(&KindId::of::<Cluster>(), trim);
        let (secrets, lineage) = (caches.of(&book::secrets()), Lineage::new(&caches));
        let (entries, said) = (Mutex::default(), Notify::new());
        Downstreams(Arc::new(Inner { hub, caches, clock, clusters, secrets, lineage, entries, said }))
    }

    /// Where tunnels end.
    pub fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// Whose a cluster is.
    pub(crate) fn lineage(&self) -> &Lineage {
        &self.0.lineage
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a cluster is reached now.
    pub fn connected(&self, id: &str) -> bool {
        !self.live(id).is_empty()
    }

    /// The ways to a cluster that have a session, the last one first: whose session, and what to dial there.
    fn live(&self, id: &str) -> Vec<(ClientKey, String)> {
        let known = self.lock().get(id).map(|entry| entry.ways.all(id)).unwrap_or_default();
        let kept = || self.kept(id).map(|kept| vec![(ways::key(id, &kept.address), kept.address)]);
        // A session that another server has was never heard of here.
        let known = if known.is_empty() { kept().unwrap_or_default() } else { known };
        known.into_iter().filter(|(key, _)| self.0.hub.has(key)).collect()
    }

    /// A client of the hub has said where its cluster is. Gives whom its session belongs to.
    pub(crate) fn said(&self, id: &str, params: Params, token: Hash) -> ClientKey {
        let key = ways::key(id, &params.address);
        let mut entries = self.lock();
        let entry = entries.entry(id.to_owned()).or_default();
        entry.ways.add(&params.address, token, self.0.clock.monotonic());
        // As long as the one that counts is there, another way does not take its place: nothing is written anew for it.
        let stays = entry.params.as_ref().is_some_and(|counts| {
            counts.address != params.address && self.0.hub.has(&ways::key(id, &counts.address))
        });
        if !stays {
            entry.params = Some(params);
        }
        drop(entries);
        self.0.said.notify_one();
        key
    }

    /// What is known of a cluster: what was said here last, else what is kept.
    fn params(&self, id: &str) -> Result<Params, Error> {
        if let Some(params) = self.lock().get(id).and_then(|entry| entry.params.clone()) {
            return Ok(params);
        }
        self.kept(id).ok_or_else(|| Error::NeverConnected(id.into()))
    }

    /// What is kept of a cluster.
    fn kept(&self, id: &str) -> Option<Params> {
        let cluster = self.0.clusters.get(&Key::new("", id))?;
        let status = &cluster.document()["status"];
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        let secret = self.0.secrets.get(&Key::new(TOKENS, &text("serviceAccountTokenSecret")))?;
        let token = crate::credential::value(&secret, api::catalogue::secrets::keys::CREDENTIAL);
        let params = Params {
            address: Params::address_of(&text("apiEndpoint")).to_owned(),
            token: String::from_utf8(token).ok()?,
            ca: text("caCert"),
        };
        params.checked().ok()
    }

    /// A way to hand requests on to a cluster.
    ///
    /// # Errors
    /// If it is not known how.
    pub async fn backend(&self, id: &str) -> Result<Backend, Error> {
        let params = self.params(id)?;
        if let Some((known, backend)) = self.lock().get(id).and_then(|entry| entry.backend.clone())
            && known == params
        {
            return Ok(backend);
        }
        let backend: Backend = self.make(id, &params, PATIENCE, Purpose::Anything).await?;
        self.lock().entry(id.to_owned()).or_default().backend = Some((params, backend.clone()));
        Ok(backend)
    }

    /// A client for a cluster, for our controllers.
    ///
    /// # Errors
    /// If it is not known how to reach it.
    pub async fn client(&self, id: &str) -> Result<kube::Client, Error> {
        let params = self.params(id)?;
        if let Some((known, client)) = self.lock().get(id).and_then(|entry| entry.client.clone())
            && known == params
        {
            return Ok(client);
        }
        let backend: Backend<kube::client::Body> = self.make(id, &params, PATIENCE, Purpose::Plain).await?;
        let client = kube::Client::new(backend, "default");
        self.lock().entry(id.to_owned()).or_default().client = Some((params, client.clone()));
        Ok(client)
    }

    async fn make<B>(
        &self,
        id: &str,
        params: &Params,
        patience: Duration,
        purpose: Purpose,
    ) -> Result<Backend<B>, Error>
    where
        B: http_body::Body<Data = bytes::Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + Unpin
            + 'static,
    {
        let unusable = |why: String| Error::Unusable { id: id.into(), why };
        let config =
            kit::access::read(kubeconfig(params)).await.map_err(|error| unusable(error.to_string()))?;
        let through = Through { inner: Arc::downgrade(&self.0), id: id.to_owned(), patience };
        forward::backend(&config, through, purpose).map_err(|error| unusable(error.to_string()))
    }

    /// The image that a cluster wants for its agent.
    pub(crate) fn agent_image(&self, id: &str) -> Option<String> {
        let cluster = self.0.clusters.get(&Key::new("", id))?;
        let image = cluster.document()["spec"]["desiredAgentImage"].as_str()?;
        // `fixed` is Rancher's word for the server's own choice.
        (!image.is_empty() && image != "fixed").then(|| image.to_owned())
    }

    /// Waits until a cluster has a session.
    pub async fn wait_for(&self, id: &str) {
        let mut changes = self.0.hub.changes();
        // The hub is ours: it does not go away.
        let _ = changes.wait_for(|()| self.connected(id)).await;
    }
}

/// The same as a kubeconfig, which the client library reads.
fn kubeconfig(params: &Params) -> Kubeconfig {
    let document = serde_json::json!({
        "clusters": [{"name": "c", "cluster": {
            "server": params.url(), "certificate-authority-data": STANDARD.encode(decoded(&params.ca)),
        }}],
        "users": [{"name": "u", "user": {"token": params.token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    });
    serde_json::from_value(document).unwrap_or_default()
}

fn decoded(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64).unwrap_or_default()
}
