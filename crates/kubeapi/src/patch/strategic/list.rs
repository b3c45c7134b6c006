//! Lists that are merged.

use serde_json::Value;

use super::order::in_order;
use super::{Error, PATCH, go_print, is_directive, malformed, merge_object, without_nulls};
use crate::builtin::Node;

/// Merges a list: objects by their key, scalars as a set.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    item: Node<'_>,
    key: &str,
) -> Result<Vec<Value>, Error> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !are_objects(&original, &patch)? {
        let mut merged: Vec<Value> = Vec::new();
        for value in original.iter().chain(&patch) {
            if !merged.contains(value) {
                merged.push(value.clone());
            }
        }
        return in_order(merged, &patch, &original, "");
    }
    if key.is_empty() {
        let name = item.object().map(|object| object.name.as_str()).unwrap_or_default();
        return Err(malformed(format!("cannot merge lists without merge key for {name}")));
    }
    let (original, patch) = special_items(original, patch, key)?;
    let mut merged = original.clone();
    for change in &patch {
        let value = key_of(change, key)?;
        match merged.iter_mut().find(|one| one.get(key) == Some(value)) {
            Some(one) => {
                let old = one.as_object().cloned().unwrap_or_default();
                let new = change.as_object().cloned().unwrap_or_default();
                *one = Value::Object(merge_object(old, new, item)?);
            }
            None => merged.push(without_nulls(plain(change.clone()))),
        }
    }
    in_order(merged, &patch, &original, key)
}

/// An item's value of the merge key.
pub(super) fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, Error> {
    item.get(key).ok_or_else(|| {
        malformed(format!("map: {} does not contain declared merge key: {key}", go_print(item)))
    })
}

/// Whether the items are objects. They are all of one kind, and no lists.
pub(super) fn are_objects(original: &[Value], patch: &[Value]) -> Result<bool, Error> {
    let all = || original.iter().chain(patch);
    if all().next().is_some_and(Value::is_array) {
        return Err(Error::DoesNotApply("lists of lists are not supported".into()));
    }
    let mut kinds = all().map(std::mem::discriminant);
    let first = kinds.next();
    if kinds.any(|kind| Some(kind) != first) {
        let shown = [original, patch].map(|list| go_print(&Value::Array(list.to_vec()))).join(" ");
        return Err(malformed(format!("list element types are not identical: [{shown}]")));
    }
    Ok(all().next().is_some_and(Value::is_object))
}

/// Does what the items with a `$patch` say, and leaves the others.
fn special_items(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut plain = Vec::new();
    let mut replaces = false;
    for item in patch {
        match item.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => plain.push(item),
            Some("delete") => {
                let value = key_of(&item, key)?;
                original.retain(|one| one.get(key) != Some(value));
            }
            Some("replace") => replaces = true,
            Some("merge") => return Err(malformed("merging lists cannot yet be specified in the patch")),
            Some(other) => {
                return Err(malformed(format!("unknown patch type: {other} in map: {}", go_print(&item))));
            }
        }
    }
    Ok(if replaces { (plain, Vec::new()) } else { (original, plain) })
}

/// An item that is new: its directives have nothing to act on.
fn plain(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, _)| !is_directive(key));
            Value::Object(kept.map(|(key, value)| (key, plain(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(plain).collect()),
        other => other,
    }
}
