use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion, CustomResourceSubresources, CustomResourceValidation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::driver::{CONFIG_GROUP, Driver, GROUP, VERSION, plural};
use crate::catalogue::labels;
use crate::crd::{schema_props, status_subresource};
use crate::management::v3::Field;
use crate::rke::v1::{CommonNodeConfig, RKEMachineStatus};
use crate::schema::{self, Nulls};

/// A driver has a field of a type that machines cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resourceFields.{field}: type {type_:?} is none of string, password, boolean, int, array[string]")]
pub struct UnknownFieldType {
    /// Name of the field.
    pub field: String,
    /// Its type.
    pub type_: String,
}

/// The three definitions of a driver: config, machine template, machine.
///
/// # Errors
/// If a field is of a type that machines cannot have.
pub fn definitions(
    driver: &Driver,
    fields: &BTreeMap<String, Field>,
) -> Result<[CustomResourceDefinition; 3], UnknownFieldType> {
    let name = driver.name();
    let mut config = object_of(fields, Defaults::Filled)?;
    config["description"] = json!(format!("What the servers of a pool are, for the node driver {name}."));
    if driver.makes_windows() {
        config["properties"]
            .as_object_mut()
            .and_then(|properties| {
                properties.entry("os").or_insert(json!({ "type": "string" })).as_object_mut()
            })
            .map(|os| os.insert("nullable".into(), json!(true)));
    }
    let machine = machine_schema(&name, fields)?;
    let template = template_schema(&name, &machine["properties"]["spec"]);
    Ok([
        definition(CONFIG_GROUP, driver.config_kind(), config),
        definition(GROUP, driver.template_kind(), template),
        definition(GROUP, driver.machine_kind(), machine),
    ])
}

/// Whether the API server fills in the driver's defaults. It does so where users write; what is made from that must
/// stay as it was when a newer driver has other defaults.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defaults {
    Filled,
    Left,
}

fn object_of(fields: &BTreeMap<String, Field>, defaults: Defaults) -> Result<Value, UnknownFieldType> {
    let mut properties = Map::new();
    for (name, field) in fields {
        let schema = field_schema(field, defaults)
            .ok_or_else(|| UnknownFieldType { field: name.clone(), type_: field.type_.clone() })?;
        properties.insert(name.clone(), schema);
    }
    let required: Vec<&String> =
        fields.iter().filter(|(_, field)| field.required).map(|(name, _)| name).collect();
    let mut object = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    Ok(object)
}

fn field_schema(field: &Field, defaults: Defaults) -> Option<Value> {
    let (mut schema, default) = match field.type_.as_str() {
        "string" | "password" => {
            (json!({ "type": "string", "nullable": true }), json!(field.default.string_value))
        }
        "boolean" => (json!({ "type": "boolean" }), json!(field.default.bool_value)),
        "int" => (json!({ "type": "integer" }), json!(field.default.int_value)),
        "array[string]" => (
            json!({ "type": "array", "nullable": true, "items": { "type": "string", "nullable": true } }),
            json!(field.default.string_slice_value),
        ),
        _ => return None,
    };
    if defaults == Defaults::Filled && !default.is_null() {
        schema["default"] = default;
    }
    if field.nullable {
        schema["nullable"] = json!(true);
    }
    if !field.description.is_empty() {
        schema["description"] = json!(field.description);
    }
    add_limits(&mut schema, field);
    Some(schema)
}

fn add_limits(schema: &mut Value, field: &Field) {
    let limits = [
        ("minLength", field.min_length),
        ("maxLength", field.max_length),
        ("minimum", field.min),
        ("maximum", field.max),
    ];
    for (keyword, limit) in limits {
        if limit != 0 {
            schema[keyword] = json!(limit);
        }
    }
    if field.type_ == "string" && !field.options.is_empty() {
        // Empty means "not chosen" and is always taken.
        let options: Vec<&str> = field.options.iter().map(String::as_str).chain([""]).collect();
        schema["enum"] = json!(options);
    }
    if !field.valid_chars.is_empty() {
        schema["pattern"] = json!(format!("^[{}]*$", field.valid_chars));
    } else if !field.invalid_chars.is_empty() {
        schema["pattern"] = json!(format!("^[^{}]*$", field.invalid_chars));
    }
}

fn machine_schema(name: &str, fields: &BTreeMap<String, Field>) -> Result<Value, UnknownFieldType> {
    let mut spec = object_of(fields, Defaults::Left)?;
    spec["description"] = json!("What is asked for.");
    spec["properties"]["common"] = schema::structural::<CommonNodeConfig>(Nulls::Taken);
    spec["properties"]["providerID"] = json!({
        "type": "string",
        "nullable": true,
        "description": "The provider id of its node; known once the node has joined.",
    });
    Ok(json!({
        "type": "object",
        "description": format!("One server, made by the node driver {name}."),
        "properties": { "spec": spec, "status": schema::structural::<RKEMachineStatus>(Nulls::Taken) },
    }))
}

fn template_schema(name: &str, machine_spec: &Value) -> Value {
    let template = json!({
        "type": "object",
        "description": "The machine to make.",
        "properties": { "spec": machine_spec },
    });
    let spec = json!({
        "type": "object",
        "description": "The pattern.",
        "properties": {
            "clusterName": {
                "type": "string", "nullable": true, "description": "Name of the provisioning cluster.",
            },
            "template": template,
        },
    });
    json!({
        "type": "object",
        "description": format!("From which machines of the node driver {name} are cloned."),
        "properties": { "spec": spec },
    })
}

fn definition(group: &str, kind: String, schema: Value) -> CustomResourceDefinition {
    let status = schema["properties"].get("status").is_some();
    let marks = [labels::CONTRACT_V1BETA1, labels::CONTRACT_V1BETA2]
        .map(|label| (label.to_owned(), VERSION.to_owned()))
        .into_iter()
        .chain([(labels::CLUSTER_INDEXED.to_owned(), "true".to_owned())]);
    let version = CustomResourceDefinitionVersion {
        name: VERSION.into(),
        served: true,
        storage: true,
        subresources: status
            .then(|| CustomResourceSubresources { status: Some(status_subresource()), scale: None }),
        schema: Some(CustomResourceValidation { open_api_v3_schema: Some(schema_props(schema)) }),
        ..Default::default()
    };
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(format!("{}.{group}", plural(&kind))),
            labels: Some(marks.collect()),
            ..Default::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: group.into(),
            names: CustomResourceDefinitionNames {
                plural: plural(&kind),
                singular: Some(kind.to_lowercase()),
                list_kind: Some(format!("{kind}List")),
                kind,
                ..Default::default()
            },
            scope: "Namespaced".into(),
            versions: vec![version],
            ..Default::default()
        },
        status: None,
    }
}

#[cfg(test)]
#[path = "definitions_tests.rs"]
mod tests;
