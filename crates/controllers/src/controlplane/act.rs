//! Doing what the planner decided.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use api::capi::v1beta2::Cluster;
use api::catalogue::secrets::{keys, types};
use api::catalogue::{annotations, conditions, reasons};
use api::plans::v1alpha1::OWNER_PLANNER;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kit::conditions::legacy::{self, Severity};
use kit::conditions::{self as findings, Finding};
use kit::{Turn, owners};
use kube::Api;
use kube::api::{Patch, PatchParams};
use plan::orchestrator;
use plan::secret::{PLAN_STATE, PlanState};
use planner::{Decision, MachineName, Marks, PlanWrite, Release, Runtime, Version};
use serde_json::{Map, Value, json};

use super::context::{Context, Error, MANAGER};
use super::gather::{Seen, SeenMachine};
use super::known::kinds;

/// Does all of a decision but what is said about it. What somebody else changed meanwhile is left to the next look.
pub(crate) async fn all(
    context: &Arc<Context>,
    turn: &Turn,
    seen: &Seen,
    decision: &Decision,
) -> Result<(), Error> {
    identities(context, turn, seen).await?;
    if !beacon(context, turn, seen, decision).await? {
        return Ok(());
    }
    if let Some(epoch) = decision.status.epoch {
        let patch =
            json!({"metadata": {"annotations": {annotations::HERDSMAN_RENDERING_EPOCH: epoch.to_string()}}});
        context.writer.patch(turn, &context.control_planes, &seen.control_plane.key(), patch).await?;
    }
    if decision.make_tokens {
        make_tokens(context, turn, seen).await?;
    }
    // One machine whose Secret cannot be written does not hold up the others.
    let mut outcome = Ok(());
    for (name, machine) in &seen.machines {
        outcome = outcome.and(one(context, turn, name, machine, decision).await);
    }
    for one in &decision.releases {
        outcome = outcome.and(release(context, turn, seen, one).await);
    }
    outcome.and(cluster(context, turn, seen, decision).await)
}

/// Takes the lock on plans before they are written, or gives it back. Gives whether writes may go on.
async fn beacon(
    context: &Arc<Context>,
    turn: &Turn,
    seen: &Seen,
    decision: &Decision,
) -> Result<bool, Error> {
    let Some(take) = decision.status.beacon else { return Ok(true) };
    let Some(beacon) = context.beacons.get(&seen.control_plane.key()) else { return Ok(true) };
    let active = beacon.document()["status"]["active"].as_bool().unwrap_or_default();
    let owner = if take { OWNER_PLANNER } else { "" };
    let status = json!({"active": active, "owner": owner});
    let written = context.patch_status(turn, &context.beacons, &beacon, status).await?;
    // Whoever was faster may have it now.
    Ok(written || !take)
}

/// Writes the id that each machine bears on its node for the rest of its life.
async fn identities(context: &Arc<Context>, turn: &Turn, seen: &Seen) -> Result<(), Error> {
    for machine in seen.machines.values().map(|machine| &machine.object) {
        if machine.annotation(annotations::HERDSMAN_MACHINE_UID).is_some() || machine.deleting() {
            continue;
        }
        let patch = json!({"metadata": {"annotations": {annotations::HERDSMAN_MACHINE_UID: machine.uid()}}});
        context.patch_seen(turn, &context.machines, machine, patch).await?;
    }
    Ok(())
}

/// Makes the join tokens. If they are there already, they stay as they are.
async fn make_tokens(context: &Arc<Context>, turn: &Turn, seen: &Seen) -> Result<(), Error> {
    let token = || {
        let mut entropy = context.entropy.lock().unwrap_or_else(PoisonError::into_inner);
        STANDARD.encode(api::names::token(&mut *entropy))
    };
    let secret = json!({
        "metadata": {
            "namespace": seen.control_plane.namespace(),
            "name": api::names::cluster_state_secret(seen.control_plane.name()),
            "ownerReferences": [owners::reference(&kinds::control_planes(), &seen.control_plane, true)],
        },
        "type": types::CLUSTER_STATE,
        "data": {keys::SERVER_TOKEN: token(), keys::AGENT_TOKEN: token()},
    });
    match context.writer.create(turn, &context.secrets, secret).await {
        Err(error) if error.code() != Some(409) => Err(error.into()),
        _ => Ok(()),
    }
}

/// What a decision says of one machine. Where it joins is written before the plan that has it join there: if this ends in between, the
/// next plan is the same.
async fn one(
    context: &Arc<Context>,
    turn: &Turn,
    name: &MachineName,
    machine: &SeenMachine,
    decision: &Decision,
) -> Result<(), Error> {
    let marks = decision.marks.get(name).and_then(bootstrap_patch);
    if let Some((bootstrap, patch)) = machine.bootstrap.as_ref().zip(marks)
        && !context.patch_seen(turn, &context.bootstraps, bootstrap, patch).await?
    {
        return Ok(());
    }
    plan_secret(context, turn, name, machine, decision).await
}

/// The merge patch of an RKEBootstrap. None if there is nothing to write.
fn bootstrap_patch(marks: &Marks) -> Option<Value> {
    let parts = [("labels", &marks.labels), ("annotations", &marks.annotations)];
    let parts = parts.into_iter().filter(|(_, words)| !words.is_empty());
    let metadata: Map<String, Value> =
        parts.map(|(part, words)| (part.to_owned(), nullable(words).into())).collect();
    (!metadata.is_empty()).then(|| json!({"metadata": metadata}))
}

/// Labels or annotations as a merge patch sets and removes them.
fn nullable(words: &BTreeMap<&'static str, Option<String>>) -> Map<String, Value> {
    let value = |value: &Option<String>| value.clone().map_or(Value::Null, Value::from);
    words.iter().map(|(key, one)| ((*key).to_owned(), value(one))).collect()
}

/// Everything of a decision that goes into one plan Secret, in one write.
async fn plan_secret(
    context: &Arc<Context>,
    turn: &Turn,
    name: &MachineName,
    machine: &SeenMachine,
    decision: &Decision,
) -> Result<(), Error> {
    let Some(secret) = &machine.secret else { return Ok(()) };
    let (marks, write) = (decision.marks.get(name), decision.writes.get(name));
    let cancel = decision.cancels.contains(name);
    if marks.is_none() && write.is_none() && !cancel {
        return Ok(());
    }
    let data = super::references::decoded(&secret.document()["data"]);
    let patch = patch(&data, marks, write, cancel, context.now());
    let patch = patch.map_err(|problem| Error::Plan { machine: name.to_string(), problem })?;
    let Some(patch) = patch else { return Ok(()) };
    if let Some(write) = write {
        tracing::info!(machine = %name, why = %write.why, impact = %write.impact, "delivering a plan");
    }
    context.patch_seen(turn, &context.secrets, secret, patch).await?;
    Ok(())
}

/// The merge patch of a plan Secret: only our keys and annotations. None if there is nothing to write.
fn patch(
    data: &plan::secret::Data,
    marks: Option<&Marks>,
    write: Option<&PlanWrite>,
    cancel: bool,
    now: Timestamp,
) -> Result<Option<Value>, orchestrator::Error> {
    let (mut keys, mut notes) = (Map::new(), Map::new());
    if let Some(write) = write {
        let update = orchestrator::deliver(data, &write.plan, write.terms, now)?;
        for (key, value) in update.data {
            keys.insert(key.into(), value.map_or(Value::Null, |value| STANDARD.encode(value).into()));
        }
        notes.extend(update.annotations.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))));
    }
    if cancel {
        keys.insert(PLAN_STATE.into(), STANDARD.encode(PlanState::Cancelled.as_str()).into());
    }
    notes.extend(marks.map(|marks| nullable(&marks.handshake)).unwrap_or_default());
    if keys.is_empty() && notes.is_empty() {
        return Ok(None);
    }
    let mut patch = json!({"metadata": {}});
    if !notes.is_empty() {
        patch["metadata"]["annotations"] = notes.into();
    }
    if !keys.is_empty() {
        patch["data"] = keys.into();
    }
    Ok(Some(patch))
}

/// One step of letting an etcd machine go.
async fn release(context: &Arc<Context>, turn: &Turn, seen: &Seen, release: &Release) -> Result<(), Error> {
    match release {
        Release::DropHook { machine, reason } => {
            let Some(machine) = seen.machines.get(machine) else { return Ok(()) };
            tracing::info!(machine = %machine.object.key(), reason, "a machine may go");
            let hook = annotations::PRE_TERMINATE_BOOTSTRAP_CLEANUP;
            let patch = json!({"metadata": {"annotations": {hook: null}}});
            context.writer.patch(turn, &context.machines, &machine.object.key(), patch).await?;
            Ok(())
        }
        Release::RemoveMember { node, .. } => {
            // Without a connection nobody can be asked: the next one has it looked at again.
            let Ok(connection) = context.access.connection(&seen.cluster_key()) else { return Ok(()) };
            let version = seen.view.spec.kubernetes_version.parse::<Version>();
            let key = match version.map(|version| version.runtime()) {
                Ok(Runtime::K3s) => annotations::ETCD_REMOVE_K3S,
                _ => annotations::ETCD_REMOVE_RKE2,
            };
            tracing::info!(node, "asking the distribution to remove an etcd member");
            let nodes: Api<Node> = Api::all(connection.client);
            let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            let patch = Patch::Merge(json!({"metadata": {"annotations": {key: "true"}}}));
            match nodes.patch(node, &options, &patch).await {
                Err(answer) if kit::write::code(&answer) != Some(404) => Err(Error::Remote {
                    what: "ask for the removal of an etcd member",
                    answer: Box::new(answer),
                }),
                _ => Ok(()),
            }
        }
    }
}

/// What a decision says about the Cluster API Cluster.
async fn cluster(context: &Arc<Context>, turn: &Turn, seen: &Seen, decision: &Decision) -> Result<(), Error> {
    let Some(cluster) = &seen.cluster else { return Ok(()) };
    if decision.status.unpause {
        let patch = json!({"spec": {"paused": false}});
        context.writer.patch(turn, &context.clusters, &cluster.key(), patch).await?;
    }
    if decision.status.uninitialize_capi {
        uninitialize(context, turn, cluster).await?;
    }
    Ok(())
}

/// The control plane of a cluster counts as never started: workers wait again.
async fn uninitialize(context: &Arc<Context>, turn: &Turn, cluster: &kit::Object) -> Result<(), Error> {
    let view = cluster.view::<Cluster>()?;
    let mut status = view.status.clone().unwrap_or_default();
    let (type_, reason) = (conditions::CONTROL_PLANE_INITIALIZED, reasons::NOT_INITIALIZED);
    if findings::has(&status.conditions, type_, findings::Status::False) {
        return Ok(());
    }
    let (now, generation) = (context.now(), cluster.meta().generation.unwrap_or_default());
    let message = "uninitializing CAPI cluster: no etcd machine is left";
    let finding = Finding::no(type_, reason).saying(message);
    findings::set(&mut status.conditions, finding, generation, now);
    let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    legacy::mark_false(&mut old.conditions, type_, Severity::Info, reason, message, now);
    let patch = json!({"conditions": status.conditions, "deprecated": status.deprecated});
    context.patch_status(turn, &context.clusters, cluster, patch).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use plan::Document;
    use plan::orchestrator::Terms;
    use planner::{Impact, Why};

    use super::*;

    #[test]
    fn a_write_carries_only_our_keys_and_the_handshake() {
        let plan = Arc::new(Document::parse(b"{}".to_vec()).unwrap());
        let write = PlanWrite { plan, terms: Terms::default(), why: Why::Initial, impact: Impact::None };
        let marks = Marks {
            labels: BTreeMap::from([("l", None)]),
            annotations: BTreeMap::from([("a", Some("x".to_owned()))]),
            handshake: BTreeMap::from([("h", Some("y".to_owned())), ("off", None)]),
        };
        let data = BTreeMap::from([
            ("probe-statuses".to_owned(), b"{}".to_vec()),
            ("theirs".to_owned(), Vec::new()),
        ]);
        let made = patch(&data, Some(&marks), Some(&write), false, Timestamp::UNIX_EPOCH).unwrap().unwrap();
        assert_eq!(made["metadata"].get("labels"), None, "marks are not the Secret's");
        assert_eq!(made["metadata"]["annotations"].get("a"), None);
        assert_eq!(made["metadata"]["annotations"]["h"], "y");
        assert_eq!(made["metadata"]["annotations"]["off"], Value::Null);
        let marked = json!({"metadata": {"labels": {"l": null}, "annotations": {"a": "x"}}});
        assert_eq!(bootstrap_patch(&marks), Some(marked));
        assert_eq!(bootstrap_patch(&Marks { handshake: marks.handshake.clone(), ..Marks::default() }), None);
        assert_eq!(made["data"]["plan"], STANDARD.encode("{}"));
        assert_eq!(made["data"]["plan-state"], STANDARD.encode("pending"));
        assert_eq!(made["data"]["probe-statuses"], Value::Null);
        assert!(made["data"].get("theirs").is_none());
        let cancelled = patch(&data, None, None, true, Timestamp::UNIX_EPOCH).unwrap().unwrap();
        assert_eq!(cancelled, json!({"metadata": {}, "data": {"plan-state": STANDARD.encode("cancelled")}}));
        assert_eq!(patch(&data, None, None, false, Timestamp::UNIX_EPOCH).unwrap(), None);
    }
}
