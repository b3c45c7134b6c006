//! What a machine's status says. No IO.

use std::time::Duration;

use api::capi::v1beta2::{Machine, MachineStatus};
use api::catalogue::{annotations, conditions as types, reasons};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::conditions::legacy::{self, Severity};
use kit::conditions::{self, Finding, Gate, Reasons, Status};

use super::{Seen, SeenNode};
use crate::external::{self, Part, Shown};
use crate::{machines, phase, template};

fn status_of(machine: &mut Machine) -> &mut MachineStatus {
    machine.status.get_or_insert_default()
}

/// Writes conditions and the phase. Gives when to look again by itself.
pub(super) fn write(machine: &mut Machine, seen: &Seen, now: Timestamp) -> Option<Duration> {
    let generation = seen.object.meta().generation.unwrap_or_default();
    let mut list = std::mem::take(&mut status_of(machine).conditions);
    let at = (generation, now);
    show_providers(machine, seen, &mut list, at);
    let set = |list: &mut Vec<Condition>, finding| conditions::set(list, finding, generation, now);
    let mut waits = Vec::new();
    match node_findings(machine, seen, &list, now) {
        NodeFindings::Said(findings) => findings.into_iter().for_each(|finding| set(&mut list, finding)),
        NodeFindings::Keep(wait) => waits.push(wait),
    }
    if !seen.object.deleting() {
        set(&mut list, Finding::no(types::DELETING, reasons::NOT_DELETING));
    } else if conditions::has(&list, types::DELETING, Status::False)
        || conditions::find(&list, types::DELETING).is_none()
    {
        set(&mut list, Finding::yes(types::DELETING, reasons::DELETING).saying("Deletion started"));
    }
    let updating = seen.object.annotation(annotations::UPDATE_IN_PROGRESS).is_some();
    set(
        &mut list,
        match updating {
            true => Finding::yes(types::UPDATING, reasons::IN_PLACE_UPDATING),
            false => Finding::no(types::UPDATING, reasons::NOT_UPDATING),
        },
    );
    if let Some(finding) = up_to_date(machine, seen, updating, now) {
        set(&mut list, finding);
    }
    let ready = ready(machine, seen, &list, now);
    set(&mut list, ready);
    let (available, wait) = available(machine, &list, now);
    set(&mut list, available);
    waits.extend(wait);
    status_of(machine).conditions = list;
    write_legacy(machine, seen, now);
    let phase = phase::of_machine(machine, updating);
    let status = status_of(machine);
    if status.phase != phase {
        status.phase = phase.into();
        status.last_updated = Some(conditions::seconds(now));
    }
    waits.into_iter().min()
}

fn show_providers(machine: &Machine, seen: &Seen, list: &mut Vec<Condition>, at: (i64, Timestamp)) {
    let none = MachineStatus::default();
    let done = &machine.status.as_ref().unwrap_or(&none).initialization;
    let deleting = seen.object.deleting();
    match &machine.spec.bootstrap.config_ref {
        None => conditions::set(
            list,
            Finding::yes(types::BOOTSTRAP_CONFIG_READY, reasons::DATA_SECRET_PROVIDED),
            at.0,
            at.1,
        ),
        Some(reference) => {
            let shown = Shown {
                part: Part::Bootstrap,
                kind: &reference.kind,
                name: &reference.name,
                was_there: done.bootstrap_data_secret_created,
                deleting,
            };
            external::show(list, shown, &seen.bootstrap, at);
        }
    }
    let reference = &machine.spec.infrastructure_ref;
    let shown = Shown {
        part: Part::Infrastructure,
        kind: &reference.kind,
        name: &reference.name,
        was_there: done.infrastructure_provisioned,
        deleting,
    };
    external::show(list, shown, &seen.infrastructure, at);
}

enum NodeFindings {
    Said([Finding; 2]),
    /// What was last known stands, for so long.
    Keep(Duration),
}

fn both(status: Status, reason: &str, message: &str) -> NodeFindings {
    let finding = |type_| Finding::new(type_, status, reason).saying(message);
    NodeFindings::Said([finding(types::NODE_READY), finding(types::NODE_HEALTHY)])
}

fn node_findings(machine: &Machine, seen: &Seen, list: &[Condition], now: Timestamp) -> NodeFindings {
    let referred = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
    match &seen.node {
        SeenNode::NotLooked(why) => both(Status::Unknown, reasons::INSPECTION_FAILED, why),
        SeenNode::NotReached(why) => not_reached(seen, list, why, now),
        SeenNode::Several(names) => {
            let message = format!(
                "Nodes {} have the same spec.providerID {}",
                names.join(", "),
                machine.spec.provider_id
            );
            both(Status::Unknown, reasons::INTERNAL_ERROR, &message)
        }
        SeenNode::Missing => match referred {
            Some(node) if seen.object.deleting() => {
                both(Status::False, reasons::NODE_DELETED, &format!("Node {} has been deleted", node.name))
            }
            Some(node) => {
                let message = format!("Node {} has been deleted while the Machine still exists", node.name);
                both(Status::False, reasons::NODE_DELETED, &message)
            }
            None if seen.object.deleting() => {
                both(Status::Unknown, reasons::NODE_DOES_NOT_EXIST, "Node does not exist")
            }
            None => {
                let message =
                    format!("Waiting for a Node with spec.providerID {} to exist", machine.spec.provider_id);
                both(Status::Unknown, reasons::INSPECTION_FAILED, &message)
            }
        },
        SeenNode::There(_, node) => NodeFindings::Said([node_ready(node), node_healthy(node)]),
    }
}

/// A cluster that is not reached for a while does not make its nodes unknown.
fn not_reached(seen: &Seen, list: &[Condition], why: &str, now: Timestamp) -> NodeFindings {
    let known = conditions::find(list, types::NODE_HEALTHY).is_some();
    let initialized = seen
        .cluster
        .status
        .as_ref()
        .and_then(|status| conditions::find(&status.conditions, types::CONTROL_PLANE_INITIALIZED));
    let initialized = initialized.filter(|one| one.status == "True").map(|one| one.last_transition_time.0);
    let Some(since) = seen.health.last_success.into_iter().chain(initialized).max() else {
        return both(Status::Unknown, reasons::CONNECTION_DOWN, "Remote connection not established yet");
    };
    let passed = now.duration_since(since);
    if known && passed < seen.node_grace {
        return NodeFindings::Keep(
            Duration::try_from(seen.node_grace - passed).unwrap_or_default() + Duration::from_secs(1),
        );
    }
    let message = match seen.health.last_success {
        Some(success) => {
            let success = Timestamp::from_second(success.as_second()).unwrap_or(success);
            format!("Last successful probe at {success}")
        }
        None => format!("Remote connection not established yet: {why}"),
    };
    both(Status::Unknown, reasons::CONNECTION_DOWN, &message)
}

fn listed(node: &Node) -> &[NodeCondition] {
    node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

fn node_ready(node: &Node) -> Finding {
    let Some(found) = listed(node).iter().find(|one| one.type_ == "Ready") else {
        return Finding::unknown(types::NODE_READY, reasons::NODE_READY_UNKNOWN)
            .saying("* Node.Ready: Condition not yet reported");
    };
    let message = found.message.clone().unwrap_or_default();
    let told = |text: String| if text.is_empty() { text } else { format!("* Node.Ready: {text}") };
    match Status::read(&found.status) {
        Some(Status::True) => Finding::yes(types::NODE_READY, reasons::NODE_READY).saying(told(message)),
        Some(Status::False) => Finding::no(types::NODE_READY, reasons::NODE_NOT_READY).saying(told(message)),
        _ => Finding::unknown(types::NODE_READY, reasons::NODE_READY_UNKNOWN).saying(told(message)),
    }
}

fn node_healthy(node: &Node) -> Finding {
    let mut issues: Vec<(&str, String)> = Vec::new();
    let mut unknown: Vec<(&str, String)> = Vec::new();
    let mut message = String::new();
    for (type_, good) in
        [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False")]
    {
        let found = listed(node).iter().find(|one| one.type_ == type_);
        let text = found.and_then(|one| one.message.clone()).unwrap_or_default();
        match found.map(|one| one.status.as_str()) {
            Some(status) if status == good => {
                if type_ == "Ready" && !text.is_empty() {
                    message = format!("* Node.Ready: {text}");
                }
            }
            Some("True" | "False") => issues.push((type_, text)),
            Some(_) => unknown.push((type_, text)),
            None => unknown.push((type_, "Condition not yet reported".into())),
        }
    }
    match (issues.is_empty(), unknown.is_empty()) {
        (true, true) => Finding::yes(types::NODE_HEALTHY, reasons::NODE_HEALTHY).saying(message),
        (false, _) => {
            let all: Vec<_> = issues.into_iter().chain(unknown).collect();
            Finding::no(types::NODE_HEALTHY, reasons::NODE_NOT_HEALTHY).saying(lines(&all))
        }
        (true, false) => {
            Finding::unknown(types::NODE_HEALTHY, reasons::NODE_HEALTHY_UNKNOWN).saying(lines(&unknown))
        }
    }
}

/// What conditions of a node say; once, if all four say the same.
fn lines(all: &[(&str, String)]) -> String {
    let same = all.windows(2).all(|pair| pair[0].1 == pair[1].1);
    if all.len() == 4 && same {
        return format!("* Node.AllConditions: {}", all[0].1);
    }
    all.iter().map(|(type_, text)| format!("* Node.{type_}: {text}")).collect::<Vec<_>>().join("\n")
}

fn up_to_date(machine: &Machine, seen: &Seen, updating: bool, now: Timestamp) -> Option<Finding> {
    let ((_, set), (_, deployment)) = seen.set.as_ref().zip(seen.deployment.as_ref())?;
    let lines = template::outdated(set, deployment, now);
    if !lines.is_empty() {
        return Some(Finding::no(types::UP_TO_DATE, reasons::NOT_UP_TO_DATE).saying(lines.join("\n")));
    }
    let kubelet = machine
        .status
        .as_ref()
        .and_then(|status| status.node_info.as_ref())
        .map(|info| info.kubelet_version.as_str());
    let differs =
        kubelet.is_some_and(|running| !machine.spec.version.is_empty() && running != machine.spec.version);
    Some(match (updating, differs) {
        (true, _) => {
            Finding::no(types::UP_TO_DATE, reasons::UPDATING).saying("* In-place update in progress")
        }
        (_, true) => {
            let message =
                format!("* Version {}, {} required", kubelet.unwrap_or_default(), machine.spec.version);
            Finding::no(types::UP_TO_DATE, reasons::UPDATING).saying(message)
        }
        _ => Finding::yes(types::UP_TO_DATE, reasons::UP_TO_DATE),
    })
}

fn ready(machine: &Machine, seen: &Seen, list: &[Condition], now: Timestamp) -> Finding {
    let deleting = seen.object.deleting();
    let soft = |type_: &str| Gate::positive(type_).told_as(external::softened(list, type_, deleting));
    let mut gates = vec![
        Gate::negative(types::DELETING).told_as(deletion(machine, list, now)),
        Gate::negative(types::UPDATING),
        soft(types::BOOTSTRAP_CONFIG_READY),
        soft(types::INFRASTRUCTURE_READY),
        Gate::positive(types::NODE_HEALTHY),
        Gate::positive(types::HEALTH_CHECK_SUCCEEDED).optional(),
    ];
    gates.extend(machines::gates(&machine.spec.readiness_gates));
    let reasons =
        Reasons { issue: reasons::NOT_READY, unknown: reasons::READY_UNKNOWN, info: reasons::READY };
    let said = conditions::summary(types::READY, &gates, list, reasons);
    Finding { message: together(&said.message), ..said }
}

/// What a control plane provider has machines say of the pods on them.
const COMPONENTS: [&str; 4] =
    ["APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy"];

/// Components of a control plane that all say the same say it once.
fn together(message: &str) -> String {
    let component = |line: &str| -> Option<String> {
        let (type_, text) = line.strip_prefix("* ")?.split_once(": ")?;
        COMPONENTS.contains(&type_).then(|| text.to_owned())
    };
    let said: Vec<String> = message.lines().filter_map(component).collect();
    if said.len() < 2 || said.iter().any(|text| *text != said[0]) {
        return message.to_owned();
    }
    let mut lines: Vec<String> =
        message.lines().filter(|line| component(line).is_none()).map(str::to_owned).collect();
    lines.push(format!("* Control plane components: {}", said[0]));
    lines.join("\n")
}

/// A deletion as the summary tells it: the stage, and since when if it takes long.
fn deletion(machine: &Machine, list: &[Condition], now: Timestamp) -> Option<Finding> {
    let since = machine.metadata.deletion_timestamp.as_ref()?;
    let condition = conditions::find(list, types::DELETING)?;
    let long = now.duration_since(since.0) > machines::STALE_DELETION;
    let delays = machines::delays(machine, now);
    let mut message = String::from("Machine deletion in progress");
    if long {
        message.push_str(" since more than 15m");
    }
    message.push_str(&format!(", stage: {}", condition.reason));
    if long && !delays.is_empty() {
        message.push_str(&format!(", delay likely due to {}", delays.join(", ")));
    }
    Some(Finding { message, ..Finding::from(condition) })
}

/// Whether the machine has been ready for long enough, and when it will have been.
fn available(machine: &Machine, list: &[Condition], now: Timestamp) -> (Finding, Option<Duration>) {
    let least = SignedDuration::from_secs(machine.spec.min_ready_seconds.unwrap_or_default().into());
    let Some(ready) = conditions::find(list, types::READY).filter(|ready| ready.status == "True") else {
        return (Finding::no(types::AVAILABLE, reasons::NOT_READY), None);
    };
    let passed = now.duration_since(ready.last_transition_time.0);
    if passed >= least {
        return (Finding::yes(types::AVAILABLE, reasons::AVAILABLE), None);
    }
    let wait = Duration::try_from(least - passed).unwrap_or_default();
    (
        Finding::no(types::AVAILABLE, reasons::WAITING_FOR_MIN_READY_SECONDS),
        Some(wait + Duration::from_secs(1)),
    )
}

fn write_legacy(machine: &mut Machine, seen: &Seen, now: Timestamp) {
    let done = status_of(machine).initialization.clone();
    let secret = done.bootstrap_data_secret_created == Some(true);
    let provisioned = done.infrastructure_provisioned == Some(true);
    let own_secret = machine.spec.bootstrap.config_ref.is_none();
    let referred = status_of(machine).node_ref.is_some();
    let health = conditions::find(&status_of(machine).conditions, types::NODE_HEALTHY).cloned();
    let waiting_for_id = machine.spec.provider_id.is_empty();
    let deprecated = status_of(machine).deprecated.get_or_insert_default();
    let list = &mut deprecated.v1beta1.get_or_insert_default().conditions;
    match own_secret {
        true => legacy::mark_true(list, types::BOOTSTRAP_READY, now),
        false => external::show_legacy(
            list,
            types::BOOTSTRAP_READY,
            &seen.bootstrap,
            secret,
            reasons::WAITING_FOR_DATA_SECRET,
            now,
        ),
    }
    external::show_legacy(
        list,
        types::INFRASTRUCTURE_READY,
        &seen.infrastructure,
        provisioned,
        reasons::WAITING_FOR_INFRASTRUCTURE,
        now,
    );
    let mut node = |reason: &str, severity, message: &str| {
        legacy::mark_false(list, types::NODE_HEALTHY, severity, reason, message, now);
    };
    match &seen.node {
        _ if waiting_for_id => node(reasons::WAITING_FOR_NODE_REF, Severity::Info, ""),
        SeenNode::NotLooked(_) => node(reasons::WAITING_FOR_NODE_REF, Severity::Info, ""),
        SeenNode::Missing if referred => node(reasons::NODE_NOT_FOUND, Severity::Error, ""),
        SeenNode::Missing => node(
            reasons::NODE_PROVISIONING,
            Severity::Warning,
            "Waiting for a node with matching ProviderID to exist",
        ),
        SeenNode::Several(_) => {
            node(reasons::NODE_INSPECTION_FAILED, Severity::Warning, "Several nodes have the same ProviderID")
        }
        SeenNode::NotReached(_) => {}
        SeenNode::There(..) => match health.as_ref().map(|one| (one.status.as_str(), one.message.as_str())) {
            Some(("True", _)) => legacy::mark_true(list, types::NODE_HEALTHY, now),
            Some((_, message)) => node(reasons::NODE_CONDITIONS_FAILED, Severity::Warning, message),
            None => {}
        },
    }
    let types = [
        types::INFRASTRUCTURE_READY,
        types::BOOTSTRAP_READY,
        types::HEALTH_CHECK_SUCCEEDED,
        types::OWNER_REMEDIATED,
        types::DRAINING_SUCCEEDED,
    ];
    legacy::summarise(list, &types, now);
}

#[cfg(test)]
mod tests {
    use super::together;

    #[test]
    fn components_that_say_the_same_say_it_once() {
        let same = "* NodeHealthy: gone\n* APIServerPodHealthy: unknown\n* SchedulerPodHealthy: unknown";
        assert_eq!(together(same), "* NodeHealthy: gone\n* Control plane components: unknown");
        for other in ["* APIServerPodHealthy: unknown", "* APIServerPodHealthy: a\n* EtcdPodHealthy: b", ""] {
            assert_eq!(together(other), other);
        }
    }
}
