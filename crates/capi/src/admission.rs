//! What is filled in and what is refused when our kinds are written. No IO: the embedded server asks in process, a
//! real one by webhook.

mod defaults;
mod rules;

use kubeapi::FieldError;
use serde_json::Value;

/// The kinds that are looked at.
pub const KINDS: [&str; 6] =
    ["Cluster", "Machine", "MachineDeployment", "MachineDrainRule", "MachineHealthCheck", "MachineSet"];

/// The group of the kinds.
pub const GROUP: &str = "cluster.x-k8s.io";

/// Fills in what an object of `kind` (of v1beta2) leaves out. `old` is what is there now.
pub fn fill_in(kind: &str, object: &mut Value, old: Option<&Value>) {
    match kind {
        "Machine" => defaults::machine(object),
        "MachineSet" => defaults::machine_set(object, old),
        "MachineDeployment" => defaults::machine_deployment(object, old),
        "MachineHealthCheck" => defaults::machine_health_check(object),
        _ => {}
    }
}

/// What is wrong with an object of `kind` (of v1beta2) beyond what its schema says; empty if it is good.
pub fn problems(kind: &str, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    // What goes is not judged any more: a finalizer has to come off whatever the rules say.
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Vec::new();
    }
    match kind {
        "Cluster" => rules::cluster(object, old),
        "Machine" => rules::machine(object, old),
        "MachineSet" => rules::machine_set(object, old),
        "MachineDeployment" => rules::machine_deployment(object, old),
        "MachineHealthCheck" => rules::machine_health_check(object, old),
        "MachineDrainRule" => rules::machine_drain_rule(object),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
