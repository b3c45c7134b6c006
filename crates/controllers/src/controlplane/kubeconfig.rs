//! `<cluster>-kubeconfig`: the way into the cluster through our own port, for Cluster API and for users.
//!
//! Its token is opaque, made once, kept under `token`, and good for this one cluster alone: the gateway takes it at
//! `/k8s/clusters/<id>` if it is the one in the Secret of the cluster whose id is asked for. Deleting the Secret revokes
//! it; a new one is made. The Secret is first made when the cluster's agent first connects, as Rancher does; from then on it is
//! kept current, and its URL and certificates follow those of the server.

use std::sync::{Arc, PoisonError};

use api::catalogue::labels;
use api::catalogue::secrets::{keys, types};
use api::names::kubeconfig_secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::{Key, Turn, owners};
use serde_json::{Value, json};

use super::context::{Context, Error};
use super::gather::Seen;
use super::known::kinds;
use super::references::decoded;
use crate::ServerInfo;

/// Has the Secret as it should be. Gives whether it was written.
pub(crate) async fn ensure(
    context: &Arc<Context>,
    turn: &Turn,
    seen: &Seen,
    server: &ServerInfo,
) -> Result<bool, Error> {
    let (cluster, id) = (seen.cluster_key(), seen.management_name());
    let key = Key::new(&cluster.namespace, &kubeconfig_secret(&cluster.name));
    let found = context.secrets.get(&key);
    if id.is_empty() || server.url.is_empty() || seen.control_plane.deleting() {
        return Ok(false);
    }
    // One that is gone from a paused cluster has been moved with it.
    if found.is_none() && (seen.is_paused() || !seen.snapshot.state.agent_connected) {
        return Ok(false);
    }
    let data = found.as_ref().map(|secret| decoded(&secret.document()["data"])).unwrap_or_default();
    let known = data.get(keys::TOKEN).and_then(|token| String::from_utf8(token.clone()).ok());
    let token = known.filter(|token| !token.is_empty()).unwrap_or_else(|| {
        let mut entropy = context.entropy.lock().unwrap_or_else(PoisonError::into_inner);
        format!("kubeconfig-{id}:{}", api::names::token(&mut *entropy))
    });
    let value = kubeconfig(server, id, &token)?;
    let words = json!({labels::CAPI_CLUSTER_NAME: cluster.name, labels::MANAGEMENT_CLUSTER_NAME: id});
    let wanted = json!({keys::VALUE: STANDARD.encode(&value), keys::TOKEN: STANDARD.encode(&token)});
    let Some(secret) = found else {
        let owner = owners::reference(&kinds::control_planes(), &seen.control_plane, true);
        let secret = json!({
            "metadata": {"namespace": key.namespace, "name": key.name, "labels": words, "ownerReferences": [owner]},
            "type": types::CAPI,
            "data": wanted,
        });
        return match context.writer.create(turn, &context.secrets, secret).await {
            Err(error) if error.code() != Some(409) => Err(error.into()),
            _ => Ok(true),
        };
    };
    let labelled =
        [(labels::CAPI_CLUSTER_NAME, cluster.name.as_str()), (labels::MANAGEMENT_CLUSTER_NAME, id)];
    let current = labelled.iter().all(|(label, value)| secret.label(label) == Some(value))
        && data.get(keys::VALUE).is_some_and(|found| *found == value.as_bytes())
        && data.contains_key(keys::TOKEN);
    if current {
        return Ok(false);
    }
    let patch = json!({"metadata": {"labels": words}, "data": wanted});
    Ok(context.patch_seen(turn, &context.secrets, &secret, patch).await?)
}

/// The kubeconfig: JSON is YAML.
fn kubeconfig(server: &ServerInfo, id: &str, token: &str) -> Result<String, Error> {
    let mut cluster = json!({"server": format!("{}/k8s/clusters/{id}", server.url)});
    if !server.ca_certificates.is_empty() {
        cluster["certificate-authority-data"] = STANDARD.encode(&server.ca_certificates).into();
    }
    let document: Value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "default", "context": {"cluster": "cluster", "user": "user"}}],
        "current-context": "default",
    });
    serde_json::to_string_pretty(&document).map_err(|problem| Error::Shape { what: "a kubeconfig", problem })
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    #[test]
    fn clients_can_read_it() {
        let server = ServerInfo { url: "https://h.example.com".into(), ca_certificates: "-- pem --".into() };
        let text = kubeconfig(&server, "c-m-w2bfx9xq", "t").unwrap();
        let read = Kubeconfig::from_yaml(&text).unwrap();
        let cluster = read.clusters[0].cluster.clone().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://h.example.com/k8s/clusters/c-m-w2bfx9xq"));
        assert_eq!(
            cluster.certificate_authority_data.as_deref(),
            Some(STANDARD.encode("-- pem --").as_str())
        );
        assert_eq!(read.current_context.as_deref(), Some("default"));
    }
}
