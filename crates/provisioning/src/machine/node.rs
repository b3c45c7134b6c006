//! The node that a server has become: where provider id and addresses come from.

use api::catalogue::{conditions, labels};
use api::machine::GROUP as MACHINE_GROUP;
use api::rke::v1::{CustomMachine, MachineAddress, MachineAddressType};
use api::{GenericCondition, Kind as _};
use k8s_openapi::api::core::v1::Node;

/// What is to be written on an infrastructure machine whose node may have joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// The machine is not ours, or knows its node already: nothing.
    Nothing,
    /// The server is not there, or its node is not ready: look again when either changes.
    NotYet,
    /// First the addresses, then the provider id: whoever sees the id has the addresses.
    Yes {
        /// Addresses, for the status.
        addresses: Vec<MachineAddress>,
        /// Provider id, for the spec.
        provider_id: String,
    },
}

/// Labels that only the distribution's servers give to a Node: a kubelet may not, by Kubernetes' NodeRestriction.
const SERVER_ROLES: [&str; 2] = ["node-role.kubernetes.io/etcd", "node-role.kubernetes.io/control-plane"];

/// What a machine's node says. `machine_uid` is the id that the node bears in the label `rke.cattle.io/machine`; a kubelet may set that
/// one as it likes. The node of a `server` therefore needs a role that only servers get, and an id that several nodes bear is nobody's.
pub fn joined(
    infrastructure_group: &str,
    known_provider_id: &str,
    infra_conditions: &[GenericCondition],
    (machine_uid, server): (&str, bool),
    nodes: &[Node],
) -> Joined {
    let groups = [MACHINE_GROUP, CustomMachine::GROUP, "elemental.cattle.io"];
    if !groups.contains(&infrastructure_group) || !known_provider_id.is_empty() {
        return Joined::Nothing;
    }
    if !GenericCondition::find(infra_conditions, conditions::READY).is_some_and(GenericCondition::is_true) {
        return Joined::NotYet;
    }
    let bears = |node: &&Node| {
        let found = node.metadata.labels.as_ref().and_then(|all| all.get(labels::MACHINE_UID));
        !machine_uid.is_empty() && found.is_some_and(|uid| uid == machine_uid) && (!server || is_server(node))
    };
    let mut bearers = nodes.iter().filter(bears);
    let (Some(node), None) = (bearers.next(), bearers.next()) else { return Joined::NotYet };
    if !is_ready(node) {
        return Joined::NotYet;
    }
    let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
    if provider_id.is_empty() {
        return Joined::NotYet;
    }
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let addresses = addresses.map(|one| MachineAddress {
        type_: MachineAddressType::from(one.type_.as_str()),
        address: one.address.clone(),
    });
    Joined::Yes { addresses: addresses.collect(), provider_id }
}

fn is_server(node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels.is_some_and(|all| SERVER_ROLES.iter().any(|role| all.contains_key(*role)))
}

fn is_ready(node: &Node) -> bool {
    let found = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    found.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}
