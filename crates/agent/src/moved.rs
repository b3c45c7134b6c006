//! The server is elsewhere from now on: `herdsman move` has carried everything to another one, and says so on the plan
//! Secret of the old one. The agent tries the way there, keeps it on the disk, and goes. Its token is good in both.
//!
//! Nothing is given up before the new server has shown this machine's own Secret; until then the old one stays ours.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Client;
use crate::config::{self, Config, Connection};
use crate::disk::{self, Attributes};
use crate::kubeconfig::{self, Kubeconfig};
use crate::machine::Root;
use crate::watch::Place;

/// How long the new server may take to show the Secret.
const PATIENCE: Duration = Duration::from_secs(10);
/// The configuration of the tunnel's service beside the agent.
const TUNNEL: &str = "/etc/rancher/agent/tunnel.yaml";

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Notice {
    /// Its root URL.
    pub url: String,
    /// Who vouches for it, as PEM; empty if every system does.
    #[serde(default)]
    pub ca: String,
}

/// Why the agent stays where it is.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Connection info.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The kubeconfig in it.
    #[error("kubeConfig")]
    Kubeconfig(#[from] kubeconfig::Error),
    /// A file.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// The way there.
    #[error("{0}")]
    Way(String),
    /// The new server.
    #[error("{url} does not show this machine's plan: {why}")]
    Refused {
        /// Which.
        url: String,
        /// What it says.
        why: String,
    },
}

impl Notice {
    /// From a Secret's annotation.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether a connection leads there already.
    fn is_where(&self, kubeconfig: &Kubeconfig) -> bool {
        let here = kubeconfig.server.to_string();
        here.trim_end_matches('/') == self.url.trim_end_matches('/')
            && kubeconfig.ca.as_deref().unwrap_or_default() == self.ca.as_bytes()
    }

    /// A kubeconfig that leads there, for whoever another one is for.
    fn redirect(&self, kubeconfig: &str) -> Result<String, Error> {
        let parsed: Result<Value, _> = serde_saphyr::from_str(kubeconfig);
        let mut document = parsed.map_err(|error| kubeconfig::Error::Parse(error.to_string()))?;
        let clusters = document.get_mut("clusters").and_then(Value::as_array_mut);
        for cluster in clusters.into_iter().flatten() {
            let mut there = json!({"server": self.url});
            if !self.ca.is_empty() {
                there["certificate-authority-data"] = STANDARD.encode(&self.ca).into();
            }
            if let Some(proxy) = cluster["cluster"].get("proxy-url") {
                there["proxy-url"] = proxy.clone();
            }
            cluster["cluster"] = there;
        }
        Ok(document.to_string())
    }
}

/// Where the agent's own files are.
struct Files<'a> {
    root: &'a Root,
    info: PathBuf,
}

/// Goes to another server, if it is another and has this machine's Secret; `reach` makes the client for it. Says whether it
/// is another. From then on everything on the disk leads there.
///
/// # Errors
/// If it stays here.
pub async fn go(
    root: &Root,
    config: &Config,
    notice: &Notice,
    reach: impl AsyncFnOnce(&Kubeconfig) -> Result<Client, String>,
) -> Result<bool, Error> {
    let files = Files { root, info: root.locate(&config.connection_info_file) };
    let connection = Connection::load(&files.info)?;
    if notice.is_where(&Kubeconfig::parse(&connection.kubeconfig)?) {
        return Ok(false);
    }
    let redirected = notice.redirect(&connection.kubeconfig)?;
    let kubeconfig = Kubeconfig::parse(&redirected)?;
    let refused = |why: String| Error::Refused { url: notice.url.clone(), why };
    let place = Place::new(&connection.namespace, &connection.secret)
        .ok_or_else(|| Error::Way("the connection info names no Secret".into()))?;
    let ask = async {
        let client = reach(&kubeconfig).await?;
        client.get(&place.path()).await.map_err(|error| crate::chain(&error))
    };
    match tokio::time::timeout(PATIENCE, ask).await {
        Err(_) => return Err(refused("no answer in time".into())),
        Ok(answer) => answer.map_err(refused)?,
    };
    // The tunnel first: when the agent has gone, the old server can.
    files.redirect_tunnel(notice)?;
    files.write_connection(&redirected)?;
    tracing::info!(url = notice.url, "the server has moved: following");
    Ok(true)
}

impl Files<'_> {
    fn write_connection(&self, kubeconfig: &str) -> Result<(), Error> {
        let mut info = config::read(&self.info)?;
        info["kubeConfig"] = kubeconfig.into();
        disk::write(&self.info, info.to_string().as_bytes(), Attributes::PRIVATE)?;
        Ok(())
    }

    /// The tunnel's service reads its files anew for each session.
    fn redirect_tunnel(&self, notice: &Notice) -> Result<(), Error> {
        let path = self.root.locate(Path::new(TUNNEL));
        if disk::read(&path)?.is_none() {
            return Ok(());
        }
        let mut tunnel = config::read(&path)?;
        tunnel["serverUrl"] = notice.url.clone().into();
        if let Some(ca) = tunnel.get("caFile").and_then(Value::as_str) {
            let ca = self.root.locate(Path::new(ca));
            disk::write(&ca, notice.ca.as_bytes(), Attributes { mode: 0o644, owner: None })?;
        }
        disk::write(&path, tunnel.to_string().as_bytes(), Attributes::PRIVATE)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "
apiVersion: v1
kind: Config
clusters:
- name: herdsman
  cluster:
    server: https://old.example:8443
    certificate-authority-data: b2xk
    insecure-skip-tls-verify: false
    tls-server-name: old.example
    proxy-url: http://proxy:3128
users:
- name: agent
  user: {token: hat_secret}
contexts:
- name: herdsman
  context: {cluster: herdsman, user: agent}
current-context: herdsman
";

    #[test]
    fn a_kubeconfig_is_redirected_and_stays_whose_it_is() {
        let notice = Notice::read(r#"{"url": "https://new.example", "ca": "new"}"#).unwrap();
        assert!(!notice.is_where(&Kubeconfig::parse(BEFORE).unwrap()));
        let after = Kubeconfig::parse(&notice.redirect(BEFORE).unwrap()).unwrap();
        assert_eq!(after.server.to_string(), "https://new.example/");
        assert_eq!(after.ca.as_deref(), Some(&b"new"[..]));
        assert_eq!((after.token.as_deref(), after.server_name), (Some("hat_secret"), None));
        assert_eq!(after.proxy.as_deref(), Some("http://proxy:3128"));
        assert!(notice.is_where(&Kubeconfig::parse(&notice.redirect(BEFORE).unwrap()).unwrap()));
    }

    #[test]
    fn another_authority_is_another_place() {
        let notice = Notice { url: "https://old.example:8443".into(), ca: "another".into() };
        assert!(!notice.is_where(&Kubeconfig::parse(BEFORE).unwrap()));
        let same = Notice { url: "https://old.example:8443/".into(), ca: "old".into() };
        assert!(same.is_where(&Kubeconfig::parse(BEFORE).unwrap()));
    }

    #[test]
    fn what_is_no_notice_is_left_alone() {
        for text in ["", "https://new.example", "{}", "[]"] {
            assert_eq!(Notice::read(text), None, "{text}");
        }
    }
}
