//! What is noted for the audit log of those who were asked about a write: upstream's keys and values.

use serde::Serialize;
use serde_json::Value;

/// The key of a validation that failed where a binding says `Audit`.
pub const VALIDATION_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The most bytes of an annotation that a policy makes.
const LONGEST: usize = 10 * 1024;

/// The place of a webhook among those that are asked, in the first round or the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// 0 or 1.
    pub round: usize,
    /// Among all that change objects, or among those that judge this write.
    pub index: usize,
}

impl Turn {
    fn key(self, prefix: &str) -> String {
        let Turn { round, index } = self;
        format!("{prefix}/round_{round}_index_{index}")
    }

    /// The key that says whether a webhook changed the object.
    pub fn mutation(self) -> String {
        self.key("mutation.webhook.admission.k8s.io")
    }

    /// The key that says how.
    pub fn patch(self) -> String {
        self.key("patch.webhook.admission.k8s.io")
    }

    /// The key that says that a webhook could not be asked, and the write went on.
    pub fn failed_open(self, mutating: bool) -> String {
        self.key(match mutating {
            true => "failed-open.mutation.webhook.admission.k8s.io",
            false => "failed-open.validating.webhook.admission.k8s.io",
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Mutation<'a> {
    configuration: &'a str,
    webhook: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mutated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'a str>,
}

/// Whether a webhook changed the object.
pub fn mutation(configuration: &str, webhook: &str, mutated: bool) -> String {
    text(&Mutation { configuration, webhook, mutated: Some(mutated), patch: None, patch_type: None })
}

/// How a webhook changed the object.
pub fn patch(configuration: &str, webhook: &str, patch: &Value) -> String {
    let patch_type = Some("JSONPatch");
    text(&Mutation { configuration, webhook, mutated: None, patch: Some(patch), patch_type })
}

/// A validation that failed.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed<'a> {
    /// Why.
    pub message: &'a str,
    /// The name of the policy.
    pub policy: &'a str,
    /// The name of the binding.
    pub binding: &'a str,
    /// Which of the policy's validations.
    pub expression_index: usize,
    /// What the binding says is to be done.
    pub validation_actions: &'a [String],
}

/// What is noted of a validation that failed.
pub fn failure(failed: Failed<'_>) -> String {
    text(&[failed])
}

/// What a policy's annotation says: all that its bindings and their parameters say, each once.
pub fn joined(values: &[String]) -> String {
    let mut said: Vec<&str> = Vec::new();
    for value in values {
        let mut end = value.len().min(LONGEST);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        if !said.contains(&&value[..end]) {
            said.push(&value[..end]);
        }
    }
    said.join(", ")
}

/// JSON as Go writes it.
fn text(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    // Outside of texts there are none of these.
    text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_values_are_upstreams() {
        let turn = Turn { round: 1, index: 2 };
        assert_eq!(turn.mutation(), "mutation.webhook.admission.k8s.io/round_1_index_2");
        assert_eq!(
            turn.failed_open(false),
            "failed-open.validating.webhook.admission.k8s.io/round_1_index_2"
        );
        assert_eq!(mutation("c", "w", true), r#"{"configuration":"c","webhook":"w","mutated":true}"#);
        assert_eq!(
            patch("c", "w", &json!([{"op": "remove", "path": "/a"}])),
            r#"{"configuration":"c","webhook":"w","patch":[{"op":"remove","path":"/a"}],"patchType":"JSONPatch"}"#
        );
        let failed = Failed {
            message: "a < b",
            policy: "p",
            binding: "b",
            expression_index: 1,
            validation_actions: &["Audit".into()],
        };
        assert_eq!(
            failure(failed),
            r#"[{"message":"a \u003c b","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Audit"]}]"#
        );
    }

    #[test]
    fn what_is_said_twice_is_noted_once_and_not_endlessly() {
        let said = ["a", "b", "a"].map(String::from);
        assert_eq!(joined(&said), "a, b");
        assert_eq!(joined(&["ä".repeat(6000)]).len(), LONGEST);
    }
}
