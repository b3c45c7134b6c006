//! The user's arguments for one machine: the cluster's, those of matching selectors over them, and what the release
//! data says about each.

use api::rke::v1::FreeMap;
use serde_json::Value;

use super::Context;
use crate::release::{Argument, ArgumentType};
use crate::selector::matches;

/// Arguments that are the planner's: a user's value would take the node out of the cluster.
const RESERVED: [&str; 6] =
    ["server", "token", "token-file", "agent-token", "agent-token-file", "cluster-init"];

/// The arguments, `cni` of RKE2 filled in.
pub(super) fn merged(context: &Context<'_>, warnings: &mut Vec<String>) -> FreeMap {
    let configuration = &context.cluster.spec.configuration;
    let mut merged = configuration.machine_global_config.clone();
    for entry in &configuration.machine_selector_config {
        if matches(entry.machine_label_selector.as_ref(), &context.machine.labels) {
            merged.extend(entry.config.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
    }
    let mut taken = FreeMap::new();
    if context.runtime() == crate::version::Runtime::Rke2 && context.roles.is_server() {
        taken.insert("cni".into(), "calico".into());
    }
    for (key, value) in merged {
        if let Some(value) = take(context, &key, value, warnings) {
            taken.insert(key, value);
        }
    }
    taken
}

fn take(context: &Context<'_>, key: &str, value: Value, warnings: &mut Vec<String>) -> Option<Value> {
    if RESERVED.contains(&key) {
        warnings.push(format!("argument {key:?} is left out: the planner sets it"));
        return None;
    }
    if value.is_object() {
        warnings.push(format!("argument {key:?} is left out: an object is no value of an argument"));
        return None;
    }
    match context.cluster.releases.argument(context.version, key) {
        Some(Argument { on_agents: false, .. }) if !context.roles.is_server() => None,
        Some(argument) => Some(coerce(argument.type_, value)),
        None => {
            let version = context.version.as_str();
            warnings.push(format!("argument {key:?} is not known for {version}; passed on as it is"));
            Some(value)
        }
    }
}

/// Forms send booleans as text.
fn coerce(type_: ArgumentType, value: Value) -> Value {
    match (type_, value.as_str()) {
        (ArgumentType::Boolean, Some("true")) => true.into(),
        (ArgumentType::Boolean, Some("false")) => false.into(),
        _ => value,
    }
}
