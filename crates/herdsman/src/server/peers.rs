//! The other replicas. Each says in a Lease where it is, and keeps a session with every other: a cluster whose agent is
//! connected to one of them is reached from all.

mod roster;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::gateway::Public;
use anyhow::Context as _;
use clock::{Clock, SystemEntropy};
use http::Uri;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use outbound::tls::{self, Trust};
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsConnector;
use tunnel::Hub;
use tunnel::client::Transport;
use tunnel::hub::{Identity, Peer};
use tunnel::serve::Io;

use crate::serving;
use roster::{News, Roster};

/// How often a replica says that it is there, and looks who else is. A replica that comes is known after that time.
const BEAT: Duration = Duration::from_secs(5);
/// One that is not heard of for so long is gone.
const GONE: Duration = Duration::from_secs(20);
/// What is left of one that went without a word is cleared away after so long.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// A cluster that does not answer must not keep the process.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
/// Marks Leases of replicas.
const LABEL: &str = "herdsman.io/replica";
/// Where a replica is reached by the others.
const ADDRESS: &str = "herdsman.io/replica-address";
/// The name under which we write.
const MANAGER: &str = "herdsman-replica";

/// The replicas, as one of them sees them.
pub(super) struct Peers {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) hub: Hub,
    /// Who we are; the id is our Lease's name.
    pub(super) us: Identity,
    /// Where others reach us.
    pub(super) address: SocketAddr,
    /// What all replicas are known by, and who vouches for them.
    pub(super) public: watch::Receiver<Public>,
}

/// The Lease of a replica.
pub(super) fn lease_name(replica: &str) -> String {
    format!("herdsman-replica-{replica}")
}

impl Peers {
    /// Keeps sessions with all others until the future is dropped.
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        let way = self.way()?;
        let (mut roster, mut tasks) = (Roster::default(), JoinSet::new());
        let mut sessions: BTreeMap<String, AbortHandle> = BTreeMap::new();
        loop {
            match self.beat(&mut roster).await {
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "cannot look which replicas there are")
                }
                Ok(news) => {
                    for one in news {
                        self.follow(one, &way, &mut sessions, &mut tasks).await;
                    }
                }
            }
            while tasks.try_join_next().is_some() {}
            tokio::time::sleep(BEAT).await;
        }
    }

    /// Says that we go: nobody has to find out.
    pub(super) async fn leave(&self) {
        let (leases, options) = (self.leases(), DeleteParams::default());
        let _ = tokio::time::timeout(LEAVE_WITHIN, leases.delete(&self.us.id, &options)).await;
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Says that we are there, and hears who else is.
    async fn beat(&self, roster: &mut Roster) -> anyhow::Result<Vec<News>> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": self.us.id, "labels": {LABEL: "true"},
                "annotations": {ADDRESS: self.address.to_string()},
            },
            "spec": {
                "holderIdentity": self.us.id, "leaseDurationSeconds": GONE.as_secs(),
                "renewTime": micro(self.clock.now()),
            },
        });
        let options = PatchParams::apply(MANAGER).force();
        let applied = self.leases().patch(&self.us.id, &options, &Patch::Apply(lease)).await;
        applied.with_context(|| format!("writing the Lease {}", self.us.id))?;
        let found = self.leases().list(&ListParams::default().labels(LABEL)).await;
        let found = found.context("listing the Leases of replicas")?;
        let seen = found.iter().filter_map(seen).filter(|seen| seen.id != self.us.id);
        Ok(roster.hear(seen.collect(), self.clock.monotonic()))
    }

    async fn follow(
        &self,
        news: News,
        way: &Way,
        sessions: &mut BTreeMap<String, AbortHandle>,
        tasks: &mut JoinSet<()>,
    ) {
        match news {
            News::Came { id, address } => {
                tracing::info!(replica = id, %address, "a replica is there");
                self.hub.trust_peer(Identity { id: id.clone(), token: self.us.token.clone() });
                let (hub, us) = (self.hub.clone(), self.us.clone());
                let transport = Arc::new(Way { address, ..way.clone() });
                let peer = Peer { url: way.url.clone(), transport };
                let session = tasks.spawn(async move {
                    if let Err(error) = hub.join_peer(&us, peer, Box::new(SystemEntropy)).await {
                        tracing::warn!(%error, "there is no session with a replica");
                    }
                });
                sessions.insert(id, session);
            }
            News::Went { id } => {
                tracing::info!(replica = id, "a replica is gone");
                self.hub.distrust_peer(&id);
                if let Some(session) = sessions.remove(&id) {
                    session.abort();
                }
            }
            News::Forgotten { id } => drop(self.leases().delete(&id, &DeleteParams::default()).await),
        }
    }

    /// The way to a replica; its address is yet to be filled in.
    fn way(&self) -> anyhow::Result<Way> {
        let url = self.public.borrow().url.clone();
        let host = serving::host(&url).with_context(|| format!("{url} has no host"))?;
        Ok(Way {
            address: self.address,
            url: format!("{url}/v3/connect").parse()?,
            host: ServerName::try_from(host)?,
            public: self.public.clone(),
        })
    }
}

fn seen(lease: &Lease) -> Option<roster::Seen> {
    let address = lease.metadata.annotations.as_ref()?.get(ADDRESS)?.parse().ok()?;
    let renewed = lease.spec.as_ref()?.renew_time.as_ref()?.0;
    Some(roster::Seen { id: lease.metadata.name.clone()?, address, renewed })
}

/// A time as Leases have it.
fn micro(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// The way to a replica: its own address, and the name that all have.
#[derive(Clone)]
struct Way {
    address: SocketAddr,
    url: Uri,
    host: ServerName<'static>,
    public: watch::Receiver<Public>,
}

impl Way {
    /// Trusts whoever vouches for the replicas now.
    fn tls(&self) -> Result<TlsConnector, tls::Error> {
        let trust = match self.public.borrow().ca_certificates.as_str() {
            "" => Trust { system: true, ..Trust::default() },
            pem => Trust { authorities: Some(pem.into()), ..Trust::default() },
        };
        Ok(TlsConnector::from(Arc::new(tls::config(&trust, None)?)))
    }
}

impl Transport for Way {
    fn connect(&self) -> ::gateway::Later<'_, io::Result<Box<dyn Io>>> {
        Box::pin(async {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            let tls = self.tls().map_err(io::Error::other)?;
            let stream = tls.connect(self.host.clone(), stream).await?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }
}
