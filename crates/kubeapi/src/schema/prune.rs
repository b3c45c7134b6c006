//! Fields that a schema does not know are dropped.

use serde_json::Value;

use super::metadata;
use super::node::Node;

/// What every object has, whether its schema says so or not.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops unknown fields and says which, in order. `is_root` is of a whole object, whose metadata is implied.
pub(crate) fn prune(node: &Node, value: &mut Value, is_root: bool) -> Vec<String> {
    let mut dropped = Vec::new();
    known(Some(node), value, is_root || node.embedded, "", &mut dropped);
    metadata::prune(node, value, is_root, &mut dropped);
    dropped.sort();
    dropped.dedup();
    dropped
}

fn join(path: &str, field: &str) -> String {
    match path.is_empty() {
        true => field.to_owned(),
        false => format!("{path}.{field}"),
    }
}

/// `node` is `None` below a map that takes anything: objects in there lose all their fields.
fn known(node: Option<&Node>, value: &mut Value, embedded: bool, path: &str, dropped: &mut Vec<String>) {
    if let Some(node) = node.filter(|node| node.preserve_unknown) {
        return preserved(node, value, embedded, path, dropped);
    }
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let here = || join(path, name);
            let Some(node) = node else {
                dropped.push(here());
                return false;
            };
            if embedded && META_FIELDS.contains(&name.as_str()) {
                return true;
            }
            if let Some(schema) = node.properties.get(name) {
                known(Some(schema), value, schema.embedded, &here(), dropped);
                return true;
            }
            if node.additional.is_some() {
                let schema = node.additional_schema();
                known(schema, value, schema.is_some_and(|schema| schema.embedded), &here(), dropped);
                return true;
            }
            dropped.push(here());
            false
        }),
        Value::Array(items) => {
            let schema = node.and_then(|node| node.items.as_deref());
            let embedded = schema.is_some_and(|schema| schema.embedded);
            for (index, item) in items.iter_mut().enumerate() {
                known(schema, item, embedded, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

/// Unknown fields stay, but what is known further down is still pruned.
fn preserved(node: &Node, value: &mut Value, embedded: bool, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if embedded && META_FIELDS.contains(&name.as_str()) {
                    continue;
                }
                if let Some(schema) = node.properties.get(name) {
                    known(Some(schema), value, schema.embedded, &join(path, name), dropped);
                } else if node.additional.is_some() {
                    let schema = node.additional_schema();
                    let embedded = schema.is_some_and(|schema| schema.embedded);
                    known(schema, value, embedded, &join(path, name), dropped);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                preserved(schema, item, schema.embedded, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
