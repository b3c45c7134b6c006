//! Unhealthy machines are replaced, few at a time.

use std::sync::Arc;

use api::capi::v1beta2::{Machine, MachineSet};
use api::catalogue::{annotations, conditions as types, reasons};
use kit::conditions::legacy::{self, Severity};
use kit::conditions::{self, Finding, Status};
use kit::write::Edit;
use kit::{Object, Turn};

use super::{MANAGER, Outcome, PREFLIGHT_LOOK, Seen};
use crate::context::{Context, Error, Provider};
use crate::rollout::{self, Rounding};
use crate::{health, preflight};

/// What is done about machines that are to be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes now.
    Delete,
    /// Later: why.
    Wait(&'static str, String),
}

/// Who is replaced now, and who waits: those that a user marked first, then the newest.
pub(super) fn decide<'a>(
    candidates: &[&'a Machine],
    in_flight: usize,
    most: Option<usize>,
    current: bool,
    objections: &[String],
) -> Vec<(&'a Machine, Fate)> {
    let mut sorted = candidates.to_vec();
    sorted.sort_by_key(|machine| {
        let marked = machine
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key(annotations::REMEDIATE_MACHINE));
        let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (!marked, std::cmp::Reverse(created), machine.metadata.name.clone())
    });
    let mut left = most.map_or(usize::MAX, |most| most.saturating_sub(in_flight));
    let fate = |machine: &'a Machine| {
        let fate = if !current {
            Fate::Wait(
                reasons::CANNOT_BE_REMEDIATED,
                "Machine won't be remediated because it is pending removal due to rollout".into(),
            )
        } else if !objections.is_empty() {
            Fate::Wait(reasons::REMEDIATION_DEFERRED, format!("* {}", objections.join("\n* ")))
        } else if left == 0 {
            Fate::Wait(
                reasons::REMEDIATION_DEFERRED,
                format!(
                    "Waiting because there are already too many remediations in progress (spec.remediation.maxInFlight is {})",
                    most.unwrap_or_default()
                ),
            )
        } else {
            left -= 1;
            Fate::Delete
        };
        (machine, fate)
    };
    sorted.into_iter().map(fate).collect()
}

/// Deletes machines that were found unhealthy, within the limits; says so on them first.
pub(super) async fn replace_unhealthy(
    context: &Arc<Context>,
    turn: &Turn,
    set: &MachineSet,
    seen: &Seen,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    clear(context, turn, seen).await?;
    let candidates: Vec<&Machine> = seen
        .machines
        .iter()
        .map(|(_, machine)| &**machine)
        .filter(|machine| health::to_be_remediated(machine))
        .collect();
    if candidates.is_empty() {
        return Ok(());
    }
    let in_flight = seen.machines.iter().filter(|(object, machine)| {
        let said = machine
            .status
            .as_ref()
            .and_then(|status| conditions::find(&status.conditions, types::OWNER_REMEDIATED));
        object.deleting() && said.is_some_and(|said| said.reason == reasons::MACHINE_DELETING)
    });
    let most = seen.deployment.as_ref().and_then(|(_, deployment)| {
        let limit = deployment.spec.remediation.max_in_flight.as_ref()?;
        Some(rollout::count(limit, deployment.spec.replicas.unwrap_or_default(), Rounding::Up))
    });
    let most =
        most.transpose().map_err(|why| Error::Impossible(format!("spec.remediation.maxInFlight: {why}")))?;
    let objections =
        preflight::objections(set, seen.unchecked(), seen.control_plane.there().map(Provider::read))?;
    let current = seen.is_current(set, context.now());
    let most = most.map(|most| usize::try_from(most).unwrap_or_default());
    let fates = decide(&candidates, in_flight.count(), most, current, &objections);
    for (machine, fate) in fates {
        let Some((object, _)) =
            seen.machines.iter().find(|(object, _)| object.meta().name == machine.metadata.name)
        else {
            continue;
        };
        match fate {
            Fate::Wait(reason, message) => {
                say(context, turn, object, reason, &message).await?;
                if !objections.is_empty() {
                    outcome.again = Some(PREFLIGHT_LOOK);
                }
            }
            Fate::Delete => {
                say(context, turn, object, reasons::MACHINE_DELETING, "Machine is deleting").await?;
                context.writer.delete(turn, &context.machines, object).await?;
            }
        }
    }
    Ok(())
}

async fn say(
    context: &Arc<Context>,
    turn: &Turn,
    object: &Object,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    let mut edit: Edit<Machine> = Edit::begin(&context.machines, object)?;
    let (now, generation) = (context.now(), object.meta().generation.unwrap_or_default());
    let status = edit.status.get_or_insert_default();
    let finding = Finding::no(types::OWNER_REMEDIATED, reason).saying(message);
    conditions::set(&mut status.conditions, finding, generation, now);
    let list = &mut status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default().conditions;
    let old = match reason {
        reasons::MACHINE_DELETING => reasons::REMEDIATION_IN_PROGRESS,
        _ => reasons::WAITING_FOR_REMEDIATION,
    };
    legacy::mark_false(list, types::OWNER_REMEDIATED, Severity::Warning, old, message, now);
    Ok(context.writer.named(MANAGER).apply(turn, edit, &[types::OWNER_REMEDIATED]).await?)
}

/// A machine that is healthy again is not to be replaced any more.
async fn clear(context: &Arc<Context>, turn: &Turn, seen: &Seen) -> Result<(), Error> {
    for (object, machine) in seen.machines.iter().filter(|(object, _)| !object.deleting()) {
        let Some(status) = &machine.status else { continue };
        let healthy = conditions::has(&status.conditions, types::HEALTH_CHECK_SUCCEEDED, Status::True);
        if !healthy || conditions::find(&status.conditions, types::OWNER_REMEDIATED).is_none() {
            continue;
        }
        let mut edit: Edit<Machine> = Edit::begin(&context.machines, object)?;
        let status = edit.status.get_or_insert_default();
        conditions::remove(&mut status.conditions, types::OWNER_REMEDIATED);
        let list = &mut status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default().conditions;
        legacy::remove(list, types::OWNER_REMEDIATED);
        context.writer.named(MANAGER).apply(turn, edit, &[types::OWNER_REMEDIATED]).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(name: &str, created: &str, marked: bool) -> Machine {
        let notes = if marked { json!({annotations::REMEDIATE_MACHINE: ""}) } else { json!({}) };
        let document =
            json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": notes}});
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn the_marked_and_the_newest_go_first_and_few_at_a_time() {
        let all = [
            machine("old", "2026-01-01T00:00:00Z", false),
            machine("new", "2026-01-02T00:00:00Z", false),
            machine("marked", "2026-01-01T00:00:00Z", true),
        ];
        let views: Vec<&Machine> = all.iter().collect();
        let names = |fates: &[(&Machine, Fate)]| -> Vec<String> {
            let gone = fates.iter().filter(|(_, fate)| *fate == Fate::Delete);
            gone.map(|(machine, _)| machine.metadata.name.clone().unwrap()).collect()
        };
        assert_eq!(names(&decide(&views, 0, None, true, &[])), ["marked", "new", "old"]);
        assert_eq!(names(&decide(&views, 1, Some(3), true, &[])), ["marked", "new"]);
        assert_eq!(names(&decide(&views, 5, Some(3), true, &[])), Vec::<String>::new());
        assert_eq!(names(&decide(&views, 0, None, false, &[])), Vec::<String>::new());
        assert_eq!(names(&decide(&views, 0, None, true, &["not stable".into()])), Vec::<String>::new());
    }
}
