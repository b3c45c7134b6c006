//! Letting etcd machines go, one at a time, never below quorum.
//!
//! A rolling MachineSet, a health check and `kubectl delete machine` all end here: the Machine is deleted, and its server
//! stays until its hook is dropped. First everybody that joined through it is pointed elsewhere, then the distribution
//! removes the member, then the hook goes. A machine that has a plan and has not taken it is kept from joining first.

use std::collections::BTreeSet;

use jiff::Timestamp;
use plan::orchestrator::Progress;

use crate::decision::Release;
use crate::election::is_bootstrapped;
use crate::join::Joins;
use crate::members::{Members, is_member_well, is_voter, quorum};
use crate::snapshot::{Machine, MachineName, MemberRemoval, Snapshot};
use crate::tier::PATIENCE;
use crate::wait::{Code, Wait};

/// What to do about machines that are going.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removals {
    pub(crate) cancels: BTreeSet<MachineName>,
    pub(crate) releases: Vec<Release>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) wake_at: Option<Timestamp>,
}

enum Step {
    /// Its plan is called off, so that it cannot join any more.
    Cancel,
    Release(Release),
    Wait(Wait),
}

/// Every machine that is going and still has its hook.
fn going(snapshot: &Snapshot) -> impl Iterator<Item = (&MachineName, &Machine)> {
    let all = snapshot.machines.iter().map(|(name, machine)| (name, machine.as_ref()));
    all.filter(|(_, machine)| machine.is_deleting() && machine.has_hook)
}

/// Lets everybody go: the cluster goes too, or etcd is given up.
pub(crate) fn all(snapshot: &Snapshot, reason: &'static str) -> Vec<Release> {
    going(snapshot).map(|(name, _)| drop_hook(name, reason)).collect()
}

fn drop_hook(name: &MachineName, reason: &'static str) -> Release {
    Release::DropHook { machine: name.clone(), reason }
}

pub(crate) fn removals(snapshot: &Snapshot, joins: &Joins, members: &Members) -> Removals {
    let mut removals = Removals::default();
    let mut busy = members.is_removing();
    for (name, machine) in going(snapshot) {
        match step(snapshot, joins, members, busy, name, machine) {
            Step::Release(release) => {
                busy |= matches!(release, Release::RemoveMember { .. });
                removals.releases.push(release);
            }
            Step::Cancel => {
                removals.cancels.insert(name.clone());
            }
            Step::Wait(wait) => {
                if wait.code == Code::PlanNotApplied {
                    removals.wake_at = removals.wake_at.into_iter().chain(patience(machine)).min();
                }
                removals.waits.push(wait.since(machine.deleting_since));
            }
        }
    }
    removals
}

fn step(
    snapshot: &Snapshot,
    joins: &Joins,
    members: &Members,
    busy: bool,
    name: &MachineName,
    machine: &Machine,
) -> Step {
    if machine.node.as_ref().is_some_and(|node| node.removal == MemberRemoval::Done) {
        return Step::Release(drop_hook(name, "its etcd member is removed"));
    }
    if let Some(step) = on_its_way(snapshot, name, machine) {
        return step;
    }
    if let Some(reason) = at_once(snapshot, members, machine) {
        return Step::Release(drop_hook(name, reason));
    }
    let wait = |code: Code, message: String| Step::Wait(Wait::machine(code, name, message));
    // Without a Node nobody can be asked; a machine that went would leave a member that votes no more.
    let Some(node) = &machine.node else {
        return wait(
            Code::RemovalMember,
            "waiting for node to register so that its etcd member can be removed".into(),
        );
    };
    match node.removal {
        MemberRemoval::Asked => {
            return wait(Code::RemovalMember, "waiting for etcd member to be removed".into());
        }
        MemberRemoval::None if busy => {
            return wait(Code::RemovalTurn, "waiting for another etcd member to be removed".into());
        }
        MemberRemoval::None | MemberRemoval::Done => {}
    }
    // Who joined through a machine that is down gains nothing from it any more, and could not restart for lack of
    // members: it is pointed elsewhere afterwards.
    if let Some(joined) = joined_to(snapshot, joins, name).filter(|_| is_member_well(machine)) {
        let message = format!("waiting for machines joined to this one to be pointed elsewhere: {joined}");
        return wait(Code::RemovalRepointing, message);
    }
    if members.count() == 1 {
        return wait(
            Code::RemovalReplacement,
            "waiting for another etcd member to join before the last one goes".into(),
        );
    }
    let (left, healthy) = (members.count() - 1, members.healthy_beside(name, &[]));
    if healthy < quorum(left) && members.healthy() < quorum(members.count()) {
        let seen = format!("{} of {} members are healthy", members.healthy(), members.count());
        let message = "etcd has no quorum, its members cannot be removed in order";
        return Step::Wait(Wait::machine(Code::QuorumLost, name, message).seen(seen));
    }
    if healthy < quorum(left) {
        let needed = quorum(left);
        let message = format!(
            "waiting for etcd members to be healthy: {healthy} of {left} others are, {needed} must be"
        );
        return wait(Code::RemovalQuorum, message);
    }
    Step::Release(Release::RemoveMember { machine: name.clone(), node: node.name.clone() })
}

/// A machine that has a plan and has not run it may become a member at any moment: the plan is called off, and one that is
/// being run gets the time it needs.
fn on_its_way(snapshot: &Snapshot, name: &MachineName, machine: &Machine) -> Option<Step> {
    if machine.force_remove || !machine.roles().etcd || is_voter(machine) {
        return None;
    }
    match machine.plan.progress {
        Progress::Pending => Some(Step::Cancel),
        Progress::InProgress | Progress::Retrying
            if patience(machine).is_some_and(|until| snapshot.now < until) =>
        {
            let message = "waiting for the plan that is being applied";
            Some(Step::Wait(Wait::machine(Code::PlanNotApplied, name, message)))
        }
        _ => None,
    }
}

/// When a machine is no longer waited for.
fn patience(machine: &Machine) -> Option<Timestamp> {
    machine.plan.delivered_at.and_then(|delivered| delivered.checked_add(PATIENCE).ok())
}

/// Reasons to ask nobody.
fn at_once(snapshot: &Snapshot, members: &Members, machine: &Machine) -> Option<&'static str> {
    if machine.force_remove {
        return Some("it is to be removed by force");
    }
    if !machine.roles().etcd {
        return Some("it has no etcd member");
    }
    if !is_voter(machine) {
        return Some("it never joined etcd");
    }
    let born = is_bootstrapped(snapshot) && (snapshot.state.has_kubeconfig || members.count() > 1);
    (!born).then_some("the cluster never came to be")
}

/// Machines that stay and are joined to one that goes.
fn joined_to(snapshot: &Snapshot, joins: &Joins, name: &MachineName) -> Option<String> {
    let url = joins.url(name)?;
    let joined = snapshot.machines.iter().filter(|(other, machine)| {
        *other != name && !machine.is_deleting() && machine.joined_to() == Some(url)
    });
    let names: Vec<_> = joined.map(|(other, _)| other.as_str()).collect();
    (!names.is_empty()).then(|| crate::tier::names(&names))
}
