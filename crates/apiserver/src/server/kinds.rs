//! What single built-in kinds have of their own.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kubeapi::builtin::{self, Node};
use kubeapi::request::{DeleteOptions, Propagation};
use kubeapi::{FieldError, GroupVersion, crd, meta};
use serde_json::{Value, json};

use crate::registry::{Origin, Resource};
use crate::store::Write;

const EVENT_LIFETIME: Duration = Duration::from_secs(3600);

/// Group and plural, of a built-in resource only.
fn place(resource: &Resource) -> (&str, &str) {
    match &resource.origin {
        Origin::Builtin(one) => (one.group, one.plural),
        Origin::Custom(_) => ("", ""),
    }
}

/// Whether a resource is also served in another group and version: Events are.
pub(super) fn has_version(resource: &Resource, version: &GroupVersion) -> bool {
    let both = [("", "events"), ("events.k8s.io", "events")];
    version.version == "v1"
        && both.contains(&place(resource))
        && matches!(&*version.group, "" | "events.k8s.io")
}

/// What an update of the `status` of a built-in kind leaves as it is.
pub(super) fn kept_with_status(resource: &Resource) -> &'static [&'static str] {
    match place(resource) {
        ("", "pods") => &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
        ("apps", "deployments") => &["spec", "metadata.labels"],
        ("storage.k8s.io", "volumeattachments") | ("apiextensions.k8s.io", _) => &["metadata", "spec"],
        _ => &["spec"],
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
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
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

/// Namespaces that a cluster cannot be without.
pub(super) fn is_immortal(resource: &Resource, name: &str) -> bool {
    place(resource) == ("", "namespaces") && matches!(name, "default" | "kube-public" | "kube-system")
}

/// Whether the object is kept although it is to be deleted: for finalizers, or for its time to end on its own.
pub(super) fn is_held(resource: &Resource, object: &Value) -> bool {
    let any = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    let metadata = &object["metadata"];
    any(&metadata["finalizers"])
        || metadata["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0)
        || place(resource) == ("", "namespaces") && any(&object["spec"]["finalizers"])
}

/// What becomes of dependents; `None` if that was decided before, or nothing is said. A Job's live on by default.
pub(super) fn propagation(
    resource: &Resource,
    object: &Value,
    options: &DeleteOptions,
) -> Option<Propagation> {
    if place(resource).1 == "events" {
        return None;
    }
    let decided = object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| {
        finalizers.iter().any(|one| one == meta::ORPHAN_FINALIZER || one == meta::FOREGROUND_FINALIZER)
    });
    let usual = (place(resource) == ("batch", "jobs") && !decided).then_some(Propagation::Orphan);
    match options.orphan_dependents {
        Some(true) => Some(Propagation::Orphan),
        Some(false) => Some(Propagation::Background),
        None => options.propagation.or(usual),
    }
}

/// For an update of a Namespace's `finalize` subresource: everything but `spec.finalizers` stays as stored.
pub(super) fn keep_all_but_finalizers(new: &mut Value, old: &Value) {
    let finalizers = new["spec"]["finalizers"].take();
    let claims =
        ["uid", "resourceVersion", "managedFields"].map(|field| (field, new["metadata"][field].take()));
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

/// Completes a body that has the right structure: amounts in their one form, defaults.
///
/// # Errors
/// If an amount is none.
pub(super) fn complete(resource: &Resource, node: Node<'_>, body: &mut Value) -> Result<(), String> {
    let (group, plural) = place(resource);
    // CRDs have their own way.
    if group == "apiextensions.k8s.io" {
        crd::default(body);
        return Ok(());
    }
    builtin::normalize(node, body).map_err(|error| error.to_string())?;
    builtin::defaults::fill(group, plural, body);
    match (group, plural) {
        ("", "secrets") => merge_texts(body),
        ("", "namespaces") => label_with_name(body),
        _ => {}
    }
    Ok(())
}

/// Makes a new object ready, whose name and UID are given: its status is the server's, where it is a subresource.
pub(super) fn prepare_create(resource: &Resource, object: &mut Value, now: Timestamp) {
    match place(resource) {
        ("", "") => {
            if let (Some(_), Some(fields)) = (resource.subresource("status"), object.as_object_mut()) {
                fields.remove("status");
            }
        }
        (group, plural) => {
            if (group, plural) == ("", "namespaces") {
                // Its name may just have been generated.
                label_with_name(object);
            }
            builtin::prepare::create(group, plural, object, now);
        }
    }
}

/// Makes an object ready that is to replace `old`.
pub(super) fn prepare_update(resource: &Resource, object: &mut Value, old: &Value) {
    let (group, plural) = place(resource);
    builtin::prepare::update(group, plural, object, old);
}

/// A namespace can be selected by its name.
fn label_with_name(namespace: &mut Value) {
    let name = meta::text(namespace, "name").to_owned();
    if !name.is_empty() {
        namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
    }
}

/// For an update of the `status` subresource: everything else that is the main resource's stays as stored.
pub(super) fn keep_all_but_status(resource: &Resource, new: &mut Value, old: &Value) {
    match place(resource) {
        ("" | "apiextensions.k8s.io", "" | "customresourcedefinitions") => {
            meta::keep_all_but_status(new, old)
        }
        (group, plural) => builtin::prepare::update_status(group, plural, new, old),
    }
}

/// Plain texts are stored as data.
fn merge_texts(secret: &mut Value) {
    let texts = secret.as_object_mut().and_then(|fields| fields.remove("stringData"));
    if let Some(Value::Object(texts)) = texts {
        if !secret["data"].is_object() {
            secret["data"] = json!({});
        }
        for (key, text) in texts {
            secret["data"][key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
        }
    }
}

/// The rules of single kinds; with `old` those of an update, of a subresource if `part` is not empty.
pub(super) fn validate(resource: &Resource, new: &Value, old: Option<&Value>, part: &str) -> Vec<FieldError> {
    let (group, plural) = place(resource);
    match (old, part) {
        (None, _) => builtin::validation::create(group, plural, new),
        (Some(old), "") => builtin::validation::update(group, plural, new, old),
        (Some(old), "status") => builtin::validation::update_status(group, plural, new, old),
        _ => Vec::new(),
    }
}
