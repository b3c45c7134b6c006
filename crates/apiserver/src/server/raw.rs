//! Stored bytes as answers, without a parse between them.
//!
//! What is stored begins with its version, its kind and its metadata, in this order. Bytes that begin as the resource
//! has it now are in the version that is asked for, and become an answer by the `resourceVersion` put into their
//! metadata. Everything else is parsed.

use bytes::{Buf as _, Bytes};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::selection::Selection;
use crate::registry::Resource;
use crate::store::{Revision, Stored};

/// The fields that come first.
const FIRST: [&str; 2] = ["apiVersion", "kind"];
const METADATA: &str = "metadata";
const VERSION: &str = "resourceVersion";

/// An object as it is stored: what reads need comes first, and the store itself knows the `resourceVersion`.
pub(super) fn to_bytes(object: &Value) -> serde_json::Result<Bytes> {
    match object {
        Value::Object(fields) => serde_json::to_vec(&InOrder(fields)).map(exact),
        other => serde_json::to_vec(other).map(exact),
    }
}

/// Without room to grow: it will lie in memory for long.
fn exact(bytes: Vec<u8>) -> Bytes {
    bytes.into_boxed_slice().into()
}

struct InOrder<'a>(&'a Map<String, Value>);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for name in FIRST {
            self.0.get(name).map_or(Ok(()), |value| map.serialize_entry(name, value))?;
        }
        match self.0.get(METADATA) {
            Some(Value::Object(metadata)) => map.serialize_entry(METADATA, &Unversioned(metadata))?,
            Some(other) => map.serialize_entry(METADATA, other)?,
            None => {}
        }
        for (name, value) in self.0.iter().filter(|(name, _)| !is_first(name)) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

fn is_first(name: &str) -> bool {
    FIRST.contains(&name) || name == METADATA
}

struct Unversioned<'a>(&'a Map<String, Value>);

impl Serialize for Unversioned<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(name, _)| *name != VERSION))
    }
}

/// How the bytes of a resource's objects begin if they need no conversion.
#[derive(Clone, Debug)]
pub(super) struct Head {
    text: Vec<u8>,
    /// Where the metadata begins.
    metadata: usize,
}

/// The bytes of an object behind its head: the rest of its metadata, and of itself.
#[derive(Clone, Debug)]
pub(super) struct Rest(Bytes);

impl Head {
    pub(super) fn of(resource: &Resource) -> Self {
        let version = resource.group_version().to_string();
        let [version, kind] = [version.as_str(), &resource.kind].map(|text| json!(text));
        let text = format!("{{\"apiVersion\":{version},\"kind\":{kind},\"metadata\":{{").into_bytes();
        let metadata = text.len() - "\"metadata\":{".len();
        Head { text, metadata }
    }

    /// What is behind the head, if the object can be given as it is.
    pub(super) fn rest(&self, resource: &Resource, stored: &Stored) -> Option<Rest> {
        if resource.as_custom().is_some_and(|custom| !custom.wrote(stored.modified)) {
            return None;
        }
        // Metadata without a single field would need no comma; nothing is stored with such.
        let mut rest = stored.value();
        if !rest.starts_with(&self.text) {
            return None;
        }
        rest.advance(self.text.len());
        rest.starts_with(b"\"").then_some(Rest(rest))
    }

    /// Whether a selection that looks at metadata only chooses an object.
    pub(super) fn is_chosen(&self, selection: &Selection, stored: &Stored) -> bool {
        if selection.is_everything() {
            return true;
        }
        let value = stored.value();
        let bytes = value.get(self.text.len() - 1..).unwrap_or_default();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let metadata = Value::deserialize(&mut reader).unwrap_or_default();
        selection.matches(&json!({"metadata": metadata}))
    }

    /// Writes an object.
    pub(super) fn write(&self, rest: &Rest, revision: Revision, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.text);
        finish(rest, revision, into);
    }

    /// Writes an object that does not say what it is.
    pub(super) fn write_untyped(&self, rest: &Rest, revision: Revision, into: &mut Vec<u8>) {
        into.push(b'{');
        into.extend_from_slice(&self.text[self.metadata..]);
        finish(rest, revision, into);
    }

    /// The most bytes that an object takes beside those of its rest.
    pub(super) fn around(&self) -> usize {
        // The separator of a list, and the digits of a revision.
        self.text.len() + "\"resourceVersion\":\"\",".len() + 1 + 20
    }
}

fn finish(rest: &Rest, revision: Revision, into: &mut Vec<u8>) {
    into.extend_from_slice(b"\"resourceVersion\":\"");
    into.extend_from_slice(revision.to_string().as_bytes());
    into.extend_from_slice(b"\",");
    into.extend_from_slice(&rest.0);
}

impl Rest {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
