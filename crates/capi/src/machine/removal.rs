//! A machine's end, step by step, as [`crate::removal`] decides.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta1;
use api::capi::v1beta2::{Machine, MachineDeletionProgress, MachineDrainRule, MachineStatus};
use api::catalogue::{conditions as types, labels, reasons};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kit::conditions::legacy::{self, Severity as Legacy};
use kit::conditions::{self, Finding, Status};
use kit::events::Severity;
use kit::evict::{self, Progress, Rules};
use kit::{Object, Turn};
use kube::Api;
use kube::api::DeleteParams;

use super::{Seen, SeenNode, volumes};
use crate::context::{Context, Error, Found, Provider, kind_of, typed};
use crate::removal::{self, Remains, Step, Surroundings};
use kit::index;

/// How long a look at a drain or at volumes is put off.
const DRAIN_LOOK: Duration = Duration::from_secs(20);
/// How long the next try to delete a Node is put off.
const NODE_LOOK: Duration = Duration::from_secs(2);

/// Does the next steps of a machine's removal; what they wait for is in the condition.
pub(super) async fn advance(
    context: &Arc<Context>,
    turn: &Turn,
    machine: &mut Machine,
    seen: &Seen,
) -> Result<Option<Duration>, Error> {
    let goes = removal::node_goes(surroundings(context, machine, seen)).is_ok();
    let mut remains = Remains {
        infrastructure: !matches!(seen.infrastructure, Found::Missing | Found::NotAsked),
        infrastructure_deleting: seen
            .infrastructure
            .there()
            .is_some_and(|provider| provider.object.deleting()),
        bootstrap: !matches!(seen.bootstrap, Found::Missing | Found::NotAsked),
        ..Remains::default()
    };
    let mut skipped = BTreeSet::new();
    loop {
        let now = context.now();
        let step = removal::next(machine, goes, remains, now);
        begin(machine, &step, now);
        match &step {
            Step::Drain => match drain(context, machine, seen).await {
                Ok(Progress::Done(left_alone)) => {
                    skipped = left_alone;
                    remains.drained = true;
                    legacy::mark_true(legacy_of(machine), types::DRAINING_SUCCEEDED, now);
                    tell(context, seen, Severity::Normal, "SuccessfulDrainNode", "the node is drained").await;
                }
                Ok(Progress::Waiting(message)) => {
                    note(machine, seen, &step, &message, now);
                    legacy::mark_false(
                        legacy_of(machine),
                        types::DRAINING_SUCCEEDED,
                        Legacy::Info,
                        reasons::DRAINING,
                        &message,
                        now,
                    );
                    return Ok(Some(until(machine, &step, remains, DRAIN_LOOK, now)));
                }
                Err(error) => {
                    let message = error.to_string();
                    note(machine, seen, &step, &message, now);
                    legacy::mark_false(
                        legacy_of(machine),
                        types::DRAINING_SUCCEEDED,
                        Legacy::Warning,
                        reasons::DRAINING_FAILED,
                        &message,
                        now,
                    );
                    tell(context, seen, Severity::Warning, "FailedDrainNode", &message).await;
                    return Ok(Some(until(machine, &step, remains, DRAIN_LOOK, now)));
                }
            },
            Step::WaitForVolumes => match detached(seen, &skipped).await {
                Ok(None) => {
                    remains.detached = true;
                    legacy::mark_true(legacy_of(machine), types::VOLUME_DETACH_SUCCEEDED, now);
                    tell(
                        context,
                        seen,
                        Severity::Normal,
                        "NodeVolumesDetached",
                        "the node's volumes are detached",
                    )
                    .await;
                }
                Ok(Some(left)) => {
                    let since = began(machine)
                        .wait_for_node_volume_detach_start_time
                        .as_ref()
                        .map(|time| time.0.to_string());
                    let message = format!(
                        "Waiting for Node volumes to be detached (started at {})\n{left}",
                        since.unwrap_or_default()
                    );
                    note(machine, seen, &step, &message, now);
                    legacy::mark_false(
                        legacy_of(machine),
                        types::VOLUME_DETACH_SUCCEEDED,
                        Legacy::Info,
                        reasons::WAITING_FOR_VOLUME_DETACH,
                        &message,
                        now,
                    );
                    return Ok(Some(until(machine, &step, remains, DRAIN_LOOK, now)));
                }
                Err(error) => {
                    note(machine, seen, &step, &error.to_string(), now);
                    tell(context, seen, Severity::Warning, "FailedWaitForVolumeDetach", &error.to_string())
                        .await;
                    return Ok(Some(until(machine, &step, remains, DRAIN_LOOK, now)));
                }
            },
            Step::WaitForPreDrainHooks(hooks) | Step::WaitForPreTerminateHooks(hooks) => {
                let (drain, type_) = match step {
                    Step::WaitForPreDrainHooks(_) => ("drain", types::PRE_DRAIN_DELETE_HOOK_SUCCEEDED),
                    _ => ("terminate", types::PRE_TERMINATE_DELETE_HOOK_SUCCEEDED),
                };
                let message =
                    format!("Waiting for pre-{drain} hooks to succeed (hooks: {})", hooks.join(","));
                note(machine, seen, &step, &message, now);
                legacy::mark_false(
                    legacy_of(machine),
                    type_,
                    Legacy::Info,
                    reasons::WAITING_EXTERNAL_HOOK,
                    "",
                    now,
                );
                return Ok(None);
            }
            Step::DeleteInfrastructure => {
                return delete_provider(context, turn, machine, seen, &step, &seen.infrastructure).await;
            }
            Step::DeleteBootstrap => {
                return delete_provider(context, turn, machine, seen, &step, &seen.bootstrap).await;
            }
            Step::DeleteNode => match delete_node(machine, seen).await {
                Ok(()) => remains.node_deleted = true,
                Err(error) => {
                    note(machine, seen, &step, &error.to_string(), now);
                    tell(context, seen, Severity::Warning, "FailedDeleteNode", &error.to_string()).await;
                    remains.node_stays = true;
                    remains.node_tried = Some(context.node_tried(seen.object.uid(), now));
                    if removal::next(machine, goes, remains, now) == step {
                        return Ok(Some(until(machine, &step, remains, NODE_LOOK, now)));
                    }
                }
            },
            Step::Finish => {
                note(machine, seen, &step, "Deletion completed", now);
                context.forget_node(seen.object.uid());
                crate::start::let_go(machine);
                return Ok(None);
            }
        }
    }
}

fn surroundings(context: &Arc<Context>, machine: &Machine, seen: &Seen) -> Surroundings {
    let entry = index::cluster(seen.object.namespace(), &machine.spec.cluster_name);
    let other = |one: &&Arc<Object>| {
        one.label(labels::CAPI_CONTROL_PLANE).is_some() && !one.deleting() && one.uid() != seen.object.uid()
    };
    let control_plane = seen.control_plane.there();
    Surroundings {
        cluster_deleting: seen.cluster_object.deleting(),
        control_plane_deleting: control_plane.is_some_and(|provider| provider.object.deleting()),
        control_plane_external: control_plane
            .is_some_and(|provider| provider.read().externally_managed() == Ok(true)),
        other_control_plane_machines: context.machines.filed(&entry).iter().filter(other).count(),
        has_node: began_status(machine).is_some_and(|status| status.node_ref.is_some())
            || matches!(seen.node, SeenNode::There(..)),
    }
}

fn began_status(machine: &Machine) -> Option<&MachineStatus> {
    machine.status.as_ref()
}

fn began(machine: &mut Machine) -> &mut MachineDeletionProgress {
    machine.status.get_or_insert_default().deletion.get_or_insert_default()
}

fn legacy_of(machine: &mut Machine) -> &mut Vec<v1beta1::Condition> {
    let deprecated = machine.status.get_or_insert_default().deprecated.get_or_insert_default();
    &mut deprecated.v1beta1.get_or_insert_default().conditions
}

/// Notes when a step began: its limit counts from there.
fn begin(machine: &mut Machine, step: &Step, now: Timestamp) {
    let time = Some(conditions::seconds(now));
    let started = match step {
        Step::WaitForPreDrainHooks(_) => &mut began(machine).wait_for_pre_drain_hook_start_time,
        Step::Drain => &mut began(machine).node_drain_start_time,
        Step::WaitForVolumes => &mut began(machine).wait_for_node_volume_detach_start_time,
        Step::WaitForPreTerminateHooks(_) => &mut began(machine).wait_for_pre_terminate_hook_start_time,
        _ => return,
    };
    if started.is_none() {
        *started = time;
    }
}

fn reason(step: &Step) -> &'static str {
    match step {
        Step::WaitForPreDrainHooks(_) => reasons::WAITING_FOR_PRE_DRAIN_HOOK,
        Step::Drain => reasons::DRAINING_NODE,
        Step::WaitForVolumes => reasons::WAITING_FOR_VOLUME_DETACH,
        Step::WaitForPreTerminateHooks(_) => reasons::WAITING_FOR_PRE_TERMINATE_HOOK,
        Step::DeleteInfrastructure => reasons::WAITING_FOR_INFRASTRUCTURE_DELETION,
        Step::DeleteBootstrap => reasons::WAITING_FOR_BOOTSTRAP_DELETION,
        Step::DeleteNode => reasons::DELETING_NODE,
        Step::Finish => reasons::DELETION_COMPLETED,
    }
}

fn note(machine: &mut Machine, seen: &Seen, step: &Step, message: &str, now: Timestamp) {
    let generation = seen.object.meta().generation.unwrap_or_default();
    let finding = Finding::new(types::DELETING, Status::True, reason(step)).saying(message);
    conditions::set(&mut machine.status.get_or_insert_default().conditions, finding, generation, now);
}

/// When a step is to be looked at again: in a while, or when its limit is reached.
fn until(machine: &Machine, step: &Step, remains: Remains, usual: Duration, now: Timestamp) -> Duration {
    let limit = removal::deadline(machine, step, remains)
        .map(|limit| Duration::try_from(limit.duration_since(now)).unwrap_or_default());
    limit.map_or(usual, |limit| limit.min(usual))
}

async fn tell(context: &Arc<Context>, seen: &Seen, severity: Severity, reason: &str, message: &str) {
    context.events.tell(&kind_of::<Machine>(), &seen.object, severity, reason, message).await;
}

async fn drain(context: &Arc<Context>, machine: &mut Machine, seen: &Seen) -> Result<Progress, Error> {
    let started = began(machine).node_drain_start_time.as_ref().map_or(context.now(), |time| time.0);
    let node = match &seen.node {
        SeenNode::There(_, node) => node.clone(),
        // Somebody deleted the Node by hand.
        SeenNode::Missing => return Ok(Progress::Done(BTreeSet::new())),
        SeenNode::NotReached(why) => return Err(not_reached(seen, why)),
        SeenNode::NotLooked(why) => return Err(not_reached(seen, why)),
        SeenNode::Several(_) => {
            return Err(not_reached(seen, "several Nodes have the machine's provider id"));
        }
    };
    let Some(connection) = &seen.connection else { return Err(not_reached(seen, "no connection")) };
    let listed = typed::<MachineDrainRule>(&context.rules.within(seen.object.namespace()));
    let none = std::collections::BTreeMap::new();
    let rules = Rules {
        rules: listed.iter().map(|(_, rule)| &**rule).collect(),
        machine: seen.object.meta().labels.as_ref().unwrap_or(&none),
        cluster: seen.cluster_object.meta().labels.as_ref().unwrap_or(&none),
    };
    Ok(evict::step(&connection.client, &context.clock, &node, &rules, started).await?)
}

fn not_reached(seen: &Seen, why: &str) -> Error {
    Error::NotConnected(kit::access::NotConnected { cluster: seen.cluster_object.key(), why: why.into() })
}

/// What is still attached; nothing if the node is gone or will never say so.
async fn detached(seen: &Seen, skipped: &BTreeSet<(String, String)>) -> Result<Option<String>, Error> {
    let (SeenNode::There(_, node), Some(connection)) = (&seen.node, &seen.connection) else {
        return match &seen.node {
            SeenNode::Missing => Ok(None),
            SeenNode::NotReached(why) => Err(not_reached(seen, why)),
            _ => Ok(None),
        };
    };
    if kit::drain::unreachable(node) {
        return Ok(None);
    }
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let known = volumes::read(&connection.client, name, skipped).await?;
    volumes::attached(node, &known)
}

async fn delete_provider(
    context: &Arc<Context>,
    turn: &Turn,
    machine: &mut Machine,
    seen: &Seen,
    step: &Step,
    found: &Found,
) -> Result<Option<Duration>, Error> {
    let Some(Provider { cache, object, .. }) = found.there() else {
        let why = found.trouble().map(|why| why.to_string()).unwrap_or_default();
        note(machine, seen, step, &why, context.now());
        return Ok(None);
    };
    if !object.deleting() {
        context.writer.delete(turn, cache, object).await?;
    }
    let message = format!("* {} {}", cache.kind().kind, object.name());
    note(machine, seen, step, &message, context.now());
    Ok(None)
}

async fn delete_node(machine: &Machine, seen: &Seen) -> Result<(), Error> {
    let referred =
        machine.status.as_ref().and_then(|status| status.node_ref.as_ref()).map(|node| node.name.clone());
    let name = match &seen.node {
        SeenNode::There(object, _) => Some(object.name().to_owned()),
        SeenNode::Missing => return Ok(()),
        _ => referred,
    };
    let (Some(name), Some(connection)) = (name, &seen.connection) else {
        return Err(not_reached(seen, "no connection"));
    };
    let nodes: Api<Node> = Api::all(connection.client.clone());
    match nodes.delete(&name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(answer) if kit::write::code(&answer) == Some(404) => Ok(()),
        Err(answer) => Err(Error::Remote { what: "delete the Node", answer: Box::new(answer) }),
    }
}
