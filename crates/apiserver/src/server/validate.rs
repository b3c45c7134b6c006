//! What is wrong with an object that is to be stored.

use kubeapi::{FieldError, GroupKind, Path, Status, crd, meta};
use serde_json::Value;

use super::{definition, kinds};
use crate::registry::Resource;

/// Checks an object that is to be created.
pub(super) fn created(resource: &Resource, object: &Value) -> Result<(), Status> {
    let mut errors = wrong_kind(resource, object);
    if errors.is_empty() {
        let metadata = Path::new("metadata");
        errors = meta::validate(&object["metadata"], resource.namespaced, resource.name_rule, &metadata);
        match resource.as_custom() {
            Some(custom) => {
                errors.extend(custom.schema.iter().flat_map(|schema| schema.validate(object, None)))
            }
            None if definition::is_definition(resource) => errors.extend(crd::validate(object)),
            None => errors.extend(kinds::validate(resource, object, None, "")),
        }
    }
    verdict(resource, object, &errors)
}

/// Checks an object that is to replace `old`; `part` is the subresource, empty for the whole.
pub(super) fn updated(resource: &Resource, new: &Value, old: &Value, part: &str) -> Result<(), Status> {
    let mut errors = wrong_kind(resource, new);
    if errors.is_empty() {
        let metadata = Path::new("metadata");
        errors = meta::validate_update(&new["metadata"], &old["metadata"], &metadata);
        match resource.as_custom() {
            Some(custom) => errors.extend(custom.schema.iter().flat_map(|schema| match part {
                "status" => schema.validate_status(new, Some(old)),
                _ => schema.validate(new, Some(old)),
            })),
            None if !definition::is_definition(resource) => {
                errors.extend(kinds::validate(resource, new, Some(old), part));
            }
            None if part.is_empty() => errors.extend(crd::validate_update(new, old)),
            None => {}
        }
    }
    verdict(resource, new, &errors)
}

/// Built-in kinds were checked when they were read.
fn wrong_kind(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let kind = object["kind"].as_str().unwrap_or_default();
    match kind == resource.kind {
        true => Vec::new(),
        false => vec![FieldError::invalid(&Path::new("kind"), kind, format!("must be {}", resource.kind))],
    }
}

/// What a client is told about values that are good, but not wise.
pub(super) fn warnings(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<String> {
    if resource.as_custom().is_none() {
        return Vec::new();
    }
    let list = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let before = old.map(list).unwrap_or_default();
    let added = list(new).into_iter().filter(|finalizer| !before.contains(finalizer));
    added
        .filter_map(|finalizer| finalizer.as_str().map(str::to_owned))
        .filter(|finalizer| {
            let standard = [meta::ORPHAN_FINALIZER, meta::FOREGROUND_FINALIZER];
            !finalizer.contains('/') && !standard.contains(&finalizer.as_str())
        })
        .map(|finalizer| {
            format!(
                "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

fn verdict(resource: &Resource, object: &Value, errors: &[FieldError]) -> Result<(), Status> {
    match errors.is_empty() {
        true => Ok(()),
        false => {
            let kind = object["kind"].as_str().unwrap_or_default();
            let kind = GroupKind::new(&*resource.group, kind);
            Err(Status::invalid(&kind, meta::text(object, "name"), errors))
        }
    }
}
