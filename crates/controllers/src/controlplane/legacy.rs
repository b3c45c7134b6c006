//! Marks that earlier versions, and Rancher, keep on plan Secrets: the init node, the URLs at which servers are joined, and where each
//! machine joined. They are kept on RKEBootstraps, which a machine's agent cannot write.
//!
//! They are copied once for each control plane, which bears `herdsman.io/marks` from then on. Until then, and in previews of a server that
//! has not copied them, they are read as if they had been. What a Secret says is worth nothing that the machine's role does not allow.

use std::sync::Arc;

use api::catalogue::{annotations, labels};
use kit::machines::{is_etcd, is_server};
use kit::{Object, Turn};
use planner::{Bootstrap, Words};
use serde_json::json;

use super::context::{Context, Error};
use super::gather::Seen;

/// The value of the annotation: where marks are.
const ON_BOOTSTRAPS: &str = "bootstrap";

/// Whether a control plane's marks are on its RKEBootstraps.
pub(crate) fn is_moved(control_plane: &Object) -> bool {
    control_plane.annotation(annotations::HERDSMAN_MARKS).is_some()
}

/// What of a plan Secret's metadata its RKEBootstrap lacks.
fn lacking(bootstrap: &Object, secret: &Object) -> Bootstrap {
    let mut found = Bootstrap::default();
    let marked =
        secret.label(labels::INIT_NODE) == Some("true") && bootstrap.label(labels::INIT_NODE).is_none();
    if marked && is_etcd(bootstrap) {
        found.labels.insert(labels::INIT_NODE.into(), "true".into());
    }
    let notes = [
        (annotations::JOIN_URL, is_server(bootstrap)),
        (annotations::JOIN_URL_AUTOSET_DISABLED, is_server(bootstrap)),
        // It counts only if it is the URL of a server that stays.
        (annotations::JOINED_TO, true),
    ];
    for (key, _) in notes.into_iter().filter(|(key, allowed)| *allowed && bootstrap.annotation(key).is_none())
    {
        if let Some(value) = secret.annotation(key) {
            found.annotations.insert(key.into(), value.into());
        }
    }
    found
}

/// What a machine is, by the labels that plans are rendered from and the annotations of its RKEBootstrap.
pub(crate) fn words(labels: Words, bootstrap: &Object, secret: &Object, moved: bool) -> Bootstrap {
    let annotations = bootstrap.meta().annotations.clone().unwrap_or_default();
    let mut words = Bootstrap { labels, annotations };
    if !moved {
        let found = lacking(bootstrap, secret);
        words.labels.extend(found.labels);
        words.annotations.extend(found.annotations);
    }
    words
}

/// Copies the marks of a control plane's machines. Gives whether they had to be; then everything is to be gathered anew.
///
/// A cluster that is paused may be on its way here, and not all of it be there: it waits.
pub(crate) async fn adopt(context: &Arc<Context>, turn: &Turn, seen: &Seen) -> Result<bool, Error> {
    if is_moved(&seen.control_plane) || seen.cluster.is_none() || seen.is_paused() {
        return Ok(false);
    }
    for machine in seen.machines.values() {
        let (Some(bootstrap), Some(secret)) = (&machine.bootstrap, &machine.secret) else { continue };
        let found = lacking(bootstrap, secret);
        if found == Bootstrap::default() {
            continue;
        }
        let patch = json!({"metadata": {"labels": found.labels, "annotations": found.annotations}});
        if !context.patch_seen(turn, &context.bootstraps, bootstrap, patch).await? {
            return Ok(true);
        }
    }
    let patch = json!({"metadata": {"annotations": {annotations::HERDSMAN_MARKS: ON_BOOTSTRAPS}}});
    context.writer.patch(turn, &context.control_planes, &seen.control_plane.key(), patch).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const INIT: &str = labels::INIT_NODE;
    const URL: &str = annotations::JOIN_URL;
    const FIXED: &str = annotations::JOIN_URL_AUTOSET_DISABLED;
    const JOINED: &str = annotations::JOINED_TO;

    fn object(labels: Value, annotations: Value) -> Object {
        let metadata = json!({"namespace": "n", "name": "x", "labels": labels, "annotations": annotations});
        Object::from_document(json!({"metadata": metadata})).unwrap()
    }

    /// A Secret with every mark, and roles that its machine gave itself.
    fn secret() -> Object {
        let roles = json!({INIT: "true", labels::ETCD_ROLE: "true", labels::CONTROL_PLANE_ROLE: "true"});
        object(
            roles,
            json!({URL: "u", FIXED: "true", JOINED: "j", annotations::TAINTS: "[]", annotations::DRAIN_OPTIONS: "{}"}),
        )
    }

    #[test]
    fn a_secret_gives_what_the_role_of_its_bootstrap_object_allows() {
        for (role, marks, notes) in [
            (labels::WORKER_ROLE, vec![], vec![JOINED]),
            (labels::CONTROL_PLANE_ROLE, vec![], vec![URL, FIXED, JOINED]),
            (labels::ETCD_ROLE, vec![INIT], vec![URL, FIXED, JOINED]),
        ] {
            let found = lacking(&object(json!({role: "true"}), json!({})), &secret());
            assert_eq!(found.labels.keys().collect::<Vec<_>>(), marks, "{role}");
            assert_eq!(found.annotations.keys().collect::<Vec<_>>(), notes, "{role}");
        }
    }

    #[test]
    fn what_a_bootstrap_object_says_stays() {
        let says = json!({URL: "own", FIXED: "", JOINED: "there"});
        let bootstrap = object(json!({labels::ETCD_ROLE: "true", INIT: "false"}), says);
        assert_eq!(lacking(&bootstrap, &secret()), Bootstrap::default());
    }

    #[test]
    fn a_secret_is_read_until_its_marks_were_copied() {
        let bootstrap = object(json!({labels::ETCD_ROLE: "true"}), json!({annotations::TAINTS: "t"}));
        let labels = || bootstrap.meta().labels.clone().unwrap();
        let before = words(labels(), &bootstrap, &secret(), false);
        assert_eq!(before.labels.get(INIT).map(String::as_str), Some("true"));
        assert_eq!(before.annotations.len(), 4, "{:?}", before.annotations);
        assert_eq!(before.annotations[annotations::TAINTS], "t");
        let after = words(labels(), &bootstrap, &secret(), true);
        assert_eq!(after.labels, labels());
        assert_eq!(after.annotations, bootstrap.meta().annotations.clone().unwrap());
        let worker = object(json!({labels::WORKER_ROLE: "true"}), json!({}));
        let roles = worker.meta().labels.clone().unwrap();
        assert_eq!(words(roles.clone(), &worker, &secret(), false).labels, roles);
    }
}
