//! What is filled in at the door.

use api::catalogue::annotations;
use api::names;
use api::provisioning::v1::Cluster;

use super::{Answers, Operation, Request, SecretRef, Version, pod_security};
use crate::Object;
use crate::graph::source;

/// The cluster as it is stored, and what goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The cluster.
    pub cluster: Cluster,
    /// The Secret with the pod security configuration, to be written.
    pub write: Option<Object>,
    /// The same Secret, to be deleted if it exists.
    pub delete: Option<SecretRef>,
}

/// What is filled in. Nothing is written or deleted when nothing is really done.
pub fn mutate(request: &Request<'_>, answers: &Answers<'_>) -> Mutation {
    let mut mutation = Mutation { cluster: request.new.clone(), write: None, delete: None };
    if request.operation == Operation::Create {
        note_creator(&mut mutation.cluster, request.user);
    }
    if request.operation == Operation::Update && !request.is_local() {
        keep_schemas(request, &mut mutation.cluster);
    }
    if request.config().is_some() && !request.is_local() {
        pod_security(request, answers, &mut mutation);
    }
    if request.dry_run {
        (mutation.write, mutation.delete) = (None, None);
    }
    mutation
}

fn note_creator(cluster: &mut Cluster, user: &str) {
    let marks = cluster.metadata.annotations.get_or_insert_default();
    if !marks.contains_key(annotations::NO_CREATOR_RBAC) {
        marks.entry(annotations::CREATOR_ID.into()).or_insert_with(|| user.to_owned());
    }
}

/// Tools that write whole clusters drop the frozen schemas, and with them every machine: schemas come back unless an
/// annotation lets them go or the pool has another driver.
fn keep_schemas(request: &Request<'_>, cluster: &mut Cluster) {
    let marks = cluster.metadata.annotations.as_ref();
    let dropping = marks.and_then(|marks| marks.get(annotations::ALLOW_DYNAMIC_SCHEMA_DROP));
    if dropping.is_some_and(|value| value == "true") {
        return;
    }
    let (Some(old), Some(new)) = (request.old_config(), &mut cluster.spec.rke_config) else { return };
    for pool in new.machine_pools.iter_mut().filter(|pool| pool.dynamic_schema_spec.is_empty()) {
        let before = old.machine_pools.iter().find(|one| one.name == pool.name);
        let before = before.filter(|one| source::driver(one) == source::driver(pool));
        pool.dynamic_schema_spec = before.map(|one| one.dynamic_schema_spec.clone()).unwrap_or_default();
    }
}

fn pod_security(request: &Request<'_>, answers: &Answers<'_>, mutation: &mut Mutation) {
    let cluster = &mut mutation.cluster;
    let secret = SecretRef {
        namespace: cluster.metadata.namespace.clone().unwrap_or_default(),
        name: names::pod_security_secret(cluster.metadata.name.as_deref().unwrap_or_default()),
    };
    if request.operation == Operation::Delete {
        mutation.delete = Some(secret);
        return;
    }
    let old_enough = Version::parse(&cluster.spec.kubernetes_version);
    if cluster.metadata.deletion_timestamp.is_some()
        || old_enough.is_none_or(|one| !pod_security::is_known_to(&one))
    {
        return;
    }
    let name = cluster.spec.default_pod_security_admission_configuration_template_name.clone();
    match answers.pod_security_templates.get(&name) {
        Some(template) => {
            pod_security::deliver(cluster, template);
            mutation.write = Some(pod_security::secret(cluster, template));
        }
        None if name.is_empty() => {
            pod_security::withdraw(cluster);
            mutation.delete = Some(secret);
        }
        // Validation refuses it.
        None => {}
    }
}
