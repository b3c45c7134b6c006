//! What a set's status says. No IO.

use api::capi::v1beta2::{Machine, MachineSet, MachineSetStatus};
use api::catalogue::{conditions as types, reasons};
use jiff::Timestamp;
use kit::conditions::legacy::{self, Severity};
use kit::conditions::{self, Finding, Status};

use super::{Outcome, Seen, scale};
use crate::machines::{self, Counted};
use crate::selector::Selector;

/// Writes counters and conditions.
pub(super) fn write(set: &mut MachineSet, seen: &Seen, outcome: &Outcome, now: Timestamp) {
    let generation = seen.object.meta().generation.unwrap_or_default();
    let counted = Counted::of(seen.machines.iter().map(|(_, machine)| &**machine));
    let findings = findings(set, seen, outcome, &counted, now);
    let selector = Selector::read(&set.spec.selector).map(|selector| selector.text()).unwrap_or_default();
    let wanted = set.spec.replicas.unwrap_or_default();
    let template = set.spec.template.metadata.labels.clone();
    let status: &mut MachineSetStatus = set.status.get_or_insert_default();
    for finding in findings {
        conditions::set(&mut status.conditions, finding, generation, now);
    }
    status.selector = selector;
    status.replicas = Some(counted.replicas);
    status.ready_replicas = Some(counted.ready);
    status.available_replicas = Some(counted.available);
    status.up_to_date_replicas = Some(counted.up_to_date);
    status.versions = counted.versions();
    write_legacy(status, seen, outcome, (wanted, &counted), &template, now);
}

fn findings(
    set: &MachineSet,
    seen: &Seen,
    outcome: &Outcome,
    counted: &Counted,
    now: Timestamp,
) -> Vec<Finding> {
    let sources = machines::sources(seen.machines.iter());
    let settled =
        machines::sources(seen.machines.iter().filter(|(_, machine)| machines::settled(machine, now)));
    vec![
        scaling_up(set, seen, outcome, counted),
        scaling_down(set, seen, counted, now),
        machines::ready(types::MACHINES_READY, &sources),
        machines::up_to_date(types::MACHINES_UP_TO_DATE, &settled, !sources.is_empty()),
        machines::remediating(&sources),
        deleting(seen, now),
    ]
}

fn scaling_up(set: &MachineSet, seen: &Seen, outcome: &Outcome, counted: &Counted) -> Finding {
    let Some(wanted) = set.spec.replicas else {
        return Finding::unknown(types::SCALING_UP, reasons::WAITING_FOR_REPLICAS_SET)
            .saying("Waiting for spec.replicas set");
    };
    let missing = scale::missing_templates(set, seen);
    if seen.object.deleting() || counted.replicas >= wanted {
        let no = Finding::no(types::SCALING_UP, reasons::NOT_SCALING_UP);
        return match missing.is_empty() || seen.object.deleting() {
            true => no,
            false => no.saying(format!("Scaling up would be blocked because {}", missing.join(" and "))),
        };
    }
    let mut message = format!("Scaling up from {} to {wanted} replicas", counted.replicas);
    let blocked: Vec<&String> = outcome.blocked.iter().collect();
    if !blocked.is_empty() {
        message.push_str(" is blocked because:");
        for why in blocked {
            message.push_str(&format!("\n* {why}"));
        }
    }
    Finding::yes(types::SCALING_UP, reasons::SCALING_UP).saying(message)
}

fn scaling_down(set: &MachineSet, seen: &Seen, counted: &Counted, now: Timestamp) -> Finding {
    let Some(wanted) = set.spec.replicas else {
        return Finding::unknown(types::SCALING_DOWN, reasons::WAITING_FOR_REPLICAS_SET)
            .saying("Waiting for spec.replicas set");
    };
    let wanted = if seen.object.deleting() { 0 } else { wanted };
    if counted.replicas <= wanted {
        return Finding::no(types::SCALING_DOWN, reasons::NOT_SCALING_DOWN);
    }
    let mut message = format!("Scaling down from {} to {wanted} replicas", counted.replicas);
    if let Some(stale) = machines::stale_deletion(seen.machines.iter().map(|(_, machine)| &**machine), now) {
        message.push_str(&format!("\n* {stale}"));
    }
    Finding::yes(types::SCALING_DOWN, reasons::SCALING_DOWN).saying(message)
}

fn deleting(seen: &Seen, now: Timestamp) -> Finding {
    if !seen.object.deleting() {
        return Finding::no(types::DELETING, reasons::NOT_DELETING);
    }
    let left = seen.machines.len();
    let message = match left {
        0 => "Deletion completed".into(),
        1 => "Deleting 1 Machine".into(),
        left => format!("Deleting {left} Machines"),
    };
    let stale = machines::stale_deletion(seen.machines.iter().map(|(_, machine)| &**machine), now);
    let message = stale.map_or(message.clone(), |stale| format!("{message}\n* {stale}"));
    Finding::yes(types::DELETING, reasons::DELETING).saying(message)
}

fn write_legacy(
    status: &mut MachineSetStatus,
    seen: &Seen,
    outcome: &Outcome,
    (wanted, counted): (i32, &Counted),
    template: &std::collections::BTreeMap<String, String>,
    now: Timestamp,
) {
    let has = |machine: &Machine, type_| {
        machine.status.as_ref().is_some_and(|status| conditions::has(&status.conditions, type_, Status::True))
    };
    let count = |which: &dyn Fn(&Machine) -> bool| {
        i32::try_from(seen.machines.iter().filter(|(_, machine)| which(machine)).count()).unwrap_or(i32::MAX)
    };
    let labelled = |machine: &Machine| {
        let labels = machine.metadata.labels.clone().unwrap_or_default();
        template.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    old.fully_labeled_replicas = count(&labelled);
    old.ready_replicas = count(&|machine| has(machine, types::NODE_READY));
    old.available_replicas =
        count(&|machine| has(machine, types::NODE_READY) && has(machine, types::AVAILABLE));
    let list = &mut old.conditions;
    match &outcome.failed {
        Some((reason, message)) => {
            legacy::mark_false(list, types::MACHINES_CREATED, Severity::Error, reason, message, now);
        }
        None => legacy::mark_true(list, types::MACHINES_CREATED, now),
    }
    let there = counted.replicas;
    match there.cmp(&wanted) {
        std::cmp::Ordering::Less => {
            let message = format!("Scaling up MachineSet to {wanted} replicas (actual {there})");
            legacy::mark_false(list, types::RESIZED, Severity::Warning, reasons::SCALING_UP, &message, now);
        }
        std::cmp::Ordering::Greater => {
            let message = format!("Scaling down MachineSet to {wanted} replicas (actual {there})");
            legacy::mark_false(list, types::RESIZED, Severity::Warning, reasons::SCALING_DOWN, &message, now);
        }
        std::cmp::Ordering::Equal => legacy::mark_true(list, types::RESIZED, now),
    }
    match counted.ready == there {
        true => legacy::mark_true(list, types::MACHINES_READY, now),
        false => {
            let message = format!("{} of {there} machines are ready", counted.ready);
            legacy::mark_false(
                list,
                types::MACHINES_READY,
                Severity::Info,
                reasons::NOT_READY,
                &message,
                now,
            );
        }
    }
    legacy::summarise(list, &[types::MACHINES_CREATED, types::RESIZED, types::MACHINES_READY], now);
}
