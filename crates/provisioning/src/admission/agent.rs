//! What a node's agent may change of its own plan Secret.
//!
//! Its account may update the Secret, and an update sends the whole object: everything but the agent's own report is compared.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubeapi::{FieldError, Path};
use plan::secret::{AGENT_EXPECTED_ANNOTATION, AGENT_KEYS, AGENT_NOTES, PLAN_STATE, PlanState};
use serde_json::{Map, Value};

use crate::Object;

/// Whether a user is the account of the plan Secret of this name: account and Secret are called the same.
pub fn is_agent_of(user: &str, namespace: &str, name: &str) -> bool {
    let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    account == Some((namespace, name))
}

/// What an agent's own account changes of its plan Secret and may not: the fields, each with what is allowed instead.
pub fn agent_change(old: &Object, new: &Object) -> Vec<FieldError> {
    let (was, is) = (old.document(), new.document());
    let mut errors = Vec::new();
    for field in ["type", "immutable"] {
        whole(&Path::new(field), &was[field], &is[field], &mut errors);
    }
    let metadata = Path::new("metadata");
    for field in ["ownerReferences", "finalizers"] {
        whole(&metadata.child(field), &was["metadata"][field], &is["metadata"][field], &mut errors);
    }
    let parts: [(Path, &Value, &Value, Allowed); 3] = [
        (metadata.child("labels"), &was["metadata"]["labels"], &is["metadata"]["labels"], |_, _| false),
        (
            metadata.child("annotations"),
            &was["metadata"]["annotations"],
            &is["metadata"]["annotations"],
            note,
        ),
        (Path::new("data"), &was["data"], &is["data"], key),
    ];
    for (path, was, is, allowed) in parts {
        for name in changed(was, is).into_iter().filter(|name| !allowed(name, is.get(name))) {
            errors.push(refusal(&path.key(name)));
        }
    }
    errors
}

/// Whether an entry may become this; none if it goes.
type Allowed = fn(&str, Option<&Value>) -> bool;

fn note(name: &str, becomes: Option<&Value>) -> bool {
    AGENT_NOTES.contains(&name) || (name == AGENT_EXPECTED_ANNOTATION && becomes.is_none())
}

fn key(name: &str, becomes: Option<&Value>) -> bool {
    AGENT_KEYS.contains(&name) && (name != PLAN_STATE || !is_of_the_server(becomes))
}

/// Whether a plan's state is one that only the server gives.
fn is_of_the_server(state: Option<&Value>) -> bool {
    let word = state.and_then(Value::as_str).and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    [PlanState::Pending, PlanState::Cancelled].iter().any(|state| state.as_str().as_bytes() == word)
}

fn whole(path: &Path, was: &Value, is: &Value, errors: &mut Vec<FieldError>) {
    if was != is && !(is_blank(was) && is_blank(is)) {
        errors.push(refusal(path));
    }
}

/// What is not there is the same as what is empty.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Entries of a map that differ.
fn changed<'a>(was: &'a Value, is: &'a Value) -> BTreeSet<&'a str> {
    let entries = |map: &'a Value| map.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    entries(was).chain(entries(is)).filter(|name| was.get(name) != is.get(name)).collect()
}

fn refusal(path: &Path) -> FieldError {
    let detail = format!(
        "a node's agent may change only its own report: data keys {} (plan-state not to pending or cancelled) and annotations {}",
        AGENT_KEYS.join(", "),
        AGENT_NOTES.join(", "),
    );
    FieldError::forbidden(path, detail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "rke.cattle.io/machine-plan",
            "metadata": {
                "name": "m-machine-plan", "namespace": "n", "resourceVersion": "7",
                "labels": {"rke.cattle.io/worker-role": "true"},
                "annotations": {"herdsman.io/agent-expected": "true", "rke.cattle.io/plan-last-updated": "x"},
                "ownerReferences": [{"apiVersion": "rke.cattle.io/v1", "kind": "RKEBootstrap", "name": "m", "uid": "u"}],
            },
            "data": {"plan": "e30=", "plan-state": STANDARD.encode("pending"), "appliedPlan": "e30="},
        })
    }

    /// The paths that are refused after a change.
    fn refused(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut new = secret();
        change(&mut new);
        let found = agent_change(&Object::from_document(secret()), &Object::from_document(new));
        found.into_iter().map(|error| error.path.as_str().to_owned()).collect()
    }

    #[test]
    fn a_report_is_taken() {
        let nothing = Vec::<String>::new();
        assert_eq!(refused(|_| {}), nothing);
        for key in AGENT_KEYS {
            assert_eq!(refused(|new| new["data"][key] = "YQ==".into()), nothing, "{key}");
        }
        for word in ["in-progress", "succeeded", "failed"] {
            assert_eq!(
                refused(|new| new["data"][PLAN_STATE] = STANDARD.encode(word).into()),
                nothing,
                "{word}"
            );
        }
        for note in AGENT_NOTES {
            assert_eq!(refused(|new| new["metadata"]["annotations"][note] = "x".into()), nothing, "{note}");
        }
        let come = |new: &mut Value| {
            new["metadata"]["annotations"].as_object_mut().unwrap().remove(AGENT_EXPECTED_ANNOTATION);
        };
        assert_eq!(refused(come), nothing);
        // Another encoder leaves out what is empty, and writes what is the server's.
        let other = |new: &mut Value| {
            new["immutable"] = false.into();
            new["metadata"]["finalizers"] = json!([]);
            new["metadata"]["managedFields"] = json!([{"manager": "agent"}]);
            new["metadata"]["resourceVersion"] = "8".into();
        };
        assert_eq!(refused(other), nothing);
    }

    #[test]
    fn nothing_else_is() {
        type Change = fn(&mut Value);
        let cases: [(&str, Change); 16] = [
            ("metadata.labels[rke.cattle.io/etcd-role]", |new| {
                new["metadata"]["labels"]["rke.cattle.io/etcd-role"] = "true".into()
            }),
            ("metadata.labels[rke.cattle.io/worker-role]", |new| new["metadata"]["labels"] = Value::Null),
            ("metadata.labels[tier]", |new| new["metadata"]["labels"]["tier"] = "x".into()),
            ("metadata.annotations[rke.cattle.io/join-url]", |new| {
                new["metadata"]["annotations"]["rke.cattle.io/join-url"] = "x".into()
            }),
            ("metadata.annotations[rke.cattle.io/drain-options]", |new| {
                new["metadata"]["annotations"]["rke.cattle.io/drain-options"] = "{}".into()
            }),
            ("metadata.annotations[rke.cattle.io/plan-last-updated]", |new| {
                new["metadata"]["annotations"]["rke.cattle.io/plan-last-updated"] = "y".into()
            }),
            ("metadata.annotations[herdsman.io/agent-expected]", |new| {
                new["metadata"]["annotations"][AGENT_EXPECTED_ANNOTATION] = "no".into()
            }),
            ("metadata.annotations[herdsman.io/agent-wanted]", |new| {
                new["metadata"]["annotations"]["herdsman.io/agent-wanted"] = "x".into()
            }),
            ("metadata.ownerReferences", |new| new["metadata"]["ownerReferences"] = json!([])),
            ("metadata.ownerReferences", |new| new["metadata"]["ownerReferences"][0]["uid"] = "other".into()),
            ("metadata.finalizers", |new| new["metadata"]["finalizers"] = json!(["evil.io/stay"])),
            ("immutable", |new| new["immutable"] = true.into()),
            ("type", |new| new["type"] = "Opaque".into()),
            ("data[plan]", |new| new["data"]["plan"] = "eyJmaWxlcyI6W119".into()),
            ("data[appliedPlan]", |new| {
                new["data"].as_object_mut().map(|data| data.remove("appliedPlan")).map(drop).unwrap()
            }),
            ("data[anything]", |new| new["data"]["anything"] = "YQ==".into()),
        ];
        for (path, change) in cases {
            assert_eq!(refused(change), [path]);
        }
    }

    #[test]
    fn an_agent_does_not_deliver_to_itself() {
        let with = |word: &str| -> Object {
            let mut document = secret();
            document["data"][PLAN_STATE] = STANDARD.encode(word).into();
            Object::from_document(document)
        };
        for (was, is, fine) in [
            ("pending", "in-progress", true),
            ("pending", "pending", true),
            ("failed", "pending", false),
            ("in-progress", "cancelled", false),
            ("cancelled", "cancelled", true),
        ] {
            assert_eq!(agent_change(&with(was), &with(is)).is_empty(), fine, "{was} -> {is}");
        }
    }

    #[test]
    fn an_agent_is_known_by_its_account() {
        for (user, expected) in [
            ("system:serviceaccount:n:m-machine-plan", true),
            ("system:serviceaccount:other:m-machine-plan", false),
            ("system:serviceaccount:n:other", false),
            ("m-machine-plan", false),
            ("system:serviceaccount:n:m-machine-plan:x", false),
        ] {
            assert_eq!(is_agent_of(user, "n", "m-machine-plan"), expected, "{user}");
        }
    }
}
