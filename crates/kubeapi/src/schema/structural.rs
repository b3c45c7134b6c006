//! What makes a schema structural: every field's type is said in one place, and `allOf` and its like only restrict.

use super::pattern;
use super::props::{Props, PropsOrBool};
use crate::{FieldError, Path};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Checks the structural rules, in upstream's words and order.
pub(crate) fn check(props: &Props, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(props, Level::Root, path, &mut errors);
    complete_branches(props, Some(props), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn node(props: &Props, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    if props.kind == "array" && props.items.is_none() {
        errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = props.item_schema() {
        node(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in &props.properties {
        node(property, Level::Field, &path.child("properties").key(name), errors);
    }
    if props.additional_properties.is_some() {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&path, "must not be used at the root"));
        }
        if let Some(schema) = props.additional_schema() {
            node(schema, Level::Field, &path, errors);
        }
    }
    let preserves = props.preserve_unknown == Some(true);
    if props.int_or_string && preserves {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(&path, true, "must be false if x-kubernetes-int-or-string is true"));
    }
    if props.int_or_string && props.embedded {
        let path = path.child("x-kubernetes-embedded-resource");
        errors.push(FieldError::invalid(&path, true, "must be false if x-kubernetes-int-or-string is true"));
    }
    let in_all_of = props.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of));
    value_validation(props, is_int_or_string(&props.any_of), in_all_of, path, errors);
    types(props, level, path, errors);
    object_fields(props, level, path, errors);
}

/// The one place where types may be said twice.
fn is_int_or_string(branches: &[Props]) -> bool {
    let only = |kind: &str| Props { kind: kind.into(), ..Props::default() };
    branches == [only("integer"), only("string")]
}

fn types(props: &Props, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let type_path = path.child("type");
    let preserves = props.preserve_unknown == Some(true);
    if props.embedded && props.kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match props.kind.is_empty() {
            true => FieldError::required(&type_path, why),
            false => FieldError::invalid(&type_path, props.kind.as_str(), why),
        });
    } else if props.kind.is_empty() && !props.int_or_string && !preserves {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(FieldError::required(&type_path, format!("must not be empty {place}")));
    }
    if props.embedded && props.additional_properties.is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), why));
    }
    if level == Level::Root && !props.kind.is_empty() && props.kind != "object" {
        errors.push(FieldError::invalid(&type_path, props.kind.as_str(), "must be object at the root"));
    }
}

fn object_fields(props: &Props, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let is_object = level == Level::Root || props.embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(field) = props.properties.get(name).filter(|field| is_object && field.kind != "string") {
            let path = path.child("properties").key(name).child("type");
            errors.push(FieldError::invalid(&path, field.kind.as_str(), "must be string"));
        }
    }
    if let Some(metadata) = props.properties.get("metadata") {
        let path = path.child("properties").key("metadata");
        if is_object && metadata.kind != "object" {
            errors.push(FieldError::invalid(&path.child("type"), metadata.kind.as_str(), "must be object"));
        }
        if level == Level::Root && says_more_than_names(metadata) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(&path, why));
        }
    }
    if props.embedded && props.preserve_unknown != Some(true) && props.properties.is_empty() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), why));
    }
}

fn says_more_than_names(metadata: &Props) -> bool {
    let mut rest = metadata.clone();
    if rest.properties.keys().all(|name| name == "name" || name == "generateName") {
        rest.properties.clear();
    }
    rest.kind.clear();
    rest.default = None;
    rest.external_docs = None;
    rest.example = None;
    rest != Props::default()
}

fn value_validation(
    props: &Props,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let any_of = if skip_any_of { &[][..] } else { &props.any_of[..] };
    for (index, branch) in any_of.iter().enumerate() {
        nested(branch, false, &path.child("anyOf").index(index), errors);
    }
    for (index, branch) in props.all_of.iter().enumerate() {
        nested(branch, skip_first_all_of && index == 0, &path.child("allOf").index(index), errors);
    }
    for (index, branch) in props.one_of.iter().enumerate() {
        nested(branch, false, &path.child("oneOf").index(index), errors);
    }
    if let Some(branch) = &props.not {
        nested(branch, false, &path.child("not"), errors);
    }
    if !props.pattern.is_empty()
        && let Err(why) = pattern::compile(&props.pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(&path.child("pattern"), props.pattern.as_str(), why));
    }
}

/// A schema in `allOf` and its like.
fn nested(props: &Props, skip_any_of: bool, path: &Path, errors: &mut Vec<FieldError>) {
    value_validation(props, skip_any_of, false, path, errors);
    if let Some(items) = props.item_schema() {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, property) in &props.properties {
        nested(property, false, &path.child("properties").key(name), errors);
    }
    let has_additional = !matches!(props.additional_properties, None | Some(PropsOrBool::Allowed(false)));
    let forbidden = [
        (!props.kind.is_empty(), "type", "must be empty"),
        (has_additional, "additionalProperties", "must be undefined"),
        (props.default.is_some(), "default", "must be undefined"),
        (!props.title.is_empty(), "title", "must be empty"),
        (!props.description.is_empty(), "description", "must be empty"),
        (props.nullable, "nullable", "must be false"),
        (props.preserve_unknown == Some(true), "x-kubernetes-preserve-unknown-fields", "must be false"),
        (props.embedded, "x-kubernetes-embedded-resource", "must be false"),
        (props.int_or_string, "x-kubernetes-int-or-string", "must be false"),
        (!props.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", "must be empty"),
        (props.list_type.is_some(), "x-kubernetes-list-type", "must be undefined"),
        (props.map_type.is_some(), "x-kubernetes-map-type", "must be undefined"),
        (!props.rules.is_empty(), "x-kubernetes-validations", "must be empty"),
    ];
    for (is_there, field, must) in forbidden {
        if is_there {
            errors.push(FieldError::forbidden(&path.child(field), format!("{must} to be structural")));
        }
    }
    if props.properties.contains_key("metadata") {
        let path = path.child("properties").key("metadata");
        errors.push(FieldError::forbidden(&path, "must not be specified in a nested context"));
    }
}

/// Whatever a branch at the root restricts has to be specified outside of it. Upstream looks at no other branches.
fn complete_branches(
    branch: &Props,
    schema: Option<&Props>,
    schema_path: &Path,
    branch_path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = &branch.not {
        complete(not, schema, schema_path, &branch_path.child("not"), errors);
    }
    for (name, branches) in [("allOf", &branch.all_of), ("anyOf", &branch.any_of), ("oneOf", &branch.one_of)]
    {
        for (index, inner) in branches.iter().enumerate() {
            complete(inner, schema, schema_path, &branch_path.child(name).index(index), errors);
        }
    }
}

fn complete(
    branch: &Props,
    schema: Option<&Props>,
    schema_path: &Path,
    branch_path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = schema else {
        errors.push(FieldError::required(schema_path, format!("because it is defined in {branch_path}")));
        return;
    };
    complete_branches(branch, Some(schema), schema_path, branch_path, errors);
    if let Some(items) = branch.item_schema() {
        complete(
            items,
            schema.item_schema(),
            &schema_path.child("items"),
            &branch_path.child("items"),
            errors,
        );
    }
    for (name, property) in &branch.properties {
        let schema_path = schema_path.child("properties").key(name);
        let branch_path = branch_path.child("properties").key(name);
        complete(property, schema.properties.get(name), &schema_path, &branch_path, errors);
    }
}

#[cfg(test)]
mod tests;
