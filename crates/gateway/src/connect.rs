//! Registration of nodes: a host introduces itself with a token, and gets the way to its plan.
//!
//! A machine that Herdsman made has a token of its own; a host that somebody else brings has the token of the cluster, and becomes
//! a machine by a request that a controller answers. Either way it ends at one plan Secret and a token for exactly that.

mod info;
mod refusal;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::capi::v1beta2::Machine;
use api::catalogue::secrets::{keys, types};
use api::catalogue::{annotations, labels};
use api::names;
use api::provisioning::v1::Cluster;
use api::rke::v1::RKEBootstrap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::{Clock, Entropy};
use http::HeaderMap;
use k8s_openapi::api::core::v1::Secret;
use kit::{Cache, Caches, Key, KindId, Object};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use provisioning::custom::{Request, label_problem};
use serde_json::{Value, json};

use crate::book::{self, Book};
use crate::credential::Credential;
use crate::headers;
use crate::issue::{self, MANAGER};
use crate::lineage::{self, Lineage};
use crate::waiting::Waiting;

pub use refusal::Refusal;

/// How long a host is kept waiting for its plan, and then for its token, before it is told to come again: installers give up after 60 s.
const PATIENCE: Duration = Duration::from_secs(40);
const PATIENCE_FOR_TOKEN: Duration = Duration::from_secs(10);

/// What a node needs to find its plan: the installer writes it down, the agent reads it.
#[derive(Clone, PartialEq, Eq)]
pub struct Connection {
    /// Where the plan is.
    pub plan: Key,
    /// The token that reaches it.
    pub token: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Connection {
    /// As the installer expects it. `ca` is PEM, empty if every system trusts the server.
    pub fn document(&self, url: &str, ca: &str) -> Value {
        json!({
            "kubeConfig": kubeconfig(url, ca, &self.token),
            "namespace": self.plan.namespace,
            "secretName": self.plan.name,
        })
    }
}

/// A kubeconfig whose parts are all called `agent`, as Rancher's.
fn kubeconfig(url: &str, ca: &str, token: &str) -> String {
    let ca = match ca {
        "" => String::new(),
        ca => format!("    certificate-authority-data: {}\n", STANDARD.encode(ca)),
    };
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: agent
  cluster:
{ca}    server: {url:?}
users:
- name: agent
  user:
    token: {token:?}
contexts:
- name: agent
  context:
    cluster: agent
    user: agent
current-context: agent
"
    )
}

/// Refuses a host that gives itself labels which are not its to give.
fn check_labels(headers: &HeaderMap) -> Result<(), Refusal> {
    let said = headers::introduction(headers).to_string();
    // What else cannot be read is the controller's to tell.
    let Ok(request) = Request::read(said.as_bytes()) else { return Ok(()) };
    label_problem(&request.labels).map_or(Ok(()), |problem| Err(Refusal::Labels(problem)))
}

/// Registers nodes.
pub struct Registrar {
    caches: Caches,
    book: Book,
    clock: Arc<dyn Clock>,
    entropy: Arc<Mutex<dyn Entropy>>,
    waiting: Waiting,
    secrets: Arc<Cache>,
    accounts: Arc<Cache>,
    machines: Arc<Cache>,
    clusters: Arc<Cache>,
    lineage: Lineage,
}

impl std::fmt::Debug for Registrar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registrar").finish_non_exhaustive()
    }
}

impl Registrar {
    /// On what these caches know, with the tokens of a book.
    pub fn new(caches: Caches, book: Book, clock: Arc<dyn Clock>, entropy: Arc<Mutex<dyn Entropy>>) -> Self {
        let waiting = Waiting::default();
        let (secrets, accounts) = (caches.of(&book::secrets()), caches.of(&book::accounts()));
        let lineage = Lineage::new(&caches);
        let (machines, clusters) = (caches.of(&KindId::of::<Machine>()), caches.of(&KindId::of::<Cluster>()));
        for cache in [&secrets, &accounts, &machines] {
            waiting.listen(cache);
        }
        // Whoever waits for a plan waits for whose it is, too.
        waiting.listen_as(&caches.of(&KindId::of::<RKEBootstrap>()), |bootstrap| {
            Key::new(bootstrap.namespace(), &names::plan_secret(names::Bootstrap(bootstrap.name())))
        });
        Registrar { caches, book, clock, entropy, waiting, secrets, accounts, machines, clusters, lineage }
    }

    /// Whether enough is known to register anybody.
    pub fn ready(&self) -> bool {
        self.book.ready() && self.lineage.synced()
    }

    /// Waits until it is.
    pub async fn wait_ready(&self) {
        while !self.book.wait_ready().await {}
        self.lineage.wait_synced().await;
    }

    /// Who introduces itself.
    async fn introduced(&self, headers: &HeaderMap) -> Result<(String, Credential), Refusal> {
        let token = headers::bearer(headers).ok_or(Refusal::NoToken)?;
        let id = headers::machine_id(headers).ok_or(Refusal::NoId)?;
        if !self.book.wait_ready().await || !self.ready() {
            return Err(Refusal::NotReady);
        }
        match self.book.find(token) {
            Some(credential) => Ok((id.to_owned(), credential)),
            None => Err(Refusal::UnknownToken),
        }
    }

    /// Registers a host by its headers.
    ///
    /// # Guarantees
    /// The token in what is given reaches the plan of this host's machine and nothing else, and is good when this returns.
    ///
    /// # Errors
    /// Why not, in words for the host's log.
    pub async fn register(&self, headers: &HeaderMap) -> Result<Connection, Refusal> {
        let (id, credential) = self.introduced(headers).await?;
        let planned = tokio::time::timeout(PATIENCE, async {
            let machine = self.machine(&id, &credential, headers).await?;
            self.mark(&machine, &id, &credential).await?;
            Ok((self.plan(&machine).await?, machine))
        });
        let (plan, machine) = planned.await.unwrap_or(Err(Refusal::NotYet))?;
        let issued = issue::issue(&self.caches, &self.entropy, &plan, &machine, PATIENCE_FOR_TOKEN).await?;
        let token = issued.ok_or(Refusal::Lagging)?;
        self.spend(&credential).await?;
        issue::forget_unused(&self.caches, &plan).await?;
        tracing::info!(machine = %machine.key(), "a node has registered");
        Ok(Connection { plan: plan.key(), token })
    }

    /// The Machine of who introduces itself.
    async fn machine(
        &self,
        id: &str,
        credential: &Credential,
        headers: &HeaderMap,
    ) -> Result<Arc<Object>, Refusal> {
        match credential {
            Credential::Bootstrap { account, uid, .. } => self.bootstrapped(account, uid),
            Credential::Registration { cluster, nodes: true, .. } => {
                self.requested(cluster, id, headers).await
            }
            Credential::Registration { .. } => Err(Refusal::TunnelToken),
            Credential::Agent(_) => Err(Refusal::AgentToken),
        }
    }

    /// The Machine of a bootstrap account.
    fn bootstrapped(&self, account: &Key, uid: &str) -> Result<Arc<Object>, Refusal> {
        let account =
            self.accounts.get(account).filter(|found| found.uid() == uid).ok_or(Refusal::UnknownToken)?;
        let found = self.lineage.machine(&account, names::bootstrap_secret);
        found.filter(|machine| !machine.deleting()).ok_or(Refusal::NoMachine)
    }

    /// The Machine that a host's request becomes.
    async fn requested(
        &self,
        management: &str,
        id: &str,
        headers: &HeaderMap,
    ) -> Result<Arc<Object>, Refusal> {
        let cluster = self.cluster(management)?;
        if cluster.document()["spec"]["rkeConfig"].is_null() {
            return Err(Refusal::TakesNoNodes(cluster.key()));
        }
        if cluster.deleting() {
            return Err(Refusal::ClusterGoes(cluster.key()));
        }
        check_labels(headers)?;
        let request = Key::new(management, &names::registered_machine(names::Registrant::Custom, id));
        self.ask(&request, headers).await?;
        let answered = || {
            let secret = self.secrets.get(&request).filter(|secret| !secret.deleting())?;
            if let Some(why) = secret.annotation(annotations::HERDSMAN_REFUSED) {
                return Some((Err(Refusal::Refused(why.to_owned())), secret));
            }
            let name = secret.label(labels::MACHINE_NAME)?;
            Some((Ok(Key::new(cluster.namespace(), name)), secret.clone()))
        };
        let (answer, secret) = self.waiting.until(&request, answered).await;
        let found = match answer {
            Ok(machine) => {
                let found = self.waiting.until(&machine, || self.machines.get(&machine)).await;
                // The request may have been another host's, whose id has the same short hash.
                if lineage::belongs(&found, &cluster, id) { Ok(found) } else { Err(Refusal::OtherHost) }
            }
            Err(refusal) => Err(refusal),
        };
        self.forget(&request, secret.uid()).await?;
        found
    }

    /// Takes away a request that was answered.
    async fn forget(&self, request: &Key, uid: &str) -> Result<(), Refusal> {
        let api: Api<Secret> = Api::namespaced(self.caches.client().clone(), &request.namespace);
        let preconditions = Some(Preconditions { uid: Some(uid.into()), resource_version: None });
        let options = DeleteParams { preconditions, ..DeleteParams::default() };
        match api.delete(&request.name, &options).await {
            Err(error) if !matches!(kit::write::code(&error), Some(404 | 409)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The cluster that a management cluster was made for.
    fn cluster(&self, management: &str) -> Result<Arc<Object>, Refusal> {
        self.lineage.cluster(management).ok_or_else(|| Refusal::NoCluster(management.into()))
    }

    /// Makes the request of a host, unless it is there.
    async fn ask(&self, request: &Key, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.secrets.get(request).is_some_and(|secret| !secret.deleting()) {
            return Ok(());
        }
        let said = headers::introduction(headers).to_string();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": types::MACHINE_REQUEST,
            "metadata": {"name": request.name, "namespace": request.namespace},
            "data": {(keys::DATA): STANDARD.encode(said)},
        });
        let secret: Secret = serde_json::from_value(secret).map_err(kube::Error::SerdeError)?;
        let api: Api<Secret> = Api::namespaced(self.caches.client().clone(), &request.namespace);
        let options = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match api.create(&options, &secret).await {
            Err(error) if kit::write::code(&error) == Some(409) => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
    }

    /// Notes the host's id on its Machine. A host with the cluster's token is found by its id, and changes none; no host takes the id of
    /// another Machine of the cluster.
    async fn mark(&self, machine: &Object, id: &str, credential: &Credential) -> Result<(), Refusal> {
        if machine.label(labels::MACHINE_ID) == Some(id) {
            return Ok(());
        }
        if !matches!(credential, Credential::Bootstrap { .. }) {
            return Err(Refusal::OtherHost);
        }
        let cluster = machine.document()["spec"]["clusterName"].as_str().unwrap_or_default();
        let beside = self.machines.filed(&kit::index::cluster(machine.namespace(), cluster));
        let bears = |other: &Arc<Object>| other.label(labels::MACHINE_ID) == Some(id) && !other.deleting();
        if beside.iter().any(bears) {
            return Err(Refusal::IdTaken);
        }
        let api: Api<Machine> = Api::namespaced(self.caches.client().clone(), machine.namespace());
        let patch = json!({"metadata": {"labels": {(labels::MACHINE_ID): id}}});
        let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match api.patch(machine.name(), &options, &Patch::Merge(patch)).await {
            Err(error) if kit::write::code(&error) == Some(404) => Err(Refusal::NoMachine),
            Err(error) if kit::write::code(&error) == Some(422) => Err(Refusal::BadId),
            answer => Ok(answer.map(drop)?),
        }
    }

    /// The plan Secret of a Machine, once it and its account are there.
    async fn plan(&self, machine: &Object) -> Result<Arc<Object>, Refusal> {
        let bootstrap = kit::machines::bootstrap_name(machine).ok_or(Refusal::NoMachine)?;
        let key = Key::new(machine.namespace(), &names::plan_secret(names::Bootstrap(bootstrap)));
        let look = || {
            let account = self.accounts.get(&key)?;
            let secret = self.secrets.get(&key)?;
            let of = self.lineage.machine(&account, names::plan_secret);
            let ours = of.is_some_and(|found| found.uid() == machine.uid());
            let plan = secret.document()["type"] == types::MACHINE_PLAN && !secret.deleting();
            (ours && plan).then_some(secret)
        };
        Ok(self.waiting.until(&key, look).await)
    }

    /// A machine's token has done its work: it ends soon.
    async fn spend(&self, credential: &Credential) -> Result<(), Refusal> {
        let Credential::Bootstrap { secret, .. } = credential else { return Ok(()) };
        let now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let patch = json!({"metadata": {"annotations": {(annotations::LAST_ACCESS_TIMESTAMP): now}}});
        let api: Api<Secret> = Api::namespaced(self.caches.client().clone(), &secret.namespace);
        let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match api.patch(&secret.name, &options, &Patch::Merge(patch)).await {
            Err(error) if kit::write::code(&error) == Some(404) => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_what_the_agent_reads() {
        let connection =
            Connection { plan: Key::new("fleet-default", "m-machine-plan"), token: "hat_x".into() };
        let document = connection.document("https://herd.example.com", "-----BEGIN CERTIFICATE-----\n");
        assert_eq!(
            (&document["namespace"], &document["secretName"]),
            (&json!("fleet-default"), &json!("m-machine-plan"))
        );
        let text = document["kubeConfig"].as_str().unwrap();
        let read = agent::kubeconfig::Kubeconfig::parse(text).unwrap();
        assert_eq!(
            (read.server.to_string(), read.token.as_deref()),
            ("https://herd.example.com/".into(), Some("hat_x"))
        );
        assert_eq!(read.ca.as_deref(), Some(b"-----BEGIN CERTIFICATE-----\n".as_slice()));
        assert!(!format!("{connection:?}").contains("hat_x"));
        let without = connection.document("https://h", "");
        assert!(!without["kubeConfig"].as_str().unwrap().contains("certificate-authority"));
    }
}
