//! Whether a body fits the structure of its built-in kind: unknown fields go, absent ones get their defaults.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use kubeapi::builtin::{Node, Scalar, Shape};
use serde_json::{Map, Value};

use super::gotime;

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
            (Some(Shape::Scalar(scalar)), value) => {
                scalar_fits(scalar, value).map_err(|problem| match problem {
                    Problem::Type => wrong(value, at, &go_name(node)),
                    Problem::Number => wrong_number(value, at, &go_name(node)),
                    Problem::Text(why) => why,
                })
            }
            // Nothing is known about it.
            (None | Some(Shape::Ref(_)), _) if node.object().is_none() => Ok(()),
            (_, value) => Err(wrong(value, at, &go_name(node))),
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
            match node.field(name).and_then(|field| precision(&field.shape)) {
                Some(micro) => time_fits(value, micro, &inside)?,
                None => self.value(node.child(name), value, &inside)?,
            }
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

/// What is wrong with a scalar.
enum Problem {
    /// It is of another type.
    Type,
    /// It is a number that the type does not have.
    Number,
    /// It is of the right type, but cannot be read.
    Text(String),
}

fn scalar_fits(scalar: &Scalar, value: &mut Value) -> Result<(), Problem> {
    let fits = match scalar {
        Scalar::Text(Some(format)) if format == "quantity" => return quantity_fits(value),
        Scalar::Text(Some(format)) if format == "byte" => return bytes_fit(value),
        Scalar::Text(_) => value.is_string(),
        Scalar::Integer(format) => {
            let narrow = format.as_deref() == Some("int32");
            let in_range = value.as_i64().is_some_and(|number| !narrow || i32::try_from(number).is_ok());
            if value.is_number() && !in_range {
                return Err(Problem::Number);
            }
            in_range
        }
        Scalar::Number => value.is_number(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::IntOrString => value.is_string() || value.is_i64(),
        Scalar::Any => true,
    };
    if fits { Ok(()) } else { Err(Problem::Type) }
}

/// A quantity may be written as a number.
fn quantity_fits(value: &mut Value) -> Result<(), Problem> {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let number = text.trim_start_matches(['+', '-']);
    let suffix = number.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let (letters, exponent) = suffix.split_at(suffix.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    let letters = letters.trim_end_matches(['+', '-']);
    let known = letters.chars().all(|letter| "eEinumkKMGTP".contains(letter));
    if number.len() == suffix.len() || text.len() > number.len() + 1 || !known {
        let rule =
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        return Err(Problem::Text(rule.into()));
    }
    let suffixes = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let exponential = matches!(letters, "e" | "E") && !exponent.is_empty();
    if !(exponential || exponent.is_empty() && suffixes.contains(&suffix)) {
        return Err(Problem::Text("unable to parse quantity's suffix".into()));
    }
    *value = Value::String(text);
    Ok(())
}

fn bytes_fit(value: &Value) -> Result<(), Problem> {
    let text = value.as_str().ok_or(Problem::Type)?;
    STANDARD.decode(text).map(drop).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) => at,
            DecodeError::InvalidLastSymbol { offset, .. } => offset,
            _ => text.len(),
        };
        Problem::Text(format!("illegal base64 data at input byte {at}"))
    })
}

/// Whether it is a time, and then whether one to the microsecond.
fn precision(shape: &Shape) -> Option<bool> {
    match shape {
        Shape::Ref(name) if name.ends_with(".meta.v1.Time") => Some(false),
        Shape::Ref(name) if name.ends_with(".meta.v1.MicroTime") => Some(true),
        _ => None,
    }
}

fn time_fits(value: &mut Value, micro: bool, at: &At<'_>) -> Result<(), String> {
    match value {
        Value::Null => Ok(()),
        Value::String(text) => {
            *text = gotime::canonical(text, micro)?;
            Ok(())
        }
        _ => Err(wrong(value, at, "string")),
    }
}

fn wrong_number(value: &Value, at: &At<'_>, wanted: &str) -> String {
    wrong(value, at, wanted).replacen("unmarshal number", &format!("unmarshal number {value}"), 1)
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

/// What Go calls the type of a value here.
fn go_name(node: Node<'_>) -> String {
    if let Some(object) = node.object() {
        let parts: Vec<&str> = object.name.rsplitn(3, '.').take(2).collect();
        return parts.into_iter().rev().collect::<Vec<_>>().join(".");
    }
    match node.shape() {
        Some(Shape::List(_)) => format!("[]{}", go_name(node.item())),
        Some(Shape::Map(_)) => format!("map[string]{}", go_name(node.child(""))),
        Some(Shape::Scalar(scalar)) => match scalar {
            Scalar::Text(Some(format)) if format == "byte" => "[]uint8",
            Scalar::Text(_) => "string",
            Scalar::Integer(Some(format)) if format == "int32" => "int32",
            Scalar::Integer(_) => "int64",
            Scalar::Number => "float64",
            Scalar::Boolean => "bool",
            Scalar::IntOrString => "int32",
            Scalar::Any => "interface {}",
        }
        .to_owned(),
        Some(Shape::Ref(_)) | None => "interface {}".to_owned(),
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

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
