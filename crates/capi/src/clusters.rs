//! Connections to the clusters that are looked after: one each, kept alive, and nobody waits for one.
//!
//! A cluster that does not answer costs its own task some time and nobody else's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use api::capi::v1beta2::Cluster;
use api::catalogue::labels;
use clock::Clock;
use k8s_openapi::api::core::v1::Secret;
use kit::access::{AccessListener, ClusterAccess, Connection, Dial, Health, NotConnected};
use kit::{Caches, Change, Key, KindId, Object};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use kit::index;

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How many failures in a row end a connection.
const FAILURES: u32 = 5;
/// How many failures in a row are taken for a cluster that comes up, if it was never reached.
pub(crate) const FIRST_FAILURES: u32 = 5;
/// How long it may take until a cluster's nodes are known.
const SYNC_WITHIN: Duration = Duration::from_secs(300);
/// How long a connection by a new kubeconfig may take while there is another one.
const REPLACE_WITHIN: Duration = Duration::from_secs(30);

/// How long after the first failure a connection is tried for again; then twice as long each time. A cluster that is only just
/// coming up is reached soon.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// How often connections are tried.
#[derive(Clone, Copy, Debug)]
pub struct Probing {
    /// How often one that is there is tried out.
    pub every: Duration,
    /// How long after a failure one is tried for again, at most.
    pub retry: Duration,
}

impl Default for Probing {
    fn default() -> Self {
        Probing { every: Duration::from_secs(10), retry: Duration::from_secs(30) }
    }
}

/// The kind of Nodes.
pub(crate) fn nodes() -> KindId {
    KindId::new("", "v1", "Node", "nodes")
}

/// The kind of Secrets: of those that carry a cluster's name, metadata is followed.
fn secrets() -> KindId {
    KindId::new("", "v1", "Secret", "secrets")
}

/// Keeps of a Node what machines look at. Lists of images are long.
pub(crate) fn trim_node(document: &mut Value) {
    if let Some(metadata) = document["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if let Some(status) = document["status"].as_object_mut() {
        status.remove("images");
    }
    // The kubelet says every few minutes that it is alive: that is no news.
    if let Some(conditions) = document["status"]["conditions"].as_array_mut() {
        conditions
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .for_each(|one| drop(one.remove("lastHeartbeatTime")));
    }
}

/// Told when a cluster is reached or lost, and of every change of its nodes.
pub(crate) type Listener = Arc<dyn Fn(&Key, Option<&Change>) + Send + Sync>;

#[derive(Default)]
struct Entry {
    connection: Option<Connection>,
    why: String,
    health: Health,
    wake: Arc<Notify>,
    /// Told when the Secret of the kubeconfig has changed while there is a connection.
    changed: Arc<Notify>,
    /// The revision of the Secret that the connection was made by.
    used: Option<String>,
    task: Option<tokio::task::AbortHandle>,
}

impl Entry {
    /// Another attempt has failed. Gives whether that may matter to anybody: many clusters that come up side by side fail often, and
    /// nobody looks at all their machines for the same words again.
    fn fails(&mut self, why: String) -> bool {
        self.health.failures = self.health.failures.saturating_add(1);
        let same = self.why == why;
        self.why = why;
        !same || self.health.failures <= FIRST_FAILURES || self.health.last_success.is_some()
    }
}

/// The connections of a process.
pub struct ClusterCache {
    management: Client,
    dial: Arc<dyn Dial>,
    clock: Arc<dyn Clock>,
    probing: Probing,
    entries: Mutex<BTreeMap<Key, Entry>>,
    tasks: Mutex<JoinSet<()>>,
    listener: Arc<OnceLock<Listener>>,
    /// Whoever else wants to be told.
    others: Arc<Mutex<Vec<AccessListener>>>,
}

impl std::fmt::Debug for ClusterCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.lock().keys()).finish()
    }
}

impl ClusterAccess for ClusterCache {
    fn connection(&self, cluster: &Key) -> Result<Connection, NotConnected> {
        let entries = self.lock();
        let no = |why: &str| NotConnected { cluster: cluster.clone(), why: why.into() };
        let entry = entries.get(cluster).ok_or_else(|| no("it has no infrastructure yet"))?;
        entry
            .connection
            .clone()
            .ok_or_else(|| no(if entry.why.is_empty() { "not tried yet" } else { &entry.why }))
    }

    fn health(&self, cluster: &Key) -> Health {
        self.lock().get(cluster).map(|entry| entry.health).unwrap_or_default()
    }

    fn listen(&self, listener: AccessListener) {
        self.others.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    fn try_now(&self, cluster: &Key) {
        if let Some(entry) = self.lock().get(cluster).filter(|entry| entry.connection.is_none()) {
            entry.wake.notify_one();
        }
    }
}

fn tell_all(others: &Mutex<Vec<AccessListener>>, cluster: &Key) {
    let listeners = others.lock().unwrap_or_else(PoisonError::into_inner).clone();
    listeners.iter().for_each(|listener| listener(cluster));
}

/// Why there is no connection.
enum Lost {
    /// Try again after a while.
    Failed(String),
    /// The credentials are not good any more: try others at once.
    Unauthorized,
}

/// A connection, and the kubeconfig that it was made by.
struct Made {
    connection: Connection,
    kubeconfig: Written,
}

/// A kubeconfig, and the revision of the Secret that it is from.
struct Written {
    text: String,
    revision: Option<String>,
}

/// How a connection came to its end.
enum Ended {
    Lost(Lost),
    /// There is another one.
    Replaced(Made),
}

impl ClusterCache {
    /// Connections to the clusters of a management cluster. `dial` says how they are reached.
    pub fn new(management: Client, dial: Arc<dyn Dial>, clock: Arc<dyn Clock>) -> Arc<Self> {
        ClusterCache::probing(management, dial, clock, Probing::default())
    }

    /// The same, tried as often as given.
    pub fn probing(
        management: Client,
        dial: Arc<dyn Dial>,
        clock: Arc<dyn Clock>,
        probing: Probing,
    ) -> Arc<Self> {
        Arc::new(ClusterCache {
            management,
            dial,
            clock,
            probing,
            entries: Mutex::default(),
            tasks: Mutex::default(),
            listener: Arc::default(),
            others: Arc::default(),
        })
    }

    /// From now on follows the clusters that these caches know. A second time changes nothing.
    pub fn follow(self: &Arc<Self>, caches: &Caches) {
        let this = Arc::downgrade(self);
        caches.of(&KindId::of::<Cluster>()).listen("cluster-cache", || {
            Arc::new(move |change| {
                if let Some(this) = this.upgrade() {
                    this.changed(change);
                }
            })
        });
        let this = Arc::downgrade(self);
        caches.metadata_of(&secrets(), labels::CAPI_CLUSTER_NAME).listen("cluster-cache", || {
            Arc::new(move |change| {
                if let (Some(this), Some(secret)) = (this.upgrade(), &change.after) {
                    this.secret_changed(secret);
                }
            })
        });
    }

    /// The kubeconfig of a cluster may have come or changed: nobody has to find out by failing.
    fn secret_changed(&self, secret: &Object) {
        let Some(cluster) = api::names::cluster_of_kubeconfig(secret.name()) else { return };
        if let Some(entry) = self.lock().get(&Key::new(secret.namespace(), cluster)) {
            match entry.connection {
                Some(_) if entry.used == secret.meta().resource_version => {}
                Some(_) => entry.changed.notify_one(),
                None => entry.wake.notify_one(),
            }
        }
    }

    /// Has `listener` told, also of clusters that are reached already. The first one counts.
    pub(crate) fn tell(&self, listener: Listener) {
        let _ = self.listener.set(listener);
    }

    /// A cluster changed: one that has infrastructure is reached for, one that is gone is let go.
    fn changed(self: &Arc<Self>, change: &Change) {
        let key = change.object().key();
        let Some(object) = &change.after else {
            if let Some(entry) = self.lock().remove(&key) {
                entry.task.inspect(tokio::task::AbortHandle::abort);
            }
            return;
        };
        let ready = object.document()["status"]["initialization"]["infrastructureProvisioned"] == true;
        let endpoint = |object: &Arc<Object>| {
            let document = object.document();
            (document["spec"]["controlPlaneEndpoint"].clone(), document["status"]["initialization"].clone())
        };
        let moved = change.before.as_ref().map(endpoint) != Some(endpoint(object));
        let mut entries = self.lock();
        match entries.get(&key) {
            Some(entry) if moved && entry.connection.is_none() => entry.wake.notify_one(),
            Some(_) => {}
            None if ready => {
                let entry = Entry::default();
                let run = Arc::downgrade(self);
                let (wake, cluster, retry) = (entry.wake.clone(), key.clone(), self.probing.retry);
                entries.insert(key.clone(), entry);
                let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
                while tasks.try_join_next().is_some() {}
                let task = tasks.spawn(async move {
                    let mut pause = FIRST_RETRY;
                    while let Some(this) = run.upgrade() {
                        let began = this.clock.monotonic();
                        let lost = this.live(&cluster).await;
                        // One that held for a while is tried for as if it was the first time.
                        let held = this.clock.monotonic().since(began) >= retry;
                        pause = if held { FIRST_RETRY } else { pause }.min(retry);
                        drop(this);
                        if let Lost::Failed(_) = lost {
                            tokio::select! {
                                biased;
                                () = wake.notified() => {}
                                () = tokio::time::sleep(pause) => pause *= 2,
                            }
                        }
                    }
                });
                if let Some(entry) = entries.get_mut(&key) {
                    entry.task = Some(task);
                }
            }
            None => {}
        }
    }

    /// Connects, and stays connected as long as it can.
    async fn live(&self, cluster: &Key) -> Lost {
        let mut made = match self.connect(cluster).await {
            Ok(made) => made,
            Err(lost) => {
                let why = match &lost {
                    Lost::Failed(why) => why.clone(),
                    Lost::Unauthorized => "its kubeconfig is not accepted".into(),
                };
                tracing::debug!(%cluster, why, "not connected");
                let mut is_news = false;
                self.set(cluster, |entry| is_news = entry.fails(why));
                if is_news {
                    self.told(cluster, None);
                }
                // Credentials that are not good the first time will not be better at once.
                return Lost::Failed(String::new());
            }
        };
        let lost = loop {
            let now = self.clock.now();
            self.set(cluster, |entry| {
                entry.connection = Some(made.connection.clone());
                entry.used.clone_from(&made.kubeconfig.revision);
                entry.health = Health { last_success: Some(now), failures: 0 };
            });
            self.told(cluster, None);
            match self.probe(cluster, &made).await {
                Ended::Lost(lost) => break lost,
                Ended::Replaced(other) => {
                    tracing::info!(%cluster, "its kubeconfig has changed: connected anew");
                    made = other;
                }
            }
        };
        let why = match &lost {
            Lost::Failed(why) => why.clone(),
            Lost::Unauthorized => "its kubeconfig is not accepted any more".into(),
        };
        tracing::info!(%cluster, why, "the connection is lost");
        self.set(cluster, |entry| {
            entry.connection = None;
            entry.why = why;
        });
        self.told(cluster, None);
        lost
    }

    async fn connect(&self, cluster: &Key) -> Result<Made, Lost> {
        let kubeconfig = self.kubeconfig(cluster).await.map_err(Lost::Failed)?;
        self.connect_by(cluster, kubeconfig).await
    }

    /// What the Secret of a cluster's kubeconfig says.
    async fn kubeconfig(&self, cluster: &Key) -> Result<Written, String> {
        let name = api::names::kubeconfig_secret(&cluster.name);
        let secrets: Api<Secret> = Api::namespaced(self.management.clone(), &cluster.namespace);
        let secret = secrets.get_opt(&name).await.map_err(|error| error.to_string())?;
        let secret = secret.ok_or_else(|| format!("there is no Secret {name}"))?;
        let value = secret.data.and_then(|mut data| data.remove("value"));
        let value = value.ok_or_else(|| format!("Secret {name} has no key value"))?;
        let text = String::from_utf8(value.0).map_err(|error| format!("Secret {name}: {error}"))?;
        Ok(Written { text, revision: secret.metadata.resource_version })
    }

    async fn connect_by(&self, cluster: &Key, written: Written) -> Result<Made, Lost> {
        let failed = |why: String| Lost::Failed(why);
        let kubeconfig = Kubeconfig::from_yaml(&written.text).map_err(|error| {
            failed(format!("Secret {}: {error}", api::names::kubeconfig_secret(&cluster.name)))
        })?;
        if let Some(why) = self.dial.awaits(cluster, &kubeconfig) {
            self.set(cluster, |entry| entry.why = why);
        }
        let client = self.dial.dial(cluster, kubeconfig).await.map_err(|error| failed(error.to_string()))?;
        answers(&client).await?;
        let caches = Caches::new(client.clone(), index::entries);
        let nodes = caches.of_cluster(&nodes(), trim_node);
        let synced = tokio::time::timeout(SYNC_WITHIN, nodes.wait_synced()).await;
        synced.map_err(|_| failed(nodes.trouble().unwrap_or_else(|| "its nodes cannot be listed".into())))?;
        let (listener, others, cluster) = (self.listener.clone(), self.others.clone(), cluster.clone());
        nodes.listen("capi", || {
            Arc::new(move |change| {
                if let Some(listener) = listener.get() {
                    listener(&cluster, Some(change));
                }
                tell_all(&others, &cluster);
            })
        });
        Ok(Made { connection: Connection { client, caches }, kubeconfig: written })
    }

    /// Tries the connection out until it fails for good, or there is one by a newer kubeconfig.
    async fn probe(&self, cluster: &Key, made: &Made) -> Ended {
        let changed = self.lock().get(cluster).map(|entry| entry.changed.clone()).unwrap_or_default();
        let mut failures = 0;
        let mut stale = false;
        loop {
            tokio::select! {
                biased;
                () = changed.notified() => stale = true,
                () = tokio::time::sleep(self.probing.every) => {}
            }
            if stale {
                match self.replaced(cluster, made).await {
                    Ok(Some(other)) => return Ended::Replaced(other),
                    Ok(None) => stale = false,
                    // The old one may be good for a while: the new one is tried again with the next probe.
                    Err(why) => tracing::info!(%cluster, why, "its new kubeconfig does not work yet"),
                }
            }
            let now = self.clock.now();
            match answers(&made.connection.client).await {
                Ok(()) => {
                    self.set(cluster, |entry| entry.health = Health { last_success: Some(now), failures: 0 });
                    if std::mem::take(&mut failures) > 0 {
                        self.told(cluster, None);
                    }
                }
                Err(Lost::Unauthorized) => return Ended::Lost(Lost::Unauthorized),
                Err(Lost::Failed(why)) => {
                    failures += 1;
                    self.set(cluster, |entry| entry.health.failures = failures);
                    self.told(cluster, None);
                    if failures >= FAILURES {
                        return Ended::Lost(Lost::Failed(why));
                    }
                }
            }
        }
    }

    /// A connection by the kubeconfig of now, if it is another one than that of `made`.
    async fn replaced(&self, cluster: &Key, made: &Made) -> Result<Option<Made>, String> {
        let kubeconfig = self.kubeconfig(cluster).await?;
        if kubeconfig.text == made.kubeconfig.text {
            return Ok(None);
        }
        let connecting = self.connect_by(cluster, kubeconfig);
        match tokio::time::timeout(REPLACE_WITHIN, connecting).await {
            Ok(Ok(other)) => Ok(Some(other)),
            Ok(Err(Lost::Failed(why))) => Err(why),
            Ok(Err(Lost::Unauthorized)) => Err("it is not accepted".into()),
            Err(_) => Err(format!("no answer within {} s", REPLACE_WITHIN.as_secs())),
        }
    }

    fn set(&self, cluster: &Key, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.lock().get_mut(cluster) {
            change(entry);
        }
    }

    fn told(&self, cluster: &Key, change: Option<&Change>) {
        if let Some(listener) = self.listener.get() {
            listener(cluster, change);
        }
        tell_all(&self.others, cluster);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a cluster answers at all. One that forbids answers, too.
async fn answers(client: &Client) -> Result<(), Lost> {
    let Ok(request) = http::Request::get("/").body(Vec::new()) else { return Ok(()) };
    match tokio::time::timeout(ANSWER_WITHIN, client.request_text(request)).await {
        Err(_) => Err(Lost::Failed(format!("no answer within {} s", ANSWER_WITHIN.as_secs()))),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => match kit::write::code(&error) {
            Some(401) => Err(Lost::Unauthorized),
            Some(code) if code < 500 => Ok(()),
            _ => Err(Lost::Failed(error.to_string())),
        },
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn failures_are_told_as_long_as_they_may_matter() {
        let mut entry = Entry::default();
        for _ in 0..FIRST_FAILURES {
            assert!(entry.fails("away".into()), "it is counted how often it failed at first");
        }
        assert!(!entry.fails("away".into()));
        assert!(entry.fails("refused".into()));
        assert!(!entry.fails("refused".into()));
        entry.health = Health { last_success: Some(Timestamp::UNIX_EPOCH), failures: 100 };
        assert!(entry.fails("refused".into()), "how long ago it was reached is said");
    }
}
