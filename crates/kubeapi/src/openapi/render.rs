//! Paths as the versions of OpenAPI write them.

use serde_json::{Map, Value, json};

use super::Dialect;
use super::builtin::gvk;
use super::operations::{Body, Operation, Parameter, Path};

const PRETTY: Parameter = ("pretty", "string");

fn described(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        401 => "Unauthorized",
        _ => "OK",
    }
}

/// A path and what is there, in OpenAPI 3.
pub(super) fn v3(path: &Path) -> (String, Value) {
    rendered(path, v3_parameter, |operation, parameters| {
        let content = |types: &[&str], schema: &str| -> Value {
            let schema = json!({"schema": Dialect::V3.reference(schema)});
            Value::Object(types.iter().map(|one| ((*one).to_owned(), schema.clone())).collect())
        };
        let mut told =
            common(operation, parameters, |schema| json!({"content": content(operation.produces, schema)}));
        if let Some(Body { schema, required }) = &operation.body {
            told["requestBody"] = json!({"content": content(operation.consumes, schema)});
            if *required {
                told["requestBody"]["required"] = true.into();
            }
        }
        told
    })
}

/// A path and what is there, in OpenAPI 2.
pub(super) fn v2(path: &Path) -> (String, Value) {
    rendered(path, v2_parameter, |operation, mut parameters| {
        if let Some(Body { schema, required }) = &operation.body {
            let mut body = json!({"name": "body", "in": "body", "schema": Dialect::V2.reference(schema)});
            if *required {
                body["required"] = true.into();
            }
            parameters.insert(0, body);
        }
        let answer = |schema: &str| json!({"schema": Dialect::V2.reference(schema)});
        let mut told = common(operation, parameters, answer);
        told["schemes"] = json!(["https"]);
        told["consumes"] = json!(operation.consumes);
        told["produces"] = json!(operation.produces);
        told
    })
}

/// What all operations of a path have in common is told once.
fn rendered(
    path: &Path,
    parameter: fn(Parameter, &str) -> Value,
    operation: impl Fn(&Operation, Vec<Value>) -> Value,
) -> (String, Value) {
    let mut shared: Vec<Value> =
        path.variables.iter().map(|name| parameter((*name, "string"), "path")).collect();
    let mut in_all: Vec<Parameter> = match &path.operations[..] {
        [only] => only.parameters.to_vec(),
        _ => Vec::new(),
    };
    let own = |one: &Operation| -> Vec<Value> {
        let own = one.parameters.iter().filter(|one| !in_all.contains(one));
        own.map(|one| parameter(*one, "query")).collect()
    };
    let mut item: Map<String, Value> =
        path.operations.iter().map(|one| (one.method.to_owned(), operation(one, own(one)))).collect();
    in_all.push(PRETTY);
    in_all.sort_unstable();
    shared.extend(in_all.into_iter().map(|one| parameter(one, "query")));
    item.insert("parameters".into(), shared.into());
    (path.path.clone(), item.into())
}

fn common(operation: &Operation, parameters: Vec<Value>, answer: impl Fn(&str) -> Value) -> Value {
    let mut responses = Map::new();
    for code in operation.codes {
        let mut response = answer(&operation.answer);
        response["description"] = described(*code).into();
        responses.insert(code.to_string(), response);
    }
    responses.insert("401".into(), json!({"description": described(401)}));
    let mut told = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "responses": responses,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": gvk(&operation.kind),
    });
    if !parameters.is_empty() {
        told["parameters"] = parameters.into();
    }
    told
}

fn v3_parameter((name, kind): Parameter, place: &str) -> Value {
    let parameter = json!({"name": name, "in": place, "schema": {"type": kind, "uniqueItems": true}});
    required(parameter, place)
}

fn v2_parameter((name, kind): Parameter, place: &str) -> Value {
    required(json!({"name": name, "in": place, "type": kind, "uniqueItems": true}), place)
}

fn required(mut parameter: Value, place: &str) -> Value {
    if place == "path" {
        parameter["required"] = true.into();
    }
    parameter
}
