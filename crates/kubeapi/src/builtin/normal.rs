//! Objects of built-in kinds as upstream writes them back: amounts in one form, no empty lists and maps.

use serde_json::Value;

use super::types::{Node, Scalar, Shape};
use crate::quantity::{self, Quantity};

/// Writes amounts in the one way that Kubernetes writes them, and drops optional lists and maps that are empty: to
/// upstream they are the same as absent ones.
///
/// # Errors
/// If an amount is none.
pub fn normalize(node: Node<'_>, value: &mut Value) -> Result<(), quantity::Error> {
    match (node.object(), value) {
        (Some(object), Value::Object(fields)) => {
            for (name, field) in fields.iter_mut() {
                normalize(node.child(name), field)?;
            }
            fields.retain(|name, field| {
                let listed = object.fields.get(name).map(|field| &field.shape);
                let plain = matches!(listed, Some(Shape::List(_) | Shape::Map(_)));
                // An empty list of managed fields says something: that all managers be forgotten.
                !plain || object.required.contains(name) || name == "managedFields" || !is_empty(field)
            });
            Ok(())
        }
        (None, value) => match node.shape() {
            Some(Shape::List(_)) => {
                let items = value.as_array_mut().into_iter().flatten();
                items.into_iter().try_for_each(|item| normalize(node.item(), item))
            }
            Some(Shape::Map(_)) => {
                let mut entries = value.as_object_mut().into_iter().flatten();
                entries.try_for_each(|(key, entry)| {
                    let child = node.child(key);
                    // Maps of amounts are lists of resources, which are counted in thousandths.
                    match is_quantity(child) {
                        true => write(entry, Quantity::in_thousandths),
                        false => normalize(child, entry),
                    }
                })
            }
            _ if is_quantity(node) => write(value, |amount| amount),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn is_quantity(node: Node<'_>) -> bool {
    matches!(node.shape(), Some(Shape::Scalar(Scalar::Text(Some(format)))) if format == "quantity")
}

fn write(value: &mut Value, round: impl Fn(Quantity) -> Quantity) -> Result<(), quantity::Error> {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Ok(()),
    };
    *value = round(Quantity::parse(text.trim())?).to_string().into();
    Ok(())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{GroupVersion, builtin};

    #[test]
    fn objects_are_as_upstream_writes_them() {
        let node = Node::of_kind(builtin::types(), &GroupVersion::new("", "v1").kind("Pod"));
        let mut pod = json!({
            "metadata": {"labels": {}, "annotations": {"a": ""}},
            "spec": {
                "containers": [{"name": "a", "args": [], "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}],
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1000M"}}],
                "securityContext": {},
            },
        });
        normalize(node, &mut pod).unwrap();
        assert_eq!(
            pod,
            json!({
                "metadata": {"annotations": {"a": ""}},
                "spec": {
                    "containers": [{"name": "a", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}],
                    "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1G"}}],
                    "securityContext": {},
                },
            })
        );
        let mut wrong = json!({"spec": {"overhead": {"cpu": "x"}}});
        assert!(normalize(node, &mut wrong).is_err());
    }
}
