//! A host's request, and the Machine that comes of it.
//!
//! Roles, labels and addresses are taken once, when the Machine is made: running the command again with others does not
//! turn a node into another one.

use std::collections::BTreeMap;

use api::Kind as _;
use api::capi::v1beta2::{Bootstrap, Cluster, ContractVersionedObjectReference, Machine, MachineSpec};
use api::catalogue::{annotations, labels};
use api::names::{Registrant, registered_machine};
use api::rke::v1::{CustomMachine, RKEBootstrap, RKEBootstrapSpec};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::Object;
use crate::graph::{go_json, taints_json};

/// What a host says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Its id.
    pub id: String,
    /// Runs etcd.
    pub etcd: bool,
    /// Runs the control plane.
    pub control_plane: bool,
    /// Takes pods.
    pub worker: bool,
    /// Name that the node shall have.
    pub node_name: String,
    /// External addresses.
    pub address: String,
    /// Internal addresses.
    pub internal_address: String,
    /// Labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Taints of the node.
    pub taints: Vec<Taint>,
}

/// Why a request cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not JSON, or no object.
    #[error("the request is not a JSON object")]
    NotJson,
    /// Without an id there is no telling hosts apart.
    #[error("the request has no id: header X-Cattle-Id is missing")]
    NoId,
}

impl Request {
    /// Reads the JSON of a host's `X-Cattle-*` headers, lower-cased and without the prefix.
    ///
    /// # Errors
    /// If it is no such JSON, or has no id.
    pub fn read(json: &[u8]) -> Result<Self, Unreadable> {
        let headers: Value = serde_json::from_slice(json).map_err(|_| Unreadable::NotJson)?;
        let Value::Object(headers) = headers else { return Err(Unreadable::NotJson) };
        // Values are lists, as headers may repeat.
        let texts = |name: &str| -> Vec<&str> {
            match headers.get(name) {
                Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
                Some(Value::String(value)) => vec![value],
                _ => Vec::new(),
            }
        };
        let text = |name: &str| texts(name).first().copied().unwrap_or_default().to_owned();
        let request = Request {
            id: text("id"),
            etcd: text("role-etcd") == "true",
            control_plane: text("role-control-plane") == "true",
            worker: text("role-worker") == "true",
            node_name: text("node-name"),
            address: text("address"),
            internal_address: text("internal-address"),
            labels: texts("labels").iter().flat_map(|all| all.split(',')).filter_map(label).collect(),
            taints: texts("taints").iter().flat_map(|all| all.split(',')).filter_map(taint).collect(),
        };
        if request.id.is_empty() { Err(Unreadable::NoId) } else { Ok(request) }
    }

    /// Name of the Machine and of everything that belongs to it.
    pub fn machine_name(&self) -> String {
        registered_machine(Registrant::Custom, &self.id)
    }
}

/// `key=value`; a key alone has an empty value.
fn label(text: &str) -> Option<(String, String)> {
    let (key, value) = text.trim().split_once('=').unwrap_or((text.trim(), ""));
    (!key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
}

/// `key=value:effect` or `key:effect`.
fn taint(text: &str) -> Option<Taint> {
    let (pair, effect) = text.trim().rsplit_once(':')?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    (!key.is_empty() && !effect.is_empty()).then(|| Taint {
        key: key.into(),
        value: (!value.is_empty()).then(|| value.to_owned()),
        effect: effect.into(),
        time_added: None,
    })
}

/// The Machines that a request may be about.
#[derive(Clone, Copy, Debug)]
pub struct Existing<'a> {
    /// Machines of the cluster.
    pub machines: &'a [Machine],
    /// The Machine in the cluster's namespace that has the name of the request's, whichever cluster it is of.
    pub taken: Option<&'a Machine>,
}

/// What to do about a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Registration {
    /// The host has this Machine already.
    Known(String),
    /// Make these, if they do not exist: the Machine is the last one.
    New(Vec<Object>),
    /// The name is that of another host's Machine, or of another cluster's.
    Taken(String),
}

/// Whether a Machine is a cluster's and a host's. Its name has 48 bits of the id's hash, which can be searched for: the whole id counts.
pub fn belongs(machine: &Machine, cluster: &str, id: &str) -> bool {
    let bears = machine.metadata.labels.as_ref().and_then(|all| all.get(labels::MACHINE_ID));
    machine.spec.cluster_name == cluster && bears.is_some_and(|found| found == id)
}

/// The Machine of a request: the one of its name, else one with the host's id, else a new one.
pub fn registration(request: &Request, cluster: &Cluster, existing: Existing<'_>) -> Registration {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let is_its = |machine: &&Machine| belongs(machine, name, &request.id);
    let known = |machine: &Machine| Registration::Known(machine.metadata.name.clone().unwrap_or_default());
    match (existing.taken, existing.machines.iter().find(is_its)) {
        (Some(taken), _) if is_its(&taken) => known(taken),
        (_, Some(found)) => known(found),
        (Some(_), None) => Registration::Taken(request.machine_name()),
        (None, None) => Registration::New(objects(request, cluster)),
    }
}

/// The objects of a new host: what its Machine refers to, then the Machine.
pub fn objects(request: &Request, cluster: &Cluster) -> Vec<Object> {
    let name = request.machine_name();
    let cluster_name = cluster.metadata.name.clone().unwrap_or_default();
    let all = request_annotations(request);
    let mut taints_only = all.clone();
    taints_only.retain(|key, _| key == annotations::TAINTS);
    let metadata = |annotations: BTreeMap<String, String>| ObjectMeta {
        name: Some(name.clone()),
        namespace: cluster.metadata.namespace.clone(),
        labels: Some(request_labels(request, &cluster_name)),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        ..Default::default()
    };
    let reference = |kind: &str, group: &str| ContractVersionedObjectReference {
        kind: kind.into(),
        name: name.clone(),
        api_group: group.into(),
    };
    let bootstrap = RKEBootstrap {
        metadata: metadata(all),
        spec: RKEBootstrapSpec { cluster_name: cluster_name.clone(), userdata: None },
        ..Default::default()
    };
    let infrastructure = CustomMachine { metadata: metadata(taints_only.clone()), ..Default::default() };
    let machine = Machine {
        metadata: metadata(taints_only),
        spec: MachineSpec {
            cluster_name: cluster_name.clone(),
            bootstrap: Bootstrap {
                config_ref: Some(reference(RKEBootstrap::KIND, RKEBootstrap::GROUP)),
                data_secret_name: None,
            },
            infrastructure_ref: reference(CustomMachine::KIND, CustomMachine::GROUP),
            ..Default::default()
        },
        ..Default::default()
    };
    vec![Object::of(&bootstrap), Object::of(&infrastructure), Object::of(&machine)]
}

/// Ours win over the host's.
fn request_labels(request: &Request, cluster: &str) -> BTreeMap<String, String> {
    let roles = [
        (request.control_plane, labels::CONTROL_PLANE_ROLE),
        (request.control_plane, labels::CAPI_CONTROL_PLANE),
        (request.etcd, labels::ETCD_ROLE),
        (request.worker, labels::WORKER_ROLE),
    ];
    let texts = [
        (labels::NODE_NAME, request.node_name.as_str()),
        (labels::MACHINE_ID, &request.id),
        (labels::CLUSTER_NAME, cluster),
        (labels::CAPI_CLUSTER_NAME, cluster),
    ];
    let mut all = request.labels.clone();
    all.extend(roles.into_iter().filter(|(has, _)| *has).map(|(_, key)| (key.to_owned(), "true".to_owned())));
    all.extend(
        texts
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key.into(), value.into())),
    );
    all
}

fn request_annotations(request: &Request) -> BTreeMap<String, String> {
    let json = |empty: bool, text: fn(&Request) -> String| if empty { String::new() } else { text(request) };
    let all = [
        (annotations::ADDRESS, request.address.clone()),
        (annotations::INTERNAL_ADDRESS, request.internal_address.clone()),
        (annotations::LABELS, json(request.labels.is_empty(), |one| go_json(&one.labels))),
        (annotations::TAINTS, json(request.taints.is_empty(), |one| taints_json(&one.taints))),
    ];
    all.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> Request {
        let headers = json!({
            "id": ["0123abc"], "role-etcd": ["true"], "role-control-plane": ["true"], "role-worker": ["false"],
            "node-name": ["n1"], "address": ["203.0.113.7"], "internal-address": ["10.0.0.7,fd00::7"],
            "labels": ["cattle.io/os=linux,foo=bar"], "taints": ["a=b:NoExecute", "c:NoSchedule,:bad,worse"],
        });
        Request::read(headers.to_string().as_bytes()).unwrap()
    }

    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some("pets".into());
        cluster.metadata.namespace = Some("fleet-default".into());
        cluster
    }

    #[test]
    fn headers_become_a_machine() {
        let made = objects(&request(), &cluster());
        let ids: Vec<String> = made.iter().map(|object| object.id().to_string()).collect();
        let name = request().machine_name();
        assert!(name.starts_with("custom-") && name.len() == "custom-".len() + 12);
        let expected = ["RKEBootstrap", "CustomMachine", "Machine"];
        assert_eq!(ids, expected.map(|kind| format!("{kind} fleet-default/{name}")));
        for object in &made {
            assert_eq!(object.label("rke.cattle.io/etcd-role"), Some("true"));
            assert_eq!(object.label("cluster.x-k8s.io/control-plane"), Some("true"));
            assert_eq!(object.label("rke.cattle.io/worker-role"), None);
            assert_eq!(object.label("rke.cattle.io/machine-id"), Some("0123abc"));
            assert_eq!(object.label("foo"), Some("bar"));
            let taints =
                r#"[{"key":"a","value":"b","effect":"NoExecute"},{"key":"c","effect":"NoSchedule"}]"#;
            assert_eq!(object.annotation("rke.cattle.io/taints"), Some(taints));
        }
        assert_eq!(
            made[0].annotation("rke.cattle.io/labels"),
            Some(r#"{"cattle.io/os":"linux","foo":"bar"}"#)
        );
        assert_eq!(made[0].annotation("rke.cattle.io/internal-address"), Some("10.0.0.7,fd00::7"));
        assert_eq!(made[2].annotation("rke.cattle.io/internal-address"), None);
        assert_eq!(made[2].document()["spec"]["infrastructureRef"]["kind"], "CustomMachine");
    }

    #[test]
    fn a_host_cannot_call_itself_another() {
        let mut one = request();
        one.labels.insert("rke.cattle.io/machine-id".into(), "someone-else".into());
        one.labels.insert("cluster.x-k8s.io/cluster-name".into(), "other".into());
        let made = objects(&one, &cluster());
        assert_eq!(made[2].label("rke.cattle.io/machine-id"), Some("0123abc"));
        assert_eq!(made[2].label("cluster.x-k8s.io/cluster-name"), Some("pets"));
    }

    #[test]
    fn a_host_that_comes_again_is_known() {
        let (one, name) = (request(), request().machine_name());
        let machine = |name: &str, cluster: &str, id: &str| {
            let mut machine = Machine::default();
            machine.metadata.name = Some(name.into());
            machine.metadata.labels = Some([(labels::MACHINE_ID.into(), id.into())].into());
            machine.spec.cluster_name = cluster.into();
            machine
        };
        let decided = |existing: Option<Machine>, taken: Option<Machine>| {
            let machines: Vec<Machine> = existing.into_iter().chain(taken.clone()).collect();
            let machines: Vec<Machine> =
                machines.into_iter().filter(|one| one.spec.cluster_name == "pets").collect();
            registration(&one, &cluster(), Existing { machines: &machines, taken: taken.as_ref() })
        };
        let known = |name: &str| Registration::Known(name.into());
        let taken = Registration::Taken(name.clone());
        assert!(matches!(decided(None, None), Registration::New(made) if made.len() == 3));
        assert!(matches!(decided(Some(machine("m", "pets", "other")), None), Registration::New(_)));
        assert_eq!(decided(Some(machine("renamed", "pets", "0123abc")), None), known("renamed"));
        assert_eq!(decided(None, Some(machine(&name, "pets", "0123abc"))), known(&name));
        // A name that was searched for, and a host of another cluster.
        assert_eq!(decided(None, Some(machine(&name, "pets", "another-id"))), taken);
        assert_eq!(decided(None, Some(machine(&name, "other", "0123abc"))), taken);
        // Ids count in full.
        assert_eq!(decided(None, Some(machine(&name, "pets", "0123ab"))), taken);
        assert!(!belongs(&machine(&name, "pets", "0123abc"), "pet", "0123abc"));
    }

    #[test]
    fn what_is_no_request_is_said_to_be_none() {
        assert_eq!(Request::read(b"[]"), Err(Unreadable::NotJson));
        assert_eq!(Request::read(b"{"), Err(Unreadable::NotJson));
        assert_eq!(Request::read(b"{}"), Err(Unreadable::NoId));
        assert_eq!(Request::read(br#"{"id":[]}"#), Err(Unreadable::NoId));
    }
}
