//! The hook that keeps the server of an etcd member until the member is out of the cluster.
//!
//! Here it is only placed. Only the control plane's controller takes it away, one machine at a time; so a roll-out, a
//! health check and a user's deletion all pass the same gate.

use std::collections::BTreeMap;

use api::capi::v1beta2::Machine;
use api::catalogue::{annotations, labels};
use api::rke::v1::RKEBootstrap;

use super::identity;
use crate::{Code, Wait};

/// Value of the hook's annotation.
pub const HOLDER: &str = "rke-bootstrap-controller";

/// The annotation to set on a Machine, if it needs one and has none. Never on a Machine that goes already: it would be
/// too late to be safe, and too early to be released.
pub fn place(machine: &Machine) -> Option<(&'static str, &'static str)> {
    let etcd = is_true(machine.metadata.labels.as_ref(), labels::ETCD_ROLE);
    let needed = etcd && machine.metadata.deletion_timestamp.is_none() && !holds(machine);
    needed.then_some((annotations::PRE_TERMINATE_BOOTSTRAP_CLEANUP, HOLDER))
}

/// Whether the hook is on the Machine.
pub fn holds(machine: &Machine) -> bool {
    let marks = machine.metadata.annotations.as_ref();
    marks.is_some_and(|marks| marks.contains_key(annotations::PRE_TERMINATE_BOOTSTRAP_CLEANUP))
}

/// Whether a bootstrap object that is being deleted may go.
#[derive(Clone, Debug, PartialEq)]
pub enum Cleanup {
    /// Its finalizer falls; its Secrets and accounts follow it.
    Release,
    /// Its etcd member is still in the cluster.
    Wait(Wait),
}

/// Whether a bootstrap object that is being deleted may go. `machine` is its owner, as far as it exists.
pub fn cleanup(bootstrap: &RKEBootstrap, machine: Option<&Machine>) -> Cleanup {
    let etcd = is_true(bootstrap.metadata.labels.as_ref(), labels::ETCD_ROLE);
    let forced = is_true(bootstrap.metadata.annotations.as_ref(), annotations::ETCD_FORCE_REMOVE);
    match machine.filter(|machine| etcd && !forced && holds(machine)) {
        None => Cleanup::Release,
        Some(machine) => Cleanup::Wait(Wait::new(
            Code::WaitingForEtcdRemoval,
            identity(bootstrap).to_string(),
            format!(
                "waiting for the etcd member of machine {} to be removed",
                machine.metadata.name.as_deref().unwrap_or_default()
            ),
            format!("if the node is gone for good, annotate it with {}=true", annotations::ETCD_FORCE_REMOVE),
        )),
    }
}

fn is_true(map: Option<&BTreeMap<String, String>>, key: &str) -> bool {
    map.and_then(|map| map.get(key)).is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(etcd: bool, hooked: bool, going: bool) -> Machine {
        let mut machine = Machine::default();
        let set = |on: bool, key: &str, value: &str| {
            on.then(|| BTreeMap::from([(key.to_owned(), value.to_owned())]))
        };
        machine.metadata.labels = set(etcd, labels::ETCD_ROLE, "true");
        machine.metadata.annotations = set(hooked, annotations::PRE_TERMINATE_BOOTSTRAP_CLEANUP, HOLDER);
        machine.metadata.deletion_timestamp =
            going.then(|| serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap());
        machine
    }

    #[test]
    fn only_etcd_machines_that_stay_get_the_hook() {
        let cases = [
            ((true, false, false), true),
            ((false, false, false), false),
            ((true, true, false), false),
            ((true, false, true), false),
        ];
        for ((etcd, hooked, going), placed) in cases {
            assert_eq!(place(&machine(etcd, hooked, going)).is_some(), placed, "{etcd} {hooked} {going}");
        }
    }

    #[test]
    fn a_bootstrap_object_waits_for_its_member() {
        let mut bootstrap = RKEBootstrap::default();
        let waits = |bootstrap: &RKEBootstrap, machine: Option<&Machine>| matches!(cleanup(bootstrap, machine), Cleanup::Wait(wait) if wait.code == Code::WaitingForEtcdRemoval);
        let held = machine(true, true, true);
        assert!(!waits(&bootstrap, Some(&held)), "no etcd, no wait");
        bootstrap.metadata.labels = held.metadata.labels.clone();
        assert!(waits(&bootstrap, Some(&held)));
        assert!(!waits(&bootstrap, Some(&machine(true, false, true))), "the gate is open");
        assert!(!waits(&bootstrap, None), "there is nothing left to protect");
        bootstrap.metadata.annotations =
            Some([(annotations::ETCD_FORCE_REMOVE.into(), "true".into())].into());
        assert!(!waits(&bootstrap, Some(&held)), "forced");
    }
}
