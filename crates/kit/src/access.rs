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
    fn awaits(&self, _cluster: &Key, _kubeconfig: &Kubeconfig) -> Option<String> {
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

/// The field of a kubeconfig from a Secret that is not honoured, and what to give instead. Whoever writes the Secret is not the
/// server's operator: nothing in it opens a file of the server's, runs a program, or leads its connections elsewhere.
///
/// All users and clusters count, whether the current context names them or not.
pub fn forbidden_field(kubeconfig: &Kubeconfig) -> Option<(&'static str, &'static str)> {
    let users = kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    let clusters = kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
    let of_user = |user: &kube::config::AuthInfo| {
        let fields = [
            (user.exec.is_some(), ("exec", "give token or client-certificate-data")),
            (user.auth_provider.is_some(), ("auth-provider", "give token or client-certificate-data")),
            (user.token_file.is_some(), ("tokenFile", "give token")),
            (user.client_certificate.is_some(), ("client-certificate", "give client-certificate-data")),
            (user.client_key.is_some(), ("client-key", "give client-key-data")),
        ];
        fields.into_iter().find_map(|(given, field)| given.then_some(field))
    };
    let of_cluster = |cluster: &kube::config::Cluster| {
        let skips = cluster.insecure_skip_tls_verify == Some(true);
        let path = cluster.certificate_authority.is_some();
        let fields = [
            (skips, ("insecure-skip-tls-verify", "give certificate-authority-data")),
            (path, ("certificate-authority", "give certificate-authority-data")),
            (cluster.proxy_url.is_some(), ("proxy-url", "give a server that is reached directly")),
        ];
        fields.into_iter().find_map(|(given, field)| given.then_some(field))
    };
    users.into_iter().find_map(of_user).or_else(|| clusters.into_iter().find_map(of_cluster))
}

/// The configuration of a kubeconfig, as every [`Dial`] starts from it.
///
/// # Errors
/// If it is incomplete, or has a [`forbidden_field`].
pub async fn read(kubeconfig: Kubeconfig) -> Result<kube::Config, DialError> {
    if let Some((field, instead)) = forbidden_field(&kubeconfig) {
        return Err(DialError::Kubeconfig(format!("{field} is not allowed here; {instead}")));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A kubeconfig with further fields in its cluster and its user.
    fn kubeconfig(cluster: &str, user: &str) -> Kubeconfig {
        let text = format!(
            r#"{{"current-context": "c", "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}],
            "clusters": [{{"name": "c", "cluster": {{"server": "https://192.0.2.1:6443"{cluster}}}}}],
            "users": [{{"name": "u", "user": {{"token": "t"}}}}, {{"name": "unused", "user": {{"token": "t"{user}}}}}]}}"#
        );
        Kubeconfig::from_yaml(&text).unwrap()
    }

    #[tokio::test]
    async fn fields_that_reach_beyond_the_secret_are_refused_by_name() {
        let path = "/etc/hostname";
        for (cluster, user, field) in [
            ("", r#", "exec": {"apiVersion": "v1", "command": "id"}"#.to_owned(), "exec"),
            ("", r#", "auth-provider": {"name": "gcp", "config": {}}"#.to_owned(), "auth-provider"),
            ("", format!(r#", "tokenFile": "{path}""#), "tokenFile"),
            ("", format!(r#", "client-certificate": "{path}""#), "client-certificate"),
            ("", format!(r#", "client-key": "{path}""#), "client-key"),
            (r#", "insecure-skip-tls-verify": true"#, String::new(), "insecure-skip-tls-verify"),
            (r#", "certificate-authority": "/etc/hostname""#, String::new(), "certificate-authority"),
            (r#", "proxy-url": "http://192.0.2.7:3128""#, String::new(), "proxy-url"),
        ] {
            let error = read(kubeconfig(cluster, &user)).await.unwrap_err().to_string();
            assert!(error.contains(&format!("{field} is not allowed here; give ")), "{error}");
        }
    }

    #[test]
    fn what_is_in_the_secret_itself_is_allowed() {
        let inline = r#", "insecure-skip-tls-verify": false, "certificate-authority-data": "Y2E=""#;
        let user = r#", "client-certificate-data": "Y2E=", "client-key-data": "Y2E=""#;
        assert_eq!(forbidden_field(&kubeconfig(inline, user)), None);
    }
}
