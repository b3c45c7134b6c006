//! Keeping what is said of clusters, and telling whether they are connected.

use std::collections::BTreeMap;
use std::time::Duration;

use api::catalogue::secrets::keys;
use api::catalogue::{conditions, reasons};
use api::management::v3::Cluster;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::Monotonic;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::{Key, Object};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Downstreams, TOKENS};
use crate::book::Book;
use crate::credential::Hash;
use crate::issue::MANAGER;
use crate::params::Params;

/// A cluster that is away for less is not called disconnected: agents are restarted, servers too.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// How long after a write that failed it is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// All clusters are looked at when something happens to one. Where much happens, this much time for each of them passes in between.
const PAUSE: Duration = Duration::from_micros(250);

/// What can be written for a cluster, and what is in the way.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep how cluster {id} is reached")]
struct Error {
    id: String,
    #[source]
    source: Box<kube::Error>,
}

/// The condition as it should be; nothing if it is right, or nobody has dialled in yet.
pub(crate) fn connected(status: &Value, is: bool, now: Timestamp) -> Option<Value> {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    let wanted = if is { "True" } else { "False" };
    let known = all.iter().find(|one| one["type"] == conditions::CONNECTED);
    match known {
        Some(known) if known["status"] == wanted => return None,
        None if !is => return None,
        _ => {}
    }
    let mut made = json!({
        "type": conditions::CONNECTED, "status": wanted,
        "lastUpdateTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    if !is {
        made["reason"] = reasons::DISCONNECTED.into();
        made["message"] = "Cluster agent is not connected".into();
    }
    let mut all: Vec<Value> = all.into_iter().filter(|one| one["type"] != conditions::CONNECTED).collect();
    all.push(made);
    Some(all.into())
}

/// What is to be written of a cluster's status; nothing if it is right.
pub(crate) fn status(
    found: &Value,
    said: Option<(&Params, &str)>,
    conditions: Option<Value>,
) -> Option<Value> {
    let mut patch = serde_json::Map::new();
    if let Some((params, secret)) = said {
        for (field, value) in [
            ("apiEndpoint", params.url().as_str()),
            ("caCert", &params.ca),
            ("serviceAccountTokenSecret", secret),
        ] {
            if found[field] != *value {
                patch.insert(field.into(), value.into());
            }
        }
    }
    if let Some(conditions) = conditions {
        patch.insert("conditions".into(), conditions);
    }
    (!patch.is_empty()).then(|| patch.into())
}

fn secret_name(id: &str) -> String {
    format!("cluster-serviceaccounttoken-{id}")
}

impl Downstreams {
    /// Keeps what is said, tells who is connected, and ends sessions whose token is no longer good. Runs until it is dropped.
    pub(crate) async fn run(&self, book: &Book) {
        let mut sessions = self.0.hub.changes();
        let poked = std::sync::Arc::new(tokio::sync::Notify::new());
        for (cache, name) in
            [(&self.0.clusters, "gateway-clusters"), (&self.0.secrets, "gateway-cluster-tokens")]
        {
            let poked = poked.clone();
            cache.listen(name, || {
                std::sync::Arc::new(move |change| {
                    if change.object().document()["kind"] == "Cluster"
                        || !crate::credential::hashes(change.object()).is_empty()
                    {
                        poked.notify_one();
                    }
                })
            });
        }
        self.0.clusters.wait_synced().await;
        self.0.secrets.wait_synced().await;
        let mut away: BTreeMap<String, Monotonic> = BTreeMap::new();
        loop {
            sessions.borrow_and_update();
            let wake = self.pass(book, &mut away).await;
            let later = async {
                match wake {
                    Some(after) => tokio::time::sleep(after).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = sessions.changed() => {}
                () = self.0.said.notified() => {}
                () = poked.notified() => {}
                () = later => {}
            }
            tokio::time::sleep(PAUSE * u32::try_from(self.0.clusters.count()).unwrap_or(u32::MAX)).await;
        }
    }

    /// Looks at every cluster once. Gives when to look again.
    async fn pass(&self, book: &Book, away: &mut BTreeMap<String, Monotonic>) -> Option<Duration> {
        let now = self.0.clock.monotonic();
        let mut wake: Option<Duration> = None;
        let mut sooner = |after: Duration| wake = Some(wake.map_or(after, |known| known.min(after)));
        for object in self.0.clusters.all() {
            let id = object.name();
            let here = self.connected(id);
            let since = *away.entry(id.to_owned()).or_insert(now);
            let left = GRACE.saturating_sub(now.since(since));
            if here {
                away.remove(id);
            } else if left > Duration::ZERO {
                sooner(left);
                continue;
            }
            if let Err(error) = self.keep(&object, here).await {
                tracing::warn!(error = %chain(&error), "a cluster's connection is not noted down");
                sooner(RETRY);
            }
        }
        self.end_revoked(book);
        away.retain(|id, _| self.0.clusters.get(&Key::new("", id)).is_some());
        wake
    }

    /// Sessions whose token is no longer good end, and those of clusters that are gone.
    fn end_revoked(&self, book: &Book) {
        let now = self.0.clock.monotonic();
        let ids: Vec<String> = self.lock().keys().cloned().collect();
        for id in ids {
            let gone = self.0.clusters.get(&Key::new("", &id)).is_none();
            let good = |token: &Hash| !gone && book.find_hash(token).is_some();
            let mut entries = self.lock();
            let Some(entry) = entries.get_mut(&id) else { continue };
            let revoked = entry.ways.sweep(&id, now, |key| self.0.hub.has(key), good);
            if gone {
                entries.remove(&id);
            }
            drop(entries);
            for key in revoked {
                tracing::info!(
                    client = key.as_str(),
                    gone,
                    "the tunnel ends: its token is not good any more"
                );
                self.0.hub.disconnect(&key);
            }
        }
    }

    async fn keep(&self, object: &Object, here: bool) -> Result<(), Error> {
        let id = object.name();
        let failed = |source| Error { id: id.to_owned(), source: Box::new(source) };
        let said = self.lock().get(id).and_then(|entry| entry.params.clone()).filter(|_| here);
        let name = secret_name(id);
        if let Some(params) = &said
            && self.kept(id).as_ref() != Some(params)
        {
            self.keep_token(object, &name, &params.token).await.map_err(failed)?;
        }
        let found = &object.document()["status"];
        let conditions = connected(found, here, self.0.clock.now());
        let said = said.as_ref().map(|params| (params, name.as_str()));
        let Some(patch) = status(found, said, conditions) else { return Ok(()) };
        let api: Api<Cluster> = Api::all(self.0.caches.client().clone());
        let mut patch = json!({ "status": patch });
        if patch["status"].get("conditions").is_some() {
            // Others write conditions, too.
            patch["metadata"] = json!({"resourceVersion": object.meta().resource_version});
        }
        let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match api.patch_status(id, &options, &Patch::Merge(patch)).await {
            Ok(written) => {
                let revision =
                    written.metadata.resource_version.as_deref().and_then(|text| text.parse().ok());
                self.0.clusters.expect_revision(revision.unwrap_or_default()).wait().await;
                Ok(())
            }
            // Whoever wrote meanwhile has us look again.
            Err(error) if matches!(kit::write::code(&error), Some(404 | 409)) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    async fn keep_token(&self, cluster: &Object, name: &str, token: &str) -> Result<(), kube::Error> {
        let api: Api<Secret> = Api::namespaced(self.0.caches.client().clone(), TOKENS);
        let data = json!({(keys::CREDENTIAL): STANDARD.encode(token)});
        let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patched = api.patch(name, &options, &Patch::Merge(json!({ "data": data }))).await;
        let written = match patched {
            Err(error) if kit::write::code(&error) == Some(404) => {
                let secret = json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                    "metadata": {"name": name, "namespace": TOKENS, "ownerReferences": [{
                        "apiVersion": cluster.document()["apiVersion"], "kind": "Cluster",
                        "name": cluster.name(), "uid": cluster.uid(),
                    }]},
                    "data": data,
                });
                let secret = serde_json::from_value(secret).map_err(kube::Error::SerdeError)?;
                let options = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
                api.create(&options, &secret).await?
            }
            other => other?,
        };
        let revision = written.metadata.resource_version.as_deref().and_then(|text| text.parse().ok());
        self.0.secrets.expect_revision(revision.unwrap_or_default()).wait().await;
        Ok(())
    }
}

/// An error with all that caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_written_when_it_changes() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let with = |status: &str| json!({"conditions": [{"type": "Connected", "status": status}, {"type": "Other", "status": "True"}]});
        assert_eq!(connected(&json!({}), false, now), None, "it has never been");
        assert_eq!(connected(&with("True"), true, now), None);
        assert_eq!(connected(&with("False"), false, now), None);
        let lost = connected(&with("True"), false, now).unwrap();
        assert_eq!(
            (&lost[0]["type"], &lost[1]["status"], &lost[1]["reason"]),
            (&json!("Other"), &json!("False"), &json!("Disconnected"))
        );
        let came = connected(&json!({}), true, now).unwrap();
        assert_eq!((&came[0]["status"], came[0].get("reason")), (&json!("True"), None));
    }

    #[test]
    fn only_what_differs_is_written() {
        let params = Params { address: "10.43.0.1:443".into(), token: "t".into(), ca: "x".into() };
        let whole = status(&json!({}), Some((&params, "s")), None).unwrap();
        assert_eq!(
            whole,
            json!({"apiEndpoint": "https://10.43.0.1:443", "caCert": "x", "serviceAccountTokenSecret": "s"})
        );
        assert_eq!(status(&whole, Some((&params, "s")), None), None);
        assert_eq!(status(&whole, None, None), None);
        let moved = Params { address: "h:1".into(), ..params };
        assert_eq!(status(&whole, Some((&moved, "s")), None), Some(json!({"apiEndpoint": "https://h:1"})));
    }
}
