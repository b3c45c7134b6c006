//! Requests for built-in kinds, and what a kube-apiserver 1.34.4 answered to them: `recorded/record.py` asked it.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::support::{ask, server};

static UID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap());
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap());
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b10\.96\.\d+\.\d+\b").unwrap());

/// What a real server has and this one has not: controllers that would take these off again.
const LEFT_OUT: [&str; 3] = [
    r#""kubernetes.io/pv-protection""#,
    r#""kubernetes.io/pvc-protection""#,
    r#"{"effect":"NoSchedule","key":"node.kubernetes.io/not-ready"}"#,
];

/// A value without what differs from run to run, and without nulls, empty lists and absent controllers' marks.
fn same(value: &Value, asked: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| {
                !matches!(name.as_str(), "managedFields" | "resourceVersion" | "selfLink")
            });
            let fields: Map<String, Value> = kept
                .map(|(name, field)| (name.clone(), same(field, asked)))
                .filter(|(_, field)| !field.is_null() && *field != json!([]))
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| same(item, asked));
            items.filter(|item| !LEFT_OUT.contains(&item.to_string().as_str())).collect()
        }
        Value::String(text) => {
            let text = TIME.replace_all(text, "<time>");
            let text = UID.replace_all(&text, "<uid>");
            let text = ADDRESS.replace_all(&text, |found: &regex::Captures<'_>| {
                if asked.contains(&found[0]) { found[0].to_owned() } else { "<address>".to_owned() }
            });
            text.into_owned().into()
        }
        Value::Number(number) => match number.as_u64() {
            Some(30_000..=32_767) if !asked.contains(&number.to_string()) => json!("<port>"),
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

/// Every step of every case, and all that differ.
async fn replay(file: &str) {
    let cases: Vec<Value> = serde_json::from_str(file).unwrap();
    let mut wrong = Vec::new();
    let server = server().await;
    for case in &cases {
        let steps = case["steps"].as_array().unwrap();
        let asked = steps.iter().map(|step| step["body"].to_string()).collect::<String>();
        for step in steps {
            let (method, path) = step["do"].as_str().unwrap().split_once(' ').unwrap();
            let body = Some(step["body"].clone()).filter(|body| !body.is_null());
            let (code, answer) = match ask(&server, method, path, body).await {
                Ok(answer) => (answer.code, answer.body),
                Err(status) => (status.code, serde_json::to_value(&status).unwrap()),
            };
            let (mut found, mut wanted) = (same(&answer, &asked), same(&step["answer"], &asked));
            if !step["differs"].is_null() {
                (found, wanted) = (only_fields(&found), only_fields(&wanted));
            }
            if (json!(code), &found) != (step["code"].clone(), &wanted) {
                let (found, wanted) = (differing(&found, &wanted), differing(&wanted, &found));
                wrong.push(format!("{}: {}\n  wanted {wanted}\n  found  {found}", case["case"], step["do"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Of a refusal what fields are wrong, where the words differ for a reason that the step gives.
fn only_fields(status: &Value) -> Value {
    let mut causes = status["details"]["causes"].clone();
    for cause in causes.as_array_mut().unwrap() {
        cause.as_object_mut().unwrap().remove("message");
    }
    causes
}

/// What is in one value and not in the other.
fn differing(one: &Value, other: &Value) -> Value {
    match (one, other) {
        (Value::Object(fields), Value::Object(others)) => fields
            .iter()
            .filter(|(name, field)| others.get(*name) != Some(field))
            .map(|(name, field)| (name.clone(), differing(field, others.get(name).unwrap_or(&Value::Null))))
            .collect::<Map<_, _>>()
            .into(),
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            items.iter().zip(others).filter(|(a, b)| a != b).map(|(a, b)| differing(a, b)).collect()
        }
        _ => one.clone(),
    }
}

#[tokio::test]
async fn defaults_are_those_of_a_real_server() {
    replay(include_str!("recorded/defaults.json")).await;
}

#[tokio::test]
async fn deletions_bindings_and_evictions_are_those_of_a_real_server() {
    replay(include_str!("recorded/deletion.json")).await;
}

#[tokio::test]
async fn refusals_are_those_of_a_real_server() {
    replay(include_str!("recorded/validation.json")).await;
}
