//! The drain handshake: annotations of the plan Secret between the planner and the controller that drains.
//!
//! The planner sets `drain-options`; the drainer cordons, asks hooks, drains, sets `drain-done` to the same value; the
//! planner delivers the plan and, once the node is well again, sets `uncordon`; the drainer takes everything off.
//! Whoever answers copies the value to the letter.

use std::collections::BTreeMap;

use api::catalogue::annotations;
use api::rke::v1::DrainOptions;
use serde_json::Value;

use crate::desired::Rendered;
use crate::impact::drain_hash_differs;
use crate::snapshot::{Cluster, Machine};

/// Everything that takes part.
const HANDSHAKE: [&str; 5] = [
    annotations::DRAIN_OPTIONS,
    annotations::PRE_DRAIN,
    annotations::DRAIN_DONE,
    annotations::POST_DRAIN,
    annotations::UNCORDON,
];

/// Where a machine is in its drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Drain {
    /// None is needed.
    NotNeeded,
    /// It has to be asked for, with these options.
    Ask(String),
    /// Asked for, not done.
    Waiting,
    /// Done.
    Done,
}

/// The options that hold for a machine.
pub(crate) fn options<'a>(cluster: &'a Cluster, machine: &Machine) -> &'a DrainOptions {
    let strategy = &cluster.spec.configuration.upgrade_strategy;
    if machine.roles().is_server() {
        &strategy.control_plane_drain_options
    } else {
        &strategy.worker_drain_options
    }
}

/// Whether a machine has to be drained before it goes on to the desired plan.
pub(crate) fn is_needed(cluster: &Cluster, machines: usize, machine: &Machine, desired: &Rendered) -> bool {
    let options = options(cluster, machine);
    let hooks = !options.pre_drain_hooks.is_empty() || !options.post_drain_hooks.is_empty();
    let asked = hooks || (options.enabled && machines > 1);
    asked && machine.node.is_some() && drain_hash_differs(machine, desired)
}

/// A drain is under way.
pub(crate) fn is_under_way(machine: &Machine) -> bool {
    HANDSHAKE.iter().any(|annotation| machine.handshake(annotation).is_some())
}

/// What a machine's drain needs before the desired plan is delivered.
pub(crate) fn before_change(
    cluster: &Cluster,
    machines: usize,
    machine: &Machine,
    desired: &Rendered,
) -> Drain {
    if !is_needed(cluster, machines, machine, desired) {
        return Drain::NotNeeded;
    }
    let wanted = text(options(cluster, machine), machines);
    if machine.handshake(annotations::DRAIN_OPTIONS) != Some(&wanted) {
        // A node that is about to take pods again does so first.
        let uncordoning = machine.handshake(annotations::UNCORDON).is_some();
        return if uncordoning { Drain::Waiting } else { Drain::Ask(wanted) };
    }
    let uncordoning = machine.handshake(annotations::UNCORDON).is_some();
    let done = machine.handshake(annotations::DRAIN_DONE) == Some(&wanted) && !uncordoning;
    if done { Drain::Done } else { Drain::Waiting }
}

/// What to set so that the node takes pods again; none if that is asked for already, or nothing is under way.
pub(crate) fn uncordon(machine: &Machine) -> Option<String> {
    let options = machine.handshake(annotations::DRAIN_OPTIONS)?;
    (machine.handshake(annotations::UNCORDON) != Some(options)).then(|| options.to_owned())
}

/// The options in the one spelling that all sides compare: JSON with sorted keys. The only machine of a cluster is
/// never drained: its pods have nowhere to go.
fn text(options: &DrainOptions, machines: usize) -> String {
    let mut options = options.clone();
    options.enabled &= machines > 1;
    let sorted: BTreeMap<String, Value> = serde_json::to_value(&options)
        .ok()
        .and_then(|value| serde_json::from_value(value).ok())
        .unwrap_or_default();
    serde_json::to_string(&sorted).unwrap_or_default()
}
