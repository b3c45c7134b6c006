//! The rules of `metadata`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{ANNOTATIONS_SIZE, FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use crate::name::{self, NameRule};
use crate::request::wrong_manager;
use crate::{FieldError, GroupVersion, Path};

/// What is wrong with the `metadata` of an object that is created (its name generated already), or of any.
pub fn validate(metadata: &Value, namespaced: bool, name_rule: NameRule, path: &Path) -> Vec<FieldError> {
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    let prefix = text("generateName");
    if !prefix.is_empty() {
        errors.extend(all_invalid(&path.child("generateName"), prefix, name_rule(prefix, true)));
    }
    match text("name") {
        "" => errors.push(FieldError::required(&path.child("name"), "name or generateName is required")),
        name => errors.extend(all_invalid(&path.child("name"), name, name_rule(name, false))),
    }
    let at = path.child("namespace");
    match (text("namespace"), namespaced) {
        ("", true) => errors.push(FieldError::required(&at, "")),
        (namespace, true) => errors.extend(all_invalid(&at, namespace, name::dns_label(namespace))),
        ("", false) => {}
        (_, false) => errors.push(FieldError::forbidden(&at, "not allowed on this type")),
    }
    if let Some(generation) = metadata["generation"].as_i64().filter(|generation| *generation < 0) {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), generation, why));
    }
    errors.extend(labels(&metadata["labels"], &path.child("labels")));
    errors.extend(annotations(&metadata["annotations"], &path.child("annotations")));
    errors.extend(owners(&metadata["ownerReferences"], &path.child("ownerReferences")));
    errors.extend(finalizers(&metadata["finalizers"], &path.child("finalizers")));
    errors.extend(managed_fields(&metadata["managedFields"], &path.child("managedFields")));
    errors
}

/// What an update of an object's `metadata` may not do.
pub fn validate_update(new: &Value, old: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !old["deletionTimestamp"].is_null() {
        errors.extend(new_finalizers(&new["finalizers"], &old["finalizers"], &path.child("finalizers")));
    }
    let version = new["resourceVersion"].as_str().unwrap_or_default();
    if version.is_empty() {
        let why = "must be specified for an update";
        errors.push(FieldError::invalid(&path.child("resourceVersion"), version, why));
    }
    let generation = |metadata: &Value| metadata["generation"].as_i64().unwrap_or(0);
    if generation(new) < generation(old) {
        let why = "must not be decremented";
        errors.push(FieldError::invalid(&path.child("generation"), generation(new), why));
    }
    for field in ["name", "namespace", "uid"] {
        let text = |metadata: &Value| metadata[field].as_str().unwrap_or_default().to_owned();
        if text(new) != text(old) {
            errors.push(immutable(&path.child(field), text(new).into()));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new[field] != old[field] {
            errors.push(immutable(&path.child(field), new[field].clone()));
        }
    }
    errors.extend(labels(&new["labels"], &path.child("labels")));
    errors.extend(annotations(&new["annotations"], &path.child("annotations")));
    errors.extend(owners(&new["ownerReferences"], &path.child("ownerReferences")));
    errors.extend(managed_fields(&new["managedFields"], &path.child("managedFields")));
    errors
}

/// The further rule for finalizers of Kubernetes' core kinds: a standard one, or one with a domain.
pub fn core_finalizers(metadata: &Value, path: &Path) -> Vec<FieldError> {
    let standard = ["kubernetes", ORPHAN_FINALIZER, FOREGROUND_FINALIZER];
    let mut errors = Vec::new();
    for (index, finalizer) in texts(&metadata["finalizers"]).into_iter().enumerate() {
        if !finalizer.contains('/') && !standard.contains(&finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(&path.child("finalizers").index(index), finalizer, why));
        }
    }
    errors
}

fn immutable(path: &Path, value: Value) -> FieldError {
    FieldError::invalid(path, value, "field is immutable")
}

fn all_invalid<'a>(
    path: &'a Path,
    value: &'a str,
    reasons: Vec<String>,
) -> impl Iterator<Item = FieldError> + 'a {
    reasons.into_iter().map(move |why| FieldError::invalid(path, value, why))
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn labels(labels: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        errors.extend(all_invalid(path, key, name::qualified(key)));
        errors.extend(all_invalid(path, value, name::label_value(value)));
    }
    errors
}

fn annotations(annotations: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        // The domain of an annotation may be in capitals, unlike a label's.
        errors.extend(all_invalid(path, key, name::qualified(&key.to_lowercase())));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_SIZE {
        errors.push(FieldError::too_long(path, ANNOTATIONS_SIZE));
    }
    errors
}

fn owners(owners: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in owners.as_array().into_iter().flatten() {
        errors.extend(one_owner(owner, path));
        if owner["controller"] != true {
            continue;
        }
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let named = format!("{}/{}", text("kind"), text("name"));
        match &controller {
            None => controller = Some(named),
            Some(first) => {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {named}"
                );
                errors.push(FieldError::invalid(path, owners.clone(), why));
            }
        }
    }
    errors
}

fn one_owner(owner: &Value, path: &Path) -> Vec<FieldError> {
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let version = GroupVersion::parse(text("apiVersion")).unwrap_or_default();
    let mut errors = Vec::new();
    if version.version.is_empty() {
        let why = "version must not be empty";
        errors.push(FieldError::invalid(&path.child("apiVersion"), text("apiVersion"), why));
    }
    for field in ["kind", "name", "uid"] {
        if text(field).is_empty() {
            errors.push(FieldError::invalid(&path.child(field), "", "must not be empty"));
        }
    }
    if (text("apiVersion"), text("kind")) == ("v1", "Event") {
        let why = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid(path, owner.clone(), why));
    }
    errors
}

fn finalizers(list: &Value, path: &Path) -> Vec<FieldError> {
    let finalizers = texts(list);
    let mut errors: Vec<FieldError> = finalizers
        .iter()
        .flat_map(|finalizer| all_invalid(path, finalizer, name::qualified(finalizer)))
        .collect();
    if finalizers.contains(&ORPHAN_FINALIZER) && finalizers.contains(&FOREGROUND_FINALIZER) {
        let why = format!("finalizer {ORPHAN_FINALIZER} and {FOREGROUND_FINALIZER} cannot be both set");
        errors.push(FieldError::invalid(path, list.clone(), why));
    }
    errors
}

fn new_finalizers(new: &Value, old: &Value, path: &Path) -> Option<FieldError> {
    let old = texts(old);
    let added: BTreeSet<&str> = texts(new).into_iter().filter(|finalizer| !old.contains(finalizer)).collect();
    if added.is_empty() {
        return None;
    }
    let quoted: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        quoted.join(", ")
    );
    Some(FieldError::forbidden(path, why))
}

const SUBRESOURCE_LENGTH: usize = 256;

fn managed_fields(entries: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
        let path = path.index(index);
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            let why = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(&path.child("operation"), text("operation"), why));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            let why = "must be `FieldsV1`";
            errors.push(FieldError::invalid(&path.child("fieldsType"), text("fieldsType"), why));
        }
        errors.extend(wrong_manager(text("manager"), &path.child("manager")));
        if text("subresource").len() > SUBRESOURCE_LENGTH {
            errors.push(FieldError::too_long(&path.child("subresource"), SUBRESOURCE_LENGTH));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sentences(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(FieldError::to_string).collect()
    }

    fn merged(base: &Value, change: &Value) -> Value {
        let mut merged = base.clone();
        for (field, value) in change.as_object().unwrap() {
            merged[field] = value.clone();
        }
        merged
    }

    #[test]
    fn metadata_is_checked_when_created() {
        let path = Path::new("m");
        let good = json!({"name": "a", "namespace": "b"});
        assert_eq!(validate(&good, true, name::is_subdomain, &path), []);
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let cases = [
            (json!({"name": ""}), vec!["m.name: Required value: name or generateName is required".to_owned()]),
            (json!({"name": "a/b", "generateName": "a%"}), vec![
                "m.generateName: Invalid value: \"a%\": may not contain '%'".into(),
                "m.name: Invalid value: \"a/b\": may not contain '/'".into(),
            ]),
            (json!({"namespace": ""}), vec!["m.namespace: Required value".into()]),
            (json!({"namespace": "A"}), vec![format!("m.namespace: Invalid value: \"A\": {label}")]),
            (json!({"generation": -1}), vec!["m.generation: Invalid value: -1: must be greater than or equal to 0".into()]),
            (json!({"labels": {"/a": "b"}}), vec!["m.labels: Invalid value: \"/a\": prefix part must be non-empty".into()]),
            (json!({"annotations": {"A.b/C": "any thing"}}), vec![]),
            (json!({"annotations": {"a": "x".repeat(256 * 1024 - 1)}}), vec![]),
            (json!({"annotations": {"a": "x".repeat(256 * 1024)}}), vec!["m.annotations: Too long: may not be more than 262144 bytes".into()]),
            (json!({"finalizers": ["orphan", "foregroundDeletion"]}), vec![
                "m.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set".into(),
            ]),
            (json!({"ownerReferences": [{"apiVersion": "a/", "kind": "K", "name": "n", "uid": ""}]}), vec![
                "m.ownerReferences.apiVersion: Invalid value: \"a/\": version must not be empty".into(),
                "m.ownerReferences.uid: Invalid value: \"\": must not be empty".into(),
            ]),
            (json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "n", "uid": "u"}]}), vec![
                "m.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"n\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner".into(),
            ]),
            (json!({"managedFields": [{"operation": "x", "fieldsType": "y"}]}), vec![
                "m.managedFields[0].operation: Invalid value: \"x\": must be `Apply` or `Update`".into(),
                "m.managedFields[0].fieldsType: Invalid value: \"y\": must be `FieldsV1`".into(),
            ]),
        ];
        for (change, wanted) in cases {
            let found = validate(&merged(&good, &change), true, name::is_path_segment, &path);
            assert_eq!(sentences(&found), wanted);
        }
        let found = validate(&good, false, name::is_subdomain, &path);
        assert_eq!(sentences(&found), ["m.namespace: Forbidden: not allowed on this type"]);
    }

    #[test]
    fn only_one_owner_controls() {
        let owner = |name: &str| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": "u", "controller": true});
        let errors = owners(&json!([owner("a"), owner("b")]), &Path::new("o"));
        assert_eq!(errors.len(), 1);
        assert_eq!(
            errors[0].detail,
            "Only one reference can have Controller set to true. Found \"true\" in references for K/a and K/b"
        );
    }

    #[test]
    fn some_fields_never_change() {
        let path = Path::new("m");
        let old = json!({
            "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "1", "generation": 3,
            "creationTimestamp": "2020-01-01T00:00:00Z",
        });
        assert_eq!(validate_update(&old, &old, &path), []);
        for (change, wanted) in [
            (
                json!({"resourceVersion": ""}),
                "m.resourceVersion: Invalid value: \"\": must be specified for an update",
            ),
            (json!({"generation": 2}), "m.generation: Invalid value: 2: must not be decremented"),
            (json!({"name": "x"}), "m.name: Invalid value: \"x\": field is immutable"),
            (json!({"namespace": null}), "m.namespace: Invalid value: \"\": field is immutable"),
            (json!({"uid": "x"}), "m.uid: Invalid value: \"x\": field is immutable"),
            (
                json!({"creationTimestamp": null}),
                "m.creationTimestamp: Invalid value: null: field is immutable",
            ),
            (
                json!({"deletionTimestamp": "2020-01-01T00:00:00Z"}),
                "m.deletionTimestamp: Invalid value: \"2020-01-01T00:00:00Z\": field is immutable",
            ),
            (
                json!({"deletionGracePeriodSeconds": 5}),
                "m.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
            ),
        ] {
            let found = validate_update(&merged(&old, &change), &old, &path);
            assert_eq!(sentences(&found), [wanted]);
        }
    }

    #[test]
    fn nothing_can_hold_back_what_goes_already() {
        let path = Path::new("m");
        let old = json!({"resourceVersion": "1", "deletionTimestamp": "x", "finalizers": ["a/b", "a/c"]});
        let fewer = merged(&old, &json!({"finalizers": ["a/c"]}));
        assert_eq!(validate_update(&fewer, &old, &path), []);
        let more = merged(&old, &json!({"finalizers": ["a/c", "a/e", "a/d"]}));
        assert_eq!(
            sentences(&validate_update(&more, &old, &path)),
            [
                r#"m.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a/d", "a/e"}"#,
            ]
        );
    }

    #[test]
    fn core_kinds_want_finalizers_with_domains() {
        let metadata = json!({"finalizers": ["kubernetes", "a/b", "simple"]});
        assert_eq!(
            sentences(&core_finalizers(&metadata, &Path::new("m"))),
            [
                "m.finalizers[2]: Invalid value: \"simple\": name is neither a standard finalizer name nor is it fully qualified",
            ]
        );
    }
}
