//! What single kinds have if it is not said: upstream's defaults, and what its admission plugins fill in.
//!
//! Objects have been checked for their structure before, so that a field that is there has the right type.

mod network;
mod other;
mod pod;
mod workload;

use serde_json::{Map, Value};

pub use pod::{admit_pod, quality_of_service};

/// Fills in the fields that a client left out of an object of this built-in resource.
pub fn fill(group: &str, plural: &str, object: &mut Value) {
    match (group, plural) {
        ("", "pods") => pod::pod(object),
        ("", "services") => network::service(object),
        ("", "endpoints") => network::endpoints(object),
        ("", "persistentvolumes") => other::volume(object),
        ("", "persistentvolumeclaims") => other::claim(object),
        ("", "namespaces") => other::namespace(object),
        ("", "nodes") => other::node(object),
        ("", "secrets") => set(object, "type", "Opaque"),
        ("", "events") => other::event(object),
        ("apps", "deployments") => workload::deployment(object),
        ("apps", "daemonsets") => workload::daemon_set(object),
        ("batch", "jobs") => workload::job(object),
        ("coordination.k8s.io", "leases") => drop(part(object, "spec")),
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice(object),
        ("policy", "poddisruptionbudgets") => other::budget(object),
        ("rbac.authorization.k8s.io", "clusterrolebindings" | "rolebindings") => other::binding(object),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => other::webhooks(object, true),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => other::webhooks(object, false),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => other::policy(object),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
            if let Some(resources) = present(part(object, "spec"), "matchResources") {
                other::match_resources(resources);
            }
        }
        ("storage.k8s.io", "volumeattachments") => set(part(object, "status"), "attached", false),
        _ => {}
    }
}

/// The fields of an object; what is none becomes one.
fn fields(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    match object {
        Value::Object(fields) => fields,
        _ => unreachable!("it was just made one"),
    }
}

/// Sets a field that is absent or an empty text.
fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    let place = fields(object).entry(field).or_insert(Value::Null);
    if place.is_null() || *place == "" {
        *place = value.into();
    }
}

/// Sets a number that is absent or 0.
fn set_number(object: &mut Value, field: &str, value: i64) {
    let place = fields(object).entry(field).or_insert(Value::Null);
    if place.as_i64().unwrap_or(0) == 0 {
        *place = value.into();
    }
}

/// A part of an object, which is made if it is absent.
fn part<'a>(object: &'a mut Value, field: &str) -> &'a mut Value {
    let place = fields(object).entry(field).or_insert(Value::Null);
    fields(place);
    place
}

/// A part of an object, if it is there.
fn present<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    object.get_mut(field).filter(|value| !value.is_null())
}

/// The items of a list; none if it is absent.
fn items<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}
