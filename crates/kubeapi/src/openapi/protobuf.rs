//! OpenAPI 2 in protobuf, by gnostic's messages: what old kubectls ask for.

use serde_json::Value;

use crate::proto::wire::{put_bytes, put_double, put_number};

/// How a field is written.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Texts,
    Flag,
    Integer,
    Double,
    /// Any JSON, as YAML.
    Any,
    Anys,
    Message(fn(&Value) -> Vec<u8>),
    Messages(fn(&Value) -> Vec<u8>),
}

use Kind::{Any, Anys, Double, Flag, Integer, Message, Messages, Text, Texts};

/// A field's name in JSON, its number, and how it is written.
type Field = (&'static str, u32, Kind);

/// A document of [`super::v2`] as a message.
pub fn encode_v2(document: &Value) -> Vec<u8> {
    message(
        document,
        &[
            ("swagger", 1, Text),
            ("info", 2, Message(info)),
            ("paths", 8, Message(|paths| named(paths, 2, path_item))),
            ("definitions", 9, Message(|definitions| named(definitions, 1, schema))),
            ("security", 12, Messages(|one| named(one, 1, |list| texts(list, 1)))),
            ("securityDefinitions", 13, Message(|all| named(all, 1, |one| wrapped(2, &api_key(one))))),
        ],
        None,
    )
}

/// Writes fields in the order of their numbers, and extensions into a field of their own.
fn message(object: &Value, fields: &[Field], extensions: Option<u32>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number, kind) in fields {
        if let Some(value) = object.get(*name) {
            put(&mut out, *number, *kind, value);
        }
    }
    let all = extensions.and_then(|number| Some((number, object.as_object()?)));
    if let Some((number, object)) = all {
        for (name, value) in object.iter().filter(|(name, _)| name.starts_with("x-")) {
            put_bytes(&mut out, number, &pair(name, &any(value)));
        }
    }
    out
}

fn put(out: &mut Vec<u8>, number: u32, kind: Kind, value: &Value) {
    let items = || value.as_array().into_iter().flatten();
    match kind {
        Text => put_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Texts => out.extend(texts(value, number)),
        Flag => put_number(out, number, u64::from(*value == true)),
        // Protobuf writes negative numbers as their two's complement.
        Integer => put_number(out, number, value.as_i64().unwrap_or_default() as u64),
        Double => put_double(out, number, value.as_f64().unwrap_or_default()),
        Any => put_bytes(out, number, &any(value)),
        Anys => items().for_each(|one| put_bytes(out, number, &any(one))),
        Message(inner) => put_bytes(out, number, &inner(value)),
        Messages(inner) => items().for_each(|one| put_bytes(out, number, &inner(one))),
    }
}

/// JSON is YAML.
fn any(value: &Value) -> Vec<u8> {
    wrapped(2, format!("{value}\n").as_bytes())
}

fn wrapped(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, number, bytes);
    out
}

fn pair(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = wrapped(1, name.as_bytes());
    put_bytes(&mut out, 2, value);
    out
}

/// A map, as a list of pairs.
fn named(object: &Value, number: u32, value: fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, inner) in object.as_object().into_iter().flatten() {
        put_bytes(&mut out, number, &pair(name, &value(inner)));
    }
    out
}

fn texts(value: &Value, number: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for text in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
        put_bytes(&mut out, number, text.as_bytes());
    }
    out
}

fn info(info: &Value) -> Vec<u8> {
    message(info, &[("title", 1, Text), ("version", 2, Text)], None)
}

fn api_key(key: &Value) -> Vec<u8> {
    message(key, &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)], None)
}

fn path_item(item: &Value) -> Vec<u8> {
    let fields = [
        ("get", 2, Message(operation)),
        ("put", 3, Message(operation)),
        ("post", 4, Message(operation)),
        ("delete", 5, Message(operation)),
        ("patch", 8, Message(operation)),
        ("parameters", 9, Messages(parameter)),
    ];
    message(item, &fields, Some(10))
}

fn operation(operation: &Value) -> Vec<u8> {
    let fields = [
        ("tags", 1, Texts),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Messages(parameter)),
        ("responses", 9, Message(|responses| named(responses, 1, response))),
        ("schemes", 10, Texts),
    ];
    message(operation, &fields, Some(13))
}

/// A parameter, in the choices that it is wrapped in.
fn parameter(parameter: &Value) -> Vec<u8> {
    let described: [Field; 4] =
        [("required", 1, Flag), ("in", 2, Text), ("description", 3, Text), ("name", 4, Text)];
    let of_body: [Field; 5] = [
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, Message(schema)),
    ];
    let typed = |kind: u32, unique: u32| -> Vec<Field> {
        [&described[..], &[("type", kind, Text), ("uniqueItems", unique, Flag)]].concat()
    };
    let inner = match parameter["in"].as_str() {
        Some("body") => wrapped(1, &message(parameter, &of_body, None)),
        Some("path") => wrapped(2, &wrapped(4, &message(parameter, &typed(5, 19), None))),
        _ => wrapped(2, &wrapped(3, &message(parameter, &typed(6, 20), None))),
    };
    wrapped(1, &inner)
}

fn response(response: &Value) -> Vec<u8> {
    let fields = [("description", 1, Text), ("schema", 2, Message(|inner| wrapped(1, &schema(inner))))];
    wrapped(1, &message(response, &fields, None))
}

fn schema(value: &Value) -> Vec<u8> {
    let fields = [
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, Message(additional)),
        ("type", 22, Message(|kind| wrapped(1, kind.as_str().unwrap_or_default().as_bytes()))),
        ("items", 23, Message(|items| wrapped(1, &schema(items)))),
        ("properties", 25, Message(|properties| named(properties, 1, schema))),
    ];
    message(value, &fields, Some(31))
}

fn additional(value: &Value) -> Vec<u8> {
    match value {
        Value::Bool(allowed) => {
            let mut out = Vec::new();
            put_number(&mut out, 2, u64::from(*allowed));
            out
        }
        inner => wrapped(1, &schema(inner)),
    }
}
