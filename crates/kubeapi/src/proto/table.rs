//! What is known of each message: facts from `data/protobuf.json`, which `data/generate` writes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// All messages, by position, and which kind is which message.
pub(super) struct Table {
    kinds: BTreeMap<String, BTreeMap<String, usize>>,
    messages: Vec<Message>,
    /// The message that schemas in CustomResourceDefinitions are.
    pub(super) schema: usize,
}

/// The fields of a message in the order of their numbers.
pub(super) struct Message {
    pub(super) fields: Vec<Field>,
}

/// One field of a message, and how it shows in JSON.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) shape: Shape,
    /// Flag `p`: absent differs from empty.
    pub(super) pointer: bool,
    /// Flag `e`: JSON leaves it out when it is empty; without it, `null` stands for absent.
    pub(super) omit_empty: bool,
    /// Flag `z`: JSON leaves it out when it is the zero time.
    pub(super) omit_zero: bool,
    /// Flag `i`: a message whose fields are the outer object's in JSON.
    pub(super) inline: bool,
}

/// How often a field may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Once.
    Single,
    /// Flag `r`: a list.
    Repeated,
    /// Flag `k`: a map from strings.
    Map,
}

/// The type of a field, or of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    String,
    Int32,
    Int64,
    Double,
    /// Base64 in JSON.
    Bytes,
    /// A list of strings that is a message of its own, so that an empty one differs from none.
    Strings,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// JSON as text, inside a message.
    Json,
    /// An object in JSON, or enveloped, inside a message.
    RawExtension,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    Message(usize),
}

#[derive(Deserialize)]
struct File {
    kinds: BTreeMap<String, BTreeMap<String, String>>,
    messages: BTreeMap<String, Vec<(u32, String, String, String)>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::parse(include_str!("../../data/protobuf.json")).expect("data/protobuf.json is part of the program")
});

impl Table {
    /// The one table there is.
    pub(super) fn get() -> &'static Table {
        &TABLE
    }

    fn parse(text: &str) -> Result<Table, String> {
        let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let positions: BTreeMap<&str, usize> =
            file.messages.keys().enumerate().map(|(position, name)| (name.as_str(), position)).collect();
        let position = |name: &str| positions.get(name).copied().ok_or(format!("no message {name}"));
        let mut messages = Vec::with_capacity(file.messages.len());
        for fields in file.messages.values() {
            let fields: Result<Vec<Field>, String> = fields
                .iter()
                .map(|(number, name, kind, flags)| field(*number, name, kind, flags, &position))
                .collect();
            messages.push(Message { fields: fields? });
        }
        let mut kinds = BTreeMap::new();
        for (api_version, of_version) in &file.kinds {
            let of_version: Result<BTreeMap<String, usize>, String> =
                of_version.iter().map(|(kind, name)| Ok((kind.clone(), position(name)?))).collect();
            kinds.insert(api_version.clone(), of_version?);
        }
        Ok(Table { kinds, messages, schema: position("apiextensions.v1.JSONSchemaProps")? })
    }

    /// The message of a kind; options are in every group.
    pub(super) fn message_of(&self, api_version: &str, kind: &str) -> Option<usize> {
        [api_version, "*"].iter().find_map(|version| self.kinds.get(*version)?.get(kind)).copied()
    }

    /// The message at a position that the table itself gave.
    pub(super) fn message(&self, position: usize) -> &Message {
        &self.messages[position]
    }
}

fn field(
    number: u32,
    name: &str,
    kind: &str,
    flags: &str,
    position: &impl Fn(&str) -> Result<usize, String>,
) -> Result<Field, String> {
    let has = |flag: char| flags.contains(flag);
    let shape = match (has('r'), has('k')) {
        (true, _) => Shape::Repeated,
        (_, true) => Shape::Map,
        _ => Shape::Single,
    };
    Ok(Field {
        number,
        name: name.to_owned(),
        kind: type_named(kind, position)?,
        shape,
        pointer: has('p'),
        omit_empty: has('e'),
        omit_zero: has('z'),
        inline: has('i'),
    })
}

fn type_named(name: &str, position: &impl Fn(&str) -> Result<usize, String>) -> Result<Type, String> {
    Ok(match name {
        "bool" => Type::Bool,
        "string" => Type::String,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "Strings" => Type::Strings,
        "Quantity" => Type::Quantity,
        "IntOrString" => Type::IntOrString,
        "Time" => Type::Time,
        "MicroTime" => Type::MicroTime,
        "Json" => Type::Json,
        "RawExtension" => Type::RawExtension,
        "SchemaOrArray" => Type::SchemaOrArray,
        "SchemaOrBool" => Type::SchemaOrBool,
        "SchemaOrStrings" => Type::SchemaOrStrings,
        message => Type::Message(position(message)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_the_order_of_their_numbers() {
        for message in &Table::get().messages {
            assert!(
                message.fields.windows(2).all(|pair| pair[0].number < pair[1].number),
                "{:?}",
                message.fields
            );
        }
    }

    #[test]
    fn only_what_the_codec_has_code_for_is_in_the_table() {
        for field in Table::get().messages.iter().flat_map(|message| &message.fields) {
            assert!(!field.inline || matches!(field.kind, Type::Message(_)) && !field.pointer, "{field:?}");
            assert!(!field.omit_zero || field.kind == Type::Time, "{field:?}");
            assert!(field.shape == Shape::Single || !field.pointer, "{field:?}");
        }
    }

    #[test]
    fn a_table_that_refers_to_nothing_is_refused() {
        let cases = [
            ("{", "EOF"),
            (r#"{"kinds":{"v1":{"A":"a"}},"messages":{}}"#, "no message a"),
            (r#"{"kinds":{},"messages":{"a":[[1,"x","b",""]]}}"#, "no message b"),
        ];
        for (text, problem) in cases {
            assert!(Table::parse(text).err().is_some_and(|error| error.contains(problem)), "{text}");
        }
    }
}
