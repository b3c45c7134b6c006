//! The rules of single built-in kinds, beyond structure and metadata: in upstream's words and order.
//!
//! Objects have their defaults. What is not mentioned has no rules of its own here.

mod access;
mod cluster;
mod config;
mod container;
mod findings;
mod network;
mod pod;
mod policy;
mod storage;
mod webhook;
mod workload;

use serde_json::Value;

use crate::{FieldError, Path, meta};
use findings::Findings;

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// What is wrong with a new object of a built-in resource.
pub fn create(group: &str, plural: &str, object: &Value) -> Vec<FieldError> {
    let mut found = Findings::default();
    metadata(group, object, &mut found);
    whole(group, plural, object, &mut found);
    match (group, plural) {
        ("", "pods") => pod::create(object, &mut found),
        ("", "nodes") => cluster::node(object, &mut found),
        ("", "services") => network::service(object, &mut found),
        ("", "persistentvolumes") => storage::volume(object, &mut found),
        ("", "persistentvolumeclaims") => storage::claim(object, &mut found),
        ("batch", "jobs") => workload::job(object, &mut found),
        ("events.k8s.io", "events") => cluster::created_event(object, &mut found),
        ("storage.k8s.io", "volumeattachments") => storage::attachment(object, &mut found),
        (RBAC, "rolebindings") => access::binding(object, true, &mut found),
        (RBAC, "clusterrolebindings") => access::binding(object, false, &mut found),
        (ADMISSION, _) => admission(plural, object, None, &mut found),
        _ => {}
    }
    found.0
}

/// What is wrong with an object that is to replace `old`.
pub fn update(group: &str, plural: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut found = Findings::default();
    match is_checked_twice(group, plural) {
        true => found.0.extend(create(group, plural, new)),
        false => metadata(group, new, &mut found),
    }
    match (group, plural) {
        ("", "configmaps") => config::sealed(new, old, &["data", "binaryData"], &mut found),
        ("", "secrets") => config::secret_update(new, old, &mut found),
        ("", "pods") => pod::update(new, old, &mut found),
        ("", "nodes") => cluster::node_update(new, old, &mut found),
        ("", "services") => network::service_update(new, old, &mut found),
        ("", "persistentvolumes") => storage::volume_update(new, old, &mut found),
        ("", "persistentvolumeclaims") => storage::claim_update(new, old, &mut found),
        ("apps", "daemonsets") => unchanged_selector(new, old, &mut found),
        ("batch", "jobs") => workload::job_update(new, old, &mut found),
        ("events.k8s.io", "events") => cluster::changed_event(new, old, &mut found),
        ("storage.k8s.io", "volumeattachments") => storage::attachment_update(new, old, &mut found),
        (RBAC, "rolebindings") => access::binding_update(new, old, true, &mut found),
        (RBAC, "clusterrolebindings") => access::binding_update(new, old, false, &mut found),
        (ADMISSION, _) => admission(plural, new, Some(old), &mut found),
        _ => {}
    }
    whole(group, plural, new, &mut found);
    match (group, plural) {
        ("apps", "deployments") => unchanged_selector(new, old, &mut found),
        ("discovery.k8s.io", "endpointslices") => {
            found.unchanged(&new["addressType"], &old["addressType"], &Path::new("addressType"));
        }
        _ => {}
    }
    found.0
}

fn admission(plural: &str, new: &Value, old: Option<&Value>, found: &mut Findings) {
    match plural {
        "validatingadmissionpolicies" => policy::policy(new, old, found),
        "validatingadmissionpolicybindings" => policy::binding(new, found),
        _ => webhook::configuration(new, old, found),
    }
}

/// Whether upstream checks a changed object as a new one first, and then again: causes are there twice.
fn is_checked_twice(group: &str, plural: &str) -> bool {
    let core = ["nodes", "persistentvolumes", "persistentvolumeclaims", "namespaces"];
    group == RBAC || (group, plural) == ("batch", "jobs") || (group.is_empty() && core.contains(&plural))
}

/// The rules that a new object and a changed one have in common.
fn whole(group: &str, plural: &str, object: &Value, found: &mut Findings) {
    match (group, plural) {
        ("", "configmaps") => config::data(object, &["data", "binaryData"], found),
        ("", "secrets") => config::secret(object, found),
        ("", "namespaces") => cluster::namespace(object, found),
        ("", "endpoints") => network::endpoints(object, found),
        ("", "events") => cluster::event(object, found),
        ("events.k8s.io", "events") => cluster::new_event(object, found),
        ("apps", "deployments") => workload::deployment(object, found),
        ("apps", "daemonsets") => workload::daemon_set(object, found),
        ("coordination.k8s.io", "leases") => cluster::lease(object, found),
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice(object, found),
        ("policy", "poddisruptionbudgets") => workload::budget(object, found),
        (RBAC, "roles") => access::role(object, true, found),
        (RBAC, "clusterroles") => access::role(object, false, found),
        _ => {}
    }
}

/// What is wrong with an object whose status is to replace that of `old`.
pub fn update_status(group: &str, plural: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut found = Findings::default();
    match (group, plural) {
        ("", "pods") => pod::update_status(new, old, &mut found),
        ("", "nodes") => cluster::node_update(new, old, &mut found),
        ("apps", "deployments") => workload::deployment_status(new, &mut found),
        ("policy", "poddisruptionbudgets") => workload::budget_status(new, &mut found),
        _ => {}
    }
    found.0
}

/// Upstream's own kinds want finalizers to be known or to have a domain.
fn metadata(group: &str, object: &Value, found: &mut Findings) {
    let own = group.is_empty() || !group.contains('.') || group.ends_with(".k8s.io");
    if own {
        found.0.extend(meta::core_finalizers(&object["metadata"], &Path::new("metadata")));
    }
}

fn unchanged_selector(new: &Value, old: &Value, found: &mut Findings) {
    let path = Path::new("spec").child("selector");
    found.unchanged(&new["spec"]["selector"], &old["spec"]["selector"], &path);
}
