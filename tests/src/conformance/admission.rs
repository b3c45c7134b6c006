//! What the webhook answers that is asked about writes. Its path says what it does:
//!
//! | path | |
//! |---|---|
//! | `allow` | agrees |
//! | `deny`, `deny/<reason>` | does not, with a message and code 418, or with nothing but a reason |
//! | `silent` | does not agree, and does not say why |
//! | `warn/<text>`, `warn-deny/<text>` | agrees with a warning, or does not |
//! | `note/<key>/<value>`, `note-deny/<key>/<value>` | agrees with an annotation for the audit log, or does not |
//! | `echo/<path>,..` | does not agree, and says what it was asked: these parts of the request, as JSON |
//! | `label/<name>` | adds a label |
//! | `append/<word>`, `once/<word>` | adds a word to the annotation `words`; the latter if it is not there yet |
//! | `add/<pointer>/to/<value>` | adds a text somewhere; `.` in the pointer is `/` |
//! | `never`, `broken` | does not answer, or with code 500 |
//! | `uid`, `untyped`, `typed`, `nothing`, `undecodable` | answers what nobody may |
//! | `older` | answers as the first version of the review allows |

use anyhow::{Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::matching::at;

/// A code and a document; nothing if there is never an answer.
pub(super) fn answer(path: &str, review: &Value) -> Result<Option<(u16, Value)>> {
    let request = &review["request"];
    let (what, detail) = path.split_once('/').unwrap_or((path, ""));
    let mut version = review["apiVersion"].clone();
    let mut response = match what {
        "allow" => json!({"allowed": true}),
        "deny" if detail.is_empty() => {
            json!({"allowed": false, "status": {"message": "not today", "reason": "Teapot", "code": 418}})
        }
        "deny" => json!({"allowed": false, "status": {"reason": detail}}),
        "silent" => json!({"allowed": false}),
        "warn" | "warn-deny" => json!({"allowed": what == "warn", "warnings": [detail]}),
        "note" | "note-deny" => {
            let (key, value) = detail.split_once('/').unwrap_or((detail, ""));
            json!({"allowed": what == "note", "auditAnnotations": {key: value}})
        }
        "echo" => json!({"allowed": false, "status": {"message": echoed(request, detail)}}),
        "label" => label(request, detail),
        "append" | "once" => word(request, detail, what == "once"),
        "add" => {
            let (place, value) = detail.split_once("/to/").unwrap_or((detail, ""));
            patch(&format!("/{}", place.replace('.', "/")), &json!(value))
        }
        "never" => return Ok(None),
        "broken" => return Ok(Some((500, json!("out of order")))),
        "uid" => json!({"allowed": true, "uid": "another"}),
        "untyped" => json!({"allowed": true, "patch": BASE64_STANDARD.encode("[]")}),
        "typed" => json!({"allowed": true, "patchType": "JSONPatch"}),
        "undecodable" => {
            json!({"allowed": true, "patchType": "JSONPatch", "patch": BASE64_STANDARD.encode("{")})
        }
        "nothing" => Value::Null,
        "older" => {
            version = json!("admission.k8s.io/v1beta1");
            json!({"allowed": false, "uid": "another", "status": {"message": review["apiVersion"]}})
        }
        other => bail!("nothing is known of {other}"),
    };
    if response.is_object() && response["uid"].is_null() {
        response["uid"] = request["uid"].clone();
    }
    Ok(Some((200, json!({"apiVersion": version, "kind": "AdmissionReview", "response": response}))))
}

fn echoed(request: &Value, paths: &str) -> String {
    let one = |path: &str| sorted(at(request, path).unwrap_or(&Value::Null)).to_string();
    paths.split(',').map(one).collect::<Vec<_>>().join(" ")
}

/// The same with the fields of objects in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            let fields: Map<_, _> =
                names.into_iter().map(|name| (name.clone(), sorted(&fields[name]))).collect();
            Value::Object(fields)
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

fn patch(path: &str, value: &Value) -> Value {
    let operations = json!([{"op": "add", "path": path, "value": value}]);
    json!({"allowed": true, "patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(operations.to_string())})
}

fn label(request: &Value, name: &str) -> Value {
    let mut labels = request["object"]["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.insert(name.to_owned(), json!("yes"));
    patch("/metadata/labels", &Value::Object(labels))
}

fn word(request: &Value, word: &str, once: bool) -> Value {
    let mut annotations =
        request["object"]["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let before = annotations.get("words").and_then(Value::as_str).unwrap_or_default();
    if once && before.split(' ').any(|one| one == word) {
        return json!({"allowed": true});
    }
    let words = format!("{before} {word}").trim().to_owned();
    annotations.insert("words".to_owned(), json!(words));
    patch("/metadata/annotations", &Value::Object(annotations))
}
