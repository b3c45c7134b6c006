//! A schema as it is written: `JSONSchemaProps` of `apiextensions.k8s.io/v1`, before any rule was applied to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One node of an `openAPIV3Schema`. Fields that no structural schema may have are kept as plain JSON: it is enough
/// to know that they are there.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Props {
    #[serde(deserialize_with = "or_default")]
    pub(crate) id: String,
    #[serde(rename = "$schema", deserialize_with = "or_default")]
    pub(crate) schema: String,
    #[serde(rename = "$ref")]
    pub(crate) reference: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) description: String,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) format: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) title: String,
    pub(crate) default: Option<Value>,
    pub(crate) maximum: Option<f64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) exclusive_minimum: bool,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) pattern: String,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) unique_items: bool,
    pub(crate) multiple_of: Option<f64>,
    #[serde(rename = "enum", deserialize_with = "or_default")]
    pub(crate) choices: Vec<Value>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) required: Vec<String>,
    pub(crate) items: Option<Items>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) all_of: Vec<Props>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) one_of: Vec<Props>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) any_of: Vec<Props>,
    pub(crate) not: Option<Box<Props>>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) properties: BTreeMap<String, Props>,
    pub(crate) additional_properties: Option<PropsOrBool>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) pattern_properties: BTreeMap<String, Value>,
    pub(crate) dependencies: Option<Value>,
    pub(crate) additional_items: Option<Value>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) definitions: BTreeMap<String, Value>,
    pub(crate) external_docs: Option<Value>,
    pub(crate) example: Option<Value>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) nullable: bool,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub(crate) preserve_unknown: Option<bool>,
    #[serde(rename = "x-kubernetes-embedded-resource", deserialize_with = "or_default")]
    pub(crate) embedded: bool,
    #[serde(rename = "x-kubernetes-int-or-string", deserialize_with = "or_default")]
    pub(crate) int_or_string: bool,
    #[serde(rename = "x-kubernetes-list-map-keys", deserialize_with = "or_default")]
    pub(crate) list_map_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-list-type")]
    pub(crate) list_type: Option<String>,
    #[serde(rename = "x-kubernetes-map-type")]
    pub(crate) map_type: Option<String>,
    #[serde(rename = "x-kubernetes-validations", deserialize_with = "or_default")]
    pub(crate) rules: Vec<RuleProps>,
}

/// `items`: a schema, or (never allowed, but readable) several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Items {
    One(Box<Props>),
    Many(Vec<Value>),
}

/// `additionalProperties`: whether there may be any, or what they look like.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum PropsOrBool {
    Allowed(bool),
    Schema(Box<Props>),
}

/// One of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuleProps {
    #[serde(deserialize_with = "or_default")]
    pub(crate) rule: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) message: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) message_expression: String,
    pub(crate) reason: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) field_path: String,
    pub(crate) optional_old_self: Option<bool>,
}

/// Go reads `null` as the zero value of whatever is expected.
fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl RuleProps {
    /// As errors show it.
    pub(crate) fn to_json(&self) -> Value {
        let mut json = serde_json::Map::new();
        let mut put = |name: &str, value: Value| json.insert(name.to_owned(), value);
        put("rule", self.rule.as_str().into());
        for (name, text) in [("message", &self.message), ("messageExpression", &self.message_expression)] {
            if !text.is_empty() {
                put(name, text.as_str().into());
            }
        }
        if let Some(reason) = &self.reason {
            put("reason", reason.as_str().into());
        }
        if !self.field_path.is_empty() {
            put("fieldPath", self.field_path.as_str().into());
        }
        if let Some(optional) = self.optional_old_self {
            put("optionalOldSelf", optional.into());
        }
        Value::Object(json)
    }
}

impl Props {
    pub(crate) fn item_schema(&self) -> Option<&Props> {
        match &self.items {
            Some(Items::One(schema)) => Some(schema),
            _ => None,
        }
    }

    pub(crate) fn additional_schema(&self) -> Option<&Props> {
        match &self.additional_properties {
            Some(PropsOrBool::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// The first field that makes it impossible to read this node as a structural schema at all.
    pub(crate) fn unsupported(&self) -> Option<&'static str> {
        let found = [
            (!self.id.is_empty(), "OpenAPIV3Schema 'id' is not supported"),
            (!self.schema.is_empty(), "OpenAPIV3Schema 'schema' is not supported"),
            (
                self.reference.as_ref().is_some_and(|r| !r.is_empty()),
                "OpenAPIV3Schema '$ref' is not supported",
            ),
            (!self.pattern_properties.is_empty(), "OpenAPIV3Schema 'patternProperties' is not supported"),
            (
                self.dependencies.as_ref().and_then(Value::as_object).is_some_and(|map| !map.is_empty()),
                "OpenAPIV3Schema 'dependencies' is not supported",
            ),
            (self.additional_items.is_some(), "OpenAPIV3Schema 'additionalItems' is not supported"),
            (!self.definitions.is_empty(), "OpenAPIV3Schema 'definitions' is not supported"),
            (
                matches!(&self.items, Some(Items::Many(schemas)) if !schemas.is_empty()),
                "OpenAPIV3Schema 'items' must be a schema, but is an array",
            ),
            (
                self.preserve_unknown == Some(false),
                "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
            ),
        ];
        found.into_iter().find(|(is_there, _)| *is_there).map(|(_, why)| why)
    }

    /// Every schema directly inside this one.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Props> {
        self.properties
            .values()
            .chain(self.item_schema())
            .chain(self.additional_schema())
            .chain(self.not.as_deref())
            .chain(&self.all_of)
            .chain(&self.any_of)
            .chain(&self.one_of)
    }
}
