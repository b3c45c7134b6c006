//! The steps of a machine's removal, and what each waits for.

use api::capi::v1beta2::{Machine, MachineDeletionProgress};
use api::catalogue::annotations;
use jiff::{SignedDuration, Timestamp};

/// Seconds for which deletion of the Node is tried, if the spec does not say.
const NODE_DELETION_SECONDS: i32 = crate::template::NODE_DELETION_SECONDS;

/// Why a machine's node is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStays {
    /// The whole cluster goes.
    ClusterGoes,
    /// The control plane goes.
    ControlPlaneGoes,
    /// The machine never became a node.
    NoNode,
    /// It is the last of the control plane: nobody would be left to delete it.
    LastControlPlaneMachine,
}

/// What decides whether a machine's node is drained and deleted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings {
    /// The cluster is being deleted.
    pub cluster_deleting: bool,
    /// The control plane's object is being deleted.
    pub control_plane_deleting: bool,
    /// The control plane runs on no machines.
    pub control_plane_external: bool,
    /// Control-plane machines that are not being deleted, other than this one.
    pub other_control_plane_machines: usize,
    /// The machine has a node.
    pub has_node: bool,
}

/// Whether the machine's node is drained and deleted with it.
///
/// # Errors
/// Why it is not.
pub fn node_goes(around: Surroundings) -> Result<(), NodeStays> {
    if around.cluster_deleting {
        Err(NodeStays::ClusterGoes)
    } else if !around.has_node {
        Err(NodeStays::NoNode)
    } else if around.control_plane_external {
        Ok(())
    } else if around.control_plane_deleting {
        Err(NodeStays::ControlPlaneGoes)
    } else if around.other_control_plane_machines == 0 {
        Err(NodeStays::LastControlPlaneMachine)
    } else {
        Ok(())
    }
}

/// What is still there of a machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remains {
    /// Its infrastructure object is there.
    pub infrastructure: bool,
    /// Its infrastructure object is being deleted.
    pub infrastructure_deleting: bool,
    /// Its bootstrap object is there.
    pub bootstrap: bool,
    /// Its node has been drained, in this look at it.
    pub drained: bool,
    /// Its volumes have been detached, in this look at it.
    pub detached: bool,
    /// Its Node object is gone, in this look at it.
    pub node_deleted: bool,
    /// The Node was to be deleted just now, and that failed.
    pub node_stays: bool,
    /// When that failed for the first time: from then on it is tried for so long and no longer.
    pub node_tried: Option<Timestamp>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hooks hold the drain: their names.
    WaitForPreDrainHooks(Vec<String>),
    /// Drain the node.
    Drain,
    /// Wait for volumes to be detached.
    WaitForVolumes,
    /// Hooks hold the server: their names.
    WaitForPreTerminateHooks(Vec<String>),
    /// Delete the infrastructure object, or wait until it is gone.
    DeleteInfrastructure,
    /// Delete the bootstrap object, or wait until it is gone.
    DeleteBootstrap,
    /// Delete the Node object.
    DeleteNode,
    /// Nothing is left: let the machine go.
    Finish,
}

/// The next step of a machine's removal. `node_goes` as the function of that name found.
pub fn next(machine: &Machine, node_goes: bool, remains: Remains, now: Timestamp) -> Step {
    let none = MachineDeletionProgress::default();
    let progress = machine.status.as_ref().and_then(|status| status.deletion.as_ref()).unwrap_or(&none);
    let hooks = |prefix: &str| -> Vec<String> {
        let all = machine.metadata.annotations.iter().flat_map(|all| all.keys());
        all.filter(|key| key.starts_with(prefix)).cloned().collect()
    };
    let noted = |key: &str| machine.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    let deletion = &machine.spec.deletion;
    // Once the server is going, or only hooks after the drain are waited for, a drain makes no sense any more.
    let server = remains.infrastructure && !remains.infrastructure_deleting;
    let before_terminate = progress.wait_for_pre_terminate_hook_start_time.is_none();
    if node_goes {
        let held = hooks(annotations::PRE_DRAIN_HOOK_PREFIX);
        if !held.is_empty() {
            return Step::WaitForPreDrainHooks(held);
        }
        let drain_over = over(
            progress.node_drain_start_time.as_ref().map(|time| time.0),
            deletion.node_drain_timeout_seconds,
            now,
        );
        if server
            && before_terminate
            && !remains.drained
            && !drain_over
            && !noted(annotations::EXCLUDE_NODE_DRAINING)
        {
            return Step::Drain;
        }
        let began = progress.wait_for_node_volume_detach_start_time.as_ref().map(|time| time.0);
        let wait_over = over(began, deletion.node_volume_detach_timeout_seconds, now);
        let excluded = noted(annotations::EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH);
        if server && before_terminate && !remains.detached && !wait_over && !excluded {
            return Step::WaitForVolumes;
        }
    }
    let held = hooks(annotations::PRE_TERMINATE_HOOK_PREFIX);
    if !held.is_empty() {
        return Step::WaitForPreTerminateHooks(held);
    }
    if remains.infrastructure {
        return Step::DeleteInfrastructure;
    }
    if remains.bootstrap {
        return Step::DeleteBootstrap;
    }
    // It is tried at least once, however long all else has taken.
    let given_up = remains.node_stays && over(remains.node_tried, Some(node_deletion_seconds(machine)), now);
    if node_goes && !remains.node_deleted && !given_up {
        return Step::DeleteNode;
    }
    Step::Finish
}

/// Whether a step that began then has taken longer than it may; 0 or nothing is for ever.
fn over(began: Option<Timestamp>, seconds: Option<i32>, now: Timestamp) -> bool {
    let (Some(began), Some(seconds)) = (began, seconds.filter(|seconds| *seconds > 0)) else { return false };
    now >= until(began, seconds)
}

fn until(began: Timestamp, seconds: i32) -> Timestamp {
    began.saturating_add(SignedDuration::from_secs(seconds.into())).unwrap_or(Timestamp::MAX)
}

/// For how long deletion of the Node is tried. Upstream counts from the deletion of the Machine; by the time that its
/// server is gone that is over, and one failed request would leave the Node for ever.
fn node_deletion_seconds(machine: &Machine) -> i32 {
    machine.spec.deletion.node_deletion_timeout_seconds.unwrap_or(NODE_DELETION_SECONDS)
}

/// When a running step is given up by itself, so that somebody looks again then.
pub fn deadline(machine: &Machine, step: &Step, remains: Remains) -> Option<Timestamp> {
    let progress = machine.status.as_ref()?.deletion.as_ref();
    let deletion = &machine.spec.deletion;
    let (began, seconds) = match step {
        Step::Drain => (progress?.node_drain_start_time.as_ref()?.0, deletion.node_drain_timeout_seconds?),
        Step::WaitForVolumes => (
            progress?.wait_for_node_volume_detach_start_time.as_ref()?.0,
            deletion.node_volume_detach_timeout_seconds?,
        ),
        Step::DeleteNode => (remains.node_tried?, node_deletion_seconds(machine)),
        _ => return None,
    };
    (seconds > 0).then(|| until(began, seconds))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";
    const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/mine";
    const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/mine";

    fn machine(annotations: Value, deletion: Value, progress: Value) -> Machine {
        serde_json::from_value(json!({
            "metadata": {"name": "m", "annotations": annotations, "deletionTimestamp": "2026-01-01T00:59:55Z"},
            "spec": {"deletion": deletion}, "status": {"deletion": progress}
        }))
        .unwrap()
    }

    fn step(machine: &Machine, node_goes: bool, remains: Remains) -> Step {
        next(machine, node_goes, remains, NOW.parse().unwrap())
    }

    #[test]
    fn the_steps_come_in_order() {
        let hooked = machine(json!({PRE_DRAIN: "", PRE_TERMINATE: ""}), json!({}), json!({}));
        let mut remains = Remains { infrastructure: true, bootstrap: true, ..Remains::default() };
        assert_eq!(step(&hooked, true, remains), Step::WaitForPreDrainHooks(vec![PRE_DRAIN.into()]));
        let hooked = machine(json!({PRE_TERMINATE: ""}), json!({}), json!({}));
        assert_eq!(step(&hooked, true, remains), Step::Drain);
        remains.drained = true;
        assert_eq!(step(&hooked, true, remains), Step::WaitForVolumes);
        remains.detached = true;
        assert_eq!(step(&hooked, true, remains), Step::WaitForPreTerminateHooks(vec![PRE_TERMINATE.into()]));
        let free = machine(json!({}), json!({}), json!({}));
        assert_eq!(step(&free, true, remains), Step::DeleteInfrastructure);
        remains.infrastructure = false;
        assert_eq!(step(&free, true, remains), Step::DeleteBootstrap);
        remains.bootstrap = false;
        assert_eq!(step(&free, true, remains), Step::DeleteNode);
        remains.node_deleted = true;
        assert_eq!(step(&free, true, remains), Step::Finish);
    }

    #[test]
    fn without_a_node_only_the_hooks_before_the_end_count() {
        let hooked = machine(json!({PRE_DRAIN: "", PRE_TERMINATE: ""}), json!({}), json!({}));
        let remains = Remains { infrastructure: true, ..Remains::default() };
        assert_eq!(step(&hooked, false, remains), Step::WaitForPreTerminateHooks(vec![PRE_TERMINATE.into()]));
        assert_eq!(step(&machine(json!({}), json!({}), json!({})), false, Remains::default()), Step::Finish);
    }

    #[test]
    fn steps_are_given_up() {
        let there = Remains { infrastructure: true, ..Remains::default() };
        let drain = |began: &str, seconds: i32| {
            machine(
                json!({}),
                json!({"nodeDrainTimeoutSeconds": seconds}),
                json!({"nodeDrainStartTime": began}),
            )
        };
        assert_eq!(step(&drain("2026-01-01T00:59:00Z", 120), true, there), Step::Drain);
        assert_eq!(step(&drain("2026-01-01T00:00:00Z", 0), true, there), Step::Drain, "0 is for ever");
        assert_eq!(step(&drain("2026-01-01T00:59:00Z", 60), true, there), Step::WaitForVolumes);
        let waited = machine(
            json!({annotations::EXCLUDE_NODE_DRAINING: ""}),
            json!({"nodeVolumeDetachTimeoutSeconds": 5}),
            json!({"waitForNodeVolumeDetachStartTime": "2026-01-01T00:59:00Z"}),
        );
        assert_eq!(step(&waited, true, there), Step::DeleteInfrastructure);
        let seconds =
            |seconds: i32| machine(json!({}), json!({"nodeDeletionTimeoutSeconds": seconds}), json!({}));
        let tried = Some("2026-01-01T00:59:55Z".parse().unwrap());
        let stays = Remains { node_stays: true, node_tried: tried, ..Remains::default() };
        assert_eq!(step(&seconds(5), true, stays), Step::Finish);
        let just_now = Remains { node_tried: Some(NOW.parse().unwrap()), ..stays };
        assert_eq!(step(&seconds(5), true, just_now), Step::DeleteNode, "the time counts from the first try");
        assert_eq!(step(&seconds(10), true, stays), Step::DeleteNode);
        assert_eq!(step(&seconds(0), true, stays), Step::DeleteNode);
        assert_eq!(step(&seconds(5), true, Remains::default()), Step::DeleteNode, "not tried yet");
    }

    #[test]
    fn a_drain_is_not_begun_again_once_the_end_has_come() {
        let going = Remains { infrastructure: true, infrastructure_deleting: true, ..Remains::default() };
        assert_eq!(step(&machine(json!({}), json!({}), json!({})), true, going), Step::DeleteInfrastructure);
        let held = machine(
            json!({}),
            json!({}),
            json!({"waitForPreTerminateHookStartTime": "2026-01-01T00:00:00Z"}),
        );
        let there = Remains { infrastructure: true, ..Remains::default() };
        assert_eq!(step(&held, true, there), Step::DeleteInfrastructure);
    }

    #[test]
    fn a_node_stays_where_nobody_could_delete_it() {
        let usual =
            Surroundings { has_node: true, other_control_plane_machines: 1, ..Surroundings::default() };
        let cases = [
            (usual, Ok(())),
            (Surroundings { cluster_deleting: true, ..usual }, Err(NodeStays::ClusterGoes)),
            (Surroundings { control_plane_deleting: true, ..usual }, Err(NodeStays::ControlPlaneGoes)),
            (Surroundings { has_node: false, ..usual }, Err(NodeStays::NoNode)),
            (
                Surroundings { other_control_plane_machines: 0, ..usual },
                Err(NodeStays::LastControlPlaneMachine),
            ),
            (Surroundings { other_control_plane_machines: 0, control_plane_external: true, ..usual }, Ok(())),
        ];
        for (around, expected) in cases {
            assert_eq!(node_goes(around), expected, "{around:?}");
        }
    }

    #[test]
    fn deadlines_are_known() {
        let drain = machine(
            json!({}),
            json!({"nodeDrainTimeoutSeconds": 60}),
            json!({"nodeDrainStartTime": "2026-01-01T00:59:00Z"}),
        );
        let remains = Remains { node_tried: Some(NOW.parse().unwrap()), ..Remains::default() };
        assert_eq!(deadline(&drain, &Step::Drain, remains), Some(NOW.parse().unwrap()));
        let after = Some("2026-01-01T01:00:10Z".parse().unwrap());
        assert_eq!(deadline(&drain, &Step::DeleteNode, remains), after);
        assert_eq!(deadline(&drain, &Step::DeleteInfrastructure, remains), None);
    }
}
