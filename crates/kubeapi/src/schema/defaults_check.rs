//! A default that is given to an object has to be right itself.

use super::node::Node;
use super::{cel, lists, metadata, prune, validate};
use crate::{FieldError, Path};

/// Checks the defaults in a schema: no unknown fields, valid values, rules kept.
pub(crate) fn check(root: &Node, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(root, path, &mut errors);
    errors
}

fn walk(node: &Node, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        errors.extend(check_one(node, default, &path.child("default")));
    }
    if let Some(items) = &node.items {
        walk(items, &path.child("items"), errors);
    }
    for (name, property) in &node.properties {
        walk(property, &path.child("properties").key(name), errors);
    }
    if let Some(schema) = node.additional_schema() {
        walk(schema, &path.child("additionalProperties"), errors);
    }
}

fn check_one(node: &Node, default: &serde_json::Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut pruned = default.clone();
    prune::prune(node, &mut pruned, false);
    if pruned != *default {
        errors.push(FieldError::invalid(path, default.clone(), "must not have unknown fields"));
    }
    let mut wrong = metadata::validate(node, default, path);
    if wrong.is_empty() {
        wrong = validate::validate(node, default, None, path);
    }
    if wrong.is_empty() {
        wrong = lists::validate(node, default, path);
    }
    if wrong.is_empty() {
        // Once as a value that stays, once as a new one: rules about the old value can refuse either.
        wrong = cel::validate(node, default, Some(default), path, cel::BUDGET).0;
        if wrong.is_empty() {
            wrong = cel::validate(node, default, None, path, cel::BUDGET).0;
        }
    }
    errors.extend(wrong);
    errors
}
