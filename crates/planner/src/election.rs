//! Which machine starts the cluster, and who takes its place.
//!
//! Before the cluster exists any etcd machine may start it. After that only a machine that is a member may bear the mark:
//! another would start a second cluster. A member that is being deleted keeps the mark while no other has joined.

use std::sync::Arc;

use api::catalogue::annotations;

use crate::join::Joins;
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
    let noted = |machine: &Arc<Machine>| {
        machine.note(annotations::JOIN_URL).is_some() || machine.note(annotations::JOINED_TO).is_some()
    };
    snapshot.state.bootstrapped || snapshot.machines.values().any(noted)
}

pub(crate) fn elect(snapshot: &Snapshot, joins: &Joins) -> Election {
    let etcd = || snapshot.machines.iter().filter(|(_, machine)| machine.roles().etcd);
    let designated = snapshot.state.designated_init.as_str();
    let chosen = if designated.is_empty() {
        free(snapshot, joins)
    } else {
        let fits = |machine: &Arc<Machine>| machine.agent_id() == designated;
        etcd().find(|(_, machine)| fits(machine)).map(|(name, _)| name.clone())
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
        return first(&|_, machine| eligible(machine));
    }
    let member = |name: &MachineName, machine: &Machine| joins.url(name).is_some() && machine.plan.has_plan;
    first(&|name, machine| eligible(machine) && member(name, machine))
        .or_else(|| first(&|name, machine| member(name, machine)))
        .or_else(|| first(&|_, machine| machine.plan.has_plan))
}
