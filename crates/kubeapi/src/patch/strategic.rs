//! Strategic merge patches: merge patches that know which lists are merged, and by which key of their items.
//!
//! Directives in a patch: `$patch: replace|delete` in an object or in a list's item, `$deleteFromPrimitiveList/<field>`,
//! `$setElementOrder/<field>`, `$retainKeys`.

mod list;
mod order;

use serde_json::{Map, Value};

use super::{Error, json_name};
use crate::GroupVersionKind;
use crate::builtin::{Node, PatchStrategy, types};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// The object with the patch merged into it.
///
/// # Errors
/// If the patch is not an object, or a directive in it makes no sense.
pub fn apply(kind: &GroupVersionKind, object: &Value, patch: &Value) -> Result<Value, Error> {
    let Value::Object(patch) = patch else {
        let what = json_name(patch);
        return Err(malformed(format!(
            "json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        )));
    };
    let object = object.as_object().cloned().unwrap_or_default();
    merge_object(object, patch.clone(), Node::of_kind(types(), kind)).map(Value::Object)
}

fn malformed(why: impl Into<String>) -> Error {
    Error::Malformed(why.into())
}

/// How a field is merged.
struct Rule {
    merges_list: bool,
    replaces: bool,
    key: String,
}

impl Rule {
    fn of(node: Node<'_>, field: &str) -> Self {
        let known = node.field(field);
        let has = |strategy| known.is_some_and(|field| field.patch_strategy.contains(&strategy));
        Rule {
            merges_list: has(PatchStrategy::Merge),
            replaces: has(PatchStrategy::Replace),
            key: known.and_then(|field| field.patch_merge_key.clone()).unwrap_or_default(),
        }
    }
}

fn merge_object(mut original: Object, mut patch: Object, node: Node<'_>) -> Result<Object, Error> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => {
                let shown = go_print(directive);
                Err(malformed(format!(
                    "unknown patch type: {shown} in map: {}",
                    go_print(&Value::Object(patch))
                )))
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order::set_orders(&mut original, &mut patch, node)?;
    for (key, change) in patch {
        match field_of(&key, DELETE_FROM) {
            Some(field) => {
                let field = field.ok_or_else(|| malformed("invalid patch format of primitive list"))?;
                if let (Some(Value::Array(list)), Value::Array(gone)) = (original.get_mut(field), &change) {
                    list.retain(|item| !gone.contains(item));
                }
            }
            None => merge_field(&mut original, key, change, node)?,
        }
    }
    Ok(original)
}

fn merge_field(original: &mut Object, key: String, change: Value, node: Node<'_>) -> Result<(), Error> {
    let rule = Rule::of(node, &key);
    let merged = match (original.remove(&key), change) {
        (_, Value::Null) => None,
        (Some(Value::Object(old)), Value::Object(new)) if !rule.replaces => {
            Some(Value::Object(merge_object(old, new, node.child(&key))?))
        }
        (Some(Value::Object(_)), new @ Value::Object(_)) => Some(new),
        (Some(Value::Array(old)), Value::Array(new)) if rule.merges_list => {
            Some(Value::Array(list::merge(old, new, node.child(&key).item(), &rule.key)?))
        }
        (Some(Value::Array(_)), new @ Value::Array(_)) => Some(new),
        (_, new) => without_directives(without_nulls(new)),
    };
    if let Some(merged) = merged {
        original.insert(key, merged);
    }
    Ok(())
}

/// Keeps only the fields that a `$retainKeys` names.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Error> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let wrong = || malformed("invalid patch format of retainKeys");
    let retained = retained.as_array().ok_or_else(wrong)?;
    let keeps = |key: &str| retained.iter().any(|one| one == key);
    let sets = |key: &str, value: &Value| {
        !value.is_null() && !key.starts_with(DELETE_FROM) && !key.starts_with(SET_ORDER)
    };
    if patch.iter().any(|(key, value)| sets(key, value) && !keeps(key)) {
        return Err(wrong());
    }
    original.retain(|key, _| keeps(key));
    Ok(())
}

/// The field that a directive such as `$setElementOrder/ports` is for: `Some(None)` if it names none.
fn field_of<'a>(key: &'a str, directive: &str) -> Option<Option<&'a str>> {
    let rest = key.strip_prefix(directive)?;
    Some(rest.strip_prefix('/'))
}

/// A value to be set where nothing was: what is to be deleted there, is not there.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, _)| !is_directive(key));
            Some(Value::Object(
                kept.filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
            ))
        }
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

fn is_directive(key: &str) -> bool {
    key == PATCH || key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER)
}

/// A null deletes; where there is nothing, it is nothing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// A value as Go's `%v` shows it.
fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(go_print).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", go_print(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
