//! One machine.

use std::io::Read as _;
use std::sync::Arc;

use api::capi::v1beta2::values::machine_phase;
use api::capi::v1beta2::{Machine, MachineStatus};
use api::catalogue::secrets::keys;
use api::catalogue::{annotations, conditions};
use api::machine::Driver as DriverKind;
use api::rke::v1::{CustomMachine, RKEBootstrap};
use api::{Kind as _, machine};
use k8s_openapi::api::core::v1::Node as DownstreamNode;
use kit::object::Unreadable;
use kit::{Object, conditions as findings};
use plan::PlanSecret;
use plan::orchestrator;
use planner::{Address, Bootstrap, Driver, DriverAddresses, Infra, MemberRemoval, Node, PlanView, Trouble};
use provisioning::bootstrap::plan_labels;
use serde_json::Value;

use super::super::known::Sighting;
use super::super::legacy;
use super::super::references::decoded;
use super::Parts;

/// A machine as it was read, and from what.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    stamp: String,
    pub(crate) machine: Arc<planner::Machine>,
    pub(crate) plan_failed: bool,
}

/// Reads a machine, unless nothing of it changed.
pub(super) fn read(parts: &Parts, before: Option<Read>) -> Result<Read, Unreadable> {
    let stamp = stamp(parts);
    if let Some(before) = before.as_ref().filter(|before| before.stamp == stamp) {
        return Ok(before.clone());
    }
    let view = parts.machine.view::<Machine>()?;
    let status = view.status.clone().unwrap_or_default();
    let data = parts.secret.as_ref().map(|secret| decoded(&secret.document()["data"])).unwrap_or_default();
    let words = |words: &Option<planner::Words>| words.clone().unwrap_or_default();
    let plan = parts.secret.as_ref().map(|secret| PlanView::read(words(&secret.meta().annotations), &data));
    let machine = planner::Machine {
        id: identity(&parts.machine).to_owned(),
        labels: words(&parts.machine.meta().labels),
        deleting_since: parts.machine.meta().deletion_timestamp.as_ref().map(|time| time.0),
        phase_failed: status.phase == machine_phase::FAILED,
        infrastructure_ready: findings::has(
            &status.conditions,
            conditions::INFRASTRUCTURE_READY,
            findings::Status::True,
        ),
        trouble: trouble(&status),
        has_hook: parts.machine.annotation(annotations::PRE_TERMINATE_BOOTSTRAP_CLEANUP).is_some(),
        force_remove: parts
            .bootstrap
            .as_ref()
            .is_some_and(|bootstrap| bootstrap.annotation(annotations::ETCD_FORCE_REMOVE) == Some("true")),
        infra: infra(parts, &view),
        node: node(parts, &status)?,
        bootstrap: bootstrap(parts, &view)?,
        plan: plan.unwrap_or_default(),
    };
    let machine = match before.filter(|before| *before.machine == machine) {
        Some(before) => before.machine,
        None => Arc::new(machine),
    };
    Ok(Read { stamp, machine, plan_failed: orchestrator::plan_applied_is_false(&PlanSecret::read(&data)) })
}

/// What the RKEBootstrap says of the machine. It counts from when there is a Secret that a plan can be delivered to.
fn bootstrap(parts: &Parts, machine: &Machine) -> Result<Bootstrap, Unreadable> {
    let (Some(bootstrap), Some(secret)) = (&parts.bootstrap, &parts.secret) else {
        return Ok(Bootstrap::default());
    };
    let labels = plan_labels(&*bootstrap.view::<RKEBootstrap>()?, machine);
    Ok(legacy::words(labels, bootstrap, secret, parts.moved))
}

/// The id that a machine bears on its node: written once, and the object's own until then.
pub(crate) fn identity(machine: &Object) -> &str {
    let written = machine.annotation(annotations::HERDSMAN_MACHINE_UID).filter(|id| !id.is_empty());
    written.unwrap_or_else(|| machine.uid())
}

/// What everything was read from.
fn stamp(parts: &Parts) -> String {
    let of = |object: Option<&Arc<Object>>| match object {
        Some(object) => {
            format!("{}@{}", object.uid(), object.meta().resource_version.as_deref().unwrap_or_default())
        }
        None => String::new(),
    };
    let node = match &parts.node {
        Sighting::NotReached => "?".to_owned(),
        Sighting::Missing => "-".to_owned(),
        Sighting::There(node) => of(Some(node)),
    };
    let infra = parts.infra.as_ref().map(|(_, object)| object);
    [
        of(Some(&parts.machine)),
        of(parts.bootstrap.as_ref()),
        of(parts.secret.as_ref()),
        of(infra),
        of(parts.driver_state.as_ref()),
        node,
        parts.moved.to_string(),
    ]
    .join(" ")
}

/// What Cluster API's conditions say is wrong.
fn trouble(status: &MachineStatus) -> Option<Trouble> {
    for type_ in [conditions::INFRASTRUCTURE_READY, conditions::NODE_READY] {
        let Some(found) = findings::find(&status.conditions, type_).filter(|one| one.status != "True") else {
            continue;
        };
        let message = match found.message.as_str() {
            "" => format!("{type_} is {}: {}", found.status, found.reason),
            words => words.trim_start_matches("* ").replace("\n* ", "; "),
        };
        return Some(Trouble { failing: found.status == "False", message });
    }
    None
}

fn infra(parts: &Parts, view: &Machine) -> Infra {
    let reference = &view.spec.infrastructure_ref;
    let ours = [machine::GROUP, CustomMachine::GROUP, "elemental.cattle.io"];
    let document = parts.infra.as_ref().map(|(_, object)| object.document());
    let native = !ours.contains(&reference.api_group.as_str());
    let driver = (reference.api_group == machine::GROUP).then(|| Driver {
        name: DriverKind::of_machine_kind(&reference.kind).map(|driver| driver.name()).unwrap_or_default(),
        saved: parts.driver_state.as_ref().and_then(|secret| saved(secret)),
    });
    let text = |document: &Value| document["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
    Infra {
        native,
        provider_id: document.map(text).unwrap_or_default(),
        addresses: document
            .filter(|_| native)
            .map(|document| addresses(&document["status"]["addresses"]))
            .unwrap_or_default(),
        driver,
    }
}

fn addresses(list: &Value) -> Vec<Address> {
    let all = list.as_array().into_iter().flatten();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    all.map(|one| Address { kind: text(one, "type"), address: text(one, "address") }).collect()
}

/// The most that is unpacked of what rancher-machine saved. Whoever may write the Secret must not make it fill the memory.
const MOST_UNPACKED: u64 = 8 << 20;

/// The addresses that rancher-machine saved: `config.json` in its directory, as tar and gzip.
fn saved(secret: &Object) -> Option<DriverAddresses> {
    let data = decoded(&secret.document()["data"]);
    let archive = data.get(keys::EXTRACTED_CONFIG).filter(|bytes| !bytes.is_empty())?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive.as_slice()).take(MOST_UNPACKED));
    for entry in archive.entries().ok()? {
        let Ok(mut entry) = entry else { continue };
        if entry.path().ok()?.file_name().is_none_or(|name| name != "config.json") {
            continue;
        }
        let mut text = String::new();
        entry.read_to_string(&mut text).ok()?;
        let config: Value = serde_json::from_str(&text).ok()?;
        let part = |field: &str| config["Driver"][field].as_str().unwrap_or_default().to_owned();
        return Some(DriverAddresses {
            external: part("IPAddress"),
            internal: part("PrivateIPAddress"),
            ipv6: part("IPv6Address"),
        });
    }
    None
}

/// The node that a Machine refers to. What Cluster API copied of it stands while its cluster is not reached.
fn node(parts: &Parts, status: &MachineStatus) -> Result<Option<Node>, Unreadable> {
    let Some(reference) = &status.node_ref else { return Ok(None) };
    let mut node = Node {
        name: reference.name.clone(),
        kubelet_version: status
            .node_info
            .as_ref()
            .map(|info| info.kubelet_version.clone())
            .unwrap_or_default(),
        addresses: status
            .addresses
            .iter()
            .map(|one| Address { kind: one.type_.to_string(), address: one.address.clone() })
            .collect(),
        ..Node::default()
    };
    match &parts.node {
        Sighting::NotReached => {}
        Sighting::Missing => node.removal = MemberRemoval::Done,
        Sighting::There(object) => {
            let view = object.view::<DownstreamNode>()?;
            node.provider_id =
                view.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
            node.ready = Some(is_ready(&view));
            node.lost = readiness(&view) == Some("Unknown");
            node.removal = removal(object);
        }
    }
    Ok(Some(node))
}

/// Whether a node says that it is ready.
pub(crate) fn is_ready(node: &DownstreamNode) -> bool {
    readiness(node) == Some("True")
}

/// The status of a node's condition `Ready`.
fn readiness(node: &DownstreamNode) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| one.type_ == "Ready").map(|one| one.status.as_str())
}

/// How far the distribution is with the node's etcd member.
fn removal(node: &Object) -> MemberRemoval {
    let done = [annotations::ETCD_REMOVED_NODE_NAME_K3S, annotations::ETCD_REMOVED_NODE_NAME_RKE2];
    let asked = [annotations::ETCD_REMOVE_K3S, annotations::ETCD_REMOVE_RKE2];
    let has = |key: &&str| node.annotation(key).is_some_and(|value| !value.is_empty());
    match () {
        () if done.iter().any(has) => MemberRemoval::Done,
        () if asked.iter().any(|key| node.annotation(key) == Some("true")) => MemberRemoval::Asked,
        () => MemberRemoval::None,
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    fn object(document: Value) -> Arc<Object> {
        Arc::new(Object::from_document(document).unwrap())
    }

    #[test]
    fn addresses_come_from_what_the_driver_saved() {
        let config = br#"{"Driver": {"IPAddress": "203.0.113.5", "PrivateIPAddress": "10.0.0.5"}}"#;
        let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), Default::default()));
        for (path, content) in [("machines/m/id_rsa", &b"key"[..]), ("machines/m/config.json", config)] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            archive.append_data(&mut header, path, content).unwrap();
        }
        let archive = archive.into_inner().unwrap().finish().unwrap();
        let secret = |bytes: &[u8]| {
            object(json!({"metadata": {}, "data": {"extractedConfig": STANDARD.encode(bytes)}}))
        };
        let found = saved(&secret(&archive)).unwrap();
        assert_eq!(
            (found.external.as_str(), found.internal.as_str(), found.ipv6.as_str()),
            ("203.0.113.5", "10.0.0.5", "")
        );
        assert_eq!(saved(&secret(b"")), None);
        assert_eq!(saved(&secret(b"no archive")), None);
    }

    #[test]
    fn the_first_condition_that_is_not_met_is_the_trouble() {
        let status = |conditions: Value| -> MachineStatus {
            serde_json::from_value(json!({"conditions": conditions})).unwrap()
        };
        let one = |type_: &str, status: &str, message: &str| json!({"type": type_, "status": status, "reason": "R", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let fine = json!([one("InfrastructureReady", "True", ""), one("NodeReady", "True", "")]);
        assert_eq!(trouble(&status(fine)), None);
        assert_eq!(trouble(&status(json!([]))), None);
        let dead = json!([
            one("InfrastructureReady", "True", ""),
            one("NodeReady", "False", "* kubelet stopped\n* disk is full")
        ]);
        let found = trouble(&status(dead)).unwrap();
        assert_eq!((found.failing, found.message.as_str()), (true, "kubelet stopped; disk is full"));
        let waits = json!([one("InfrastructureReady", "Unknown", ""), one("NodeReady", "False", "later")]);
        let found = trouble(&status(waits)).unwrap();
        assert_eq!((found.failing, found.message.as_str()), (false, "InfrastructureReady is Unknown: R"));
    }

    #[test]
    fn a_member_is_removed_when_the_distribution_says_so_or_its_node_is_gone() {
        let node =
            |notes: Value| object(json!({"kind": "Node", "metadata": {"name": "n", "annotations": notes}}));
        let parts = |node: Sighting| Parts {
            machine: object(json!({"metadata": {"name": "m"}})),
            bootstrap: None,
            secret: None,
            moved: true,
            infra: None,
            driver_state: None,
            node,
        };
        let joined: MachineStatus = serde_json::from_value(json!({"nodeRef": {"name": "n"}})).unwrap();
        let removal = |sighting: Sighting| super::node(&parts(sighting), &joined).unwrap().unwrap().removal;
        assert_eq!(removal(Sighting::NotReached), MemberRemoval::None, "nothing is known");
        assert_eq!(removal(Sighting::Missing), MemberRemoval::Done);
        assert_eq!(removal(Sighting::There(node(json!({})))), MemberRemoval::None);
        let asked = node(json!({"etcd.k3s.cattle.io/remove": "true"}));
        assert_eq!(removal(Sighting::There(asked)), MemberRemoval::Asked);
        let done = node(
            json!({"etcd.rke2.cattle.io/remove": "true", "etcd.rke2.cattle.io/removed-node-name": "n-1"}),
        );
        assert_eq!(removal(Sighting::There(done)), MemberRemoval::Done);
        assert!(super::node(&parts(Sighting::Missing), &MachineStatus::default()).unwrap().is_none());
    }

    #[test]
    fn a_machine_keeps_the_id_that_was_written() {
        let moved = object(
            json!({"metadata": {"name": "m", "uid": "new", "annotations": {annotations::HERDSMAN_MACHINE_UID: "old"}}}),
        );
        assert_eq!(identity(&moved), "old");
        assert_eq!(identity(&object(json!({"metadata": {"name": "m", "uid": "first"}}))), "first");
    }
}
