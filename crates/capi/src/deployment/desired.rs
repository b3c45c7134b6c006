//! What a deployment's sets should be. No IO.

use std::collections::BTreeMap;

use api::capi::v1beta2::{MachineDeployment, MachineSet};
use api::catalogue::{annotations, labels};
use api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::Object;
use serde_json::{Value, json};

use crate::rollout::Bounds;
use crate::template;

type Map = BTreeMap<String, String>;

/// What a deployment wants of its sets.
pub(super) struct Desired<'a> {
    pub(super) deployment: &'a MachineDeployment,
    pub(super) bounds: Bounds,
    pub(super) revision: i64,
}

/// The revision of a set.
fn revision(set: &MachineSet) -> i64 {
    let noted = set.metadata.annotations.as_ref().and_then(|all| all.get(annotations::REVISION));
    noted.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The revision of the current set: above all others, and never lowered.
pub(super) fn next_revision(current: Option<&MachineSet>, old: &[&MachineSet]) -> i64 {
    let above = old.iter().map(|set| revision(set)).max().unwrap_or_default() + 1;
    current.map_or(above, |set| revision(set).max(above))
}

impl Desired<'_> {
    fn name(&self) -> &str {
        self.deployment.metadata.name.as_deref().unwrap_or_default()
    }

    /// A new set.
    pub(super) fn first(
        &self,
        namespace: &str,
        name: &str,
        suffix: &str,
        replicas: i32,
        owner: &OwnerReference,
    ) -> Value {
        let hash = format!("{:x}-{suffix}", hash(&self.deployment.spec.template));
        let mut set = MachineSet::default();
        set.spec.cluster_name.clone_from(&self.deployment.spec.cluster_name);
        set.spec.selector = self.deployment.spec.selector.clone();
        set.spec
            .selector
            .match_labels
            .get_or_insert_default()
            .insert(labels::CAPI_MACHINE_TEMPLATE_HASH.into(), hash.clone());
        set.spec.template = self.deployment.spec.template.clone();
        set.metadata.labels = Some(Map::from([(labels::CAPI_MACHINE_TEMPLATE_HASH.into(), hash)]));
        set.metadata.owner_references = Some(vec![owner.clone()]);
        set.metadata.namespace = Some(namespace.into());
        set.metadata.name = Some(name.into());
        set.metadata.finalizers = Some(vec![api::catalogue::finalizers::MACHINE_SET.into()]);
        json!(self.follow(&set, replicas, self.revision, false))
    }

    /// The current set, with `replicas`.
    pub(super) fn current(&self, set: &MachineSet, replicas: i32) -> MachineSet {
        self.follow(set, replicas, self.revision, false)
    }

    /// A set of an older template, with `replicas`. It keeps its template's content; metadata and timeouts follow.
    pub(super) fn old(&self, set: &MachineSet, replicas: i32, no_more: bool) -> MachineSet {
        self.follow(set, replicas, revision(set), no_more)
    }

    fn follow(&self, set: &MachineSet, replicas: i32, revision: i64, no_more: bool) -> MachineSet {
        let spec = &self.deployment.spec;
        let mut wanted = set.clone();
        let unique =
            set.metadata.labels.as_ref().and_then(|all| all.get(labels::CAPI_MACHINE_TEMPLATE_HASH)).cloned();
        let mut own = spec.template.metadata.labels.clone();
        own.insert(labels::CAPI_CLUSTER_NAME.into(), spec.cluster_name.clone());
        own.insert(labels::CAPI_DEPLOYMENT_NAME.into(), names::label_value(self.name()));
        own.extend(unique.map(|unique| (labels::CAPI_MACHINE_TEMPLATE_HASH.into(), unique)));
        wanted.metadata.labels = Some(own.clone());
        wanted.spec.template.metadata.labels = own;
        wanted.spec.template.metadata.annotations.clone_from(&spec.template.metadata.annotations);
        let none = Map::new();
        let mut notes = template::for_sets(self.deployment.metadata.annotations.as_ref().unwrap_or(&none));
        let before = set.metadata.annotations.as_ref();
        let was = before.and_then(|all| all.get(annotations::REVISION)).cloned();
        let mut history =
            before.and_then(|all| all.get(annotations::REVISION_HISTORY)).cloned().unwrap_or_default();
        if let Some(was) = was.filter(|was| *was != revision.to_string()) {
            history = if history.is_empty() { was } else { format!("{history},{was}") };
        }
        if !history.is_empty() {
            notes.insert(annotations::REVISION_HISTORY.into(), history);
        }
        notes.insert(annotations::REVISION.into(), revision.to_string());
        notes.insert(annotations::DESIRED_REPLICAS.into(), self.bounds.replicas.to_string());
        notes
            .insert(annotations::MAX_REPLICAS.into(), (self.bounds.replicas + self.bounds.surge).to_string());
        notes.insert(annotations::DISABLE_MACHINE_CREATE.into(), no_more.to_string());
        wanted.metadata.annotations = Some(notes);
        wanted.spec.replicas = Some(replicas);
        wanted.spec.deletion.clone_from(&spec.deletion);
        wanted.spec.machine_naming.clone_from(&spec.machine_naming);
        template::follow_in_place(&mut wanted.spec.template.spec, &spec.template.spec);
        wanted
    }
}

/// Carries what is wanted onto a set: its spec as a whole; of its metadata what the deployment gives, and not what
/// others wrote.
pub(super) fn carry(set: &mut MachineSet, object: &Object, wanted: &MachineSet) {
    set.spec = wanted.spec.clone();
    for (part, have, want) in [
        ("f:labels", &mut set.metadata.labels, &wanted.metadata.labels),
        ("f:annotations", &mut set.metadata.annotations, &wanted.metadata.annotations),
    ] {
        let (have, want) = (have.get_or_insert_default(), want.clone().unwrap_or_default());
        for key in kit::object::written_by(object.document(), super::MANAGER, part) {
            if !want.contains_key(key) {
                have.remove(key);
            }
        }
        have.extend(want);
    }
}

/// Tells templates apart in a name; nothing recomputes it.
fn hash(template: &api::capi::v1beta2::MachineTemplate) -> u32 {
    let text = serde_json::to_string(template).unwrap_or_default();
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> MachineDeployment {
        serde_json::from_value(json!({
            "metadata": {"name": "pool", "annotations": {"mine": "x", annotations::REVISION: "9"}},
            "spec": {
                "clusterName": "c", "replicas": 3, "selector": {"matchLabels": {"pool": "p"}}, "deletion": {"order": "Oldest"},
                "template": {"metadata": {"labels": {"pool": "p"}}, "spec": {"version": "v2", "minReadySeconds": 4}}
            }
        }))
        .unwrap()
    }

    fn desired(deployment: &MachineDeployment) -> Desired<'_> {
        Desired { deployment, bounds: Bounds { replicas: 3, surge: 1, unavailable: 0 }, revision: 2 }
    }

    #[test]
    fn a_new_set_is_told_apart_by_a_label() {
        let deployment = deployment();
        let set = desired(&deployment).first("n", "pool-abcde", "abcde", 1, &OwnerReference::default());
        let unique =
            set["metadata"]["labels"][labels::CAPI_MACHINE_TEMPLATE_HASH].as_str().unwrap().to_owned();
        assert!(unique.ends_with("-abcde"));
        for pointer in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
            assert_eq!(
                set.pointer(pointer).unwrap()[labels::CAPI_MACHINE_TEMPLATE_HASH],
                unique.as_str(),
                "{pointer}"
            );
        }
        assert_eq!(set["metadata"]["annotations"]["mine"], "x");
        assert_eq!(set["metadata"]["annotations"][annotations::REVISION], "2");
        assert_eq!(set["metadata"]["annotations"][annotations::MAX_REPLICAS], "4");
        assert_eq!(
            (&set["spec"]["replicas"], &set["spec"]["deletion"]["order"]),
            (&json!(1), &json!("Oldest"))
        );
    }

    #[test]
    fn an_old_set_keeps_its_content_and_follows_the_rest() {
        let deployment = deployment();
        let old: MachineSet = serde_json::from_value(json!({
            "metadata": {"labels": {labels::CAPI_MACHINE_TEMPLATE_HASH: "h"}, "annotations": {annotations::REVISION: "1"}},
            "spec": {"replicas": 3, "template": {"spec": {"version": "v1"}}}
        }))
        .unwrap();
        let wanted = desired(&deployment).old(&old, 2, true);
        assert_eq!(wanted.spec.template.spec.version, "v1");
        assert_eq!(wanted.spec.template.spec.min_ready_seconds, Some(4));
        let notes = wanted.metadata.annotations.clone().unwrap();
        assert_eq!(
            (notes[annotations::REVISION].as_str(), notes[annotations::DISABLE_MACHINE_CREATE].as_str()),
            ("1", "true")
        );
        let current = desired(&deployment).current(&old, 3);
        let notes = current.metadata.annotations.unwrap();
        assert_eq!(
            (notes[annotations::REVISION].as_str(), notes[annotations::REVISION_HISTORY].as_str()),
            ("2", "1")
        );
    }

    #[test]
    fn revisions_only_rise() {
        let set = |revision: &str| -> MachineSet {
            serde_json::from_value(json!({"metadata": {"annotations": {annotations::REVISION: revision}}}))
                .unwrap()
        };
        let (one, five) = (set("1"), set("5"));
        assert_eq!(next_revision(None, &[]), 1);
        assert_eq!(next_revision(None, &[&one, &five]), 6);
        assert_eq!(next_revision(Some(&five), &[&one]), 5);
        assert_eq!(next_revision(Some(&one), &[&five]), 6);
    }
}
