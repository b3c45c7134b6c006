//! What is filled in at the door.

use api::catalogue::annotations;
use api::provisioning::v1::Cluster;

use super::{Answers, Operation, Request, Version, pod_security};
use crate::graph::source;

/// The cluster as it is stored. Nothing else is written because of a request: whatever goes with a cluster is a controller's work.
pub fn mutate(request: &Request<'_>, answers: &Answers<'_>) -> Cluster {
    let mut cluster = request.new.clone();
    if request.operation == Operation::Create {
        note_creator(&mut cluster, request.user);
    }
    if request.operation == Operation::Update && !request.is_local() {
        keep_schemas(request, &mut cluster);
    }
    if request.operation != Operation::Delete && request.config().is_some() && !request.is_local() {
        pod_security(&mut cluster, answers);
    }
    cluster
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

fn pod_security(cluster: &mut Cluster, answers: &Answers<'_>) {
    let old_enough = Version::parse(&cluster.spec.kubernetes_version);
    if cluster.metadata.deletion_timestamp.is_some()
        || old_enough.is_none_or(|one| !pod_security::is_known_to(&one))
    {
        return;
    }
    let name = cluster.spec.default_pod_security_admission_configuration_template_name.clone();
    match answers.pod_security_templates.get(&name) {
        Some(template) => pod_security::deliver(cluster, template),
        None if name.is_empty() => pod_security::withdraw(cluster),
        // Validation refuses it.
        None => {}
    }
}
