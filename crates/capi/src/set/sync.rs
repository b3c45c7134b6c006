//! What follows a set's template without a rollout.

use std::sync::Arc;

use api::capi::v1beta2::{Machine, MachineSet, MachineSpec};
use api::catalogue::{annotations, labels};
use kit::Turn;
use serde_json::{Value, json};

use super::{MANAGER, Seen, desired};
use crate::context::{Context, Error};
use crate::template;

/// The annotations of clones that do not come from the machine.
const CLONED: [&str; 2] = [annotations::CAPI_CLONED_FROM_NAME, annotations::CAPI_CLONED_FROM_GROUP_KIND];

/// Carries labels, annotations, timeouts, gates and taints to machines, and metadata to what belongs to them.
pub(super) async fn propagate(
    context: &Arc<Context>,
    turn: &Turn,
    set: &MachineSet,
    seen: &Seen,
) -> Result<(), Error> {
    let deployment = seen.deployment.as_ref().map(|(object, _)| object.name());
    let labels = desired::machine_labels(set, seen.object.name(), deployment);
    let notes = &set.spec.template.metadata.annotations;
    let writer = context.writer.named(MANAGER);
    for (object, machine) in &seen.machines {
        let spec = spec_patch(machine, set);
        // A machine that goes keeps its labels; how long its end may take can still be changed.
        let metadata = match object.deleting() {
            true => None,
            false => desired::metadata_patch(object, &labels, notes, &[labels::CAPI_CLUSTER_NAME]),
        };
        let patch = match (metadata, spec) {
            (None, None) => None,
            (Some(metadata), None) => Some(metadata),
            (metadata, Some(spec)) => {
                let mut patch = metadata.unwrap_or_else(|| json!({}));
                patch["spec"] = spec;
                Some(patch)
            }
        };
        if let Some(patch) = patch {
            writer.patch(turn, &context.machines, &object.key(), patch).await?;
        }
        if object.deleting() {
            continue;
        }
        let namespace = object.namespace();
        let references = [machine.spec.bootstrap.config_ref.as_ref(), Some(&machine.spec.infrastructure_ref)];
        for reference in references.into_iter().flatten() {
            let found = context.find(namespace, Some(reference)).await;
            let Some(provider) = found.there().filter(|provider| !provider.object.deleting()) else {
                continue;
            };
            if let Some(patch) = desired::metadata_patch(&provider.object, &labels, notes, &CLONED) {
                writer.patch(turn, &provider.cache, &provider.object.key(), patch).await?;
            }
        }
    }
    Ok(())
}

/// The part of a machine's spec that has to change; none if nothing has.
fn spec_patch(machine: &Machine, set: &MachineSet) -> Option<Value> {
    let mut wanted = Machine { spec: machine.spec.clone(), ..Machine::default() };
    template::follow_on_machine(&mut wanted, &set.spec.template);
    let fields = |spec: &MachineSpec| {
        json!({
            "minReadySeconds": spec.min_ready_seconds, "readinessGates": spec.readiness_gates,
            "deletion": spec.deletion, "taints": spec.taints
        })
    };
    let (have, want) = (fields(&machine.spec), fields(&wanted.spec));
    let mut patch = api::overlay::merge_patch(&have, &want)?;
    // Empty lists are not written, they are left out.
    for list in ["readinessGates", "taints"] {
        if patch.get(list).is_some_and(|list| list.as_array().is_some_and(Vec::is_empty)) {
            patch[list] = Value::Null;
        }
    }
    Some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_written() {
        let machine: Machine = serde_json::from_value(json!({"spec": {
            "version": "v1", "deletion": {"nodeDrainTimeoutSeconds": 5, "nodeDeletionTimeoutSeconds": 10},
            "readinessGates": [{"conditionType": "X"}]
        }}))
        .unwrap();
        let set = |spec: Value| -> MachineSet {
            serde_json::from_value(json!({"spec": {"template": {"spec": spec}}})).unwrap()
        };
        let same = set(
            json!({"version": "v2", "deletion": {"nodeDrainTimeoutSeconds": 5}, "readinessGates": [{"conditionType": "X"}]}),
        );
        assert_eq!(spec_patch(&machine, &same), None, "another version is a rollout's business");
        let other = set(json!({"deletion": {"nodeDrainTimeoutSeconds": 1}, "minReadySeconds": 3}));
        assert_eq!(
            spec_patch(&machine, &other),
            Some(
                json!({"deletion": {"nodeDrainTimeoutSeconds": 1}, "minReadySeconds": 3, "readinessGates": null})
            )
        );
    }
}
