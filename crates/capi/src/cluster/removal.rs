//! A cluster's end: workers, then the control plane, then the infrastructure, then the object itself.

use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta2::Cluster;
use api::catalogue::{conditions as types, reasons};
use kit::conditions::{self, Finding};
use kit::events::Severity;
use kit::{Cache, Object, Turn};

use super::{Seen, act, status_of};
use crate::context::{Context, Error, Found, Provider, kind_of};

/// How many names of a kind are told.
const NAMES: usize = 5;

/// What stands in the way of a cluster's end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Machines and what makes them: what is told of them.
    Workers(String),
    /// The control plane's object.
    ControlPlane,
    /// The infrastructure's object.
    Infrastructure,
    /// Nothing.
    Finish,
    /// It cannot be told.
    Blocked(String),
}

/// Names of what is left, by kind, in the order in which it is told.
pub(super) fn decide(left: &[(&str, Vec<&str>)], control_plane: &Found, infrastructure: &Found) -> Step {
    let lines: Vec<String> =
        left.iter().filter(|(_, names)| !names.is_empty()).map(|(kind, names)| line(kind, names)).collect();
    if !lines.is_empty() {
        return Step::Workers(lines.join("\n"));
    }
    for (found, step) in [(control_plane, Step::ControlPlane), (infrastructure, Step::Infrastructure)] {
        match found {
            Found::There(_) => return step,
            Found::Unknown(why) => return Step::Blocked(why.to_string()),
            Found::Missing | Found::NotAsked => {}
        }
    }
    Step::Finish
}

fn line(kind: &str, names: &[&str]) -> String {
    let told = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => format!("* {kind}: {told}"),
        more => format!("* {kind}: {told}, ... ({more} more)"),
    }
}

/// The next step of a cluster's end; what it waits for is in the condition.
pub(super) async fn advance(
    context: &Arc<Context>,
    turn: &Turn,
    cluster: &mut Cluster,
    seen: &Seen,
) -> Result<Option<Duration>, Error> {
    let alone = |object: &Arc<Object>| Seen::stands_alone(object);
    let own_control_plane = cluster.spec.control_plane_ref.is_none();
    let deployments: Vec<&Arc<Object>> = seen.deployments.iter().map(|(object, _)| object).collect();
    let sets: Vec<&Arc<Object>> = seen.sets.iter().map(|(object, _)| object).collect();
    let workers: Vec<&Arc<Object>> = seen.workers().map(|(object, _)| object).collect();
    let servers: Vec<&Arc<Object>> =
        seen.control_plane_machines().filter(|_| own_control_plane).map(|(object, _)| object).collect();
    delete_all(context, turn, &context.deployments, &deployments, |_| true).await?;
    delete_all(context, turn, &context.sets, &sets, alone).await?;
    delete_all(context, turn, &context.machines, &workers, alone).await?;
    delete_all(context, turn, &context.machines, &servers, alone).await?;

    let names = |objects: &[&Arc<Object>]| -> Vec<String> {
        objects.iter().map(|one| one.name().to_owned()).collect()
    };
    let listed = [
        ("MachineDeployments", names(&deployments)),
        ("MachineSets", names(&sets)),
        ("Control plane Machines", names(&servers)),
        ("Worker Machines", names(&workers)),
    ];
    let listed: Vec<(&str, Vec<&str>)> =
        listed.iter().map(|(kind, names)| (*kind, names.iter().map(String::as_str).collect())).collect();
    let step = decide(&listed, &seen.control_plane, &seen.infrastructure);
    let (reason, message) = match &step {
        Step::Workers(message) => (reasons::WAITING_FOR_WORKERS_DELETION, message.clone()),
        Step::ControlPlane => {
            delete_provider(context, turn, seen.control_plane.there()).await?;
            (reasons::WAITING_FOR_CONTROL_PLANE_DELETION, waiting(&seen.control_plane))
        }
        Step::Infrastructure => {
            delete_provider(context, turn, seen.infrastructure.there()).await?;
            (reasons::WAITING_FOR_INFRASTRUCTURE_DELETION, waiting(&seen.infrastructure))
        }
        Step::Blocked(why) => (reasons::INTERNAL_ERROR, why.clone()),
        Step::Finish => (reasons::DELETION_COMPLETED, "Deletion completed".into()),
    };
    let generation = seen.object.meta().generation.unwrap_or_default();
    let finding = Finding::yes(types::DELETING, reason).saying(message);
    conditions::set(&mut status_of(cluster).conditions, finding, generation, context.now());
    if step == Step::Finish {
        crate::start::let_go(cluster);
        let message = format!("Cluster {} has been deleted", seen.object.name());
        context.events.tell(&kind_of::<Cluster>(), &seen.object, Severity::Normal, "Deleted", &message).await;
        return Ok(None);
    }
    Ok(act::look_again())
}

async fn delete_all(
    context: &Arc<Context>,
    turn: &Turn,
    cache: &Arc<Cache>,
    objects: &[&Arc<Object>],
    which: impl Fn(&Arc<Object>) -> bool,
) -> Result<(), Error> {
    for object in objects.iter().filter(|object| !object.deleting() && which(object)) {
        context.writer.delete(turn, cache, object).await?;
    }
    Ok(())
}

async fn delete_provider(
    context: &Arc<Context>,
    turn: &Turn,
    provider: Option<&Provider>,
) -> Result<(), Error> {
    match provider.filter(|provider| !provider.object.deleting()) {
        Some(provider) => Ok(context.writer.delete(turn, &provider.cache, &provider.object).await?),
        None => Ok(()),
    }
}

fn waiting(found: &Found) -> String {
    let name = found.there().map(|provider| format!("{} {}", provider.read().kind(), provider.object.name()));
    format!("* {}", name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Unresolved;

    #[test]
    fn workers_go_first_and_what_is_unknown_holds() {
        let unknown = || Found::Unknown(Unresolved::NoDefinition { group: "g".into(), kind: "K".into() });
        let left = [("MachineSets", vec!["a", "b"]), ("Worker Machines", vec!["1", "2", "3", "4", "5", "6"])];
        assert_eq!(
            decide(&left, &unknown(), &Found::Missing),
            Step::Workers("* MachineSets: a, b\n* Worker Machines: 1, 2, 3, 4, 5, ... (1 more)".into())
        );
        assert!(matches!(decide(&[], &unknown(), &Found::Missing), Step::Blocked(_)));
        assert!(matches!(decide(&[], &Found::NotAsked, &unknown()), Step::Blocked(_)));
        assert_eq!(decide(&[], &Found::Missing, &Found::NotAsked), Step::Finish);
    }
}
