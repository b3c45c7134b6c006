//! Pre-bootstrap: Secrets that must be in a cluster before its network is, such as those that the network needs itself.
//!
//! A Secret beside the control plane that bears `provisioning.cattle.io/sync-bootstrap: "true"` and names the cluster among those that
//! may have it is copied as soon as the cluster is reached. Then the management cluster is `PreBootstrapped`, and plans become whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::catalogue::{annotations, conditions};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kit::{Object, Turn};
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use provisioning::status::{self, Finding};
use serde_json::json;

use super::context::{Context, Error, MANAGER};
use super::gather::Seen;
use super::references::decoded;
use super::status::rfc3339;

/// What stands in a Secret for the cluster's id.
const CLUSTER_ID: &[u8] = b"{{clusterId}}";

/// Copies what has to be there first, and says when it is.
pub(crate) async fn copy(context: &Arc<Context>, turn: &Turn, seen: &Seen) -> Result<(), Error> {
    if !seen.snapshot.cluster.pre_bootstrap || seen.is_paused() || seen.control_plane.deleting() {
        return Ok(());
    }
    // The next connection has it looked at again.
    let Ok(connection) = context.access.connection(&seen.cluster_key()) else { return Ok(()) };
    let (namespace, name) = (seen.control_plane.namespace(), seen.control_plane.name());
    for secret in context.secrets.within(namespace).iter().filter(|secret| is_for(secret, name)) {
        deliver(&connection.client, &copied(secret, seen.management_name())).await?;
    }
    let Some(management) = seen.management.clone() else { return Ok(()) };
    let view = management.view::<api::management::v3::Cluster>()?;
    let mut listed = view.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    status::set(&mut listed, conditions::PRE_BOOTSTRAPPED, Finding::yes(), &rfc3339(context.now()));
    context.patch_status(turn, &context.management, &management, json!({"conditions": listed})).await?;
    Ok(())
}

/// Whether a Secret goes to a cluster first.
fn is_for(secret: &Object, cluster: &str) -> bool {
    let names = secret.annotation(annotations::AUTHORIZED_FOR_CLUSTERS).unwrap_or_default();
    secret.annotation(annotations::SYNC_BOOTSTRAP) == Some("true")
        && !secret.deleting()
        && names.split(',').any(|name| name.trim() == cluster)
}

/// The Secret as the cluster gets it: under the name and in the namespace that it asks for, with the cluster's id filled in.
fn copied(secret: &Object, id: &str) -> Secret {
    let of = |annotation: &str, otherwise: &str| {
        let asked = secret.annotation(annotation).filter(|value| !value.is_empty());
        Some(asked.unwrap_or(otherwise).to_owned())
    };
    let data = decoded(&secret.document()["data"]);
    let data = data.into_iter().map(|(key, value)| (key, ByteString(filled_in(&value, id.as_bytes()))));
    Secret {
        metadata: ObjectMeta {
            name: of(annotations::SYNC_TARGET_NAME, secret.name()),
            namespace: of(annotations::SYNC_TARGET_NAMESPACE, secret.namespace()),
            ..ObjectMeta::default()
        },
        type_: secret.document()["type"].as_str().map(str::to_owned),
        data: Some(data.collect::<BTreeMap<_, _>>()),
        ..Secret::default()
    }
}

fn filled_in(value: &[u8], id: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.windows(CLUSTER_ID.len()).position(|window| window == CLUSTER_ID) {
        made.extend_from_slice(&rest[..at]);
        made.extend_from_slice(id);
        rest = &rest[at + CLUSTER_ID.len()..];
    }
    made.extend_from_slice(rest);
    made
}

async fn deliver(client: &kube::Client, secret: &Secret) -> Result<(), Error> {
    let failed = |answer| Error::Remote { what: "copy a Secret into the cluster", answer: Box::new(answer) };
    let (namespace, name) = (
        secret.metadata.namespace.clone().unwrap_or_default(),
        secret.metadata.name.clone().unwrap_or_default(),
    );
    let metadata = ObjectMeta { name: Some(namespace.clone()), ..ObjectMeta::default() };
    let made = Namespace { metadata, ..Namespace::default() };
    match Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &made).await {
        Err(answer) if kit::write::code(&answer) != Some(409) => return Err(failed(answer)),
        _ => {}
    }
    let options = PatchParams::apply(MANAGER).force();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    secrets.patch(&name, &options, &Patch::Apply(secret)).await.map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(notes: serde_json::Value) -> Object {
        let metadata = json!({"namespace": "fleet-default", "name": "s", "annotations": notes});
        let data = json!({"id": "PHt7Y2x1c3RlcklkfX0+e3tjbHVzdGVySWR9fQ==", "plain": "eA=="});
        Object::from_document(json!({"kind": "Secret", "type": "Opaque", "metadata": metadata, "data": data}))
            .unwrap()
    }

    #[test]
    fn only_what_is_meant_for_a_cluster_goes_to_it() {
        let note = |bootstrap: &str, clusters: &str| {
            secret(
                json!({annotations::SYNC_BOOTSTRAP: bootstrap, annotations::AUTHORIZED_FOR_CLUSTERS: clusters}),
            )
        };
        assert!(is_for(&note("true", "other, c"), "c"));
        assert!(!is_for(&note("true", "other"), "c"));
        assert!(!is_for(&note("false", "c"), "c"));
        assert!(!is_for(&secret(json!({})), "c"));
    }

    #[test]
    fn the_clusters_id_is_filled_in_and_the_place_is_the_one_asked_for() {
        let made = copied(&secret(json!({annotations::SYNC_TARGET_NAMESPACE: "kube-system"})), "c-m-1");
        assert_eq!(made.metadata.namespace.as_deref(), Some("kube-system"));
        assert_eq!(made.metadata.name.as_deref(), Some("s"));
        let data = made.data.unwrap();
        assert_eq!(data["id"].0, b"<c-m-1>c-m-1");
        assert_eq!(data["plain"].0, b"x");
    }
}
