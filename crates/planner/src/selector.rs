//! Which machines a label selector of the spec means.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::snapshot::Words;

/// Whether a selector matches; no selector matches everything. An operator that does not exist matches nothing.
pub(crate) fn matches(selector: Option<&LabelSelector>, labels: &Words) -> bool {
    let Some(selector) = selector else { return true };
    let equal = |(key, value): (&String, &String)| labels.get(key) == Some(value);
    selector.match_labels.iter().flatten().all(equal)
        && selector.match_expressions.iter().flatten().all(|expression| fulfils(expression, labels))
}

fn fulfils(expression: &LabelSelectorRequirement, labels: &Words) -> bool {
    let value = labels.get(&expression.key);
    let listed = || value.is_some_and(|value| expression.values.iter().flatten().any(|one| one == value));
    match expression.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors() {
        let labels = Words::from([("a".into(), "1".into()), ("b".into(), "2".into())]);
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let table = [
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "1", "b": "1"}}), false),
            (expression("a", "In", &["0", "1"]), true),
            (expression("c", "In", &["1"]), false),
            (expression("a", "NotIn", &["1"]), false),
            (expression("c", "NotIn", &["1"]), true),
            (expression("a", "Exists", &[]), true),
            (expression("c", "DoesNotExist", &[]), true),
            (expression("a", "Gt", &["0"]), false),
        ];
        for (selector, expected) in table {
            let parsed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(matches(Some(&parsed), &labels), expected, "{selector}");
        }
        assert!(matches(None, &labels));
    }
}
