//! Schemas of built-in types.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Dialect;
use crate::GroupVersionKind;
use crate::builtin::{Field, ListType, MapType, PatchStrategy, Scalar, Shape, Type, types};

/// Adds the schema of a type, and all that it refers to.
pub(super) fn add(schemas: &mut BTreeMap<String, Value>, name: &str, dialect: Dialect) {
    if schemas.contains_key(name) {
        return;
    }
    let Some(known) = types().by_name(name) else {
        // What a patch is made of depends on its format.
        schemas.insert(name.to_owned(), json!({"type": "object"}));
        return;
    };
    schemas.insert(name.to_owned(), schema(known, dialect));
    for field in known.fields.values() {
        if let Some(inner) = referred(&field.shape) {
            add(schemas, inner, dialect);
        }
    }
}

fn referred(shape: &Shape) -> Option<&str> {
    match shape {
        Shape::Ref(name) => Some(name),
        Shape::List(inner) | Shape::Map(inner) => referred(inner),
        Shape::Scalar(_) => None,
    }
}

fn schema(known: &Type, dialect: Dialect) -> Value {
    let mut schema = match &known.alias {
        // Those of schemas are any JSON, all others are objects.
        Some(Shape::Scalar(Scalar::Any)) if known.name.contains(".JSON") => json!({}),
        Some(Shape::Scalar(Scalar::Any)) => json!({"type": "object"}),
        Some(alias) => of_shape(alias, dialect),
        None => object(known, dialect),
    };
    if !known.kinds.is_empty() {
        let kinds = known.kinds.iter().map(gvk);
        schema["x-kubernetes-group-version-kind"] = kinds.collect();
    }
    if let Some(map_type) = known.map_type {
        schema["x-kubernetes-map-type"] = map_type_name(map_type).into();
    }
    schema
}

/// Group, version and kind as extensions tell them.
pub(super) fn gvk(kind: &GroupVersionKind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn object(known: &Type, dialect: Dialect) -> Value {
    let mut object = json!({"type": "object"});
    let fields = known.fields.iter();
    let properties: Map<String, Value> =
        fields.map(|(name, field)| (name.clone(), of_field(field, dialect))).collect();
    if !properties.is_empty() {
        object["properties"] = properties.into();
    }
    if !known.required.is_empty() {
        object["required"] = json!(known.required);
    }
    object
}

fn of_field(field: &Field, dialect: Dialect) -> Value {
    let mut beside = Map::new();
    let mut put = |name: &str, value: Value| beside.insert(name.to_owned(), value);
    // Version 2 is published without defaults.
    if let Some(default) = field.default.as_ref().filter(|_| dialect == Dialect::V3) {
        put("default", default.clone());
    }
    if let Some(list_type) = field.list_type {
        put("x-kubernetes-list-type", list_type_name(list_type).into());
    }
    if !field.list_map_keys.is_empty() {
        put("x-kubernetes-list-map-keys", json!(field.list_map_keys));
    }
    if let Some(map_type) = field.map_type {
        put("x-kubernetes-map-type", map_type_name(map_type).into());
    }
    if !field.patch_strategy.is_empty() {
        let strategies: Vec<&str> = field.patch_strategy.iter().map(|one| strategy_name(*one)).collect();
        put("x-kubernetes-patch-strategy", strategies.join(",").into());
    }
    if let Some(key) = &field.patch_merge_key {
        put("x-kubernetes-patch-merge-key", key.as_str().into());
    }
    let mut schema = match &field.shape {
        Shape::Ref(name) if !beside.is_empty() => dialect.annotated(name),
        shape => of_shape(shape, dialect),
    };
    if let Some(schema) = schema.as_object_mut() {
        schema.extend(beside);
    }
    schema
}

fn of_shape(shape: &Shape, dialect: Dialect) -> Value {
    match shape {
        Shape::Ref(name) => dialect.reference(name),
        Shape::List(inner) => json!({"type": "array", "items": of_shape(inner, dialect)}),
        Shape::Map(inner) => json!({"type": "object", "additionalProperties": of_shape(inner, dialect)}),
        Shape::Scalar(scalar) => of_scalar(scalar, dialect),
    }
}

fn of_scalar(scalar: &Scalar, dialect: Dialect) -> Value {
    let formatted = |kind: &str, format: &Option<String>| match format {
        Some(format) => json!({"type": kind, "format": format}),
        None => json!({"type": kind}),
    };
    match (scalar, dialect) {
        (Scalar::Text(Some(format)), Dialect::V2) if format == "quantity" => json!({"type": "string"}),
        (Scalar::Text(Some(format)), Dialect::V3) if format == "quantity" => {
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]})
        }
        (Scalar::Text(format), _) => formatted("string", format),
        (Scalar::Integer(format), _) => formatted("integer", format),
        (Scalar::Number, _) => json!({"type": "number", "format": "double"}),
        (Scalar::Boolean, _) => json!({"type": "boolean"}),
        (Scalar::IntOrString, Dialect::V2) => json!({"type": "string", "format": "int-or-string"}),
        (Scalar::IntOrString, Dialect::V3) => {
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"})
        }
        (Scalar::Any, _) => json!({"type": "object"}),
    }
}

fn list_type_name(list_type: ListType) -> &'static str {
    match list_type {
        ListType::Atomic => "atomic",
        ListType::Set => "set",
        ListType::Map => "map",
    }
}

fn map_type_name(map_type: MapType) -> &'static str {
    match map_type {
        MapType::Atomic => "atomic",
        MapType::Granular => "granular",
    }
}

fn strategy_name(strategy: PatchStrategy) -> &'static str {
    match strategy {
        PatchStrategy::Merge => "merge",
        PatchStrategy::Replace => "replace",
        PatchStrategy::RetainKeys => "retainKeys",
    }
}
