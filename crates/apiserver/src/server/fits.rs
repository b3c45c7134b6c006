//! Whether a body fits the structure of its built-in kind: unknown fields go, absent ones get their defaults.

use kubeapi::builtin::{Node, Scalar, Shape};
use serde_json::{Map, Value};

/// Drops fields that the kind does not know (and nulls, which say nothing) and fills in defaults. Gives the paths of
/// the unknown ones.
///
/// # Errors
/// What Go's decoder says about the first value of a wrong type.
pub(super) fn fit(node: Node<'_>, object: &mut Value, kind: &str) -> Result<Vec<String>, String> {
    let mut walk = Walk { unknown: Vec::new() };
    walk.value(node, object, &At { path: String::new(), go_path: String::new(), go_type: kind })?;
    Ok(walk.unknown)
}

struct Walk {
    unknown: Vec<String>,
}

/// Where the walk is, and what Go's decoder would call it: it leaves out indexes and keys, and names the type of the
/// innermost struct.
struct At<'a> {
    path: String,
    go_path: String,
    go_type: &'a str,
}

impl Walk {
    fn value(&mut self, node: Node<'_>, value: &mut Value, at: &At<'_>) -> Result<(), String> {
        if let (Some(_), Value::Object(fields)) = (node.object(), &mut *value) {
            return self.object(node, fields, at);
        }
        let inside = |path: String| At { path, go_path: at.go_path.clone(), go_type: at.go_type };
        match (node.shape(), value) {
            (Some(Shape::List(_)), Value::Array(items)) => {
                items.iter_mut().enumerate().try_for_each(|(index, item)| {
                    self.value(node.item(), item, &inside(format!("{}[{index}]", at.path)))
                })
            }
            (Some(Shape::Map(_)), Value::Object(entries)) => {
                entries.iter_mut().try_for_each(|(key, entry)| {
                    self.value(node.child(key), entry, &inside(join(&at.path, key)))
                })
            }
            (_, Value::Null) => Ok(()),
            (shape, value) => match wanted(node, shape, value) {
                None => Ok(()),
                Some(wanted) => Err(wrong(value, at, wanted)),
            },
        }
    }

    fn object(&mut self, node: Node<'_>, fields: &mut Map<String, Value>, at: &At<'_>) -> Result<(), String> {
        let name_of_type = node.object().and_then(|object| object.name.rsplit('.').next());
        for (name, value) in fields.iter_mut() {
            if node.field(name).is_none() {
                self.unknown.push(join(&at.path, name));
                continue;
            }
            let inside = At {
                path: join(&at.path, name),
                go_path: join(&at.go_path, name),
                go_type: name_of_type.unwrap_or(at.go_type),
            };
            self.value(node.child(name), value, &inside)?;
        }
        fields.retain(|name, value| node.field(name).is_some() && !value.is_null());
        let declared = node.object().into_iter().flat_map(|object| &object.fields);
        for (name, field) in declared {
            if let Some(default) = field.default.as_ref().filter(|default| says_something(default)) {
                fields.entry(name.clone()).or_insert_with(|| default.clone());
            }
        }
        Ok(())
    }
}

fn wrong(value: &Value, at: &At<'_>, wanted: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match at.go_path.as_str() {
        "" => format!("json: cannot unmarshal {found} into Go value of type {}", at.go_type),
        path => {
            format!(
                "json: cannot unmarshal {found} into Go struct field {}.{path} of type {wanted}",
                at.go_type
            )
        }
    }
}

/// Defaults that are Go's zero values are no more than absent fields.
fn says_something(default: &Value) -> bool {
    match default {
        Value::Null | Value::Bool(false) | Value::Object(_) | Value::Array(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Bool(true) => true,
    }
}

/// The type that a value should have, if it has another.
fn wanted(node: Node<'_>, shape: Option<&Shape>, value: &Value) -> Option<&'static str> {
    let (fits, wanted) = match shape {
        None => (node.object().is_none(), "struct"),
        Some(Shape::List(_)) => (false, "[]interface {}"),
        Some(Shape::Map(_)) => (false, "map[string]interface {}"),
        Some(Shape::Ref(_)) => (true, ""),
        Some(Shape::Scalar(scalar)) => match scalar {
            // A quantity may be written as a number.
            Scalar::Text(Some(format)) if format == "quantity" => {
                (value.is_string() || value.is_number(), "string")
            }
            Scalar::Text(_) => (value.is_string(), "string"),
            Scalar::Integer(format) => {
                (value.is_i64(), if format.as_deref() == Some("int32") { "int32" } else { "int64" })
            }
            Scalar::Number => (value.is_number(), "float64"),
            Scalar::Boolean => (value.is_boolean(), "bool"),
            Scalar::IntOrString => (value.is_string() || value.is_i64(), "intstr.IntOrString"),
            Scalar::Any => (true, ""),
        },
    };
    (!fits).then_some(wanted)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
