//! From a Rust type to the structural OpenAPI v3 schema that a CustomResourceDefinition carries.
//!
//! schemars writes JSON Schema; the API server takes a stricter dialect with no references and no unions. The rules
//! for a type that becomes a schema:
//! - documentation comments become descriptions;
//! - structs carry `#[serde(default)]`, so that nothing is ever required to *read* an object; what the API requires
//!   is said with `#[schemars(extend("required" = [..]))]`;
//! - a default that the API server fills in is said with `extend("x-default" = ..)`: Rust's own defaults are not
//!   part of the API.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
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
/// Lists in Kubernetes' own types that have one owner each, by type and field.
const ATOMIC_LISTS: [(&str, &str); 2] =
    [("LabelSelector", "matchExpressions"), ("LabelSelectorRequirement", "values")];
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
    // What makes an object an object is never null.
    for field in ["apiVersion", "kind", "metadata"] {
        if let Some(field) =
            schema.pointer_mut(&format!("/properties/{field}")).and_then(Value::as_object_mut)
        {
            field.remove("nullable");
        }
    }
    // The API server knows what metadata is, and refuses a definition that adds so much as a description.
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        *metadata = json!({ "type": "object" });
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
    let atomic = [
        "ObjectReference",
        "LabelSelector",
        "LocalObjectReference",
        "TypedLocalObjectReference",
        "SecretKeySelector",
        "NodeSelector",
    ];
    if atomic.iter().any(|kind| name.ends_with(&format!(".{kind}"))) {
        schema.insert("x-kubernetes-map-type".into(), json!("atomic"));
    }
    for (kind, list) in ATOMIC_LISTS {
        let list = schema.get_mut("properties").and_then(|properties| properties.get_mut(list));
        if let Some(list) = list.filter(|_| name.ends_with(&format!(".{kind}"))) {
            list["x-kubernetes-list-type"] = json!("atomic");
        }
    }
    if name.ends_with(".LocalObjectReference") {
        // In Go the name may be left out, and the API server then writes it as empty.
        schema.remove("required");
        schema["properties"]["name"]["x-default"] = json!("");
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
        loop {
            if let Some(Value::String(reference)) = schema.remove("$ref") {
                self.inline(&mut schema, &reference);
            } else if let Some(inner) = take_optional(&mut schema) {
                merge_under(&mut schema, inner);
            } else if let Some(Value::Array(mut all)) = schema.remove("allOf") {
                all.drain(..).filter_map(into_object).for_each(|part| merge_under(&mut schema, part));
            } else {
                break;
            }
        }
        remove_null_type(&mut schema);
        tidy(&mut schema);
        self.rewrite_children(&mut schema);
        Value::Object(schema)
    }

    /// Puts the referred type in place; what stands beside the reference (a field's description) wins.
    fn inline(&self, schema: &mut Map<String, Value>, reference: &str) {
        let name = reference.trim_start_matches("#/").trim_start_matches(DEFINITIONS).trim_start_matches('/');
        let definition = self.definitions.get(name).cloned().and_then(into_object);
        merge_under(schema, definition.unwrap_or_default());
    }

    fn rewrite_children(&self, schema: &mut Map<String, Value>) {
        let required = schema.get("required").cloned().unwrap_or_default();
        let is_required =
            |name: &str| required.as_array().is_some_and(|names| names.iter().any(|one| one == name));
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for (name, property) in properties {
                *property = self.rewrite(property.take());
                if self.nulls == Nulls::Taken && !is_required(name) {
                    take_null(property);
                }
            }
        }
        if let Some(items) = schema.get_mut("items") {
            *items = self.rewrite(items.take());
        }
        match schema.remove("additionalProperties") {
            Some(Value::Bool(true)) => {
                schema.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
            }
            Some(values @ Value::Object(_)) => {
                schema.insert("additionalProperties".into(), self.rewrite(values));
            }
            _ => {}
        }
        if is_anything(schema) {
            schema.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
        }
    }
}

/// Lets a value be null. Not where there is a set of values: API servers hold null to be outside of every set, even
/// of one that lists it.
fn take_null(schema: &mut Value) {
    if schema.get("enum").is_none() {
        schema["nullable"] = json!(true);
    }
}

/// Whether a schema says nothing of the value's shape.
fn is_anything(schema: &Map<String, Value>) -> bool {
    !schema.contains_key("type") && !schema.keys().any(|key| key.starts_with("x-kubernetes-"))
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
fn remove_null_type(schema: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = schema.get_mut("type") else { return };
    types.retain(|name| name != "null");
    if let [only] = types.as_slice() {
        let only = only.clone();
        schema.insert("type".into(), only);
    }
}

/// Removes what the structural dialect has no word for and spells the rest its way.
fn tidy(schema: &mut Map<String, Value>) {
    for key in ["$schema", "title", "default", DEFINITIONS] {
        schema.remove(key);
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = plain_text(description);
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

/// A documentation comment as running text: paragraphs unwrapped, links reduced to what they show.
fn plain_text(comment: &str) -> String {
    let paragraphs: Vec<String> =
        comment.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
    let mut text = String::new();
    let joined = paragraphs.join("\n\n");
    let mut rest = joined.as_str();
    while let Some((before, link)) = rest.split_once('[') {
        let Some((shown, after)) = link.split_once(']') else { break };
        text.push_str(before);
        if shown.starts_with('`') {
            text.push_str(shown.trim_matches('`'));
        } else {
            text.push_str(&format!("[{shown}]"));
        }
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, tail)) if shown.starts_with('`') => tail,
            _ => after,
        };
    }
    text + rest
}

/// A list of `metav1.Condition`, limited as every CAPI-style status limits it.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string", "maxLength": 32768 },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": {
                    "type": "string", "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_plain_text() {
        let cases = [
            ("one\nline", "one line"),
            ("two\n\nparagraphs\nhere", "two\n\nparagraphs here"),
            ("see [`Other`] and [`this`](Self::this).", "see Other and this."),
            ("a range [1-3] stays", "a range [1-3] stays"),
            ("an open [ stays", "an open [ stays"),
        ];
        for (comment, expected) in cases {
            assert_eq!(plain_text(comment), expected);
        }
    }

    #[test]
    fn kubernetes_types_get_their_markers() {
        use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Example {
            selector: Option<LabelSelector>,
        }
        let schema = structural::<Example>(Nulls::Refused);
        let selector = &schema["properties"]["selector"];
        assert_eq!(selector["x-kubernetes-map-type"], "atomic");
        let expressions = &selector["properties"]["matchExpressions"];
        assert_eq!(expressions["x-kubernetes-list-type"], "atomic");
        assert_eq!(expressions["items"]["properties"]["values"]["x-kubernetes-list-type"], "atomic");
        assert_eq!(expressions["description"], Value::Null, "Kubernetes' words are not ours");
    }

    #[test]
    fn a_local_reference_may_lack_its_name() {
        use k8s_openapi::api::core::v1::LocalObjectReference;
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Example {
            reference: LocalObjectReference,
        }
        let schema = structural::<Example>(Nulls::Refused);
        let reference = json!({
            "type": "object", "x-kubernetes-map-type": "atomic",
            "properties": {"name": {"type": "string", "default": ""}},
        });
        assert_eq!(schema["properties"]["reference"], reference);
    }

    #[test]
    fn metadata_is_a_bare_object() {
        let schema = structural::<crate::rke::v1::RKECluster>(Nulls::Taken);
        assert_eq!(schema["properties"]["metadata"], json!({ "type": "object" }));
    }

    #[test]
    fn optional_fields_take_nulls_only_where_asked() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        #[schemars(extend("required" = ["name"]))]
        struct Example {
            name: String,
            /// How many.
            #[schemars(extend("x-default" = 3))]
            count: Option<u16>,
            free: Value,
        }
        let count = json!({"type": "integer", "minimum": 0, "maximum": 65535, "description": "How many.", "default": 3});
        let strict = structural::<Example>(Nulls::Refused);
        assert_eq!(strict["properties"]["count"], count);
        assert_eq!(strict["properties"]["free"], json!({"x-kubernetes-preserve-unknown-fields": true}));
        let lenient = structural::<Example>(Nulls::Taken);
        assert_eq!(lenient["properties"]["count"]["nullable"], json!(true));
        assert_eq!(lenient["properties"]["name"], json!({"type": "string"}));
    }
}
