//! Schemas of CRDs, as they are published: types and validations stay, examples and links do not, and what every object
//! has is described as for built-in kinds.

use serde_json::{Map, Value, json};

use super::builtin::gvk;
use super::{Custom, Dialect, Resource, names};
use crate::GroupVersionKind;
use crate::crd::Document;

/// Taken over unless they say nothing.
const COPIED: [&str; 26] = [
    "default",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values.";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase.";
const EMBEDDED_API_VERSION: &str =
    "apiVersion defines the versioned schema of this representation of an object.";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase.";

/// The schemas of a custom resource and of its list, by name.
pub(super) fn schemas(
    resource: &Resource<'_>,
    custom: &Custom<'_>,
    dialect: Dialect,
) -> [(String, Value); 2] {
    let kind = resource.object();
    let list = GroupVersionKind { kind: resource.list_kind.to_owned(), ..kind.clone() };
    let mut object = published_root(custom.schema.map(Document::read).as_ref(), dialect);
    let mut list_object = list_schema(resource, &names::schema(&kind), dialect);
    for (schema, kind) in [(&mut object, &kind), (&mut list_object, &list)] {
        schema["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
        if !custom.selectable_fields.is_empty() {
            let fields = custom.selectable_fields.iter();
            let fields = fields.map(|path| json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)}));
            schema["x-kubernetes-selectable-fields"] = fields.collect();
        }
    }
    [(names::schema(&kind), object), (names::schema(&list), list_object)]
}

fn described(mut schema: Value, text: &str, anchor: &str) -> Value {
    schema["description"] = format!("{text} More info: {CONVENTIONS}{anchor}").into();
    schema
}

fn text(description: &str, anchor: &str) -> Value {
    described(json!({"type": "string"}), description, anchor)
}

fn object_meta(dialect: Dialect) -> Value {
    let reference = dialect.annotated(&format!("{}ObjectMeta", names::META));
    described(reference, "Standard object's metadata.", "#metadata")
}

fn published_root(schema: Option<&Value>, dialect: Dialect) -> Value {
    // A client would take the few fields that are known here for all there are.
    let open = |schema: &Value| dialect == Dialect::V2 && schema[PRESERVE] == true;
    let Some(schema) = schema.filter(|schema| !open(schema)) else { return json!({"type": "object"}) };
    let mut root = published(schema, dialect);
    root["properties"]["apiVersion"] = text(API_VERSION, "#resources");
    root["properties"]["kind"] = text(KIND, "#types-kinds");
    root["properties"]["metadata"] = object_meta(dialect);
    root
}

fn list_schema(resource: &Resource<'_>, item: &str, dialect: Dialect) -> Value {
    let metadata = dialect.annotated(&format!("{}ListMeta", names::META));
    json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text(API_VERSION, "#resources"),
            "kind": text(KIND, "#types-kinds"),
            "metadata": described(metadata, "Standard list metadata.", "#types-kinds"),
            "items": {
                "description": format!("List of {}. More info: {CONVENTIONS}", resource.plural),
                "type": "array",
                "items": dialect.reference(item),
            },
        },
    })
}

/// A node of a schema.
fn published(node: &Value, dialect: Dialect) -> Value {
    let mut schema = copied(node);
    let nullable = node["nullable"] == true;
    let preserves = node[PRESERVE] == true;
    // Old clients take the fields that are known for all there may be.
    if dialect == Dialect::V3 || !(nullable || preserves) {
        children(node, &mut schema, dialect);
    }
    additional(node, &mut schema, dialect);
    match dialect {
        Dialect::V3 => junctors(node, &mut schema),
        Dialect::V2 => simplify(node, &mut schema),
    }
    if node[EMBEDDED] == true && (dialect == Dialect::V3 || !preserves) {
        embed(&mut schema, dialect);
    }
    schema.into()
}

/// What a node says itself.
fn copied(node: &Value) -> Map<String, Value> {
    let says = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    let names = COPIED.into_iter().chain([PRESERVE, "x-kubernetes-validations"]);
    let kept = |name: &&str| match *name {
        "default" => !node["default"].is_null(),
        name => says(&node[name]),
    };
    names.filter(kept).map(|name| (name.to_owned(), node[name].clone())).collect()
}

fn children(node: &Value, schema: &mut Map<String, Value>, dialect: Dialect) {
    if let Some(properties) = node["properties"].as_object().filter(|properties| !properties.is_empty()) {
        let published =
            properties.iter().map(|(name, property)| (name.clone(), published(property, dialect)));
        schema.insert("properties".into(), Value::Object(published.collect()));
    }
    if node["items"].is_object() {
        schema.insert("items".into(), published(&node["items"], dialect));
    }
}

fn additional(node: &Value, schema: &mut Map<String, Value>, dialect: Dialect) {
    match &node["additionalProperties"] {
        Value::Null => {}
        allowed @ Value::Bool(_) => {
            schema.insert("additionalProperties".into(), allowed.clone());
        }
        inner => {
            schema.insert("additionalProperties".into(), published(inner, dialect));
        }
    }
}

/// Whether these are the alternatives that an int-or-string has.
fn is_int_or_string(any_of: &Value) -> bool {
    *any_of == json!([{"type": "integer"}, {"type": "string"}])
}

/// Alternatives and negations, and those that int-or-string stands for.
fn junctors(node: &Value, schema: &mut Map<String, Value>) {
    for name in ["allOf", "anyOf", "oneOf"] {
        if let Some(branches) = node[name].as_array().filter(|branches| !branches.is_empty()) {
            let branches = branches.iter().map(|branch| published(branch, Dialect::V3));
            schema.insert(name.into(), branches.collect());
        }
    }
    if node["not"].is_object() {
        schema.insert("not".into(), published(&node["not"], Dialect::V3));
    }
    let told = is_int_or_string(&node["anyOf"]) || is_int_or_string(&node["allOf"][0]["anyOf"]);
    if node["x-kubernetes-int-or-string"] != true || told {
        return;
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    match schema.contains_key("anyOf") {
        false => {
            schema.insert("anyOf".into(), either);
        }
        true => {
            let all_of = schema.entry("allOf").or_insert_with(|| json!([]));
            if let Some(all_of) = all_of.as_array_mut() {
                all_of.insert(0, json!({"anyOf": either}));
            }
        }
    }
}

/// What version 2, or its old clients, cannot understand goes.
fn simplify(node: &Value, schema: &mut Map<String, Value>) {
    schema.remove("default");
    let nullable = schema.remove("nullable").is_some();
    let open_object = schema.contains_key(PRESERVE) && node["type"] == "object";
    let bare_list = node["type"] == "array" && !schema.contains_key("items");
    if nullable || open_object || bare_list {
        schema.remove("type");
    }
    let dropped = |name: &Value| {
        let property = name.as_str().map(|name| &node["properties"][name]);
        schema.contains_key("properties") && property.is_some_and(|property| property["nullable"] == true)
    };
    let required: Vec<Value> =
        node["required"].as_array().into_iter().flatten().filter(|name| !dropped(name)).cloned().collect();
    match required.is_empty() || node["additionalProperties"]["nullable"] == true {
        true => schema.remove("required"),
        false => schema.insert("required".into(), required.into()),
    };
}

/// An object within an object says what it is, too.
fn embed(schema: &mut Map<String, Value>, dialect: Dialect) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    properties["apiVersion"] = text(EMBEDDED_API_VERSION, "#resources");
    properties["kind"] = text(EMBEDDED_KIND, "#types-kinds");
    properties["metadata"] = object_meta(dialect);
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|one| one == name) {
                required.push(name.into());
            }
        }
    }
}
