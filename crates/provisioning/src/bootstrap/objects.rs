//! The objects of one machine. They belong to its RKEBootstrap and go with it.

use std::collections::BTreeMap;

use api::Kind as _;
use api::capi::v1beta2::{Cluster, Machine};
use api::catalogue::labels;
use api::catalogue::secrets::{keys, types};
use api::names;
use api::rke::v1::RKEBootstrap;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Object;
use crate::graph::applied::is_mark;
use crate::object::{Id, controller_reference};

/// Whose the objects are.
pub(super) struct Owner {
    pub(super) id: Id,
    uid: String,
}

impl Owner {
    pub(super) fn of(bootstrap: &RKEBootstrap) -> Self {
        let id = Id {
            api_version: format!("{}/{}", RKEBootstrap::GROUP, RKEBootstrap::VERSION),
            kind: RKEBootstrap::KIND.into(),
            namespace: bootstrap.metadata.namespace.clone().unwrap_or_default(),
            name: bootstrap.metadata.name.clone().unwrap_or_default(),
        };
        Owner { id, uid: bootstrap.metadata.uid.clone().unwrap_or_default() }
    }

    fn metadata(&self, name: &str, labels: BTreeMap<String, String>) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(self.id.namespace.clone()),
            labels: Some(labels).filter(|labels| !labels.is_empty()),
            owner_references: Some(vec![controller_reference(&self.id, &self.uid)]),
            ..Default::default()
        }
    }
}

/// The plan Secret, and an account that reaches it and nothing else. What is in the Secret is the planner's and the
/// agent's.
pub(super) fn plan(
    owner: &Owner,
    bootstrap: &RKEBootstrap,
    machine: &Machine,
    server_ca: &str,
) -> Vec<Object> {
    let name = names::plan_secret(names::Bootstrap(&owner.id.name));
    let mut account_labels = account_labels(owner, machine, "plan");
    account_labels.insert(labels::PLAN_SECRET_NAME.into(), name.clone());
    let account = ServiceAccount { metadata: owner.metadata(&name, account_labels), ..Default::default() };
    let mut metadata = owner.metadata(&name, plan_labels(bootstrap, machine));
    metadata.annotations = plan_annotations(bootstrap, server_ca);
    let secret = Secret { metadata, type_: Some(types::MACHINE_PLAN.into()), ..Default::default() };
    let role = Role {
        metadata: owner.metadata(&name, BTreeMap::new()),
        rules: Some(vec![PolicyRule {
            verbs: ["watch", "get", "update", "list"].map(String::from).into(),
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["secrets".into()]),
            resource_names: Some(vec![name.clone()]),
            ..Default::default()
        }]),
    };
    let binding = RoleBinding {
        metadata: owner.metadata(&name, BTreeMap::new()),
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: name.clone(),
            namespace: Some(owner.id.namespace.clone()),
            api_group: None,
        }]),
        role_ref: RoleRef { api_group: Some("rbac.authorization.k8s.io".into()), kind: "Role".into(), name },
    };
    vec![Object::of(&account), Object::of(&secret), Object::of(&role), Object::of(&binding)]
}

/// The account whose token the server introduces itself with.
pub(super) fn bootstrap_account(owner: &Owner, bootstrap: &RKEBootstrap, machine: &Machine) -> Object {
    let name = bootstrap.metadata.name.as_deref().unwrap_or_default();
    let name = names::bootstrap_secret(names::Bootstrap(name));
    let labels = account_labels(owner, machine, "bootstrap");
    Object::of(&ServiceAccount { metadata: owner.metadata(&name, labels), ..Default::default() })
}

/// What the server runs first.
pub(super) fn bootstrap_secret(owner: &Owner, name: &str, cluster: &str, value: String) -> Object {
    let labels = BTreeMap::from([(labels::CAPI_CLUSTER_NAME.to_owned(), cluster.to_owned())]);
    Object::of(&Secret {
        metadata: owner.metadata(name, labels),
        type_: Some(types::BOOTSTRAP.into()),
        data: Some(BTreeMap::from([(keys::VALUE.to_owned(), ByteString(value.into_bytes()))])),
        ..Default::default()
    })
}

fn account_labels(owner: &Owner, machine: &Machine, role: &str) -> BTreeMap<String, String> {
    let machine = machine.metadata.name.clone().unwrap_or_default();
    BTreeMap::from([
        (labels::MACHINE_NAME.to_owned(), machine),
        (labels::BOOTSTRAP_NAME.to_owned(), owner.id.name.clone()),
        (labels::SERVICE_ACCOUNT_ROLE.to_owned(), role.to_owned()),
    ])
}

/// Labels of a machine's plan Secret: back-references for whoever finds it, then the bootstrap object's labels, which win. Plans are
/// rendered from these, and not from what stands on the Secret.
pub fn plan_labels(bootstrap: &RKEBootstrap, machine: &Machine) -> BTreeMap<String, String> {
    let name = |metadata: &ObjectMeta| metadata.name.clone().unwrap_or_default();
    let mut all: BTreeMap<String, String> = [
        (labels::MACHINE_NAME, name(&machine.metadata)),
        (labels::CLUSTER_NAME, bootstrap.spec.cluster_name.clone()),
        (labels::BACKUP, "true".to_owned()),
        (labels::PLAN_MACHINE_GROUP, Machine::GROUP.to_owned()),
        (labels::PLAN_MACHINE_KIND, Machine::KIND.to_owned()),
        (labels::PLAN_MACHINE_NAME, name(&machine.metadata)),
        (labels::PLAN_CLUSTER_GROUP, Cluster::GROUP.to_owned()),
        (labels::PLAN_CLUSTER_KIND, Cluster::KIND.to_owned()),
        (labels::PLAN_CLUSTER_NAME, machine.spec.cluster_name.clone()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    all.extend(bootstrap.metadata.labels.clone().unwrap_or_default());
    all
}

/// The bootstrap object's, and which authorities the machine's agent should trust.
fn plan_annotations(bootstrap: &RKEBootstrap, server_ca: &str) -> Option<BTreeMap<String, String>> {
    let mut all = bootstrap.metadata.annotations.clone().unwrap_or_default();
    all.retain(|key, _| !is_mark(key));
    if !server_ca.is_empty() {
        all.insert(plan::authority::WANTED.to_owned(), server_ca.to_owned());
    }
    (!all.is_empty()).then_some(all)
}
