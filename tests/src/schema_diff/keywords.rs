use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Report, union};

/// Keywords with words for people only.
const WORDS: [&str; 4] = ["description", "title", "example", "externalDocs"];
/// Keywords with schemas in them, which are walked.
const WALKED: [&str; 3] = ["properties", "items", "additionalProperties"];
/// Keywords whose order says nothing.
const SETS: [&str; 3] = ["required", "enum", "x-kubernetes-list-map-keys"];

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const VALIDATIONS: &str = "x-kubernetes-validations";

/// Compares what two schemas say of a value itself: every keyword, known here or not.
pub(super) fn compare(report: &mut Report, ours: &Value, upstream: &Value) {
    let (ours, upstream) = (normal(ours), normal(upstream));
    let names = |keywords: &Map<String, Value>| keywords.keys().cloned().collect::<BTreeSet<_>>();
    for keyword in union(names(&ours), names(&upstream)) {
        let value = |keywords: &Map<String, Value>| keywords.get(&keyword).cloned().unwrap_or_default();
        let shown = keyword.trim_start_matches("x-kubernetes-");
        report.add(shown, &value(&ours), &value(&upstream));
    }
}

/// The keywords of a schema, spelt in one way of those that mean the same.
fn normal(schema: &Value) -> Map<String, Value> {
    let mut keywords = schema.as_object().cloned().unwrap_or_default();
    keywords.retain(|keyword, value| {
        let ignored = WORDS.contains(&keyword.as_str()) || WALKED.contains(&keyword.as_str());
        let says_nothing = keyword != "default" && *value == false;
        !ignored && !says_nothing
    });
    if keywords.get(INT_OR_STRING) == Some(&json!(true))
        && keywords.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
    {
        keywords.remove("anyOf");
    }
    for keyword in SETS {
        if let Some(value) = keywords.get_mut(keyword) {
            *value = sorted(value);
        }
    }
    if let Some(validations) = keywords.get_mut(VALIDATIONS) {
        *validations = rules(validations);
    }
    keywords.into_iter().map(|(keyword, value)| (keyword, plain_number(value))).collect()
}

/// The values of a list in alphabetical order; an empty list is none.
pub(super) fn sorted(list: &Value) -> Value {
    let mut values = list.as_array().cloned().unwrap_or_default();
    values.sort_by_key(Value::to_string);
    if values.is_empty() { Value::Null } else { Value::Array(values) }
}

/// The expressions of validation rules; their messages are words.
fn rules(validations: &Value) -> Value {
    let validations = validations.as_array().into_iter().flatten();
    sorted(&validations.map(|validation| validation["rule"].clone()).collect())
}

/// `1` and `1.0` are the same limit.
fn plain_number(value: Value) -> Value {
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => json!(number as i64),
        _ => value,
    }
}
