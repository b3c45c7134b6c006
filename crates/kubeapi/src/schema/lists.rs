//! Lists that are sets or maps have no item twice.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::node::{ListType, Node};
use super::trail::Trail;
use crate::{FieldError, Path};

/// Finds items that are there more than once, in lists that forbid it.
pub(crate) fn validate(node: &Node, value: &Value, base: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(node, value, &Trail::ROOT, base, &mut errors);
    errors
}

fn walk(node: &Node, value: &Value, trail: &Trail<'_>, base: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(schema) = node.properties.get(name) {
                    walk(schema, value, &trail.field(name), base, errors);
                } else if let Some(schema) = node.additional_schema() {
                    walk(schema, value, &trail.key(name), base, errors);
                }
            }
        }
        Value::Array(items) => {
            match node.list_type {
                Some(ListType::Set) => errors.extend(doubles(items.iter().cloned(), trail, base)),
                Some(ListType::Map) => errors.extend(doubled_keys(node, items, trail, base)),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(schema) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    walk(schema, item, &trail.index(index), base, errors);
                }
            }
        }
        _ => {}
    }
}

/// One error for each value that is there more than once, at its second place.
fn doubles(values: impl Iterator<Item = Value>, trail: &Trail<'_>, base: &Path) -> Vec<FieldError> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut errors = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(&trail.index(index).path(base), value));
        }
    }
    errors
}

fn doubled_keys(node: &Node, items: &[Value], trail: &Trail<'_>, base: &Path) -> Vec<FieldError> {
    let wrong = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(index) = wrong {
        let path = trail.index(index).path(base);
        let detail = "must be an object for an array of list-type map";
        return vec![FieldError::invalid(&path, items[index].clone(), detail)];
    }
    let key = |item: &Value| {
        let fields = item.as_object();
        let named = |name: &String| Some((name.clone(), fields?.get(name)?.clone()));
        Value::Object(node.list_map_keys.iter().filter_map(named).collect::<Map<_, _>>())
    };
    doubles(items.iter().map(key), trail, base)
}
