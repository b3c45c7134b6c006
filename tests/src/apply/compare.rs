//! Whether two servers answered the same.

use serde_json::{Value, json};

use super::Answer;

/// Who writes Deployments on a real server.
const CONTROLLER: &str = "kube-controller-manager";
/// The one annotation that it sets.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// What became of a step on two servers, a real one first.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The same.
    Same,
    /// What differs on purpose: the object is not the same any more.
    Parted,
    /// This is what each answered.
    Different(String),
}

/// Compares two answers, but for what differs from server to server and from time to time.
pub fn compare(theirs: &Answer, ours: &Answer) -> Outcome {
    // Where nothing is left of a list or map, upstream leaves a null (and refuses it, if it may not be there).
    if leaves_null(theirs) || cannot_scale(theirs) {
        return Outcome::Parted;
    }
    let shown = |(code, body): &Answer| json!([code, plain(body)]).to_string();
    match shown(theirs) == shown(ours) {
        true => Outcome::Same,
        false => Outcome::Different(format!("theirs {}\nours   {}", shown(theirs), shown(ours))),
    }
}

fn leaves_null((code, body): &Answer) -> bool {
    match code {
        422 => body["message"].as_str().is_some_and(|message| message.contains("Invalid value: \"null\"")),
        _ => body["spec"].as_object().into_iter().flatten().any(|(name, value)| {
            value.is_null() && name != "nullable" || value.to_string().contains(":null")
        }),
    }
}

/// Upstream tries to convert the Scale of a custom resource as if it were the object.
fn cannot_scale((code, body): &Answer) -> bool {
    let why = body["message"].as_str().unwrap_or_default();
    *code == 500 && why.ends_with("request to convert CR to an invalid group/version: autoscaling/v1")
}

/// A message without the values of Go's structs, whose fields have another order.
fn without_structs(message: &mut Value) {
    if let Some(text) = message.as_str()
        && let Some((before, _)) = text.split_once("Duplicate value: {")
    {
        *message = json!(before);
    }
}

fn plain(body: &Value) -> Value {
    let mut body = body.clone();
    without_structs(&mut body["message"]);
    for cause in body.pointer_mut("/details/causes").and_then(Value::as_array_mut).into_iter().flatten() {
        without_structs(&mut cause["message"]);
    }
    // Upstream lists what is wrong with metadata twice, and conflicts in any order.
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(ToString::to_string);
        causes.dedup();
    }
    if ["Deployment", "Scale"].into_iter().any(|kind| body["kind"] == kind) {
        // It is written by a controller of the real server.
        body["status"].take();
    }
    let Some(metadata) = body["metadata"].as_object_mut() else { return body };
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(field);
    }
    if metadata.get("annotations").is_some_and(|all| !all[REVISION].is_null()) {
        metadata.remove("annotations");
    }
    // They are sorted by time first.
    if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
        entries.retain(|entry| entry["manager"] != CONTROLLER);
        for fields in entries.iter_mut().filter_map(Value::as_object_mut) {
            fields.remove("time");
        }
        entries.sort_by_key(ToString::to_string);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_compared() {
        let entry = |manager: &str, time: &str| json!({"manager": manager, "time": time});
        let object = |uid: &str, entries: Value, spec: Value| {
            (200, json!({"metadata": {"uid": uid, "managedFields": entries}, "spec": spec}))
        };
        let one = object("1", json!([entry("a", "1"), entry("b", "2")]), json!({"x": 1}));
        let same = object("2", json!([entry("b", "2"), entry("a", "3")]), json!({"x": 1}));
        assert_eq!(compare(&one, &same), Outcome::Same);
        for other in [
            object("1", json!([entry("a", "1")]), json!({"x": 1})),
            object("1", json!([entry("a", "1"), entry("b", "2")]), json!({"x": 2})),
            (201, one.1.clone()),
        ] {
            assert!(matches!(compare(&one, &other), Outcome::Different(_)), "{other:?}");
        }
        let null = object("1", json!([]), json!({"free": {"a": null}}));
        assert_eq!(compare(&null, &one), Outcome::Parted);
    }
}
