//! From bytes to JSON.

use serde_json::{Map, Value};

use super::table::{Field, Message, Shape, Table, Type};
use super::wire::{self, Wire};
use super::{DefaultKind, Error, Limits, MAGIC, special};

/// What is left of the limits.
pub(super) struct Decoder {
    depth: usize,
    values: usize,
}

impl Decoder {
    /// For these bytes, if they are not too many.
    pub(super) fn new(bytes: &[u8], limits: Limits) -> Result<Self, Error> {
        match bytes.len() > limits.bytes {
            true => Err(Error::TooLarge("bytes")),
            false => Ok(Decoder { depth: limits.depth, values: limits.values }),
        }
    }

    /// An object with the envelope around it.
    pub(super) fn envelope(&mut self, bytes: &[u8], default: DefaultKind<'_>) -> Result<Value, Error> {
        let parts = wire::fields(bytes.strip_prefix(MAGIC).ok_or(Error::NotEnveloped)?)?;
        let types = wire::fields(joined_at(&parts, 1)?.as_ref())?
            .into_iter()
            .map(|(number, value)| Ok((number, text(value)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let named = |number: u32, default: &str| {
            let found = types.iter().rev().find(|(found, name)| *found == number && !name.is_empty());
            found.map_or(default.to_owned(), |(_, name)| name.clone())
        };
        let (api_version, kind) = (named(1, default.api_version), named(2, default.kind));
        let raw = last_bytes(&parts, 2)?;
        let encoding = std::str::from_utf8(last_bytes(&parts, 3)?).map_err(not_text)?;
        if !encoding.is_empty() {
            return Err(Error::UnknownContent(encoding.into()));
        }
        match std::str::from_utf8(last_bytes(&parts, 4)?).map_err(not_text)? {
            "" | super::MEDIA_TYPE => self.object(&api_version, &kind, raw),
            "application/json" => special::json(raw),
            other => Err(Error::UnknownContent(other.into())),
        }
    }

    fn object(&mut self, api_version: &str, kind: &str, bytes: &[u8]) -> Result<Value, Error> {
        let table = Table::get();
        let message = table
            .message_of(api_version, kind)
            .ok_or_else(|| Error::UnknownKind { api_version: api_version.into(), kind: kind.into() })?;
        let mut object = self.message(message, bytes)?;
        object.insert("apiVersion".into(), api_version.into());
        object.insert("kind".into(), kind.into());
        Ok(Value::Object(object))
    }

    /// A watch event without its frame.
    pub(super) fn watch_event(&mut self, bytes: &[u8]) -> Result<(String, Value), Error> {
        let parts = wire::fields(bytes)?;
        let kind = std::str::from_utf8(last_bytes(&parts, 1)?).map_err(not_text)?;
        let object = self.raw_extension(joined_at(&parts, 2)?.as_ref())?;
        Ok((kind.into(), object))
    }

    /// A message as a JSON object.
    pub(super) fn message(&mut self, position: usize, bytes: &[u8]) -> Result<Map<String, Value>, Error> {
        let mut object = Map::new();
        self.message_into(Table::get().message(position), bytes, &mut object)?;
        Ok(object)
    }

    fn message_into(
        &mut self,
        message: &Message,
        bytes: &[u8],
        out: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        self.depth = self.depth.checked_sub(1).ok_or(Error::TooLarge("levels"))?;
        let parts = wire::fields(bytes)?;
        for field in &message.fields {
            let found = occurrences(&parts, field.number);
            if let (true, Type::Message(inner)) = (field.inline, field.kind) {
                self.message_into(Table::get().message(inner), joined(found)?.as_ref(), out)?;
                continue;
            }
            let value = self.field(field, found).map_err(|error| error.within(&field.name))?;
            if !(left_out(field, &value)) {
                out.insert(field.name.clone(), value);
            }
        }
        self.depth += 1;
        Ok(())
    }

    fn field(&mut self, field: &Field, found: &[(u32, Wire<'_>)]) -> Result<Value, Error> {
        match field.shape {
            Shape::Single if found.is_empty() && (field.pointer || absent_is_null(field.kind)) => {
                Ok(Value::Null)
            }
            Shape::Single => self.single(field.kind, found),
            Shape::Repeated if found.is_empty() => Ok(Value::Null),
            Shape::Repeated => self.list(field.kind, found),
            Shape::Map if found.is_empty() => Ok(Value::Null),
            Shape::Map => self.map(field.kind, found),
        }
    }

    fn list(&mut self, kind: Type, found: &[(u32, Wire<'_>)]) -> Result<Value, Error> {
        let mut items = Vec::new();
        for part in found {
            match (kind, part.1) {
                // Numbers may come packed.
                (Type::Bool | Type::Int32 | Type::Int64, Wire::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        let one = Wire::Varint(wire::varint(&mut packed)?);
                        items.push(self.single(kind, &[(part.0, one)])?);
                    }
                }
                _ => {
                    let item = self.single(kind, std::slice::from_ref(part));
                    items.push(item.map_err(|error| error.within(&format!("[{}]", items.len())))?);
                }
            }
        }
        Ok(Value::Array(items))
    }

    fn map(&mut self, kind: Type, found: &[(u32, Wire<'_>)]) -> Result<Value, Error> {
        let mut entries = Map::new();
        for (_, entry) in found {
            let parts = wire::fields(bytes_of(*entry)?)?;
            let key = std::str::from_utf8(last_bytes(&parts, 1)?).map_err(not_text)?;
            let value = self.single(kind, occurrences(&parts, 2));
            entries.insert(key.into(), value.map_err(|error| error.within(&format!("[{key}]")))?);
        }
        Ok(Value::Object(entries))
    }

    /// A value from all that was written of it, which may be nothing: the last counts, messages add up.
    fn single(&mut self, kind: Type, found: &[(u32, Wire<'_>)]) -> Result<Value, Error> {
        self.values = self.values.checked_sub(1).ok_or(Error::TooLarge("values"))?;
        let last = found.last().map(|(_, value)| *value);
        Ok(match kind {
            Type::Bool => Value::Bool(number(last)? != 0),
            // Negative numbers are written with 64 bits: the lower ones are the number.
            Type::Int32 => Value::from(number(last)? as i32),
            Type::Int64 => Value::from(number(last)? as i64),
            Type::Double => special::double(last)?,
            Type::String => Value::String(last.map_or(Ok(String::new()), text)?),
            Type::Bytes => special::base64(last.map_or(Ok(&[][..]), bytes_of)?),
            message => self.message_like(message, joined(found)?.as_ref())?,
        })
    }

    fn message_like(&mut self, kind: Type, bytes: &[u8]) -> Result<Value, Error> {
        match kind {
            Type::Message(position) => Ok(Value::Object(self.message(position, bytes)?)),
            Type::RawExtension => self.raw_extension(bytes),
            Type::SchemaOrArray => self.schema_or_array(bytes),
            Type::SchemaOrBool => self.schema_or_bool(bytes),
            Type::SchemaOrStrings => self.schema_or_strings(bytes),
            Type::Strings => self.list(Type::String, occurrences(&wire::fields(bytes)?, 1)),
            Type::Quantity => special::quantity(&wire::fields(bytes)?),
            Type::IntOrString => special::int_or_string(&wire::fields(bytes)?),
            Type::Time => special::time(&wire::fields(bytes)?, false),
            Type::MicroTime => special::time(&wire::fields(bytes)?, true),
            Type::Json => special::json(last_bytes(&wire::fields(bytes)?, 1)?),
            Type::Bool | Type::String | Type::Int32 | Type::Int64 | Type::Double | Type::Bytes => {
                Err(Error::Malformed("wire type"))
            }
        }
    }

    /// An object of any kind: enveloped or JSON.
    fn raw_extension(&mut self, bytes: &[u8]) -> Result<Value, Error> {
        let parts = wire::fields(bytes)?;
        let raw = last_bytes(&parts, 1)?;
        if !raw.starts_with(MAGIC) {
            return special::json(raw);
        }
        self.depth = self.depth.checked_sub(1).ok_or(Error::TooLarge("levels"))?;
        let object = self.envelope(raw, DefaultKind::default());
        self.depth += 1;
        object
    }

    fn schema(&mut self, found: &[(u32, Wire<'_>)]) -> Result<Value, Error> {
        match found.is_empty() {
            true => Ok(Value::Null),
            false => self.single(Type::Message(Table::get().schema), found),
        }
    }

    fn schema_or_array(&mut self, bytes: &[u8]) -> Result<Value, Error> {
        let parts = wire::fields(bytes)?;
        match occurrences(&parts, 2) {
            [] => self.schema(occurrences(&parts, 1)),
            list => self.list(Type::Message(Table::get().schema), list),
        }
    }

    fn schema_or_bool(&mut self, bytes: &[u8]) -> Result<Value, Error> {
        let parts = wire::fields(bytes)?;
        match self.schema(occurrences(&parts, 2))? {
            Value::Null => self.single(Type::Bool, occurrences(&parts, 1)),
            schema => Ok(schema),
        }
    }

    fn schema_or_strings(&mut self, bytes: &[u8]) -> Result<Value, Error> {
        let parts = wire::fields(bytes)?;
        match occurrences(&parts, 2) {
            [] => self.schema(occurrences(&parts, 1)),
            list => self.list(Type::String, list),
        }
    }
}

/// Types whose absence Go tells from their zero value without a pointer.
fn absent_is_null(kind: Type) -> bool {
    matches!(kind, Type::Bytes | Type::Strings)
}

/// Whether JSON shows nothing of this value, as Go's `omitempty` and `omitzero` have it.
fn left_out(field: &Field, value: &Value) -> bool {
    let absent =
        value.is_null() && (field.pointer || field.shape != Shape::Single || absent_is_null(field.kind));
    let empty = match value {
        _ if field.pointer => false,
        Value::Bool(flag) => !flag && field.kind == Type::Bool,
        Value::Number(number) => {
            number.as_i64() == Some(0) && matches!(field.kind, Type::Int32 | Type::Int64)
        }
        Value::String(text) => text.is_empty() && matches!(field.kind, Type::String | Type::Bytes),
        Value::Array(items) => items.is_empty(),
        Value::Null | Value::Object(_) => false,
    };
    field.omit_empty && (absent || empty) || field.omit_zero && value.is_null()
}

/// All that was written of one field; the parts are in the order of their numbers.
fn occurrences<'p, 'b>(parts: &'p [(u32, Wire<'b>)], number: u32) -> &'p [(u32, Wire<'b>)] {
    let start = parts.partition_point(|(found, _)| *found < number);
    let length = parts[start..].partition_point(|(found, _)| *found == number);
    &parts[start..start + length]
}

/// A message that came in pieces: put together they are one.
fn joined<'b>(found: &[(u32, Wire<'b>)]) -> Result<std::borrow::Cow<'b, [u8]>, Error> {
    match found {
        [] => Ok((&[][..]).into()),
        [(_, one)] => Ok(bytes_of(*one)?.into()),
        many => {
            let pieces: Result<Vec<&[u8]>, Error> = many.iter().map(|(_, piece)| bytes_of(*piece)).collect();
            Ok(pieces?.concat().into())
        }
    }
}

fn joined_at<'b>(parts: &[(u32, Wire<'b>)], number: u32) -> Result<std::borrow::Cow<'b, [u8]>, Error> {
    joined(occurrences(parts, number))
}

/// The last that was written of a field, or nothing.
pub(super) fn last<'b>(parts: &[(u32, Wire<'b>)], number: u32) -> Option<Wire<'b>> {
    occurrences(parts, number).last().map(|(_, value)| *value)
}

pub(super) fn last_bytes<'b>(parts: &[(u32, Wire<'b>)], number: u32) -> Result<&'b [u8], Error> {
    last(parts, number).map_or(Ok(&[]), bytes_of)
}

/// A number field; zero where nothing was written.
pub(super) fn number(value: Option<Wire<'_>>) -> Result<u64, Error> {
    match value {
        None => Ok(0),
        Some(Wire::Varint(number)) => Ok(number),
        Some(_) => Err(Error::Malformed("wire type")),
    }
}

fn bytes_of(value: Wire<'_>) -> Result<&[u8], Error> {
    match value {
        Wire::Bytes(bytes) => Ok(bytes),
        _ => Err(Error::Malformed("wire type")),
    }
}

/// A text field.
pub(super) fn text(value: Wire<'_>) -> Result<String, Error> {
    std::str::from_utf8(bytes_of(value)?).map(str::to_owned).map_err(not_text)
}

fn not_text(_: std::str::Utf8Error) -> Error {
    Error::value("must be valid UTF-8")
}
