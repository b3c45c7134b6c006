//! Letting etcd machines go, one at a time, never below quorum.
//!
//! A rolling MachineSet, a health check and `kubectl delete machine` all end here: the Machine is deleted, and its server
//! stays until its hook is dropped. First everybody that joined through it is pointed elsewhere, then the distribution
//! removes the member, then the hook goes.

use crate::decision::Release;
use crate::join::Joins;
use crate::members::{Members, is_voter, quorum};
use crate::snapshot::{Machine, MachineName, MemberRemoval, Snapshot};
use crate::wait::{Code, Wait};

/// What to do about machines that are going.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removals {
    pub(crate) releases: Vec<Release>,
    pub(crate) waits: Vec<Wait>,
}

enum Step {
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
            Step::Wait(wait) => removals.waits.push(wait.since(machine.deleting_since)),
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
    if let Some(reason) = at_once(snapshot, machine) {
        return Step::Release(drop_hook(name, reason));
    }
    let wait = |code: Code, message: String| Step::Wait(Wait::machine(code, name, message));
    let Some(node) = &machine.node else {
        return Step::Release(drop_hook(name, "it has no node"));
    };
    match node.removal {
        MemberRemoval::Done => return Step::Release(drop_hook(name, "its etcd member is removed")),
        MemberRemoval::Asked => {
            return wait(Code::RemovalMember, "waiting for etcd member to be removed".into());
        }
        MemberRemoval::None if busy => {
            return wait(Code::RemovalTurn, "waiting for another etcd member to be removed".into());
        }
        MemberRemoval::None => {}
    }
    if let Some(joined) = joined_to(snapshot, joins, name) {
        let message = format!("waiting for machines joined to this one to be pointed elsewhere: {joined}");
        return wait(Code::RemovalRepointing, message);
    }
    if members.count() == 1 {
        return wait(
            Code::RemovalReplacement,
            "waiting for another etcd member to join before the last one goes".into(),
        );
    }
    if members.healthy() < quorum(members.count()) {
        let seen = format!("{} of {} members are healthy", members.healthy(), members.count());
        let message = "etcd has no quorum, its members cannot be removed in order";
        return Step::Wait(Wait::machine(Code::QuorumLost, name, message).seen(seen));
    }
    let (left, healthy) = (members.count() - 1, members.healthy_beside(name, &[]));
    if healthy < quorum(left) {
        let message = format!(
            "waiting for etcd members to be healthy: {healthy} of {left} others are, {} must be",
            quorum(left)
        );
        return wait(Code::RemovalQuorum, message);
    }
    Step::Release(Release::RemoveMember { machine: name.clone(), node: node.name.clone() })
}

/// Reasons to ask nobody.
fn at_once(snapshot: &Snapshot, machine: &Machine) -> Option<&'static str> {
    if machine.force_remove {
        return Some("it is to be removed by force");
    }
    if !machine.roles().etcd {
        return Some("it has no etcd member");
    }
    if !is_voter(machine) {
        return Some("it never joined etcd");
    }
    (!snapshot.state.has_kubeconfig).then_some("the cluster was never reached")
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
