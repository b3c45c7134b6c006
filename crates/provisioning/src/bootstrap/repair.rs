//! A plan Secret shows what its RKEBootstrap says. Its agent may write the Secret as a whole: a role that it gave itself decides nothing,
//! and does not stay on show.

use std::collections::BTreeMap;

use api::catalogue::annotations;
use serde_json::{Map, Value, json};

use crate::Object;

type Words = BTreeMap<String, String>;

/// Annotations of a plan Secret that are a copy of the RKEBootstrap's.
const COPIED: [&str; 3] =
    [annotations::JOIN_URL, annotations::JOINED_TO, annotations::JOIN_URL_AUTOSET_DISABLED];

/// The merge patch that takes off a plan Secret what its RKEBootstrap does not say. None if there is nothing of the kind.
pub fn repair(wanted: &Object, labels: Option<&Words>, notes: Option<&Words>) -> Option<Value> {
    let ours = |key: &str| annotations::PLAN_SECRET_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    let labels = nulls(labels, |key| ours(key) && wanted.label(key).is_none());
    let notes = nulls(notes, |key| COPIED.contains(&key) && wanted.annotation(key).is_none());
    if labels.is_empty() && notes.is_empty() {
        return None;
    }
    let mut metadata = Map::new();
    for (part, words) in [("labels", labels), ("annotations", notes)] {
        if !words.is_empty() {
            metadata.insert(part.into(), words.into());
        }
    }
    Some(json!({"metadata": metadata}))
}

fn nulls(words: Option<&Words>, is_forged: impl Fn(&str) -> bool) -> Map<String, Value> {
    let keys = words.into_iter().flat_map(BTreeMap::keys);
    keys.filter(|key| is_forged(key)).map(|key| (key.clone(), Value::Null)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bootstrap_object_does_not_say_goes() {
        let wanted = Object::from_document(json!({"metadata": {
            "labels": {"rke.cattle.io/worker-role": "true"}, "annotations": {annotations::JOINED_TO: "https://s1:9345"},
        }}));
        let words =
            |all: &[&str]| -> Words { all.iter().map(|key| ((*key).into(), "true".into())).collect() };
        let fine = words(&["rke.cattle.io/worker-role", "tier", "example.com/x"]);
        let said = words(&[annotations::JOINED_TO, annotations::DRAIN_OPTIONS, "herdsman.io/agent-running"]);
        assert_eq!(repair(&wanted, Some(&fine), Some(&said)), None);
        assert_eq!(repair(&wanted, None, None), None);
        let forged = words(&[
            "rke.cattle.io/worker-role",
            "rke.cattle.io/etcd-role",
            "rke.cattle.io/init-node",
            "plan.cattle.io/machine-name",
            "cluster.x-k8s.io/set-name",
            "tier",
        ]);
        let steering = words(&[annotations::JOIN_URL, annotations::JOIN_URL_AUTOSET_DISABLED]);
        let off = json!({"metadata": {
            "labels": {
                "rke.cattle.io/etcd-role": null, "rke.cattle.io/init-node": null,
                "plan.cattle.io/machine-name": null, "cluster.x-k8s.io/set-name": null,
            },
            "annotations": {annotations::JOIN_URL: null, annotations::JOIN_URL_AUTOSET_DISABLED: null},
        }});
        assert_eq!(repair(&wanted, Some(&forged), Some(&steering)), Some(off));
    }
}
