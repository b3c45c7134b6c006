//! Which machine starts the cluster, and who takes its place.
//!
//! Before the cluster exists any etcd machine may start it. After that only a machine that is a member may bear the mark:
//! another would start a second cluster. A member that is being deleted keeps the mark while no other has joined.

use std::sync::Arc;

use api::catalogue::annotations;
use plan::orchestrator::Progress;

use crate::join::Joins;
use crate::members::is_healthy;
use crate::snapshot::{Machine, MachineName, Snapshot};
use crate::wait::{Code, Wait};

/// What an election came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Election {
    /// It is as it was.
    Stays(MachineName),
    /// Marks change; the next pass goes on.
    Changes {
        /// Gets the mark.
        mark: MachineName,
        /// Lose it.
        clear: Vec<MachineName>,
    },
    /// Nobody can be chosen.
    Wait(Wait),
}

/// A cluster exists, or did.
pub(crate) fn is_bootstrapped(snapshot: &Snapshot) -> bool {
    let seen = |machine: &Arc<Machine>| {
        let noted =
            machine.note(annotations::JOIN_URL).is_some() || machine.note(annotations::JOINED_TO).is_some();
        noted || machine.node.is_some() || !machine.plan.periodic.is_empty()
    };
    snapshot.state.bootstrapped || snapshot.machines.values().any(seen)
}

/// A machine got a plan, and it was not called off.
pub(crate) fn may_have_started(machine: &Machine) -> bool {
    machine.plan.has_plan && machine.plan.progress != Progress::Cancelled
}

pub(crate) fn elect(snapshot: &Snapshot, joins: &Joins) -> Election {
    let etcd = || snapshot.machines.iter().filter(|(_, machine)| machine.roles().etcd);
    let designated = snapshot.state.designated_init.as_str();
    let chosen = if designated.is_empty() {
        free(snapshot, joins)
    } else {
        let found = etcd().find(|(_, machine)| machine.agent_id() == designated);
        // A machine that is named late takes the place of nobody: it has to join first.
        let late = |name: &MachineName, machine: &Machine| {
            let others = etcd().any(|(other, machine)| other != name && may_have_started(machine));
            others && !machine.plan.has_plan
        };
        match found {
            Some((name, machine)) if late(name, machine) => free(snapshot, joins),
            found => found.map(|(name, _)| name.clone()),
        }
    };
    let Some(chosen) = chosen else {
        return Election::Wait(match designated {
            "" => Wait::cluster(Code::InitNodeMissing, "waiting for viable init node"),
            id => Wait::cluster(
                Code::InitNodeDesignatedMissing,
                format!("unable to find designated init node matching machine ID {id}"),
            ),
        });
    };
    let marked: Vec<_> = snapshot.machines.iter().filter(|(_, machine)| machine.is_marked_init()).collect();
    if marked.len() == 1 && *marked[0].0 == chosen {
        return Election::Stays(chosen);
    }
    let clear = marked.into_iter().map(|(name, _)| name.clone()).filter(|name| *name != chosen).collect();
    Election::Changes { mark: chosen, clear }
}

fn free(snapshot: &Snapshot, joins: &Joins) -> Option<MachineName> {
    let etcd = || snapshot.machines.iter().filter(|(_, machine)| machine.roles().etcd);
    let eligible =
        |machine: &Machine| !machine.is_deleting() && !machine.phase_failed && machine.infrastructure_ready;
    let first = |fits: &dyn Fn(&MachineName, &Machine) -> bool| {
        // Whoever bears the mark comes first, then the order of names.
        let marked = etcd().filter(|(_, machine)| machine.is_marked_init());
        let mut all = marked.chain(etcd());
        all.find(|(name, machine)| fits(name, machine)).map(|(name, _)| name.clone())
    };
    if !is_bootstrapped(snapshot) {
        // Whoever has a plan may be starting the cluster at this moment: no other does until it is gone.
        return match etcd().any(|(_, machine)| may_have_started(machine)) {
            true => first(&|_, machine| may_have_started(machine) && !machine.is_deleting()),
            false => first(&|_, machine| eligible(machine)),
        };
    }
    let member = |name: &MachineName, machine: &Machine| joins.url(name).is_some() && machine.plan.has_plan;
    let marked = |machine: &Machine| machine.is_marked_init() && machine.plan.has_plan;
    first(&|name, machine| marked(machine) && eligible(machine) && member(name, machine))
        .or_else(|| first(&|name, machine| eligible(machine) && member(name, machine) && is_healthy(machine)))
        .or_else(|| first(&|_, machine| marked(machine) && is_healthy(machine)))
        .or_else(|| first(&|name, machine| eligible(machine) && member(name, machine)))
        .or_else(|| first(&|_, machine| marked(machine)))
        .or_else(|| first(&|name, machine| member(name, machine)))
        .or_else(|| first(&|_, machine| machine.plan.has_plan))
}
