//! What a set makes: machines, and what is cloned for them. No IO.

use std::collections::BTreeMap;

use api::capi::v1beta2::{ContractVersionedObjectReference, MachineSet};
use api::catalogue::{annotations, finalizers, labels};
use api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::Object;
use serde_json::{Value, json};

use crate::template::{NODE_DELETION_SECONDS, made_kind};

type Map = BTreeMap<String, String>;

/// The labels of a set's machines.
pub(super) fn machine_labels(set: &MachineSet, name: &str, deployment: Option<&str>) -> Map {
    let mut map = set.spec.template.metadata.labels.clone();
    map.insert(labels::CAPI_CLUSTER_NAME.into(), set.spec.cluster_name.clone());
    map.insert(labels::CAPI_SET_NAME.into(), names::label_value(name));
    if let Some(deployment) = deployment {
        map.insert(labels::CAPI_DEPLOYMENT_NAME.into(), names::label_value(deployment));
    }
    map
}

/// A new machine. What is cloned for it takes its name.
pub(super) fn machine(
    set: &MachineSet,
    namespace: &str,
    name: &str,
    labels: &Map,
    owner: &OwnerReference,
) -> Value {
    let mut spec = json!(set.spec.template.spec);
    spec["infrastructureRef"] = json!(made(&set.spec.template.spec.infrastructure_ref, name));
    if let Some(config) = &set.spec.template.spec.bootstrap.config_ref {
        spec["bootstrap"] = json!({"configRef": made(config, name)});
    }
    if spec["deletion"]["nodeDeletionTimeoutSeconds"].is_null() {
        spec["deletion"]["nodeDeletionTimeoutSeconds"] = NODE_DELETION_SECONDS.into();
    }
    json!({
        "metadata": {
            "namespace": namespace, "name": name, "labels": labels,
            "annotations": set.spec.template.metadata.annotations,
            "ownerReferences": [owner], "finalizers": [finalizers::MACHINE]
        },
        "spec": spec
    })
}

fn made(template: &ContractVersionedObjectReference, name: &str) -> ContractVersionedObjectReference {
    match template.kind.ends_with("Template") {
        true => ContractVersionedObjectReference {
            kind: made_kind(&template.kind).into(),
            name: name.into(),
            api_group: template.api_group.clone(),
        },
        false => template.clone(),
    }
}

/// What is made from a provider's template.
pub(super) fn clone(template: &Object, machine: &Object, owner: &OwnerReference) -> Value {
    let document = template.document();
    let inner = &document["spec"]["template"];
    let of =
        |part: &str| -> Map { serde_json::from_value(inner["metadata"][part].clone()).unwrap_or_default() };
    let (mut labels, mut notes) = (of("labels"), of("annotations"));
    labels.extend(machine.meta().labels.clone().unwrap_or_default());
    notes.extend(machine.meta().annotations.clone().unwrap_or_default());
    let kind = document["kind"].as_str().unwrap_or_default();
    let group = document["apiVersion"]
        .as_str()
        .and_then(|version| version.split_once('/'))
        .map_or("", |(group, _)| group);
    notes.insert(annotations::CAPI_CLONED_FROM_NAME.into(), template.name().into());
    notes.insert(annotations::CAPI_CLONED_FROM_GROUP_KIND.into(), format!("{kind}.{group}"));
    let mut made = json!({
        "metadata": {
            "namespace": machine.namespace(), "name": machine.name(), "labels": labels, "annotations": notes,
            "ownerReferences": [owner]
        }
    });
    if let Some(spec) = inner.get("spec") {
        made["spec"] = spec.clone();
    }
    made
}

/// The merge patch that makes an object's labels and annotations what a set wants; none if they are. What the set
/// wrote once and does not want any more goes, what others wrote stays.
pub(super) fn metadata_patch(object: &Object, labels: &Map, notes: &Map, keep: &[&str]) -> Option<Value> {
    let mut patch = json!({});
    for (part, field, wanted, have) in [
        ("labels", "f:labels", labels, object.meta().labels.as_ref()),
        ("annotations", "f:annotations", notes, object.meta().annotations.as_ref()),
    ] {
        let none = Map::new();
        let have = have.unwrap_or(&none);
        for (key, value) in wanted {
            if have.get(key) != Some(value) {
                patch["metadata"][part][key] = json!(value);
            }
        }
        let managers = [super::MANAGER, "capi-machineset-metadata"];
        let written =
            managers.iter().flat_map(|manager| kit::object::written_by(object.document(), manager, field));
        for key in
            written.filter(|key| !wanted.contains_key(*key) && have.contains_key(*key) && !keep.contains(key))
        {
            patch["metadata"][part][key] = Value::Null;
        }
    }
    (!crate::context::is_empty(&patch)).then_some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> MachineSet {
        serde_json::from_value(json!({
            "metadata": {"name": "pool-abc"},
            "spec": {"clusterName": "c", "template": {
                "metadata": {"labels": {"mine": "x"}, "annotations": {"note": "y"}},
                "spec": {
                    "clusterName": "c", "version": "v1.34.1", "deletion": {"nodeDrainTimeoutSeconds": 5},
                    "bootstrap": {"configRef": {"apiGroup": "b", "kind": "FooConfigTemplate", "name": "t"}},
                    "infrastructureRef": {"apiGroup": "i", "kind": "FooMachineTemplate", "name": "t"}
                }
            }}
        }))
        .unwrap()
    }

    #[test]
    fn a_machine_refers_to_its_own_clones() {
        let owner = OwnerReference { name: "pool-abc".into(), ..OwnerReference::default() };
        let labels = machine_labels(&set(), "pool-abc", Some("pool"));
        let made = machine(&set(), "n", "pool-abc-1", &labels, &owner);
        assert_eq!(
            made["spec"]["infrastructureRef"],
            json!({"apiGroup": "i", "kind": "FooMachine", "name": "pool-abc-1"})
        );
        assert_eq!(made["spec"]["bootstrap"]["configRef"]["kind"], "FooConfig");
        assert_eq!(
            made["spec"]["deletion"],
            json!({"nodeDrainTimeoutSeconds": 5, "nodeDeletionTimeoutSeconds": 10})
        );
        assert_eq!(made["metadata"]["finalizers"], json!([finalizers::MACHINE]));
        assert_eq!(made["metadata"]["labels"][labels::CAPI_DEPLOYMENT_NAME], "pool");
        assert_eq!(made["metadata"]["annotations"], json!({"note": "y"}));
    }

    #[test]
    fn a_clone_keeps_what_its_template_says() {
        let template = Object::from_document(json!({
            "apiVersion": "i.io/v1", "kind": "FooMachineTemplate", "metadata": {"name": "t"},
            "spec": {"template": {"metadata": {"labels": {"theirs": "1"}}, "spec": {"size": "big"}}}
        }))
        .unwrap();
        let machine = Object::from_document(
            json!({"metadata": {"namespace": "n", "name": "m", "labels": {"mine": "x"}}}),
        )
        .unwrap();
        let made = clone(&template, &machine, &OwnerReference::default());
        assert_eq!(made["spec"], json!({"size": "big"}));
        assert_eq!(made["metadata"]["labels"], json!({"mine": "x", "theirs": "1"}));
        assert_eq!(
            made["metadata"]["annotations"][annotations::CAPI_CLONED_FROM_GROUP_KIND],
            "FooMachineTemplate.i.io"
        );
        assert_eq!(made["metadata"]["name"], "m");
    }

    #[test]
    fn only_what_the_set_wrote_is_taken_away() {
        let object = Object::from_document(json!({"metadata": {
            "labels": {"a": "1", "old": "x", "theirs": "y"},
            "managedFields": [{"manager": "capi-machineset", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}, "f:old": {}}}}}]
        }}))
        .unwrap();
        let wanted = Map::from([("a".into(), "2".into())]);
        let patch = metadata_patch(&object, &wanted, &Map::new(), &[]).unwrap();
        assert_eq!(patch, json!({"metadata": {"labels": {"a": "2", "old": null}}}));
        let wanted = Map::from([("a".into(), "1".into()), ("old".into(), "x".into())]);
        assert_eq!(metadata_patch(&object, &wanted, &Map::new(), &[]), None);
    }
}
