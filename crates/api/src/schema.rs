//! From a Rust type to the structural OpenAPI v3 schema that a CustomResourceDefinition carries.
//!
//! schemars writes JSON Schema; the API server takes a stricter dialect with no references and no unions. The rules
//! for a type that becomes a schema:
//! - documentation comments become descriptions;
//! - structs carry `#[serde(default)]`, so that nothing is ever required to *read* an object; what the API requires
//!   is said with `#[schemars(extend("required" = [..]))]`;
//! - a default that the API server fills in is said with `extend("x-default" = ..)`: Rust's own defaults are not
//!   part of the API.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// How optional fields treat an explicit null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Refused, as in Cluster API.
    Refused,
    /// Taken as "not set", as in Rancher, whose users' manifests are full of them.
    Taken,
}

/// Where schemars puts the types that it refers to.
const DEFINITIONS: &str = "$defs";
/// Prefix of the schema names of Kubernetes' own types.
const KUBERNETES: &str = "io.k8s.";

/// The structural schema of `T`.
pub(crate) fn structural<T: JsonSchema>(nulls: Nulls) -> Value {
    let root = SchemaSettings::draft2019_09().into_generator().into_root_schema_for::<T>();
    let mut root = root.to_value();
    let mut definitions = match root.as_object_mut().and_then(|root| root.remove(DEFINITIONS)) {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    for (name, definition) in &mut definitions {
        if name.starts_with(KUBERNETES) {
            remove_descriptions(definition);
            complete_kubernetes_type(name, definition);
        }
    }
    let mut schema = Rewriter { definitions, nulls }.rewrite(root);
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("nullable");
    }
    schema
}

/// Kubernetes' sentences stay with Kubernetes: our CRDs describe our fields in our words.
fn remove_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("description").is_some_and(Value::is_string) {
                object.remove("description");
            }
            object.values_mut().for_each(remove_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_descriptions),
        _ => {}
    }
}

/// Adds what the Go types' markers say and the Rust types do not carry.
fn complete_kubernetes_type(name: &str, schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    let atomic =
        ["ObjectReference", "LabelSelector", "LocalObjectReference", "SecretKeySelector", "NodeSelector"];
    if atomic.iter().any(|kind| name.ends_with(&format!(".{kind}"))) {
        schema.insert("x-kubernetes-map-type".into(), json!("atomic"));
    }
}

struct Rewriter {
    definitions: Map<String, Value>,
    nulls: Nulls,
}

impl Rewriter {
    fn rewrite(&self, schema: Value) -> Value {
        match schema {
            Value::Object(object) => self.rewrite_object(object),
            // `true` is schemars' word for "anything".
            _ => json!({ "x-kubernetes-preserve-unknown-fields": true }),
        }
    }

    fn rewrite_object(&self, mut schema: Map<String, Value>) -> Value {
        let mut nullable = false;
        loop {
            if let Some(Value::String(reference)) = schema.remove("$ref") {
                self.inline(&mut schema, &reference);
            } else if let Some(inner) = take_optional(&mut schema) {
                nullable = true;
                merge_under(&mut schema, inner);
            } else if let Some(Value::Array(mut all)) = schema.remove("allOf") {
                all.drain(..).filter_map(into_object).for_each(|part| merge_under(&mut schema, part));
            } else {
                break;
            }
        }
        nullable |= take_null_type(&mut schema);
        tidy(&mut schema);
        self.rewrite_children(&mut schema);
        if nullable && self.nulls == Nulls::Taken {
            schema.insert("nullable".into(), json!(true));
        }
        Value::Object(schema)
    }

    /// Puts the referred type in place; what stands beside the reference (a field's description) wins.
    fn inline(&self, schema: &mut Map<String, Value>, reference: &str) {
        let name = reference.trim_start_matches("#/").trim_start_matches(DEFINITIONS).trim_start_matches('/');
        let definition = self.definitions.get(name).cloned().and_then(into_object);
        merge_under(schema, definition.unwrap_or_default());
    }

    fn rewrite_children(&self, schema: &mut Map<String, Value>) {
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for property in properties.values_mut() {
                *property = self.rewrite(property.take());
            }
        }
        if let Some(items) = schema.get_mut("items") {
            *items = without_nullable(self.rewrite(items.take()));
        }
        match schema.remove("additionalProperties") {
            Some(Value::Bool(true)) => {
                schema.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
            }
            Some(values @ Value::Object(_)) => {
                schema.insert("additionalProperties".into(), without_nullable(self.rewrite(values)));
            }
            _ => {}
        }
        if *schema == Map::new() || is_anything(schema) {
            schema.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
        }
    }
}

/// Whether a schema says nothing of the value's shape.
fn is_anything(schema: &Map<String, Value>) -> bool {
    !schema.contains_key("type") && !schema.keys().any(|key| key.starts_with("x-kubernetes-"))
}

fn without_nullable(mut schema: Value) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("nullable");
    }
    schema
}

fn into_object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

fn merge_under(schema: &mut Map<String, Value>, beneath: Map<String, Value>) {
    for (key, value) in beneath {
        schema.entry(key).or_insert(value);
    }
}

/// `anyOf: [X, null]` is schemars' spelling of an optional X.
fn take_optional(schema: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    let Some(Value::Array(branches)) = schema.get("anyOf") else { return None };
    let [inner, Value::Object(null)] = branches.as_slice() else { return None };
    if null.get("type") != Some(&json!("null")) {
        return None;
    }
    let inner = inner.as_object().cloned();
    schema.remove("anyOf");
    inner
}

/// `type: [X, null]` is the other spelling.
fn take_null_type(schema: &mut Map<String, Value>) -> bool {
    let Some(Value::Array(types)) = schema.get("type") else { return false };
    let kept: Vec<Value> = types.iter().filter(|name| *name != "null").cloned().collect();
    let nullable = kept.len() < types.len();
    if let [only] = kept.as_slice() {
        let only = only.clone();
        schema.insert("type".into(), only);
    }
    nullable
}

/// Removes what the structural dialect has no word for and spells the rest its way.
fn tidy(schema: &mut Map<String, Value>) {
    for key in ["$schema", "title", "default", DEFINITIONS] {
        schema.remove(key);
    }
    if let Some(default) = schema.remove("x-default") {
        schema.insert("default".into(), default);
    }
    if let Some(Value::Array(variants)) = schema.get("oneOf") {
        let names: Option<Vec<Value>> =
            variants.iter().map(|variant| variant.get("const").cloned()).collect();
        if let Some(names) = names {
            schema.remove("oneOf");
            schema.insert("type".into(), json!("string"));
            schema.insert("enum".into(), Value::Array(names));
        }
    }
    let unsigned =
        schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint"));
    if unsigned {
        schema.remove("format");
    }
}
