//! The token that the server acts with in the cluster: from a file, or asked of the cluster itself. On a control-plane machine there is
//! no pod yet that would have one; its administrator's kubeconfig is there as soon as the API is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outbound::tls::{self, Trust};
use serde_json::json;

use super::config::{self, Config};
use crate::client::{self, Client};
use crate::connect::Network;
use crate::kubeconfig::{self, Kubeconfig};

/// The account that the cluster agent's manifest makes.
const ACCOUNT: &str = "/api/v1/namespaces/cattle-system/serviceaccounts/cattle/token";
/// How long a token is good for: each session has its own.
const SECONDS: u32 = 365 * 24 * 3600;

/// Why there is no token yet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file.
    #[error(transparent)]
    File(#[from] config::Error),
    /// The kubeconfig.
    #[error("{} cannot be used", path.display())]
    Kubeconfig {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: kubeconfig::Error,
    },
    /// Certificates in it.
    #[error("certificates")]
    Tls(#[from] tls::Error),
    /// The cluster says no, or nothing.
    #[error("the account cattle-system/cattle gets no token")]
    Asked(#[from] client::Error),
    /// What it says makes no sense.
    #[error("the cluster's answer has no token in it")]
    NoToken,
}

/// The token for the next session.
pub(super) async fn token(config: &Config) -> Result<String, Error> {
    match &config.cluster_kubeconfig {
        None => Ok(config::read("clusterTokenFile", &config.cluster_token_file)?),
        Some(path) => ask(path).await,
    }
}

/// Asks the cluster of a kubeconfig, which is on this machine: no proxy is in between.
async fn ask(path: &Path) -> Result<String, Error> {
    let text = config::read("clusterKubeconfig", path)?;
    let unusable = |source| Error::Kubeconfig { path: path.to_owned(), source };
    let kubeconfig = Kubeconfig::parse(&text).map_err(unusable)?;
    let trust = Trust { authorities: kubeconfig.ca.clone(), anyone: kubeconfig.insecure, ..Trust::default() };
    let tls = Arc::new(tls::config(&trust, kubeconfig.identity.as_ref())?);
    let way = Network::to(&kubeconfig.server, Some(tls), kubeconfig.server_name.clone());
    let client = Client::new(Arc::new(way), &kubeconfig.server, kubeconfig.token.as_deref())?;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": SECONDS},
    });
    let answer = client.post(ACCOUNT, &request).await?;
    let token = answer["status"]["token"].as_str().filter(|token| !token.is_empty());
    token.map(str::to_owned).ok_or(Error::NoToken)
}
