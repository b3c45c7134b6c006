//! OpenAPI of both servers.

use std::sync::Arc;

use anyhow::{Context, Result};
use apiserver::registry::Registry;
use serde_json::{Map, Value, json};

use super::compare;
use super::peer::Peer;
use crate::support::opened;

pub(super) async fn v3(registry: &Arc<Registry>, peer: &Peer, wrong: &mut Vec<String>) -> Result<()> {
    let index = opened(registry, "/openapi/v3");
    let theirs = peer.json("/openapi/v3", "").await?;
    for path in index["paths"].as_object().context("paths")?.keys() {
        let url = theirs["paths"][path]["serverRelativeURL"].as_str().context("no such document")?;
        let theirs = peer.json(url, "").await?;
        let ours = opened(registry, &format!("/openapi/v3/{path}"));
        schemas(path, &ours["components"]["schemas"], &theirs["components"]["schemas"], wrong);
        paths(path, &ours["paths"], &theirs["paths"], wrong);
    }
    Ok(())
}

pub(super) async fn v2(registry: &Arc<Registry>, peer: &Peer, wrong: &mut Vec<String>) -> Result<()> {
    let theirs = peer.json("/openapi/v2", "").await?;
    let ours = opened(registry, "/openapi/v2");
    schemas("v2", &ours["definitions"], &theirs["definitions"], wrong);
    let mut theirs_resolved = theirs["paths"].clone();
    resolve(&mut theirs_resolved, &theirs["parameters"]);
    paths("v2", &ours["paths"], &theirs_resolved, wrong);
    Ok(())
}

/// Every schema of ours is theirs; those of definitions to the letter.
fn schemas(what: &str, ours: &Value, theirs: &Value, wrong: &mut Vec<String>) {
    for (name, ours) in ours.as_object().into_iter().flatten() {
        let theirs = theirs.get(name).unwrap_or(&Value::Null);
        let what = format!("{what} {name}");
        match name.starts_with("com.example.") {
            true => compare(&what, ours, theirs, wrong),
            false => compare(&what, &structure(ours), &structure(theirs), wrong),
        }
    }
}

/// Without what our table of types does not have: prose, and values that a text may have. A default that is a type's
/// zero says nothing, and every kind of `meta` is of all groups.
fn structure(schema: &Value) -> Value {
    let Value::Object(object) = schema else {
        return match schema {
            Value::Array(list) => list.iter().map(structure).collect(),
            other => other.clone(),
        };
    };
    let zero = |value: &Value| [json!(""), json!(0), json!(false), json!({}), json!([])].contains(value);
    let mut kept = Map::new();
    for (name, value) in object {
        match (name.as_str(), value) {
            ("description", Value::String(_)) | ("enum", Value::Array(_)) => {}
            ("default", value) if zero(value) => {}
            ("x-kubernetes-unions", _) => {}
            ("required", Value::Array(names)) => {
                let mut names = names.clone();
                names.sort_by_key(Value::to_string);
                kept.insert("required".into(), names.into());
            }
            ("x-kubernetes-group-version-kind", Value::Array(kinds)) => {
                let core = |kind: &&Value| kinds.len() == 1 || kind["group"] == "" && kind["version"] == "v1";
                kept.insert(name.clone(), kinds.iter().filter(core).cloned().collect());
            }
            ("allOf", Value::Array(one)) if one.len() == 1 && one[0].get("$ref").is_some() => {
                kept.insert("$ref".into(), one[0]["$ref"].clone());
            }
            _ => {
                kept.insert(name.clone(), structure(value));
            }
        }
    }
    kept.into()
}

fn paths(what: &str, ours: &Value, theirs: &Value, wrong: &mut Vec<String>) {
    for (path, item) in ours.as_object().into_iter().flatten() {
        for (method, ours) in item.as_object().into_iter().flatten() {
            let theirs = &theirs[path][method];
            compare(&format!("{what} {path} {method}"), &told(ours), &told(theirs), wrong);
        }
    }
}

/// An operation or parameters without prose. Some deletions of theirs answer with the object: that is left out.
fn told(operation: &Value) -> Value {
    let mut told = structure(operation);
    let parameters = if told.is_array() { Some(&mut told) } else { told.get_mut("parameters") };
    if let Some(Value::Array(parameters)) = parameters {
        parameters.sort_by_key(|one| one["name"].to_string());
    }
    if operation.get("x-kubernetes-action").is_some_and(|action| action == "delete")
        && let Some(told) = told.as_object_mut()
    {
        told.remove("responses");
    }
    told
}

/// Puts parameters in the place of references to them.
fn resolve(value: &mut Value, parameters: &Value) {
    match value {
        Value::Object(object) => {
            let name = object
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|name| name.strip_prefix("#/parameters/"));
            match name.map(|name| parameters[name].clone()) {
                Some(parameter) => *value = parameter,
                None => object.values_mut().for_each(|inner| resolve(inner, parameters)),
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| resolve(inner, parameters)),
        _ => {}
    }
}
