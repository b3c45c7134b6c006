//! The order of merged lists: what the patch names stands in the patch's order, what only the server has stands
//! among it as it stood before.

use serde_json::Value;

use super::list::{are_objects, key_of, merge};
use super::{Error, Object, PATCH, Rule, SET_ORDER, field_of, go_print, malformed, without_directives};
use crate::builtin::Node;

/// Does what every `$setElementOrder/<field>` says, together with the patch of that field.
pub(super) fn set_orders(original: &mut Object, patch: &mut Object, node: Node<'_>) -> Result<(), Error> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = patch.remove(&directive).unwrap_or_default();
        let wrong = || malformed("invalid patch format of setElementOrder list");
        let field = field_of(&directive, SET_ORDER).flatten().ok_or_else(wrong)?;
        set_order(original, patch, node, field, &list(order)?)?;
    }
    Ok(())
}

fn list(value: Value) -> Result<Vec<Value>, Error> {
    let type_name = match value {
        Value::Array(list) => return Ok(list),
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Object(_) => "map[string]interface {}",
    };
    Err(malformed(format!("expected a []interface {{}}, but received a {type_name}")))
}

fn set_order(
    original: &mut Object,
    patch: &mut Object,
    node: Node<'_>,
    field: &str,
    order: &[Value],
) -> Result<(), Error> {
    let rule = Rule::of(node, field);
    let server = original.get(field).cloned().map(list).transpose()?;
    let change = patch.get(field).cloned().map(list).transpose()?;
    check_order(change.as_deref().unwrap_or_default(), order, &rule.key)?;
    let server_order = server.clone().unwrap_or_default();
    let elements = change.clone().unwrap_or_default();
    let merged = match (server, change) {
        (None, None) => return Ok(()),
        (Some(server), None) => server,
        (None, Some(change)) => match without_directives(Value::Array(change)) {
            Some(Value::Array(list)) => list,
            _ => return Ok(()),
        },
        (Some(server), Some(change)) if rule.merges_list => {
            merge(server, change, node.child(field).item(), &rule.key)?
        }
        (Some(_), Some(change)) => change,
    };
    if server_order.is_empty() && elements.is_empty() {
        return Err(malformed("no elements in any of the given slices"));
    }
    are_objects(&server_order, &elements)?;
    original.insert(field.to_owned(), Value::Array(in_order(merged, order, &server_order, &rule.key)?));
    patch.remove(field);
    Ok(())
}

/// The items of a patch have to be in the order that the patch itself asks for.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order_left = order.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let mut follows = false;
        for ordered in order_left.by_ref() {
            if identity(item, key)? == identity(ordered, key)? {
                follows = true;
                break;
            }
        }
        if !follows {
            let [patch, order] = [patch, order].map(|list| go_print(&Value::Array(list.to_vec())));
            return Err(malformed(format!(
                "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

/// What makes an item the same as another: its key, or itself.
fn identity<'a>(item: &'a Value, key: &str) -> Result<&'a Value, Error> {
    if key.is_empty() { Ok(item) } else { key_of(item, key) }
}

/// Sorts: the items that `wanted` names by its order, and the others among them, by the order in which both stood
/// on the server.
pub(super) fn in_order(
    items: Vec<Value>,
    wanted: &[Value],
    server: &[Value],
    key: &str,
) -> Result<Vec<Value>, Error> {
    for item in items.iter().chain(wanted).chain(server) {
        identity(item, key)?;
    }
    let place = |list: &[Value], item: &Value| {
        list.iter().position(|one| identity(one, key).ok() == identity(item, key).ok())
    };
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| place(wanted, item).is_some());
    named.sort_by_key(|item| place(wanted, item));
    others.sort_by_key(|item| place(server, item));
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(name), Some(other)) = (named.peek(), others.peek()) {
        let other_first = match (place(server, other), place(server, name)) {
            (Some(other), Some(name)) => other < name,
            _ => false,
        };
        sorted.extend(if other_first { others.next() } else { named.next() });
    }
    sorted.extend(named);
    sorted.extend(others);
    Ok(sorted)
}
