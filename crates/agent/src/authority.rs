//! Whom the agent takes for its server, and how that changes while it runs.
//!
//! The server says on the plan Secret which authorities it has ([`plan::authority`]). If those are others than the agent knows, it
//! asks for them on the connection that it trusts, sees whether they vouch for the server, writes them into its connection info,
//! and uses them for new connections from then on. So a server can change its authority without a visit to any node.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use plan::authority::checksum;
use serde_json::Value;

use crate::client::{self, Client};
use crate::connect::Connect;
use crate::disk::{self, Attributes};
use crate::kubeconfig::Kubeconfig;

/// Between two tries.
const PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// Where the server says who vouches for it.
const PATH: &str = "/cacerts";

/// Makes a way to the server that trusts authorities in PEM and nobody else; or says why not.
pub type Ways = Box<dyn Fn(&[u8]) -> Result<Arc<dyn Connect>, String> + Send + Sync>;

/// Why the agent goes on with what it knows.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot ask the server for its authorities")]
    Ask(#[source] client::Error),
    #[error("{PATH} answers with the checksum {0}, not the one on the plan Secret")]
    Other(String),
    #[error("the server's authorities cannot be used: {0}")]
    Unusable(String),
    #[error("the server's new authorities do not vouch for it")]
    Unproved(#[source] client::Error),
    #[error(transparent)]
    Disk(#[from] disk::Error),
    #[error("{} is not connection info with certificate-authority-data", .0.display())]
    File(PathBuf),
}

/// Whom the agent trusts.
pub struct Authority {
    trusted: String,
    ways: Ways,
    file: PathBuf,
    /// After a try that did not work: for which checksum, and when the next one is.
    later: Option<(String, Timestamp)>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("trusted", &self.trusted).finish_non_exhaustive()
    }
}

impl Authority {
    /// That of a kubeconfig, which is in the connection info in `file`. None if the kubeconfig has none of its own: the system's
    /// are not the server's to change.
    pub fn new(kubeconfig: &Kubeconfig, file: PathBuf, ways: Ways) -> Option<Self> {
        let ca = kubeconfig.ca.as_ref().filter(|_| kubeconfig.is_tls() && !kubeconfig.insecure)?;
        Some(Authority { trusted: checksum(ca), ways, file, later: None })
    }

    /// Trusts the authorities with this checksum; on failure gives when to try again.
    pub(crate) async fn follow(
        &mut self,
        client: &Client,
        wanted: &str,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        if self.trusted == wanted {
            return Ok(());
        }
        if let Some((tried, at)) = &self.later
            && tried == wanted
            && *at > now
        {
            return Err(*at);
        }
        match self.adopt(client, wanted).await {
            Ok(()) => {
                tracing::info!(
                    checksum = wanted,
                    "the server has other authorities: they are trusted from now on"
                );
                self.later = None;
                Ok(())
            }
            Err(error) => {
                let error = crate::chain(&error);
                tracing::warn!(error, "the server's new authorities are not trusted");
                self.later = Some((wanted.to_owned(), now + PAUSE));
                Err(now + PAUSE)
            }
        }
    }

    async fn adopt(&mut self, client: &Client, wanted: &str) -> Result<(), Error> {
        let pem = client.bytes(PATH).await.map_err(Error::Ask)?;
        let found = checksum(&pem);
        if found != wanted {
            return Err(Error::Other(found));
        }
        let way = (self.ways)(&pem).map_err(Error::Unusable)?;
        // A server that says no is the server: TLS came about.
        match client.by(way.clone()).bytes("/version").await {
            Err(error) if error.code().is_none() => return Err(Error::Unproved(error)),
            _ => {}
        }
        // On the disk first: a process that trusts what the next one does not know would be the last one.
        rewrite(&self.file, &pem)?;
        client.change_way(way);
        self.trusted = found;
        Ok(())
    }
}

/// Puts authorities into connection info. JSON is YAML: whatever the file was, it can be read afterwards.
fn rewrite(file: &Path, pem: &[u8]) -> Result<(), Error> {
    let wrong = || Error::File(file.to_owned());
    let text = disk::read(file)?.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(wrong)?;
    let mut document: Value = serde_saphyr::from_str(&text).map_err(|_| wrong())?;
    let fields = document.as_object_mut().ok_or_else(wrong)?;
    let kubeconfig = fields.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case("kubeConfig"));
    let kubeconfig = kubeconfig.map(|(_, value)| value).ok_or_else(wrong)?;
    *kubeconfig = with_authorities(kubeconfig.as_str().unwrap_or_default(), pem).ok_or_else(wrong)?.into();
    disk::write(file, document.to_string().as_bytes(), Attributes::PRIVATE)?;
    Ok(())
}

/// A kubeconfig with other authorities in place of the ones that it has.
fn with_authorities(kubeconfig: &str, pem: &[u8]) -> Option<String> {
    let mut document: Value = serde_saphyr::from_str(kubeconfig).ok()?;
    let current = document["current-context"].as_str()?.to_owned();
    let named =
        |list: &Value, name: &str| list.as_array()?.iter().position(|one| one["name"].as_str() == Some(name));
    let context = named(&document["contexts"], &current)?;
    let cluster = document["contexts"][context]["context"]["cluster"].as_str()?.to_owned();
    let cluster = named(&document["clusters"], &cluster)?;
    let data = document["clusters"][cluster]["cluster"].get_mut("certificate-authority-data")?;
    *data = STANDARD.encode(pem).into();
    Some(document.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: agent\n  cluster:\n    certificate-authority-data: b2xk\n    server: \"https://s\"\nusers:\n- name: agent\n  user:\n    token: \"t:1\"\ncontexts:\n- name: agent\n  context:\n    cluster: agent\n    user: agent\ncurrent-context: agent\n";

    #[test]
    fn only_the_authority_changes() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("connection.json");
        let before = json!({"kubeConfig": KUBECONFIG, "namespace": "n", "secretName": "s", "more": 1});
        std::fs::write(&file, before.to_string()).unwrap();
        rewrite(&file, b"new").unwrap();
        let after: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(
            (&after["namespace"], &after["secretName"], &after["more"]),
            (&json!("n"), &json!("s"), &json!(1))
        );
        let read = Kubeconfig::parse(after["kubeConfig"].as_str().unwrap()).unwrap();
        assert_eq!(read.ca.as_deref(), Some(&b"new"[..]));
        assert_eq!((read.server.to_string(), read.token.as_deref()), ("https://s/".into(), Some("t:1")));
    }

    #[test]
    fn what_has_no_authority_gets_none() {
        let without = KUBECONFIG.replace("    certificate-authority-data: b2xk\n", "");
        assert_eq!(with_authorities(&without, b"new"), None);
        assert_eq!(with_authorities("{}", b"new"), None);
        let kubeconfig = Kubeconfig::parse(&without).unwrap();
        assert!(Authority::new(&kubeconfig, PathBuf::new(), Box::new(|_| Err(String::new()))).is_none());
    }
}
