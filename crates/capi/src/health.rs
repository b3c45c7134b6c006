//! Which machines a MachineHealthCheck finds unhealthy, and whether anything is done about it.

use std::time::Duration;

use api::capi::v1beta2::values::condition_status;
use api::capi::v1beta2::{HealthChecks, Machine, RemediationTrigger};
use api::catalogue::{annotations, conditions as types, labels, reasons};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kit::conditions::{self, Status};

use crate::rollout::{self, NotACount, Rounding};

/// How long a machine may take to become a node, if the spec does not say.
pub const NODE_STARTUP_SECONDS: i32 = 600;

/// The node of a machine, as far as it can be seen.
#[derive(Clone, Copy, Debug)]
pub enum SeenNode<'a> {
    /// It is there.
    There(&'a Node),
    /// The machine has not become one yet.
    NotYet,
    /// It was there and is gone.
    Gone,
}

/// What a machine is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its node.
    pub node: SeenNode<'a>,
}

/// What of the cluster a judgement depends on.
#[derive(Clone, Copy, Debug)]
pub struct ClusterState {
    /// Since when the infrastructure is there; none if it is not.
    pub infrastructure_since: Option<Timestamp>,
    /// Since when the control plane is initialised; none if it is not.
    pub control_plane_since: Option<Timestamp>,
}

/// What is found of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Healthy,
    /// It cannot be told yet; look again at the time given, if any.
    Pending(Option<Timestamp>),
    /// Something is wrong.
    Unhealthy {
        /// In one word, for the new conditions.
        reason: &'static str,
        /// In one word, for the old ones.
        legacy: &'static str,
        /// For people.
        message: String,
    },
}

/// Judges a machine.
pub fn judge(target: Target<'_>, checks: &HealthChecks, cluster: ClusterState, now: Timestamp) -> Verdict {
    let machine = target.machine;
    if noted(machine, annotations::REMEDIATE_MACHINE) {
        return unhealthy(
            reasons::HAS_REMEDIATE_ANNOTATION,
            reasons::HAS_REMEDIATE_MACHINE_ANNOTATION,
            &["Marked for remediation via remediate-machine annotation".into()],
        );
    }
    let control_plane =
        machine.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::CAPI_CONTROL_PLANE));
    let (Some(infrastructure), true) =
        (cluster.infrastructure_since, cluster.control_plane_since.is_some() || control_plane)
    else {
        return Verdict::Pending(None);
    };
    let mut look_again: Option<Timestamp> = None;
    let mut wait = |until: Timestamp| look_again = Some(look_again.map_or(until, |known| known.min(until)));
    let mut problems: Vec<(&'static str, &'static str, String)> = Vec::new();
    machine_conditions(machine, checks, now, &mut wait, &mut problems);
    let begin = [Some(infrastructure), cluster.control_plane_since, machine_infrastructure_since(machine)];
    node_problems(target, checks, begin, now, &mut wait, &mut problems);
    if let Some((reason, legacy, _)) = problems.first() {
        let lines: Vec<String> = problems.iter().map(|(.., line)| line.clone()).collect();
        return unhealthy(reason, legacy, &lines);
    }
    let there = matches!(target.node, SeenNode::There(_));
    match look_again {
        None if there && machine.metadata.deletion_timestamp.is_none() => Verdict::Healthy,
        until => Verdict::Pending(until),
    }
}

fn unhealthy(reason: &'static str, legacy: &'static str, lines: &[String]) -> Verdict {
    let lines: String = lines.iter().map(|line| format!("\n  * {line}")).collect();
    Verdict::Unhealthy { reason, legacy, message: format!("Health check failed:{lines}") }
}

fn noted(machine: &Machine, annotation: &str) -> bool {
    machine.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation))
}

fn machine_conditions(
    machine: &Machine,
    checks: &HealthChecks,
    now: Timestamp,
    wait: &mut dyn FnMut(Timestamp),
    problems: &mut Vec<(&'static str, &'static str, String)>,
) {
    let Some(status) = &machine.status else { return };
    for check in &checks.unhealthy_machine_conditions {
        let Some(found) = conditions::find(&status.conditions, &check.type_) else { continue };
        if found.status != check.status {
            continue;
        }
        let until = after(found.last_transition_time.0, check.timeout_seconds);
        match now >= until {
            false => wait(until),
            true => problems.push((
                reasons::UNHEALTHY_MACHINE,
                reasons::UNHEALTHY_MACHINE,
                format!(
                    "Condition {} on Machine is reporting status {} for more than {}",
                    check.type_,
                    check.status,
                    span(check.timeout_seconds)
                ),
            )),
        }
    }
}

fn node_problems(
    target: Target<'_>,
    checks: &HealthChecks,
    begin: [Option<Timestamp>; 3],
    now: Timestamp,
    wait: &mut dyn FnMut(Timestamp),
    problems: &mut Vec<(&'static str, &'static str, String)>,
) {
    match target.node {
        SeenNode::Gone => {
            let name = target.machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
            let name = name.map(|node| node.name.as_str()).unwrap_or_default();
            problems.push((
                reasons::NODE_DELETED,
                reasons::NODE_NOT_FOUND,
                format!("Node {name} has been deleted"),
            ));
        }
        SeenNode::NotYet => {
            let seconds = checks.node_startup_timeout_seconds.unwrap_or(NODE_STARTUP_SECONDS);
            if seconds == 0 {
                return;
            }
            let created = target.machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let Some(begin) = begin.into_iter().flatten().chain(created).max() else { return };
            let until = after(begin, seconds);
            match now >= until {
                false => wait(until),
                true => problems.push((
                    reasons::NODE_STARTUP_TIMEOUT,
                    reasons::NODE_STARTUP_TIMEOUT,
                    format!("Node failed to report startup in {}", span(seconds)),
                )),
            }
        }
        SeenNode::There(node) => {
            let listed =
                node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
            for check in &checks.unhealthy_node_conditions {
                let Some(found) = listed.iter().find(|one| one.type_ == check.type_) else { continue };
                if found.status != check.status {
                    continue;
                }
                let since = found.last_transition_time.as_ref().map_or(now, |time| time.0);
                let until = after(since, check.timeout_seconds);
                match now >= until {
                    false => wait(until),
                    true => problems.push((
                        reasons::UNHEALTHY_NODE,
                        reasons::UNHEALTHY_NODE,
                        format!(
                            "Condition {} on Node is reporting status {} for more than {}",
                            check.type_,
                            check.status,
                            span(check.timeout_seconds)
                        ),
                    )),
                }
            }
        }
    }
}

fn machine_infrastructure_since(machine: &Machine) -> Option<Timestamp> {
    let listed = &machine.status.as_ref()?.conditions;
    let ready = conditions::find(listed, types::INFRASTRUCTURE_READY)?;
    (ready.status == condition_status::TRUE).then_some(ready.last_transition_time.0)
}

fn after(since: Timestamp, seconds: i32) -> Timestamp {
    since.saturating_add(SignedDuration::from_secs(seconds.into())).unwrap_or(Timestamp::MAX)
}

/// Seconds as Go writes them: `5m0s`.
fn span(seconds: i32) -> String {
    let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or_default()).as_secs();
    let (hours, minutes, seconds) = (duration / 3600, duration / 60 % 60, duration % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Whether a MachineHealthCheck looks at a machine that its selector takes.
pub fn looks_at(machine: &Machine) -> bool {
    !noted(machine, annotations::PAUSED) && !noted(machine, annotations::SKIP_REMEDIATION)
}

/// Whether anything is done about unhealthy machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Whether it is.
    pub allowed: bool,
    /// How many more may become unhealthy before nothing is done any longer; 0 if nothing is.
    pub left: i32,
    /// Why nothing is done.
    pub message: String,
}

/// Why a budget cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Not a number.
    #[error("spec.remediation.triggerIf.unhealthyLessThanOrEqualTo: {0}")]
    Limit(#[from] NotACount),
    /// Not a range.
    #[error("spec.remediation.triggerIf.unhealthyInRange: {0:?} is no range such as \"[3-5]\"")]
    Range(String),
}

/// Whether anything is done when `healthy` of `total` machines are healthy.
///
/// # Errors
/// If the trigger cannot be read.
pub fn budget(trigger: &RemediationTrigger, total: i32, healthy: i32) -> Result<Budget, BudgetError> {
    let unhealthy = total - healthy;
    let restricted = |rule: String| {
        format!(
            "Remediation is not allowed, the number of not started or unhealthy machines {rule} (total: {total}, unhealthy: {unhealthy})"
        )
    };
    if !trigger.unhealthy_in_range.is_empty() {
        let (low, high) = range(&trigger.unhealthy_in_range)?;
        let allowed = (low..=high).contains(&unhealthy);
        return Ok(Budget {
            allowed,
            left: if allowed { high - unhealthy } else { 0 },
            message: if allowed {
                String::new()
            } else {
                restricted(format!("does not fall within the range [{low}-{high}]"))
            },
        });
    }
    let everything = IntOrString::String("100%".into());
    let limit = trigger.unhealthy_less_than_or_equal_to.as_ref().unwrap_or(&everything);
    let most = rollout::count(limit, total, Rounding::Down)?;
    let left = most - unhealthy;
    let allowed = left >= 0;
    let message = if allowed { String::new() } else { restricted(format!("exceeds maxUnhealthy {most}")) };
    Ok(Budget { allowed, left: left.max(0), message })
}

/// The bounds of a range such as `[3-5]`.
///
/// # Errors
/// If the text is none.
pub fn range(text: &str) -> Result<(i32, i32), BudgetError> {
    let bad = || BudgetError::Range(text.into());
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or_else(bad)?;
    let (low, high) = inner.split_once('-').ok_or_else(bad)?;
    match (low.trim().parse(), high.trim().parse()) {
        (Ok(low), Ok(high)) if low <= high => Ok((low, high)),
        _ => Err(bad()),
    }
}

/// Whether the machine was found unhealthy and its owner is to replace it, and has not begun.
pub fn to_be_remediated(machine: &Machine) -> bool {
    let Some(status) = &machine.status else { return false };
    let no = |type_| conditions::has(&status.conditions, type_, Status::False);
    no(types::HEALTH_CHECK_SUCCEEDED)
        && no(types::OWNER_REMEDIATED)
        && machine.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn machine(change: &Value) -> Machine {
        let mut document = json!({
            "metadata": {"name": "m", "creationTimestamp": "2026-01-01T00:55:00Z"},
            "status": {"nodeRef": {"name": "n"}}
        });
        for (path, value) in change.as_object().unwrap() {
            let (parent, field) = path.split_once('.').unwrap();
            document[parent][field] = value.clone();
        }
        serde_json::from_value(document).unwrap()
    }

    fn node(ready: &str, since: &str) -> Node {
        let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": since}]);
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}}))
            .unwrap()
    }

    fn checks() -> HealthChecks {
        serde_json::from_value(json!({
            "unhealthyNodeConditions": [
                {"type": "Ready", "status": "False", "timeoutSeconds": 300},
                {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}
            ],
            "unhealthyMachineConditions": [{"type": "Etcd", "status": "False", "timeoutSeconds": 60}]
        }))
        .unwrap()
    }

    fn up() -> ClusterState {
        let since = Some(time("2026-01-01T00:50:00Z"));
        ClusterState { infrastructure_since: since, control_plane_since: since }
    }

    fn found(machine: &Machine, node: SeenNode<'_>, cluster: ClusterState) -> (String, Option<String>) {
        match judge(Target { machine, node }, &checks(), cluster, time(NOW)) {
            Verdict::Healthy => ("healthy".into(), None),
            Verdict::Pending(until) => ("pending".into(), until.map(|time| time.to_string())),
            Verdict::Unhealthy { reason, message, .. } => (reason.into(), Some(message)),
        }
    }

    #[test]
    fn nodes_are_judged() {
        let plain = machine(&json!({}));
        let well = node("True", "2026-01-01T00:00:00Z");
        let sick = node("Unknown", "2026-01-01T00:54:00Z");
        let odd = node("False", "2026-01-01T00:56:00Z");
        assert_eq!(found(&plain, SeenNode::There(&well), up()), ("healthy".into(), None));
        let (reason, message) = found(&plain, SeenNode::There(&sick), up());
        assert_eq!(reason, "UnhealthyNode");
        assert_eq!(
            message.unwrap(),
            "Health check failed:\n  * Condition Ready on Node is reporting status Unknown for more than 5m0s"
        );
        assert_eq!(
            found(&plain, SeenNode::There(&odd), up()),
            ("pending".into(), Some("2026-01-01T01:01:00Z".into()))
        );
        assert_eq!(found(&plain, SeenNode::Gone, up()).0, "NodeDeleted");
    }

    #[test]
    fn a_node_that_never_comes_is_given_time_from_the_latest_start() {
        let young = machine(&json!({"status.nodeRef": null}));
        let old =
            machine(&json!({"status.nodeRef": null, "metadata.creationTimestamp": "2026-01-01T00:10:00Z"}));
        assert_eq!(
            found(&young, SeenNode::NotYet, up()),
            ("pending".into(), Some("2026-01-01T01:05:00Z".into()))
        );
        assert_eq!(
            found(&old, SeenNode::NotYet, up()).0,
            "NodeStartupTimeout",
            "ten minutes since the cluster"
        );
        let late = ClusterState { control_plane_since: Some(time("2026-01-01T00:55:00Z")), ..up() };
        assert_eq!(
            found(&old, SeenNode::NotYet, late),
            ("pending".into(), Some("2026-01-01T01:05:00Z".into()))
        );
    }

    #[test]
    fn nothing_is_judged_before_the_cluster_is_up_but_what_a_user_marked() {
        let down = ClusterState { control_plane_since: None, ..up() };
        let worker = machine(&json!({}));
        let server = machine(&json!({"metadata.labels": {labels::CAPI_CONTROL_PLANE: ""}}));
        let marked = machine(&json!({"metadata.annotations": {annotations::REMEDIATE_MACHINE: ""}}));
        assert_eq!(found(&worker, SeenNode::Gone, down), ("pending".into(), None));
        assert_eq!(found(&server, SeenNode::Gone, down).0, "NodeDeleted");
        assert_eq!(found(&marked, SeenNode::NotYet, down).0, "HasRemediateAnnotation");
        let bare = ClusterState { infrastructure_since: None, ..up() };
        assert_eq!(found(&worker, SeenNode::Gone, bare), ("pending".into(), None));
    }

    #[test]
    fn conditions_of_the_machine_are_judged_too() {
        let condition = json!([{"type": "Etcd", "status": "False", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:58:00Z"}]);
        let sick = machine(&json!({"status.conditions": condition}));
        let (reason, message) = found(&sick, SeenNode::Gone, up());
        assert_eq!(reason, "UnhealthyMachine");
        assert!(message.unwrap().contains("\n  * Condition Etcd on Machine is reporting status False for more than 1m0s\n  * Node n has been deleted"));
    }

    #[test]
    fn a_going_machine_is_not_healthy() {
        let going = machine(&json!({"metadata.deletionTimestamp": NOW}));
        let well = node("True", "2026-01-01T00:00:00Z");
        assert_eq!(found(&going, SeenNode::There(&well), up()), ("pending".into(), None));
    }

    #[test]
    fn budgets() {
        let most = |text: &str| RemediationTrigger {
            unhealthy_less_than_or_equal_to: Some(match text.parse() {
                Ok(number) => IntOrString::Int(number),
                Err(_) => IntOrString::String(text.into()),
            }),
            unhealthy_in_range: String::new(),
        };
        let within = |text: &str| RemediationTrigger { unhealthy_in_range: text.into(), ..most("0") };
        let cases = [
            (RemediationTrigger::default(), 3, 0, Some((true, 0))),
            (RemediationTrigger::default(), 3, 2, Some((true, 2))),
            (most("40%"), 5, 3, Some((true, 0))),
            (most("40%"), 4, 2, Some((false, 0))),
            (most("1"), 4, 4, Some((true, 1))),
            (within("[2-3]"), 5, 4, Some((false, 0))),
            (within("[2-3]"), 5, 3, Some((true, 1))),
            (within("[2-3]"), 5, 1, Some((false, 0))),
            (most("x"), 5, 1, None),
            (within("[3-2]"), 5, 1, None),
        ];
        for (trigger, total, healthy, expected) in cases {
            let found = budget(&trigger, total, healthy).ok().map(|budget| (budget.allowed, budget.left));
            assert_eq!(found, expected, "{trigger:?} {healthy}/{total}");
        }
    }
}
