//! The etcd members of a cluster, and what may be done to them.
//!
//! A voter is an etcd machine that has run its plan or told its address, and whose member was not removed. Its member is well if
//! no plan is on its way that may restart it, etcd's own probe is well, and somebody hears of its node. Whatever else is wrong with
//! the machine (its network, its kubelet) costs etcd nothing.

use std::sync::Arc;

use api::catalogue::annotations;
use jiff::Timestamp;
use plan::orchestrator::{Health, Progress};

use crate::snapshot::{Machine, MachineName, MemberRemoval, Snapshot};
use crate::tier::PATIENCE;

/// The probe of etcd itself.
const ETCD: &str = "etcd";
/// What tells of etcd where it has no probe of its own: K3s has it in one process with its API server.
const API_SERVER: &str = "kube-apiserver";

/// Members of which more than half must be up.
pub(crate) fn quorum(members: usize) -> usize {
    members / 2 + 1
}

pub(crate) fn is_voter(machine: &Machine) -> bool {
    let removed = machine.node.as_ref().is_some_and(|node| node.removal == MemberRemoval::Done);
    let joined = machine.plan.applied.is_some() || machine.note(annotations::JOIN_URL).is_some();
    machine.roles().etcd && joined && !removed
}

/// A plan that failed may have left everything as it was: probes tell. One that is on its way may restart anything.
fn is_at_rest(machine: &Machine) -> bool {
    !matches!(machine.plan.progress, Progress::NoPlan | Progress::Pending | Progress::InProgress)
}

/// Whether everything on a machine is well.
pub(crate) fn is_healthy(machine: &Machine) -> bool {
    let unready = match &machine.node {
        Some(node) => node.ready == Some(false),
        // Whoever goes and never was a node is not heard of any more: its probes are old.
        None => machine.is_deleting(),
    };
    is_at_rest(machine) && machine.plan.health == Health::Healthy && !unready
}

/// Whether its member is well: what is not etcd's does not count.
pub(crate) fn is_member_well(machine: &Machine) -> bool {
    let lost = machine.node.as_ref().map_or(machine.is_deleting(), |node| node.lost);
    is_at_rest(machine) && may_vote(machine) && !lost
}

/// Whether its member may be voting, as far as etcd's own probe tells: another one may be what fails.
fn may_vote(machine: &Machine) -> bool {
    let Health::Unhealthy(failing) = &machine.plan.health else {
        return machine.plan.health == Health::Healthy;
    };
    let delivered = machine.plan.delivered.as_ref();
    let has_own = delivered.is_some_and(|document| document.plan().probes.contains_key(ETCD));
    let of_etcd = if has_own { ETCD } else { API_SERVER };
    !failing.iter().any(|probe| probe == of_etcd)
}

/// Whether its member surely votes. A machine that is dead had healthy probes when it was last heard of; one whose agent tells
/// of failing ones lives.
fn votes(machine: &Machine) -> bool {
    let tells = machine.plan.health != Health::Healthy;
    is_member_well(machine) || (is_at_rest(machine) && tells && may_vote(machine))
}

/// A plan is on its way; one that nobody takes for long is not.
fn is_in_flight(machine: &Machine, now: Timestamp) -> bool {
    let on_its_way = matches!(machine.plan.progress, Progress::Pending | Progress::InProgress);
    let until = machine.plan.delivered_at.and_then(|delivered| delivered.checked_add(PATIENCE).ok());
    on_its_way && until.is_none_or(|until| now < until)
}

/// What is known of etcd.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    voters: Vec<(MachineName, Arc<Machine>)>,
    /// A machine is on its way in: whether it votes already is not known.
    joining: bool,
    /// A member is being removed.
    removing: bool,
    /// Voters with a plan that is on its way, and may restart them.
    in_flight: Vec<MachineName>,
}

impl Members {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let etcd = || snapshot.machines.iter().filter(|(_, machine)| machine.roles().etcd);
        let voters = etcd().filter(|(_, machine)| is_voter(machine));
        let asked = |machine: &Arc<Machine>| {
            is_voter(machine)
                && machine.node.as_ref().is_some_and(|node| node.removal == MemberRemoval::Asked)
        };
        Members {
            voters: voters.map(|(name, machine)| (name.clone(), machine.clone())).collect(),
            joining: etcd()
                .any(|(_, machine)| !is_voter(machine) && machine.plan.progress == Progress::InProgress),
            removing: etcd().any(|(_, machine)| asked(machine)),
            in_flight: etcd()
                .filter(|(_, machine)| is_voter(machine) && is_in_flight(machine, snapshot.now))
                .map(|(name, _)| name.clone())
                .collect(),
        }
    }

    /// The same, with a removal under way.
    pub(crate) fn while_removing(self) -> Self {
        Members { removing: true, ..self }
    }

    pub(crate) fn count(&self) -> usize {
        self.voters.len()
    }

    /// Voters that are well beside one, and beside others that are spoken for.
    pub(crate) fn healthy_beside(&self, name: &MachineName, taken: &[MachineName]) -> usize {
        let beside = self.voters.iter().filter(|(other, _)| other != name && !taken.contains(other));
        beside.filter(|(_, machine)| is_member_well(machine)).count()
    }

    /// Voters that are well.
    pub(crate) fn healthy(&self) -> usize {
        self.voters.iter().filter(|(_, machine)| is_member_well(machine)).count()
    }

    /// Whether a machine may be disturbed on purpose while those in `taken` are: one member at a time, and the others must
    /// have a quorum. One whose etcd is down is disturbed if no plan is on its way to another. In clusters of one or two members
    /// every restart costs the quorum for a moment: then all others must be well, and no more can be asked.
    pub(crate) fn may_disturb(&self, name: &MachineName, machine: &Machine, taken: &[MachineName]) -> bool {
        if !is_voter(machine) {
            return true;
        }
        if taken.iter().any(|other| other != name) {
            return false;
        }
        let count = self.count();
        let needed = quorum(count).min(count - 1);
        if is_member_well(machine) {
            return !self.joining && !self.removing && self.healthy_beside(name, taken) >= needed;
        }
        let voting = self.voters.iter().filter(|(other, machine)| other != name && votes(machine)).count();
        let costs_nothing = !may_vote(machine) || voting >= needed;
        costs_nothing && self.in_flight.iter().all(|other| other == name) && !self.removing
    }

    /// A member is being removed.
    pub(crate) fn is_removing(&self) -> bool {
        self.removing
    }
}
