//! What single built-in kinds have of their own.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeapi::{FieldError, Path, name};
use serde_json::{Value, json};

use crate::registry::{Origin, Resource};
use crate::store::Write;

/// Most bytes of a ConfigMap's or Secret's values.
const MOST_BYTES: usize = 1 << 20;

const EVENT_LIFETIME: Duration = Duration::from_secs(3600);

const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// Group and plural, of a built-in resource only.
fn place(resource: &Resource) -> (&str, &str) {
    match &resource.origin {
        Origin::Builtin(one) => (one.group, one.plural),
        Origin::Custom(_) => ("", ""),
    }
}

/// Whether an update may leave the revision out.
pub(super) fn allows_unconditional_update(resource: &Resource) -> bool {
    let refused = [
        "customresourcedefinitions",
        "leases",
        "mutatingwebhookconfigurations",
        "poddisruptionbudgets",
        "serviceaccounts",
        "validatingwebhookconfigurations",
        "volumeattachments",
    ];
    resource.as_custom().is_none() && !refused.contains(&resource.plural.as_str())
}

/// Whether a deletion answers with the object instead of a Status.
pub(super) fn answers_with_deleted(resource: &Resource) -> bool {
    let plurals = ["persistentvolumeclaims", "persistentvolumes", "pods", "serviceaccounts", "services"];
    let (group, plural) = place(resource);
    group.is_empty() && plurals.contains(&plural)
}

/// Whether the object is kept although it is to be deleted.
pub(super) fn is_held(resource: &Resource, object: &Value) -> bool {
    let any = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    any(&object["metadata"]["finalizers"])
        || place(resource) == ("", "namespaces") && any(&object["spec"]["finalizers"])
}

/// For an update of a Namespace's `finalize` subresource: everything but `spec.finalizers` stays as stored.
pub(super) fn keep_all_but_finalizers(new: &mut Value, old: &Value) {
    let finalizers = new["spec"]["finalizers"].take();
    let claims = ["uid", "resourceVersion"].map(|field| (field, new["metadata"][field].take()));
    *new = old.clone();
    for (field, value) in claims {
        if !value.is_null() {
            new["metadata"][field] = value;
        }
    }
    let none = finalizers.as_array().is_none_or(Vec::is_empty);
    new["spec"] = if none { json!({}) } else { json!({"finalizers": finalizers}) };
}

/// Events go by themselves, an hour after their last change.
pub(super) fn lasting(resource: &Resource, write: Write) -> Write {
    match place(resource) {
        ("" | "events.k8s.io", "events") => write.for_at_most(EVENT_LIFETIME),
        _ => write,
    }
}

/// The phase that a new object starts in.
fn first_phase(resource: &Resource) -> Option<&'static str> {
    match place(resource) {
        ("", "namespaces") => Some("Active"),
        ("", "pods" | "persistentvolumes" | "persistentvolumeclaims") => Some("Pending"),
        _ => None,
    }
}

/// Makes a new object ready: a status is the server's, where it is a subresource.
pub(super) fn prepare_create(resource: &Resource, object: &mut Value) {
    // Nodes register themselves with their status.
    if resource.subresource("status").is_some() && place(resource) != ("", "nodes") {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(phase) = first_phase(resource) {
            object["status"] = json!({"phase": phase});
        }
    }
    if place(resource) == ("", "namespaces") {
        object["spec"] = json!({"finalizers": ["kubernetes"]});
    }
    prepare(resource, object);
}

/// Makes an object ready that is created or updated.
pub(super) fn prepare(resource: &Resource, object: &mut Value) {
    match place(resource) {
        ("", "secrets") => prepare_secret(object),
        ("", "namespaces") => {
            let name = object["metadata"]["name"].clone();
            if !object["metadata"]["labels"].is_object() {
                object["metadata"]["labels"] = json!({});
            }
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        _ => {}
    }
}

/// Plain texts are stored as data, and an untyped secret is opaque.
fn prepare_secret(secret: &mut Value) {
    let texts = secret.as_object_mut().and_then(|fields| fields.remove("stringData"));
    if let Some(Value::Object(texts)) = texts {
        if !secret["data"].is_object() {
            secret["data"] = json!({});
        }
        for (key, text) in texts {
            secret["data"][key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
        }
    }
    if secret["type"].as_str().unwrap_or_default().is_empty() {
        secret["type"] = json!("Opaque");
    }
}

/// The rules of single kinds; with `old` those of an update.
pub(super) fn validate(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let data: &[&str] = match place(resource) {
        ("", "configmaps") => &["data", "binaryData"],
        ("", "secrets") => &["data"],
        _ => return Vec::new(),
    };
    let mut errors = Vec::new();
    if let Some(old) = old {
        if new["type"] != old["type"] {
            errors.push(FieldError::invalid(&Path::new("type"), new["type"].clone(), "field is immutable"));
        }
        errors.extend(broken_seal(new, old, data));
    }
    errors.extend(wrong_data(new, data));
    errors
}

/// What an update changes in an object that was declared immutable.
fn broken_seal(new: &Value, old: &Value, data: &[&str]) -> Vec<FieldError> {
    if old["immutable"] != true {
        return Vec::new();
    }
    let entries = |object: &Value, field: &str| object[field].as_object().cloned().unwrap_or_default();
    let unsealed = (new["immutable"] != true).then_some("immutable");
    let changed = data.iter().copied().filter(|field| entries(new, field) != entries(old, field));
    let fields = unsealed.into_iter().chain(changed);
    fields.map(|field| FieldError::forbidden(&Path::new(field), IMMUTABLE)).collect()
}

fn wrong_data(object: &Value, fields: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut bytes = 0;
    for field in fields {
        for (key, value) in object[*field].as_object().into_iter().flatten() {
            let path = Path::new(field).key(key);
            errors.extend(
                name::config_key(key).into_iter().map(|why| FieldError::invalid(&path, key.as_str(), why)),
            );
            if *field == "data" && !object["binaryData"][key].is_null() {
                errors.push(FieldError::invalid(
                    &path,
                    key.as_str(),
                    "duplicate of key present in binaryData",
                ));
            }
            bytes += value.as_str().map_or(0, str::len);
        }
    }
    if bytes > MOST_BYTES {
        errors.push(FieldError::too_long(&Path::new(fields[0]), MOST_BYTES));
    }
    errors
}
