//! What a machine writes on its node: whose it is, labels, annotations, taints.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capi::v1beta2::values::{taint_effect, taint_propagation};
use api::capi::v1beta2::{Machine, MachineTaint};
use api::catalogue::{annotations, labels};
use k8s_openapi::api::core::v1::{Node, Taint};
use kit::events::Severity;
use kit::owners;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Seen, SeenNode};
use crate::context::{Context, Error, kind_of};

/// The domain whose labels and annotations go to the node, with its subdomains.
const NODE_DOMAIN: &str = "node.cluster.x-k8s.io";
/// Another domain whose labels go to the node: the kubelet may not set them by itself.
const RESTRICTION_DOMAIN: &str = "node-restriction.kubernetes.io";
/// The prefix of labels that tell a node's role.
const ROLE_PREFIX: &str = "node-role.kubernetes.io";

type Map = BTreeMap<String, String>;

/// What of a machine its node shall show.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    labels: Map,
    /// Annotations that come from the machine.
    annotations: Map,
    /// Annotations that tell whose the node is.
    identity: Map,
    taints: Vec<MachineTaint>,
    interruptible: bool,
    outdated: bool,
}

fn in_domain(key: &str, domain: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    prefix == domain || prefix.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

fn label_goes(key: &str) -> bool {
    let role = key.split_once('/').map_or(key, |(prefix, _)| prefix) == ROLE_PREFIX;
    role || in_domain(key, RESTRICTION_DOMAIN) || in_domain(key, NODE_DOMAIN)
}

fn kept(all: Option<&Map>, which: impl Fn(&str) -> bool) -> Map {
    let all = all.into_iter().flatten().filter(|(key, _)| which(key));
    all.map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Wanted {
    fn of(machine: &Machine, seen: &Seen) -> Self {
        let mut identity = Map::from([
            (annotations::NODE_CLUSTER_NAME.into(), machine.spec.cluster_name.clone()),
            (annotations::NODE_CLUSTER_NAMESPACE.into(), seen.object.namespace().into()),
            (annotations::NODE_MACHINE.into(), seen.object.name().into()),
        ]);
        if let Some(owner) = owners::controller(seen.object.owners()) {
            identity.insert(annotations::NODE_OWNER_KIND.into(), owner.kind.clone());
            identity.insert(annotations::NODE_OWNER_NAME.into(), owner.name.clone());
        }
        let interruptible = seen.infrastructure.there().map(|provider| provider.read().interruptible());
        let revision = |object: &kit::Object| {
            object.annotation(annotations::REVISION).and_then(|text| text.parse::<i64>().ok())
        };
        let outdated = match (&seen.set, &seen.deployment) {
            (Some((set, _)), Some((deployment, _))) => revision(set) < revision(deployment),
            _ => false,
        };
        Wanted {
            labels: kept(machine.metadata.labels.as_ref(), label_goes),
            annotations: kept(machine.metadata.annotations.as_ref(), |key| in_domain(key, NODE_DOMAIN)),
            identity,
            taints: machine.spec.taints.clone(),
            interruptible: matches!(interruptible, Some(Ok(true))),
            outdated,
        }
    }

    /// The merge patch that makes a node show it; none if it does. A list of taints is replaced as a whole: the patch
    /// then has the node's revision, so that nobody's taint is lost.
    pub(super) fn patch(&self, node: &Node) -> Option<Value> {
        let none = Map::new();
        let (labels, notes) = (
            node.metadata.labels.as_ref().unwrap_or(&none),
            node.metadata.annotations.as_ref().unwrap_or(&none),
        );
        let mut patch = json!({});
        let mut wanted_notes = self.identity.clone();
        wanted_notes.extend(self.annotations.clone());
        wanted_notes.insert(annotations::NODE_LABELS_FROM_MACHINE.into(), keys(&self.labels));
        wanted_notes.insert(annotations::NODE_ANNOTATIONS_FROM_MACHINE.into(), keys(&self.annotations));
        let (taints, tracked) = self.taints(node);
        wanted_notes.insert(annotations::NODE_TAINTS_FROM_MACHINE.into(), tracked);
        let mut wanted_labels = self.labels.clone();
        if self.interruptible {
            wanted_labels.insert(labels::CAPI_INTERRUPTIBLE.into(), String::new());
        }
        let was = |annotation: &str| -> Vec<String> {
            notes
                .get(annotation)
                .map(|list| list.split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect())
                .unwrap_or_default()
        };
        put(&mut patch, "labels", labels, &wanted_labels, &was(annotations::NODE_LABELS_FROM_MACHINE));
        put(
            &mut patch,
            "annotations",
            notes,
            &wanted_notes,
            &was(annotations::NODE_ANNOTATIONS_FROM_MACHINE),
        );
        let have = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        if taints != have {
            patch["spec"]["taints"] = json!(taints);
            patch["metadata"]["resourceVersion"] = json!(node.metadata.resource_version);
        }
        (!crate::context::is_empty(&patch)).then_some(patch)
    }

    /// The node's taints as they should be, and what is noted of those that come from the machine.
    fn taints(&self, node: &Node) -> (Vec<Taint>, String) {
        let name = |key: &str, effect: &str| format!("{key}:{effect}");
        let notes =
            node.metadata.annotations.as_ref().and_then(|all| all.get(annotations::NODE_TAINTS_FROM_MACHINE));
        let first = notes.is_none();
        let was: Vec<&str> = notes.map(|list| list.split(',').collect()).unwrap_or_default();
        let always: Vec<&MachineTaint> =
            self.taints.iter().filter(|taint| taint.propagation == taint_propagation::ALWAYS).collect();
        let enforced =
            |taint: &Taint| always.iter().find(|one| one.key == taint.key && one.effect == taint.effect);
        let mut result = Vec::new();
        for taint in node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default() {
            let dropped =
                was.contains(&name(&taint.key, &taint.effect).as_str()) && enforced(taint).is_none();
            let uninitialized =
                taint.key == annotations::TAINT_UNINITIALIZED && taint.effect == taint_effect::NO_SCHEDULE;
            let outdated = taint.key == annotations::TAINT_OUTDATED_REVISION;
            if !dropped && !uninitialized && (!outdated || self.outdated) {
                result.push(taint.clone());
            }
        }
        let mut ensure = |key: &str, value: &str, effect: &str| {
            let value = (!value.is_empty()).then(|| value.to_owned());
            match result.iter_mut().find(|taint| taint.key == key && taint.effect == effect) {
                Some(taint) => taint.value = value,
                None => {
                    result.push(Taint { key: key.into(), value, effect: effect.into(), time_added: None })
                }
            }
        };
        for taint in
            self.taints.iter().filter(|taint| first || taint.propagation == taint_propagation::ALWAYS)
        {
            ensure(&taint.key, &taint.value, &taint.effect);
        }
        if self.outdated {
            ensure(annotations::TAINT_OUTDATED_REVISION, "", taint_effect::PREFER_NO_SCHEDULE);
        }
        let mut tracked: Vec<String> = always.iter().map(|taint| name(&taint.key, &taint.effect)).collect();
        tracked.sort();
        (result, tracked.join(","))
    }
}

fn keys(map: &Map) -> String {
    map.keys().cloned().collect::<Vec<_>>().join(",")
}

/// Sets what is wanted and takes away what came from the machine once and is not wanted any more.
fn put(patch: &mut Value, part: &str, have: &Map, wanted: &Map, was: &[String]) {
    for (key, value) in wanted {
        if have.get(key) != Some(value) {
            patch["metadata"][part][key] = json!(value);
        }
    }
    for key in was.iter().filter(|key| !wanted.contains_key(*key) && have.contains_key(*key)) {
        patch["metadata"][part][key] = Value::Null;
    }
}

/// Writes on the node what the machine wants it to show.
pub(super) async fn mark(context: &Arc<Context>, seen: &Seen, machine: &Machine) -> Result<(), Error> {
    let (SeenNode::There(_, node), Some(connection)) = (&seen.node, &seen.connection) else { return Ok(()) };
    let Some(patch) = Wanted::of(machine, seen).patch(node) else { return Ok(()) };
    let interruptible = patch["metadata"]["labels"].get(labels::CAPI_INTERRUPTIBLE).is_some();
    let nodes: Api<Node> = Api::all(connection.client.clone());
    let name = node.metadata.name.as_deref().unwrap_or_default();
    match nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) if interruptible => {
            let (kind, reason) = (kind_of::<Machine>(), "SuccessfulSetInterruptibleNodeLabel");
            let message = format!("Node {name} may be taken away at any time");
            context.events.tell(&kind, &seen.object, Severity::Normal, reason, &message).await;
            Ok(())
        }
        Ok(_) => Ok(()),
        // Somebody else wrote, or it is gone: its change has us look again.
        Err(answer) if matches!(kit::write::code(&answer), Some(404 | 409)) => Ok(()),
        Err(answer) => Err(Error::Remote { what: "mark the node", answer: Box::new(answer) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(document: Value) -> Node {
        serde_json::from_value(document).unwrap()
    }

    fn wanted() -> Wanted {
        Wanted {
            labels: Map::from([("node-role.kubernetes.io/worker".into(), String::new())]),
            identity: Map::from([(annotations::NODE_MACHINE.into(), "m".into())]),
            ..Wanted::default()
        }
    }

    /// Applies a patch as the server would.
    fn patched(node: &Node, patch: Value) -> Node {
        fn merge(onto: &mut Value, patch: &Value) {
            let Some(patch) = patch.as_object() else { return onto.clone_from(patch) };
            for (key, value) in patch {
                match value {
                    Value::Null => drop(onto.as_object_mut().map(|onto| onto.remove(key))),
                    value => merge(&mut onto[key], value),
                }
            }
        }
        let mut document = serde_json::to_value(node).unwrap();
        merge(&mut document, &patch);
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn a_node_is_marked_once() {
        let plain = node(json!({"metadata": {"name": "n", "resourceVersion": "7"}, "spec": {"taints": [
            {"key": annotations::TAINT_UNINITIALIZED, "effect": "NoSchedule"}, {"key": "theirs", "effect": "NoExecute"}
        ]}}));
        let patch = wanted().patch(&plain).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let marked = patched(&plain, patch);
        assert_eq!(marked.spec.as_ref().unwrap().taints.as_ref().unwrap().len(), 1, "theirs stays");
        assert_eq!(wanted().patch(&marked), None);
        let mut less = wanted();
        less.labels.clear();
        let patch = less.patch(&marked).unwrap();
        assert_eq!(patch["metadata"]["labels"]["node-role.kubernetes.io/worker"], Value::Null);
        assert_eq!(less.patch(&patched(&marked, patch)), None);
    }

    #[test]
    fn only_some_domains_go_to_the_node() {
        for (key, goes) in [
            ("node-role.kubernetes.io/worker", true),
            ("node-restriction.kubernetes.io/zone", true),
            ("sub.node-restriction.kubernetes.io/zone", true),
            ("evilnode-restriction.kubernetes.io/zone", false),
            ("node.cluster.x-k8s.io/x", true),
            ("cluster.x-k8s.io/cluster-name", false),
            ("plain", false),
        ] {
            assert_eq!(label_goes(key), goes, "{key}");
        }
    }

    #[test]
    fn taints_are_upheld_or_set_once() {
        let taint = |key: &str, propagation: &str| MachineTaint {
            key: key.into(),
            effect: "NoSchedule".into(),
            propagation: propagation.into(),
            ..MachineTaint::default()
        };
        let mut wanted = wanted();
        wanted.taints = vec![taint("a", "Always"), taint("i", "OnInitialization")];
        wanted.outdated = true;
        let fresh = node(json!({"metadata": {"name": "n"}}));
        let names = |node: &Node| -> Vec<String> {
            node.spec
                .as_ref()
                .and_then(|spec| spec.taints.as_ref())
                .unwrap()
                .iter()
                .map(|taint| taint.key.clone())
                .collect()
        };
        let first = patched(&fresh, wanted.patch(&fresh).unwrap());
        assert_eq!(names(&first), ["a", "i", annotations::TAINT_OUTDATED_REVISION]);
        // Somebody takes all of them off.
        let mut bare = first.clone();
        bare.spec.as_mut().unwrap().taints = None;
        wanted.outdated = false;
        let second = patched(&bare, wanted.patch(&bare).unwrap());
        assert_eq!(names(&second), ["a"]);
        wanted.taints.clear();
        let third = patched(&second, wanted.patch(&second).unwrap());
        assert_eq!(names(&third), Vec::<String>::new());
        assert_eq!(wanted.patch(&third), None);
    }
}
