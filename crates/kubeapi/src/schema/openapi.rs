//! What a CRD's schema may contain besides being structural: kube-apiserver's rules for every node of it.

use super::props::{Items, Props, PropsOrBool, RuleProps};
use crate::{FieldError, Path};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// What a node inherits from those around it.
#[derive(Clone, Copy)]
struct Around<'a> {
    is_root: bool,
    inside_meta: bool,
    no_defaults: Option<&'a str>,
}

/// Checks every node of a schema.
pub(crate) fn check(props: &Props, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if props.nullable {
        errors.push(FieldError::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    node(props, path, Around { is_root: true, inside_meta: false, no_defaults: None }, &mut errors);
    errors
}

fn node(props: &Props, path: &Path, around: Around<'_>, errors: &mut Vec<FieldError>) {
    standard(props, path, around, errors);
    if props.unique_items {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(&path.child("uniqueItems"), why));
    }
    if let Some(additional) = &props.additional_properties
        && !props.properties.is_empty()
        && !matches!(additional, PropsOrBool::Allowed(true))
    {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), why));
    }
    children(props, path, around, errors);
    map_type(props, path, errors);
    list_type(props, path, errors);
    list_map_keys(props, path, errors);
    unambiguous_items(props, path, errors);
    for (index, rule) in props.rules.iter().enumerate() {
        rule_fields(rule, &path.child("x-kubernetes-validations").index(index), errors);
    }
}

fn standard(props: &Props, path: &Path, around: Around<'_>, errors: &mut Vec<FieldError>) {
    if !props.kind.is_empty() && !TYPES.contains(&props.kind.as_str()) {
        errors.push(FieldError::not_supported(&path.child("type"), props.kind.as_str(), TYPES));
    }
    if let Some(where_) = around.no_defaults.filter(|_| props.default.is_some()) {
        errors.push(FieldError::forbidden(&path.child("default"), format!("must not be set {where_}")));
    }
    let unsupported = [
        (!props.id.is_empty(), "id"),
        (props.additional_items.is_some(), "additionalItems"),
        (!props.pattern_properties.is_empty(), "patternProperties"),
        (!props.definitions.is_empty(), "definitions"),
        (props.dependencies.is_some(), "dependencies"),
        (props.reference.is_some(), "$ref"),
    ];
    for (is_there, field) in unsupported {
        if is_there {
            errors.push(FieldError::forbidden(&path.child(field), format!("{field} is not supported")));
        }
    }
    if props.kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(&path.child("type"), why));
    }
    if matches!(&props.items, Some(Items::Many(schemas)) if !schemas.is_empty()) {
        let why = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(&path.child("items"), why));
    }
    if around.inside_meta && props.embedded {
        let why = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(&path.child("x-kubernetes-embedded-resource"), why));
    }
    if props.preserve_unknown == Some(false) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(&path, false, "must be true or undefined"));
    }
}

fn children(props: &Props, path: &Path, around: Around<'_>, errors: &mut Vec<FieldError>) {
    let inner = Around { is_root: false, ..around };
    if let Some(schema) = props.additional_schema() {
        let no_defaults = match around.inside_meta {
            true => Some("inside additionalProperties applying to object metadata"),
            false => around.no_defaults,
        };
        node(schema, &path.child("additionalProperties"), Around { no_defaults, ..inner }, errors);
    }
    for (name, property) in &props.properties {
        let path = path.child("properties").key(name);
        let is_meta = META_FIELDS.contains(&name.as_str()) && (around.is_root || props.embedded);
        let reason = format!("in top-level {name}");
        let around = match is_meta {
            true => Around {
                inside_meta: true,
                no_defaults: if around.is_root { Some(&reason) } else { around.no_defaults },
                ..inner
            },
            false => inner,
        };
        node(property, &path, around, errors);
    }
    if let Some(schema) = &props.not {
        node(schema, &path.child("not"), inner, errors);
    }
    for (name, branches) in [("allOf", &props.all_of), ("oneOf", &props.one_of), ("anyOf", &props.any_of)] {
        for (index, branch) in branches.iter().enumerate() {
            node(branch, &path.child(name).index(index), inner, errors);
        }
    }
    if let Some(items) = props.item_schema() {
        node(items, &path.child("items"), inner, errors);
    }
}

fn wrong_type(props: &Props, path: &Path, why: &str) -> FieldError {
    match props.kind.is_empty() {
        true => FieldError::required(&path.child("type"), why),
        false => FieldError::invalid(&path.child("type"), props.kind.as_str(), why),
    }
}

fn map_type(props: &Props, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(map_type) = props.map_type.as_deref() else { return };
    if props.kind != "object" {
        errors.push(wrong_type(props, path, "must be object if x-kubernetes-map-type is specified"));
    }
    if !["atomic", "granular"].contains(&map_type) {
        let path = path.child("x-kubernetes-map-type");
        errors.push(FieldError::not_supported(&path, map_type, ["atomic", "granular"]));
    }
}

fn list_type(props: &Props, path: &Path, errors: &mut Vec<FieldError>) {
    let list_type_path = path.child("x-kubernetes-list-type");
    if let Some(list_type) = props.list_type.as_deref() {
        if props.kind != "array" {
            errors.push(wrong_type(props, path, "must be array if x-kubernetes-list-type is specified"));
        } else if let Some(items) = props.item_schema().filter(|_| list_type == "set") {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let shown = items.list_type.clone().map_or(serde_json::Value::Null, Into::into);
            let items_path = path.child("items");
            match items.kind.as_str() {
                "array" if items.list_type.as_deref().is_some_and(|list_type| list_type != "atomic") => {
                    errors.push(FieldError::invalid(&items_path.child("x-kubernetes-list-type"), shown, why));
                }
                "object" if items.map_type.as_deref() != Some("atomic") => {
                    errors.push(FieldError::invalid(&items_path.child("x-kubernetes-map-type"), shown, why));
                }
                _ => {}
            }
        }
        if !["atomic", "set", "map"].contains(&list_type) {
            errors.push(FieldError::not_supported(&list_type_path, list_type, ["atomic", "set", "map"]));
        }
    }
    if !props.list_map_keys.is_empty() && props.list_type.as_deref() != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match props.list_type.as_deref() {
            None => FieldError::required(&list_type_path, why),
            Some(other) => FieldError::invalid(&list_type_path, other, why),
        });
    }
}

fn list_map_keys(props: &Props, path: &Path, errors: &mut Vec<FieldError>) {
    if props.list_type.as_deref() != Some("map") {
        return;
    }
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if props.list_map_keys.is_empty() {
        errors.push(FieldError::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    if props.items.is_none() {
        let why = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&path.child("items"), why));
    }
    let Some(items) = props.item_schema() else { return };
    if items.kind != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(&path.child("items").child("type"), items.kind.as_str(), why));
        return;
    }
    let shown = || serde_json::Value::from(props.list_map_keys.clone());
    for (index, key) in props.list_map_keys.iter().enumerate() {
        match items.properties.get(key) {
            Some(property) if property.kind == "array" || property.kind == "object" => {
                let path = path.child("items").child("properties").key(key).child("type");
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&path, items.kind.as_str(), why));
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_path, shown(), why));
            }
        }
        if props.list_map_keys[..index].contains(key) {
            errors.push(FieldError::invalid(&keys_path, shown(), "must not contain duplicate entries"));
        }
    }
}

/// Items of sets and maps have to be tellable apart.
fn unambiguous_items(props: &Props, path: &Path, errors: &mut Vec<FieldError>) {
    let (Some(items), Some(list_type @ ("set" | "map"))) = (props.item_schema(), props.list_type.as_deref())
    else {
        return;
    };
    let items_path = path.child("items");
    if items.nullable {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&items_path.child("nullable"), why));
    }
    if list_type == "set" {
        return;
    }
    for key in &props.list_map_keys {
        let Some(property) = items.properties.get(key) else { continue };
        let path = items_path.child("properties").key(key);
        let named = "this property is in x-kubernetes-list-map-keys, so it";
        if !items.required.contains(key) && property.default.is_none() {
            let why = format!("{named} must have a default or be a required property");
            errors.push(FieldError::required(&path.child("default"), why));
        }
        if property.nullable {
            errors
                .push(FieldError::forbidden(&path.child("nullable"), format!("{named} cannot be nullable")));
        }
    }
}

fn rule_fields(rule: &RuleProps, path: &Path, errors: &mut Vec<FieldError>) {
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    let (text, message) = (rule.rule.trim(), rule.message.trim());
    if text.is_empty() {
        errors.push(FieldError::required(&path.child("rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && message.is_empty() {
        let path = path.child("message");
        errors.push(FieldError::invalid(&path, rule.message.as_str(), "must be non-empty if specified"));
    } else if has_lines(message) {
        let path = path.child("message");
        errors.push(FieldError::invalid(&path, rule.message.as_str(), "must not contain line breaks"));
    } else if has_lines(text) && message.is_empty() {
        let why = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(&path.child("message"), why));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(&path.child("messageExpression"), why));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        errors.push(FieldError::not_supported(&path.child("reason"), reason, REASONS));
    }
    let field_path = path.child("fieldPath");
    if !rule.field_path.is_empty() && rule.field_path.trim().is_empty() {
        let why = "must be non-empty if specified";
        errors.push(FieldError::invalid(&field_path, rule.field_path.as_str(), why));
    }
    if has_lines(&rule.field_path) {
        let why = "must not contain line breaks";
        errors.push(FieldError::invalid(&field_path, rule.field_path.as_str(), why));
    }
}

#[cfg(test)]
mod tests;
