//! What tells two machine templates apart, and what follows a template without a rollout.

use std::collections::BTreeMap;

use api::capi::v1beta2::{
    ContractVersionedObjectReference, Machine, MachineDeployment, MachineSet, MachineSpec, MachineTemplate,
};
use api::catalogue::annotations;
use jiff::Timestamp;

/// Seconds for which deletion of the Node is tried, if the spec does not say.
pub const NODE_DELETION_SECONDS: i32 = 10;

/// What differs between the template that machines were made from and the current one, as the conditions tell it;
/// empty if a rollout would change nothing.
///
/// Labels, annotations, timeouts, readiness gates and taints are not looked at: they follow without a rollout.
pub fn difference(current: &MachineSpec, wanted: &MachineSpec) -> Vec<String> {
    let mut lines = Vec::new();
    if current.version != wanted.version {
        lines.push(format!("* Version {}, {} required", current.version, wanted.version));
    }
    if current.bootstrap != wanted.bootstrap {
        let kind = wanted.bootstrap.config_ref.as_ref().map(|config| made_kind(&config.kind));
        lines.push(match kind {
            Some(kind) => format!("* {kind} is not up-to-date"),
            None => format!(
                "* spec.bootstrap.dataSecretName {}, {} required",
                current.bootstrap.data_secret_name.as_deref().unwrap_or("nil"),
                wanted.bootstrap.data_secret_name.as_deref().unwrap_or("nil")
            ),
        });
    }
    if !same_reference(&current.infrastructure_ref, &wanted.infrastructure_ref) {
        lines.push(format!("* {} is not up-to-date", made_kind(&wanted.infrastructure_ref.kind)));
    }
    if current.failure_domain != wanted.failure_domain {
        lines
            .push(format!("* Failure domain {}, {} required", current.failure_domain, wanted.failure_domain));
    }
    lines
}

fn same_reference(a: &ContractVersionedObjectReference, b: &ContractVersionedObjectReference) -> bool {
    a == b
}

/// The kind of what is made from a template of this kind.
pub fn made_kind(template: &str) -> &str {
    template.strip_suffix("Template").unwrap_or(template)
}

/// Why machines of this set are not what the deployment asks for; empty if they are.
pub fn outdated(set: &MachineSet, deployment: &MachineDeployment, now: Timestamp) -> Vec<String> {
    let mut lines = difference(&set.spec.template.spec, &deployment.spec.template.spec);
    if expired(set, deployment, now) {
        lines.push("* MachineDeployment spec.rolloutAfter expired".into());
    }
    lines
}

/// Whether the set was made before a time that has come, after which machines have to be new.
fn expired(set: &MachineSet, deployment: &MachineDeployment, now: Timestamp) -> bool {
    let Some(after) = &deployment.spec.rollout.after else { return false };
    let created = set.metadata.creation_timestamp.as_ref();
    now >= after.0 && created.is_some_and(|created| created.0 < after.0)
}

/// The set that has the deployment's template, and the others: the oldest first.
pub fn current_and_old<'a>(
    deployment: &MachineDeployment,
    sets: &[&'a MachineSet],
    now: Timestamp,
) -> (Option<&'a MachineSet>, Vec<&'a MachineSet>) {
    let mut by_size = sets.to_vec();
    by_size.sort_by_key(|set| {
        (std::cmp::Reverse(set.spec.replicas.unwrap_or_default()), created(set), set.metadata.name.clone())
    });
    let current = by_size.into_iter().find(|set| outdated(set, deployment, now).is_empty());
    let mut old: Vec<&MachineSet> = sets
        .iter()
        .copied()
        .filter(|set| !current.is_some_and(|current| std::ptr::eq(current, *set)))
        .collect();
    old.sort_by_key(|set| (created(set), set.metadata.name.clone()));
    (current, old)
}

fn created(set: &MachineSet) -> Option<Timestamp> {
    set.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Carries over what follows the template without a rollout.
pub fn follow_in_place(onto: &mut MachineSpec, template: &MachineSpec) {
    onto.min_ready_seconds = template.min_ready_seconds;
    onto.readiness_gates.clone_from(&template.readiness_gates);
    onto.deletion.clone_from(&template.deletion);
    onto.taints.clone_from(&template.taints);
}

/// The same on a Machine, where the time for deletion of the Node is always written out.
pub fn follow_on_machine(machine: &mut Machine, template: &MachineTemplate) {
    follow_in_place(&mut machine.spec, &template.spec);
    machine.spec.deletion.node_deletion_timeout_seconds.get_or_insert(NODE_DELETION_SECONDS);
}

/// Annotations of a MachineDeployment that its sets do not get.
const NOT_FOR_SETS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    annotations::REVISION,
    annotations::REVISION_HISTORY,
    annotations::DESIRED_REPLICAS,
    annotations::MAX_REPLICAS,
    // It describes the deployment, not the set: a set that had it would be converted to nonsense.
    annotations::CONVERSION_DATA,
];

/// The annotations that a deployment gives to its sets.
pub fn for_sets(annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let kept = annotations.iter().filter(|(key, _)| !NOT_FOR_SETS.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(change: &Value) -> MachineSpec {
        let mut document = json!({
            "clusterName": "c", "version": "v1.34.1",
            "bootstrap": {"configRef": {"apiGroup": "b", "kind": "FooConfigTemplate", "name": "one"}},
            "infrastructureRef": {"apiGroup": "i", "kind": "FooMachineTemplate", "name": "one"}
        });
        for (key, value) in change.as_object().unwrap() {
            document[key] = value.clone();
        }
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn four_fields_make_a_difference() {
        let cases = [
            (json!({}), vec![]),
            (json!({"version": "v1.34.2"}), vec!["* Version v1.34.1, v1.34.2 required"]),
            (
                json!({"bootstrap": {"configRef": {"apiGroup": "b", "kind": "FooConfigTemplate", "name": "two"}}}),
                vec!["* FooConfig is not up-to-date"],
            ),
            (
                json!({"bootstrap": {"dataSecretName": "s"}}),
                vec!["* spec.bootstrap.dataSecretName nil, s required"],
            ),
            (
                json!({"infrastructureRef": {"apiGroup": "i", "kind": "FooMachineTemplate", "name": "two"}, "failureDomain": "b"}),
                vec!["* FooMachine is not up-to-date", "* Failure domain , b required"],
            ),
            (
                json!({"minReadySeconds": 9, "readinessGates": [{"conditionType": "X"}], "deletion": {"nodeDrainTimeoutSeconds": 3},
                       "taints": [{"key": "k", "effect": "NoSchedule", "propagation": "Always"}], "providerID": "p"}),
                vec![],
            ),
        ];
        for (change, lines) in cases {
            assert_eq!(difference(&spec(&json!({})), &spec(&change)), lines, "{change}");
        }
    }

    fn set(name: &str, created: &str, replicas: i32, version: &str) -> MachineSet {
        let template = json!({"spec": spec(&json!({"version": version}))});
        let document = json!({"metadata": {"name": name, "creationTimestamp": created},
            "spec": {"replicas": replicas, "template": template}});
        serde_json::from_value(document).unwrap()
    }

    fn deployment(after: Option<&str>) -> MachineDeployment {
        let document = json!({"spec": {"template": {"spec": spec(&json!({"version": "v2"}))}, "rollout": {"after": after}}});
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn the_greatest_match_is_current_and_the_oldest_goes_first() {
        let sets = [
            set("small", "2026-01-02T00:00:00Z", 1, "v2"),
            set("big", "2026-01-03T00:00:00Z", 5, "v2"),
            set("older", "2026-01-01T00:00:00Z", 3, "v1"),
        ];
        let all: Vec<&MachineSet> = sets.iter().collect();
        let now = "2026-02-01T00:00:00Z".parse().unwrap();
        let names = |after| {
            let (current, old) = current_and_old(&deployment(after), &all, now);
            let old: Vec<String> = old.iter().map(|set| set.metadata.name.clone().unwrap()).collect();
            (current.and_then(|set| set.metadata.name.clone()), old)
        };
        assert_eq!(names(None), (Some("big".into()), vec!["older".into(), "small".into()]));
        assert_eq!(names(Some("2026-03-01T00:00:00Z")).0.as_deref(), Some("big"), "not yet");
        assert_eq!(names(Some("2026-01-02T12:00:00Z")).0.as_deref(), Some("big"), "made after it");
        assert_eq!(names(Some("2026-01-20T00:00:00Z")).0, None, "all are too old");
    }

    #[test]
    fn deployments_keep_some_annotations_to_themselves() {
        let given: BTreeMap<String, String> =
            [(annotations::REVISION, "3"), (annotations::CONVERSION_DATA, "{}"), ("mine", "x")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
        assert_eq!(for_sets(&given).into_keys().collect::<Vec<_>>(), ["mine"]);
    }
}
