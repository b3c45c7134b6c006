//! Conditions: back to the cluster from everything that stands behind it.

use api::GenericCondition;
use api::catalogue::{conditions, reasons};
use api::management::v3::ClusterStatus as ManagementStatus;
use api::provisioning::v1::{Cluster, ClusterStatus};
use api::rke::v1::RKEControlPlane;

use crate::Wait;
use crate::graph::Hold;

const TRUE: &str = "True";
const FALSE: &str = "False";
const UNKNOWN: &str = "Unknown";

/// A condition without its times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

impl Finding {
    /// It is so.
    pub fn yes() -> Self {
        Finding { status: TRUE.into(), ..Default::default() }
    }

    /// It is not so, because of an error.
    pub fn error(message: impl Into<String>) -> Self {
        Finding { status: FALSE.into(), reason: reasons::ERROR.into(), message: message.into() }
    }

    /// It is not known, because something is waited for.
    pub fn waiting(message: impl Into<String>) -> Self {
        Finding { status: UNKNOWN.into(), reason: reasons::WAITING.into(), message: message.into() }
    }

    /// A wait under its own code.
    pub fn of_wait(wait: &Wait) -> Self {
        Finding { status: UNKNOWN.into(), reason: wait.code.as_str().into(), message: wait.to_string() }
    }

    fn of(condition: &GenericCondition) -> Self {
        Finding {
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }
    }
}

/// Sets a condition. Times move only with what they speak of: `now` (RFC 3339) is written where something changed.
pub fn set(conditions: &mut Vec<GenericCondition>, type_: &str, finding: Finding, now: &str) {
    let Finding { status, reason, message } = finding;
    let Some(existing) = conditions.iter_mut().find(|condition| condition.type_ == type_) else {
        let new = GenericCondition {
            type_: type_.into(),
            status,
            last_update_time: now.into(),
            last_transition_time: now.into(),
            reason,
            message,
        };
        conditions.push(new);
        return;
    };
    if (&existing.status, &existing.reason, &existing.message) == (&status, &reason, &message) {
        return;
    }
    existing.last_update_time = now.into();
    if existing.status != status {
        existing.last_transition_time = now.into();
    }
    (existing.status, existing.reason, existing.message) = (status, reason, message);
}

/// What a pass of the provisioning controller has seen and done.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'a> {
    /// How the graph came out: done, or why not.
    pub graph: Result<(), &'a Hold>,
    /// The control plane that exists.
    pub control_plane: Option<&'a RKEControlPlane>,
    /// What is in the way, the most basic first.
    pub waits: &'a [Wait],
    /// The management cluster's status.
    pub management: Option<&'a ManagementStatus>,
    /// Time of the pass, RFC 3339.
    pub now: &'a str,
}

/// The cluster's status after a pass.
pub fn cluster(cluster: &Cluster, management_name: &str, pass: Pass<'_>) -> ClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    status.cluster_name = management_name.into();
    if status.fleet_workspace_name.is_empty() {
        status.fleet_workspace_name = cluster.metadata.namespace.clone().unwrap_or_default();
    }
    status.observed_generation = cluster.metadata.generation.unwrap_or_default();
    if let Some(management) = pass.management {
        let is_true = |type_| {
            GenericCondition::find(&management.conditions, type_).is_some_and(GenericCondition::is_true)
        };
        // Once connected, always ready: the kubeconfig must not go because a tunnel does.
        status.ready |= is_true(conditions::CONNECTED);
        status.agent_deployed = is_true(conditions::AGENT_DEPLOYED);
    }
    let mut set = |type_: &str, finding| set(&mut status.conditions, type_, finding, pass.now);
    set(conditions::CREATED, Finding::yes());
    set(conditions::RKE_CLUSTER, graph(pass.graph));
    if let Some(ready) = readiness(pass.control_plane, pass.waits) {
        for type_ in [conditions::UPDATED, conditions::PROVISIONED, conditions::READY] {
            set(type_, ready.clone());
        }
    }
    let (reconciling, stalled) = progress(status.ready, pass.graph);
    set(conditions::RECONCILING, reconciling);
    set(conditions::STALLED, stalled);
    status
}

fn graph(outcome: Result<(), &Hold>) -> Finding {
    match outcome {
        Ok(()) | Err(Hold::Nothing) => Finding::yes(),
        Err(Hold::Waiting(wait)) => Finding::of_wait(wait),
        Err(Hold::Refused(refusal)) => Finding::error(refusal.to_string()),
    }
}

/// What `kubectl wait` and GitOps tools go by: something goes on; nothing can go on.
fn progress(ready: bool, outcome: Result<(), &Hold>) -> (Finding, Finding) {
    let no = || Finding { status: FALSE.into(), ..Default::default() };
    match outcome {
        Err(Hold::Refused(refusal)) => {
            let stalled = Finding { status: TRUE.into(), ..Finding::error(refusal.to_string()) };
            (no(), stalled)
        }
        _ if ready => (no(), no()),
        _ => (Finding::yes(), no()),
    }
}

/// The control plane's word. While it waits for what is below it, what is really in the way follows in the message.
fn readiness(control_plane: Option<&RKEControlPlane>, waits: &[Wait]) -> Option<Finding> {
    let status = control_plane.and_then(|one| one.status.as_ref());
    let ready = status.and_then(|status| GenericCondition::find(&status.conditions, conditions::READY));
    match (ready.map(Finding::of), waits.first()) {
        (None, None) => None,
        (None, Some(wait)) => Some(Finding::waiting(wait.to_string())),
        (Some(finding), Some(wait)) if finding.status != TRUE => {
            let message = match finding.message.as_str() {
                "" => wait.to_string(),
                words => format!("{words}: {wait}"),
            };
            Some(Finding { message, ..finding })
        }
        (Some(finding), _) => Some(finding),
    }
}

/// The management cluster's status after a pass.
pub fn management(
    existing: &ManagementStatus,
    control_plane: &RKEControlPlane,
    now: &str,
) -> ManagementStatus {
    let mut status = existing.clone();
    let found = control_plane.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let find = |type_| GenericCondition::find(found, type_);
    status.ready_reconciling = !find(conditions::STABLE).is_some_and(GenericCondition::is_true);
    let mut copy = |type_, from| {
        if let Some(condition) = find(from) {
            set(&mut status.conditions, type_, Finding::of(condition), now);
        }
    };
    copy(conditions::UPDATED, conditions::READY);
    copy(conditions::PROVISIONED, conditions::PROVISIONED);
    if existing.ready_reconciling || status.ready_reconciling {
        copy(conditions::READY, conditions::READY);
    }
    status
}

/// The conditions of a cluster that is being deleted.
pub fn removing(existing: &[GenericCondition], removed: Finding, now: &str) -> Vec<GenericCondition> {
    let mut all = existing.to_vec();
    for type_ in [conditions::PROVISIONED, conditions::WAITING, conditions::PENDING, conditions::UPDATED] {
        set(&mut all, type_, Finding::yes(), now);
    }
    set(&mut all, conditions::REMOVED, removed, now);
    all
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
