//! Ways to the clusters that are looked after.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::caches::Caches;
use crate::object::Key;

/// A way to a cluster that works now.
#[derive(Clone)]
pub struct Connection {
    /// For single requests.
    pub client: Client,
    /// What is known of its Nodes and Namespaces.
    pub caches: Caches,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.caches)
    }
}

/// How the connection to a cluster has been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// When it last answered.
    pub last_success: Option<Timestamp>,
    /// How often it has not answered since.
    pub failures: u32,
}

/// There is no connection to a cluster now. Nobody waits for one: whoever needs it is told when it comes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no connection to cluster {cluster}: {why}")]
pub struct NotConnected {
    /// Which cluster.
    pub cluster: Key,
    /// Why not.
    pub why: String,
}

/// Told which cluster it is whose way opened or closed, or whose Nodes changed. It must not block.
pub type AccessListener = Arc<dyn Fn(&Key) + Send + Sync>;

/// Ways to clusters, however they are reached.
pub trait ClusterAccess: Send + Sync {
    /// The connection to a cluster, if there is one now.
    ///
    /// # Errors
    /// Why there is none.
    fn connection(&self, cluster: &Key) -> Result<Connection, NotConnected>;

    /// How the connection has been.
    fn health(&self, cluster: &Key) -> Health;

    /// Has `listener` told whenever a way opens or closes, and when a Node behind one changes. Ways that never change tell
    /// nobody.
    fn listen(&self, _listener: AccessListener) {}

    /// A cluster may be reached now: whoever would try again later tries at once.
    fn try_now(&self, _cluster: &Key) {}
}

/// Why a cluster could not be dialled.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The kubeconfig is wrong.
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    /// No client can be made of it.
    #[error("cannot set up a client")]
    Client(#[source] Box<kube::Error>),
}

/// What [`Dial::dial`] gives.
pub type Dialling<'a> = Pin<Box<dyn Future<Output = Result<Client, DialError>> + Send + 'a>>;

/// Makes a client of a kubeconfig: over the network, or through something given from outside, such as a tunnel.
pub trait Dial: Send + Sync {
    /// A client for the cluster. That it answers is not yet sure.
    fn dial<'a>(&'a self, cluster: &'a Key, kubeconfig: Kubeconfig) -> Dialling<'a>;

    /// What [`Dial::dial`] would wait for now, if it would.
    fn awaits(&self, _kubeconfig: &Kubeconfig) -> Option<String> {
        None
    }
}

impl fmt::Debug for dyn Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a way to clusters")
    }
}

/// Straight over the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Dial for Direct {
    fn dial<'a>(&'a self, _: &'a Key, kubeconfig: Kubeconfig) -> Dialling<'a> {
        Box::pin(async move {
            let config = read(kubeconfig).await?;
            Client::try_from(config).map_err(|error| DialError::Client(Box::new(error)))
        })
    }
}

/// The configuration of a kubeconfig, as every [`Dial`] starts from it.
///
/// # Errors
/// If it is incomplete, or wants a program to be run for its credentials: what a Secret says is not run.
pub async fn read(kubeconfig: Kubeconfig) -> Result<kube::Config, DialError> {
    let runs = |user: &kube::config::NamedAuthInfo| {
        user.auth_info.as_ref().is_some_and(|auth| auth.exec.is_some() || auth.auth_provider.is_some())
    };
    if kubeconfig.auth_infos.iter().any(runs) {
        return Err(DialError::Kubeconfig(
            "its user runs a program for credentials; give a certificate or a token".into(),
        ));
    }
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| DialError::Kubeconfig(error.to_string()))?;
    config.connect_timeout = Some(std::time::Duration::from_secs(10));
    config.read_timeout = None;
    Ok(config)
}

/// Nobody is reached: for a process that looks after no cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl ClusterAccess for Nowhere {
    fn connection(&self, cluster: &Key) -> Result<Connection, NotConnected> {
        Err(NotConnected { cluster: cluster.clone(), why: "this process reaches no clusters".into() })
    }

    fn health(&self, _: &Key) -> Health {
        Health::default()
    }
}

/// A way that is shared.
pub type SharedAccess = Arc<dyn ClusterAccess>;
