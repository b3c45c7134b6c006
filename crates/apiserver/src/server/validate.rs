//! What is wrong with an object that is to be stored.

use kubeapi::{FieldError, Path, Status, crd, meta};
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
            None => errors.extend(kinds::validate(resource, object, None)),
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
            None if !part.is_empty() => {}
            None if definition::is_definition(resource) => errors.extend(crd::validate_update(new, old)),
            None => errors.extend(kinds::validate(resource, new, Some(old))),
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

fn verdict(resource: &Resource, object: &Value, errors: &[FieldError]) -> Result<(), Status> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(&resource.group_kind(), meta::text(object, "name"), errors)),
    }
}
