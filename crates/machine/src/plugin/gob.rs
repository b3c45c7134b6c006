//! Go's gob encoding, as much of it as a client of drivers needs: writing requests, reading any value.

use std::collections::BTreeMap;
use std::io::{self, Read};

/// A longer message is not a driver's.
const LONGEST_MESSAGE: usize = 16 << 20;
/// Deeper values are not a driver's.
const DEEPEST: u32 = 32;

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Value>),
    /// Fields that are not zero, by name.
    Struct(BTreeMap<String, Value>),
    /// A value whose type is told by a name.
    Named(String, Box<Value>),
    /// Something of a type that drivers do not use, or nothing.
    Other,
}

impl Value {
    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Struct(fields) => fields.get(name),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Why a stream is not understood.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It broke off.
    #[error("the driver's answer breaks off: {0}")]
    Io(#[from] io::Error),
    /// It is not gob.
    #[error("the driver's answer is not understood: {0}")]
    Meaningless(&'static str),
}

#[derive(Clone, Debug)]
enum Type {
    List(i64),
    Struct(Vec<(String, i64)>),
    Map(i64, i64),
}

/// Reads values from a stream.
pub(super) struct Decoder<R> {
    from: R,
    message: Vec<u8>,
    at: usize,
    types: BTreeMap<i64, Type>,
}

const BOOL: i64 = 1;
const INT: i64 = 2;
const UINT: i64 = 3;
const FLOAT: i64 = 4;
const BYTES: i64 = 5;
const TEXT: i64 = 6;
const INTERFACE: i64 = 8;

impl<R: Read> Decoder<R> {
    pub(super) fn new(from: R) -> Self {
        Decoder { from, message: Vec::new(), at: 0, types: BTreeMap::new() }
    }

    /// The next value.
    pub(super) fn read(&mut self) -> Result<Value, Error> {
        let id = self.type_sequence(false)?;
        let is_struct = matches!(self.types.get(&id), Some(Type::Struct(_)));
        // What is no struct stands behind a zero.
        if !is_struct && self.uint()? != 0 {
            return Err(Error::Meaningless("a plain value does not begin with zero"));
        }
        self.value(id, 0)
    }

    /// The id of the type of what follows, with the definitions that come before it.
    fn type_sequence(&mut self, in_interface: bool) -> Result<i64, Error> {
        loop {
            if self.at == self.message.len() {
                self.next_message()?;
            }
            let id = self.int()?;
            if id >= 0 {
                return Ok(id);
            }
            self.definition(id.checked_neg().ok_or(Error::Meaningless("a type has no number"))?)?;
            if self.at < self.message.len() {
                if !in_interface {
                    return Err(Error::Meaningless("something follows a type"));
                }
                self.uint()?;
            }
        }
    }

    fn next_message(&mut self) -> Result<(), Error> {
        let length = read_uint(|| {
            let mut byte = [0];
            self.from.read_exact(&mut byte)?;
            Ok(byte[0])
        })?;
        let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST_MESSAGE);
        let length = length.ok_or(Error::Meaningless("a message is too long"))?;
        self.message = vec![0; length];
        self.from.read_exact(&mut self.message)?;
        self.at = 0;
        Ok(())
    }

    /// One of the seven ways to define a type, of which three matter.
    fn definition(&mut self, id: i64) -> Result<(), Error> {
        let mut found = None;
        self.fields(|decoder, field| {
            found = Some(match field {
                // An array or a list.
                0 | 1 => {
                    let mut element = 0;
                    decoder.fields(|decoder, field| match field {
                        0 => decoder.common(),
                        1 => decoder.int().map(|id| element = id),
                        _ => decoder.int().map(drop),
                    })?;
                    Type::List(element)
                }
                2 => Type::Struct(decoder.struct_definition()?),
                3 => {
                    let (mut key, mut element) = (0, 0);
                    decoder.fields(|decoder, field| match field {
                        0 => decoder.common(),
                        1 => decoder.int().map(|id| key = id),
                        _ => decoder.int().map(|id| element = id),
                    })?;
                    Type::Map(key, element)
                }
                _ => return Err(Error::Meaningless("a type that writes itself")),
            });
            Ok(())
        })?;
        self.types.insert(id, found.ok_or(Error::Meaningless("a type without a definition"))?);
        Ok(())
    }

    fn struct_definition(&mut self) -> Result<Vec<(String, i64)>, Error> {
        let mut all = Vec::new();
        self.fields(|decoder, field| {
            if field == 0 {
                return decoder.common();
            }
            for _ in 0..decoder.uint()? {
                let (mut name, mut id) = (String::new(), 0);
                decoder.fields(|decoder, field| match field {
                    0 => decoder.text().map(|text| name = text),
                    _ => decoder.int().map(|number| id = number),
                })?;
                all.push((name, id));
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Name and number of a type, which are known from elsewhere.
    fn common(&mut self) -> Result<(), Error> {
        self.fields(|decoder, field| match field {
            0 => decoder.text().map(drop),
            _ => decoder.int().map(drop),
        })
    }

    /// Reads a struct: `each` gets the number of every field that is there.
    fn fields(&mut self, mut each: impl FnMut(&mut Self, u64) -> Result<(), Error>) -> Result<(), Error> {
        let mut field = 0_u64;
        loop {
            let step = self.uint()?;
            if step == 0 {
                return Ok(());
            }
            field = field.checked_add(step).ok_or(Error::Meaningless("a field has no number"))?;
            each(self, field - 1)?;
        }
    }

    fn value(&mut self, id: i64, depth: u32) -> Result<Value, Error> {
        if depth > DEEPEST {
            return Err(Error::Meaningless("a value is too deep"));
        }
        match id {
            BOOL => Ok(Value::Bool(self.uint()? != 0)),
            INT => Ok(Value::Int(self.int()?)),
            UINT => Ok(Value::Uint(self.uint()?)),
            FLOAT => self.uint().map(|_| Value::Other),
            BYTES => Ok(Value::Bytes(self.bytes()?.to_vec())),
            TEXT => Ok(Value::Text(self.text()?)),
            INTERFACE => self.interface(depth),
            id => match self.types.get(&id).cloned() {
                Some(Type::List(element)) => self.list(element, depth),
                Some(Type::Struct(known)) => self.structure(&known, depth),
                Some(Type::Map(key, element)) => {
                    for _ in 0..self.uint()? {
                        self.value(key, depth + 1)?;
                        self.value(element, depth + 1)?;
                    }
                    Ok(Value::Other)
                }
                None => Err(Error::Meaningless("a type that was not defined")),
            },
        }
    }

    fn list(&mut self, element: i64, depth: u32) -> Result<Value, Error> {
        let count = self.uint()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.value(element, depth + 1)?);
        }
        Ok(Value::List(items))
    }

    fn structure(&mut self, known: &[(String, i64)], depth: u32) -> Result<Value, Error> {
        let mut all = BTreeMap::new();
        self.fields(|decoder, field| {
            let field = usize::try_from(field).ok().and_then(|field| known.get(field));
            let (name, id) = field.ok_or(Error::Meaningless("a field that was not defined"))?;
            let value = decoder.value(*id, depth + 1)?;
            all.insert(name.clone(), value);
            Ok(())
        })?;
        Ok(Value::Struct(all))
    }

    fn interface(&mut self, depth: u32) -> Result<Value, Error> {
        let name = self.text()?;
        if name.is_empty() {
            return Ok(Value::Other);
        }
        let id = self.type_sequence(true)?;
        // Its length, for those who do not know its type.
        self.uint()?;
        let is_struct = matches!(self.types.get(&id), Some(Type::Struct(_)));
        if !is_struct && self.uint()? != 0 {
            return Err(Error::Meaningless("a plain value does not begin with zero"));
        }
        let value = self.value(id, depth + 1)?;
        Ok(Value::Named(name, Box::new(value)))
    }

    fn uint(&mut self) -> Result<u64, Error> {
        read_uint(|| {
            let byte = self.message.get(self.at).copied();
            self.at += 1;
            byte.ok_or(Error::Meaningless("a message is too short"))
        })
    }

    fn int(&mut self) -> Result<i64, Error> {
        let bits = self.uint()?;
        let half = (bits >> 1).cast_signed();
        Ok(if bits & 1 == 1 { !half } else { half })
    }

    fn bytes(&mut self) -> Result<&[u8], Error> {
        let length = self.uint()?;
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let end = end.filter(|end| *end <= self.message.len());
        let end = end.ok_or(Error::Meaningless("a text is longer than its message"))?;
        let start = std::mem::replace(&mut self.at, end);
        Ok(&self.message[start..end])
    }

    fn text(&mut self) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }
}

/// Up to 127 in one byte; else first how many bytes there are, below zero.
fn read_uint(mut next: impl FnMut() -> Result<u8, Error>) -> Result<u64, Error> {
    let first = next()?;
    if first < 0x80 {
        return Ok(u64::from(first));
    }
    let count = first.wrapping_neg();
    if count > 8 {
        return Err(Error::Meaningless("a number is too long"));
    }
    (0..count).try_fold(0, |number, _| Ok(number << 8 | u64::from(next()?)))
}

fn write_uint(into: &mut Vec<u8>, number: u64) {
    if number < 0x80 {
        into.push(number as u8);
        return;
    }
    let bytes = number.to_be_bytes();
    let bytes = &bytes[number.leading_zeros() as usize / 8..];
    into.push((bytes.len() as u8).wrapping_neg());
    into.extend(bytes);
}

/// The definitions that come before the first request: of its head, a struct with a text and a number, and of its
/// argument, a struct with nothing.
pub(super) const DEFINITIONS: &[u8] =
    b"\x2e\x7f\x03\x01\x01\x07Request\x01\xff\x80\x00\x01\x02\x01\x0dServiceMethod\
\x01\x0c\x00\x01\x03Seq\x01\x06\x00\x00\x00\x0a\xff\x81\x03\x01\x02\xff\x82\x00\x00\x00";

/// A request without an argument.
pub(super) fn request(method: &str, number: u64) -> Vec<u8> {
    let mut head = vec![0xff, 0x80, 0x01];
    write_uint(&mut head, method.len() as u64);
    head.extend(method.as_bytes());
    if number > 0 {
        head.push(1);
        write_uint(&mut head, number);
    }
    head.push(0);
    let mut all = Vec::new();
    write_uint(&mut all, head.len() as u64);
    all.extend(head);
    // The argument.
    all.extend([0x03, 0xff, 0x82, 0x00]);
    all
}

#[cfg(test)]
#[path = "gob_tests.rs"]
mod tests;
