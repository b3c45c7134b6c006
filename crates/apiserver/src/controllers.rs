//! What the server does by itself, without being asked: it collects garbage, empties namespaces that go and furnishes
//! those that come, fills token secrets, gathers rules of ClusterRoles, and lets old things go.
//!
//! One task follows one watch over the whole store and hands each change to every controller; a controller decides
//! what is to be looked at, and the task does that work, several pieces at a time. Work that fails is tried again,
//! later and later. All writes are requests to the server, so that every rule holds for them too.

mod aggregation;
mod client;
mod engine;
mod first;
mod furnishing;
mod garbage;
mod metadata;
mod namespaces;
mod place;
mod queue;
mod tokens;
mod upkeep;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use kubeapi::Status;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use first::first_objects;
pub use tokens::TokenSecret;

use crate::server::Server;
use crate::store::Revision;
use client::Client;
use engine::{Controller, Engine};

/// Makes a token for a service-account-token Secret.
pub type Mint = Arc<dyn Fn(&TokenSecret<'_>) -> Result<String, Status> + Send + Sync>;

/// What controllers have to be told.
#[derive(Clone)]
pub struct Settings {
    /// The certificate authority of the server, as PEM: what `kube-root-ca.crt` holds.
    pub ca: Arc<str>,
    /// Makes tokens for Secrets.
    pub mint: Mint,
    /// Namespaces that are to be there from the start, beside those that every server has.
    pub namespaces: Vec<String>,
    /// Where clients reach the server: behind the Service `kubernetes`, if it is to exist.
    pub advertised: Option<(IpAddr, u16)>,
}

impl Settings {
    /// No further namespaces, no Service.
    pub fn new(ca: impl Into<Arc<str>>, mint: Mint) -> Self {
        Settings { ca: ca.into(), mint, namespaces: Vec::new(), advertised: None }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { ca: _, mint: _, namespaces, advertised } = self;
        f.debug_struct("Settings")
            .field("namespaces", namespaces)
            .field("advertised", advertised)
            .finish_non_exhaustive()
    }
}

/// Controllers at work.
#[derive(Debug)]
pub struct Running {
    task: JoinHandle<()>,
    progress: Progress,
}

impl Running {
    /// How far they are.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Waits until they have stopped: after the shutdown that they were given, or with the store.
    pub async fn ended(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the controllers have died");
        }
    }
}

/// How far the controllers are. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Progress(watch::Receiver<Revision>);

impl Progress {
    /// A revision up to which all changes, and all that followed from them, are dealt with. Zero at first. What waits
    /// for somebody else (a finalizer, a kind that does not exist yet) counts as dealt with; what has failed and is
    /// to be tried again does not.
    pub fn now(&self) -> Revision {
        *self.0.borrow()
    }

    /// Waits until everything up to `revision` is dealt with. Gives whether that is so: not if the controllers stop
    /// before.
    pub async fn reached(&self, revision: Revision) -> bool {
        let mut receiver = self.0.clone();
        receiver.wait_for(|settled| *settled >= revision).await.is_ok()
    }
}

/// Starts all controllers on the current runtime. They stop when `shutdown` is ready.
///
/// To be called once a server, after [`first_objects`].
pub fn run(
    server: Arc<Server>,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Running {
    let client = |name: &str| Client::new(server.clone(), name, "kube-controller-manager");
    let controllers: Vec<Box<dyn Controller>> = vec![
        Box::new(furnishing::Furnishing::new(client("service-account-controller"), settings.ca.clone())),
        Box::new(tokens::Tokens::new(client("tokens-controller"), settings.ca, settings.mint)),
        Box::new(aggregation::Aggregation::new(client("clusterrole-aggregation-controller"))),
        Box::new(namespaces::Namespaces::new(client("namespace-controller"))),
        Box::new(garbage::Garbage::new(client("generic-garbage-collector"))),
    ];
    let (sender, receiver) = watch::channel(Revision::ZERO);
    let engine = Engine::new(server.store().clone(), controllers, sender);
    let task = tokio::spawn(async move {
        tokio::select! {
            biased;
            () = shutdown => {}
            () = engine.run() => {}
            () = upkeep::run(&server) => {}
        }
    });
    Running { task, progress: Progress(receiver) }
}
