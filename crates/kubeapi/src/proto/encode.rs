//! From JSON to bytes.

use serde_json::{Map, Value};

use super::table::{Field, Message, Shape, Table, Type};
use super::wire::{put_bytes, put_double, put_number};
use super::{Error, MAGIC, special};

/// An object with the envelope around it.
pub(super) fn envelope(object: &Value) -> Result<Vec<u8>, Error> {
    let name = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (name("apiVersion"), name("kind"));
    let table = Table::get();
    let message = table
        .message_of(api_version, kind)
        .ok_or_else(|| Error::UnknownKind { api_version: api_version.into(), kind: kind.into() })?;
    let mut types = Vec::new();
    put_bytes(&mut types, 1, api_version.as_bytes());
    put_bytes(&mut types, 2, kind.as_bytes());
    let mut body = Vec::new();
    put_message(&mut body, table.message(message), Some(object))?;
    let mut out = MAGIC.to_vec();
    put_bytes(&mut out, 1, &types);
    put_bytes(&mut out, 2, &body);
    // Content encoding and type: none, which stands for plain protobuf.
    put_bytes(&mut out, 3, &[]);
    put_bytes(&mut out, 4, &[]);
    Ok(out)
}

/// The fields of a message. `None` is one of zero values only.
fn put_message(out: &mut Vec<u8>, message: &Message, value: Option<&Value>) -> Result<(), Error> {
    let empty = Map::new();
    let object = match value {
        None => &empty,
        Some(Value::Object(object)) => object,
        Some(_) => return Err(Error::value("must be an object")),
    };
    for field in &message.fields {
        let value = match field.inline {
            true => value,
            false => object.get(&field.name).filter(|value| !value.is_null()),
        };
        put_field(out, field, value).map_err(|error| error.within(&field.name))?;
    }
    Ok(())
}

fn put_field(out: &mut Vec<u8>, field: &Field, value: Option<&Value>) -> Result<(), Error> {
    match (field.shape, value) {
        (Shape::Single, None) if field.pointer || matches!(field.kind, Type::Bytes | Type::Strings) => Ok(()),
        (Shape::Single, value) => put_single(out, field.number, field.kind, value),
        (_, None) => Ok(()),
        (Shape::Repeated, Some(Value::Array(items))) => put_list(out, field.number, field.kind, items),
        (Shape::Repeated, Some(_)) => Err(Error::value("must be a list")),
        (Shape::Map, Some(Value::Object(entries))) => put_map(out, field, entries),
        (Shape::Map, Some(_)) => Err(Error::value("must be an object")),
    }
}

fn put_list(out: &mut Vec<u8>, number: u32, kind: Type, items: &[Value]) -> Result<(), Error> {
    for (index, item) in items.iter().enumerate() {
        let item = Some(item).filter(|item| !item.is_null());
        put_single(out, number, kind, item).map_err(|error| error.within(&format!("[{index}]")))?;
    }
    Ok(())
}

fn put_map(out: &mut Vec<u8>, field: &Field, entries: &Map<String, Value>) -> Result<(), Error> {
    // Go writes them sorted, and a JSON object need not be.
    let mut sorted: Vec<(&String, &Value)> = entries.iter().collect();
    sorted.sort_by_key(|(key, _)| *key);
    for (key, value) in sorted {
        let mut entry = Vec::new();
        put_bytes(&mut entry, 1, key.as_bytes());
        match (field.kind, value) {
            (Type::Bytes, Value::Null) => {}
            (kind, value) => put_single(&mut entry, 2, kind, Some(value).filter(|value| !value.is_null()))
                .map_err(|error| error.within(&format!("[{key}]")))?,
        }
        put_bytes(out, field.number, &entry);
    }
    Ok(())
}

/// One value with its tag; `None` is the zero value.
fn put_single(out: &mut Vec<u8>, number: u32, kind: Type, value: Option<&Value>) -> Result<(), Error> {
    match kind {
        Type::Bool => put_number(out, number, u64::from(flag(value)?)),
        Type::Int32 => put_number(out, number, integer(value, i64::from(i32::MIN), i64::from(i32::MAX))?),
        Type::Int64 => put_number(out, number, integer(value, i64::MIN, i64::MAX)?),
        Type::Double => {
            let double =
                value.map_or(Some(0.0), Value::as_f64).ok_or_else(|| Error::value("must be a number"))?;
            put_double(out, number, double);
        }
        Type::String => {
            let text =
                value.map_or(Some(""), Value::as_str).ok_or_else(|| Error::value("must be a string"))?;
            put_bytes(out, number, text.as_bytes());
        }
        Type::Bytes => put_bytes(out, number, &value.map_or(Ok(Vec::new()), special::from_base64)?),
        message => {
            let mut body = Vec::new();
            put_message_like(&mut body, message, value)?;
            put_bytes(out, number, &body);
        }
    }
    Ok(())
}

fn flag(value: Option<&Value>) -> Result<bool, Error> {
    value.map_or(Some(false), Value::as_bool).ok_or_else(|| Error::value("must be a boolean"))
}

fn integer(value: Option<&Value>, least: i64, most: i64) -> Result<u64, Error> {
    Ok(value.map_or(Ok(0), |value| special::whole(value, least, most))?.cast_unsigned())
}

/// The body of what has a length and is neither text nor bytes.
fn put_message_like(out: &mut Vec<u8>, kind: Type, value: Option<&Value>) -> Result<(), Error> {
    match kind {
        Type::Message(position) => put_message(out, Table::get().message(position), value),
        Type::Quantity => special::put_quantity(out, value),
        Type::IntOrString => special::put_int_or_string(out, value),
        Type::Time => special::put_time(out, value, false),
        Type::MicroTime => special::put_time(out, value, true),
        Type::Json | Type::RawExtension => {
            value.into_iter().for_each(|json| put_bytes(out, 1, json.to_string().as_bytes()));
            Ok(())
        }
        Type::Strings => match value {
            None => Ok(()),
            Some(Value::Array(items)) => put_list(out, 1, Type::String, items),
            Some(_) => Err(Error::value("must be a list")),
        },
        schema => put_schema_like(out, schema, value),
    }
}

/// A schema, or what may stand in its place: a list of schemas or strings, or a boolean.
fn put_schema_like(out: &mut Vec<u8>, kind: Type, value: Option<&Value>) -> Result<(), Error> {
    let schema = Type::Message(Table::get().schema);
    match (kind, value) {
        (Type::SchemaOrArray, Some(Value::Array(items))) => put_list(out, 2, schema, items),
        (Type::SchemaOrStrings, Some(Value::Array(items))) => put_list(out, 2, Type::String, items),
        (Type::SchemaOrBool, None | Some(Value::Bool(_))) => put_single(out, 1, Type::Bool, value),
        (Type::SchemaOrBool, Some(_)) => {
            put_number(out, 1, 1);
            put_single(out, 2, schema, value)
        }
        (_, None) => Ok(()),
        (_, Some(_)) => put_single(out, 1, schema, value),
    }
}
