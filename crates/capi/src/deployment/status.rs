//! What a deployment's status says. No IO.

use api::capi::v1beta2::{MachineDeployment, MachineDeploymentStatus};
use api::catalogue::{conditions as types, reasons};
use jiff::Timestamp;
use kit::conditions::legacy::{self, Severity};
use kit::conditions::{self, Finding, Status};

use super::Seen;
use crate::machines::{self, Counted};
use crate::phase::{self, DeploymentCounts};
use crate::rollout::Bounds;
use crate::selector::Selector;
use crate::template;

/// Writes counters, conditions and the phase.
pub(super) fn write(deployment: &mut MachineDeployment, seen: &Seen, now: Timestamp) {
    let generation = seen.object.meta().generation.unwrap_or_default();
    let mut counted = Counted::default();
    for (_, set) in &seen.sets {
        if let Some(status) = &set.status {
            counted.add(
                status.replicas,
                status.ready_replicas,
                status.available_replicas,
                status.up_to_date_replicas,
                &status.versions,
            );
        }
    }
    let findings = findings(deployment, seen, &counted, now);
    let wanted = deployment.spec.replicas.unwrap_or_default();
    let selector =
        Selector::read(&deployment.spec.selector).map(|selector| selector.text()).unwrap_or_default();
    let counts = DeploymentCounts {
        desired: wanted,
        current: counted.replicas,
        available: counted.available,
        up_to_date: counted.up_to_date,
    };
    let current = current_ready(deployment, seen, now);
    let status: &mut MachineDeploymentStatus = deployment.status.get_or_insert_default();
    for finding in findings {
        conditions::set(&mut status.conditions, finding, generation, now);
    }
    status.selector = selector;
    status.replicas = Some(counted.replicas);
    status.ready_replicas = Some(counted.ready);
    status.available_replicas = Some(counted.available);
    status.up_to_date_replicas = Some(counted.up_to_date);
    status.versions = counted.versions();
    status.phase = phase::of_deployment(counts, seen.object.deleting()).into();
    write_legacy(status, seen, (wanted, &counted), current, now);
}

/// Whether the current set is ready, for old readers; none if there is no current set.
fn current_ready(deployment: &MachineDeployment, seen: &Seen, now: Timestamp) -> Option<bool> {
    let views: Vec<_> = seen.sets.iter().map(|(_, set)| &**set).collect();
    let (current, _) = template::current_and_old(deployment, &views, now);
    let status = current?.status.as_ref()?;
    Some(status.ready_replicas == status.replicas)
}

fn findings(deployment: &MachineDeployment, seen: &Seen, counted: &Counted, now: Timestamp) -> Vec<Finding> {
    let sources = machines::sources(seen.machines.iter());
    let settled =
        machines::sources(seen.machines.iter().filter(|(_, machine)| machines::settled(machine, now)));
    vec![
        available(deployment, seen, counted),
        rolling_out(seen),
        scaling(types::SCALING_UP, deployment, seen, counted, now),
        scaling(types::SCALING_DOWN, deployment, seen, counted, now),
        machines::ready(types::MACHINES_READY, &sources),
        machines::up_to_date(types::MACHINES_UP_TO_DATE, &settled, !sources.is_empty()),
        machines::remediating(&sources),
        deleting(seen, now),
    ]
}

fn available(deployment: &MachineDeployment, seen: &Seen, counted: &Counted) -> Finding {
    let Some(replicas) = deployment.spec.replicas else {
        return Finding::unknown(types::AVAILABLE, reasons::WAITING_FOR_REPLICAS_SET)
            .saying("Waiting for spec.replicas set");
    };
    let update = &deployment.spec.rollout.strategy.rolling_update;
    let bounds = match Bounds::of(replicas, update) {
        Ok(bounds) => bounds,
        Err(why) => {
            return Finding::unknown(types::AVAILABLE, reasons::INTERNAL_ERROR).saying(why.to_string());
        }
    };
    let least = bounds.least_available();
    if counted.available >= least {
        return Finding::yes(types::AVAILABLE, reasons::AVAILABLE);
    }
    let mut message = format!("{} available replicas, at least {least} required", counted.available);
    if let Some(most) = &update.max_unavailable {
        let most = match most {
            k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(number) => number.to_string(),
            k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(text) => text.clone(),
        };
        message.push_str(&format!(
            " (spec.strategy.rollout.maxUnavailable is {most}, spec.replicas is {replicas})"
        ));
    }
    if seen.object.deleting() {
        message = "Deletion in progress".into();
    }
    Finding::no(types::AVAILABLE, reasons::NOT_AVAILABLE).saying(message)
}

fn rolling_out(seen: &Seen) -> Finding {
    let mut lines: Vec<String> = Vec::new();
    let mut outdated = 0;
    for (_, machine) in &seen.machines {
        let Some(status) = &machine.status else { continue };
        let Some(said) = conditions::find(&status.conditions, types::UP_TO_DATE) else { continue };
        if said.status == Status::False.as_str() {
            outdated += 1;
            lines.extend(said.message.lines().map(str::to_owned));
        }
    }
    if outdated == 0 {
        return Finding::no(types::ROLLING_OUT, reasons::NOT_ROLLING_OUT);
    }
    // What the version says comes first.
    lines.sort_by_key(|line| (!line.starts_with("* Version "), line.clone()));
    lines.dedup();
    let mut message = format!("Rolling out {outdated} not up-to-date replicas");
    if !lines.is_empty() {
        message.push_str(&format!("\n{}", lines.join("\n")));
    }
    Finding::yes(types::ROLLING_OUT, reasons::ROLLING_OUT).saying(message)
}

fn scaling(
    type_: &'static str,
    deployment: &MachineDeployment,
    seen: &Seen,
    counted: &Counted,
    now: Timestamp,
) -> Finding {
    let Some(wanted) = deployment.spec.replicas else {
        return Finding::unknown(type_, reasons::WAITING_FOR_REPLICAS_SET)
            .saying("Waiting for spec.replicas set");
    };
    let wanted = if seen.object.deleting() { 0 } else { wanted };
    let there = counted.replicas;
    if type_ == types::SCALING_UP {
        return match there < wanted {
            true => Finding::yes(type_, reasons::SCALING_UP)
                .saying(format!("Scaling up from {there} to {wanted} replicas")),
            false => Finding::no(type_, reasons::NOT_SCALING_UP),
        };
    }
    if there <= wanted {
        return Finding::no(type_, reasons::NOT_SCALING_DOWN);
    }
    let mut message = format!("Scaling down from {there} to {wanted} replicas");
    if let Some(stale) = machines::stale_deletion(seen.machines.iter().map(|(_, machine)| &**machine), now) {
        message.push_str(&format!("\n* {stale}"));
    }
    Finding::yes(type_, reasons::SCALING_DOWN).saying(message)
}

fn deleting(seen: &Seen, now: Timestamp) -> Finding {
    if !seen.object.deleting() {
        return Finding::no(types::DELETING, reasons::NOT_DELETING);
    }
    let left = seen.machines.len();
    let message = match left {
        0 => "Deleting MachineSets".to_owned(),
        1 => "Deleting 1 Machine".into(),
        left => format!("Deleting {left} Machines"),
    };
    let stale = machines::stale_deletion(seen.machines.iter().map(|(_, machine)| &**machine), now);
    let message = stale.map_or(message.clone(), |stale| format!("{message}\n* {stale}"));
    Finding::yes(types::DELETING, reasons::DELETING).saying(message)
}

fn write_legacy(
    status: &mut MachineDeploymentStatus,
    seen: &Seen,
    (wanted, counted): (i32, &Counted),
    current: Option<bool>,
    now: Timestamp,
) {
    let sum = |read: &dyn Fn(&api::capi::v1beta2::MachineSetCounts) -> i32| -> i32 {
        let old = seen
            .sets
            .iter()
            .filter_map(|(_, set)| set.status.as_ref()?.deprecated.as_ref()?.v1beta1.as_ref());
        old.map(read).sum()
    };
    let (ready, available_nodes) = (sum(&|old| old.ready_replicas), sum(&|old| old.available_replicas));
    let is_available =
        status.conditions.iter().any(|one| one.type_ == types::AVAILABLE && one.status == "True");
    let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    old.updated_replicas = counted.up_to_date;
    old.ready_replicas = ready;
    old.available_replicas = available_nodes;
    old.unavailable_replicas = (wanted.max(counted.replicas) - available_nodes).max(0);
    let list = &mut old.conditions;
    match is_available {
        true => legacy::mark_true(list, types::AVAILABLE, now),
        false => {
            let message = format!(
                "Minimum availability requires more replicas, current {} available",
                counted.available
            );
            legacy::mark_false(
                list,
                types::AVAILABLE,
                Severity::Warning,
                reasons::WAITING_FOR_AVAILABLE_MACHINES,
                &message,
                now,
            );
        }
    }
    match current {
        Some(true) => legacy::mark_true(list, types::MACHINE_SET_READY, now),
        Some(false) => {
            legacy::mark_false(list, types::MACHINE_SET_READY, Severity::Info, reasons::NOT_READY, "", now)
        }
        None => legacy::mark_false(
            list,
            types::MACHINE_SET_READY,
            Severity::Info,
            reasons::WAITING_FOR_MACHINE_SET,
            "",
            now,
        ),
    }
    legacy::summarise(list, &[types::AVAILABLE], now);
}
