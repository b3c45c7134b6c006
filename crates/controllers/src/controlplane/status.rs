//! What is said: the control plane's status, conditions of Machines, events, and the count of waits.

use std::sync::Arc;

use api::Tracked;
use api::capi::v1beta2::Machine;
use api::catalogue::{conditions, reasons};
use api::rke::v1::{RKEControlPlane, RKEControlPlaneInitialization, RKEControlPlaneStatus};
use jiff::{SignedDuration, Timestamp};
use kit::conditions::legacy::{self, Severity};
use kit::conditions::{self as findings, Finding, Status as Said};
use kit::events;
use kit::{Object, Turn};
use planner::{Code, Condition, Decision, Runtime, Subject, Version, Wait};
use provisioning::status as provisioned;
use serde_json::Value;

use super::context::{Context, Error};
use super::gather::{Seen, SeenMachine};
use super::known::kinds;

/// Whose waits these are, among all that are counted.
pub(crate) const WAITS: &str = "controlplane";

/// Waits of machines that somebody should look at: they are told as events, too.
const TROUBLE: [Code; 9] = [
    Code::PlanFailed,
    Code::ReferencedObject,
    Code::PlanTooLarge,
    Code::ProviderIdMismatch,
    Code::QuorumHold,
    Code::RemovalQuorum,
    Code::RemovalReplacement,
    Code::QuorumLost,
    Code::VersionSkew,
];

/// Writes the control plane's status. `removed` is how far its removal is, if it is being deleted. Gives how long what is new is held
/// back, if it is words alone.
pub(crate) async fn control_plane(
    context: &Arc<Context>,
    turn: &Turn,
    seen: &Seen,
    decision: &Decision,
    removed: Option<provisioned::Finding>,
) -> Result<Option<SignedDuration>, Error> {
    let object = &seen.control_plane;
    let mut tracked: Tracked<RKEControlPlane> = begin(object)?;
    let before = without_words(&tracked);
    next(&mut tracked, seen, decision, removed, context.now());
    if tracked.merge_patch().is_ok_and(|patch| patch.is_none()) {
        return Ok(None);
    }
    if let Some(held) = context.quiet(&object.key(), "", without_words(&tracked) == before) {
        return Ok(Some(held));
    }
    write(context, turn, &context.control_planes, object, &tracked).await?;
    Ok(None)
}

/// A status as it is without the messages of its conditions, and without when they were written.
fn without_words(control_plane: &RKEControlPlane) -> RKEControlPlaneStatus {
    let mut status = control_plane.status.clone().unwrap_or_default();
    for condition in &mut status.conditions {
        condition.message.clear();
        condition.last_update_time.clear();
        condition.last_transition_time.clear();
    }
    status
}

/// The status after a decision.
fn next(
    control_plane: &mut RKEControlPlane,
    seen: &Seen,
    decision: &Decision,
    removed: Option<provisioned::Finding>,
    now: Timestamp,
) {
    let spec = control_plane.spec.clone();
    let generation = control_plane.metadata.generation.unwrap_or_default();
    let status = control_plane.status.get_or_insert_default();
    let now = rfc3339(now);
    for (type_, condition) in &decision.status.conditions {
        let Condition { status: word, reason, message } = condition;
        let finding = provisioned::Finding {
            status: (*word).into(),
            reason: (*reason).into(),
            message: message.clone(),
        };
        provisioned::set(&mut status.conditions, type_, finding, &now);
    }
    if let Some(removed) = removed {
        status.conditions = provisioned::removing(&status.conditions, removed, &now);
    }
    status.observed_generation = generation;
    status.agent_connected = seen.snapshot.state.agent_connected;
    if let Some(initialized) = decision.status.initialized {
        let initialized = Some(initialized);
        status.initialization =
            Some(RKEControlPlaneInitialization { control_plane_initialized: initialized });
    }
    if decision.status.spec_applied {
        status.applied_spec = Some(spec);
    }
}

/// Writes the conditions of every Machine that a decision speaks of. Gives how long something is held back, if it is words alone.
pub(crate) async fn machines(
    context: &Arc<Context>,
    turn: &Turn,
    seen: &Seen,
    decision: &Decision,
) -> Result<Option<SignedDuration>, Error> {
    let (key, mut held) = (seen.control_plane.key(), None);
    for (name, machine) in &seen.machines {
        let planned = seen.snapshot.machines.get(name).filter(|planned| planned.plan.has_plan);
        let version = &seen.view.spec.kubernetes_version;
        let applied = planned.map(|planned| plan_applied(machine, version, planned.roles().is_only_worker()));
        let reconciled = decision.machines.get(name).cloned();
        let wanted = [(conditions::RECONCILED, reconciled), (conditions::PLAN_APPLIED, applied)];
        let wanted: Vec<_> = wanted.into_iter().filter_map(|(type_, one)| Some((type_, one?))).collect();
        let view = machine.object.view::<Machine>()?;
        // Most looks have nothing new to say of most machines.
        if wanted.iter().all(|(type_, condition)| says(&view, type_, condition)) {
            continue;
        }
        let only_words = wanted.iter().all(|(type_, condition)| stands(&view, type_, condition).is_some());
        if let Some(rest) = context.quiet(&key, name.as_str(), only_words) {
            held = Some(held.map_or(rest, |known: SignedDuration| known.min(rest)));
            continue;
        }
        let mut tracked: Tracked<Machine> = begin(&machine.object)?;
        for (type_, condition) in &wanted {
            say(&mut tracked, type_, condition, context.now());
        }
        write(context, turn, &context.machines, &machine.object, &tracked).await?;
    }
    Ok(held)
}

/// Whether the agent could do what it was told.
fn plan_applied(machine: &SeenMachine, version: &str, worker: bool) -> Condition {
    if !machine.plan_failed {
        return Condition { status: "True", reason: reasons::PLAN_APPLIED, message: String::new() };
    }
    let runtime = version.parse::<Version>().map_or(Runtime::Rke2, |version| version.runtime());
    let unit = match (runtime, worker) {
        (Runtime::K3s, true) => "k3s-agent",
        (Runtime::K3s, false) => "k3s",
        (_, true) => "rke2-agent",
        (_, false) => "rke2-server",
    };
    let message = format!(
        "error applying plan -- check rancher-system-agent.service and {unit}.service logs on node for more information"
    );
    Condition { status: "False", reason: reasons::ERROR, message }
}

/// Whether a Machine says so already. A new generation alone is no news.
fn says(machine: &Machine, type_: &str, condition: &Condition) -> bool {
    stands(machine, type_, condition) == Some(&condition.message)
}

/// The words of a Machine's condition, if it is as it should be but for them.
fn stands<'a>(machine: &'a Machine, type_: &str, condition: &Condition) -> Option<&'a String> {
    let listed = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let found = findings::find(listed, type_)?;
    let same = (found.status.as_str(), found.reason.as_str()) == (condition.status, condition.reason);
    same.then_some(&found.message)
}

/// Sets a condition of a Machine, for readers of both API versions.
fn say(machine: &mut Machine, type_: &str, condition: &Condition, now: Timestamp) {
    if says(machine, type_, condition) {
        return;
    }
    let generation = machine.metadata.generation.unwrap_or_default();
    let status = machine.status.get_or_insert_default();
    let word = Said::read(condition.status).unwrap_or(Said::Unknown);
    let finding = Finding::new(type_, word, condition.reason).saying(condition.message.clone());
    findings::set(&mut status.conditions, finding, generation, now);
    let old = &mut status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default().conditions;
    let (reason, message) = (condition.reason, condition.message.as_str());
    match word {
        Said::True => legacy::mark_true(old, type_, now),
        Said::False => legacy::mark_false(old, type_, Severity::Error, reason, message, now),
        Said::Unknown => legacy::mark_unknown(old, type_, reason, message, now),
    }
}

fn begin<T: serde::Serialize + serde::de::DeserializeOwned>(object: &Object) -> Result<Tracked<T>, Error> {
    let mut document = object.document().clone();
    if let Some(metadata) = document["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    Tracked::from_document(document).map_err(|problem| Error::Shape { what: "a status", problem })
}

/// Writes what changed of a status, if the object is still as it was seen.
async fn write<T: serde::Serialize + serde::de::DeserializeOwned>(
    context: &Arc<Context>,
    turn: &Turn,
    cache: &Arc<kit::Cache>,
    object: &Object,
    tracked: &Tracked<T>,
) -> Result<(), Error> {
    let patch = tracked.merge_patch().map_err(|problem| Error::Shape { what: "a status", problem })?;
    let Some(status) = patch.as_ref().and_then(|patch| patch.get("status")) else { return Ok(()) };
    context.patch_status(turn, cache, object, Value::clone(status)).await?;
    Ok(())
}

/// Tells what the control plane waits for, and what is wrong with machines, as events and as a count.
pub(crate) async fn tell(context: &Arc<Context>, seen: &Seen, decision: &Decision) {
    let codes = decision.waits.iter().map(|wait| wait.code.as_str()).collect();
    context.settings.waits.set(WAITS, &seen.control_plane.key(), codes);
    if let Some(wait) = decision.waits.first().filter(|wait| wait.subject == Subject::Cluster) {
        let severity = severity(wait);
        let (reason, message) = (reason(wait.code), wait.to_string());
        context.events.tell(&kinds::control_planes(), &seen.control_plane, severity, &reason, &message).await;
    }
    for wait in decision.waits.iter().filter(|wait| TROUBLE.contains(&wait.code)) {
        let Subject::Machine(name) = &wait.subject else { continue };
        let Some(machine) = seen.machines.get(name) else { continue };
        let (kind, reason) = (kinds::machines(), reason(wait.code));
        let warning = events::Severity::Warning;
        context.events.tell(&kind, &machine.object, warning, &reason, &wait.message).await;
    }
    for warning in &decision.report.warnings {
        let (kind, severity) = (kinds::control_planes(), events::Severity::Warning);
        context.events.tell(&kind, &seen.control_plane, severity, "ConfigurationWarning", warning).await;
    }
}

fn severity(wait: &Wait) -> events::Severity {
    let wrong = [
        Code::VersionInvalid,
        Code::TokensLost,
        Code::OperationUnsupported,
        Code::EtcdPlaneReplaced,
        Code::Refused,
        Code::TierFailing,
    ];
    if wrong.contains(&wait.code) { events::Severity::Warning } else { events::Severity::Normal }
}

/// A code as events spell reasons: `tier-draining` is `TierDraining`.
fn reason(code: Code) -> String {
    let words = code.as_str().split('-');
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
            .unwrap_or_default()
    };
    words.map(capital).collect()
}

/// A time to the second, as Rancher's conditions have it.
pub(crate) fn rfc3339(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_events_are_words() {
        assert_eq!(reason(Code::TierDraining), "TierDraining");
        assert_eq!(reason(Code::QuorumLost), "EtcdQuorumLost");
    }
}
