//! Server-side apply, step by step against what a real kube-apiserver 1.34.4 answered to random applies, updates and
//! patches by three managers in two versions (`data/apply.json`).

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use kubeapi::apply::{Converted, Set, Type, Versions, Writer};
use kubeapi::schema::Structural;
use kubeapi::{GroupVersion, GroupVersionKind};
use serde_json::{Value, json};

/// Versions that have the same schema, so that only `apiVersion` changes.
struct SameFields(BTreeMap<String, Structural>);

impl Versions for SameFields {
    fn types(&self, version: &str) -> Option<Type<'_>> {
        self.0.get(version).map(|schema| Type::custom(Some(schema)))
    }

    fn convert<'a>(&'a self, mut object: Value, to: &'a str) -> Converted<'a> {
        object["apiVersion"] = json!(to);
        Box::pin(std::future::ready(Ok(object)))
    }
}

struct Builtin(GroupVersionKind);

impl Versions for Builtin {
    fn types(&self, version: &str) -> Option<Type<'_>> {
        (self.0.group_version().to_string() == version).then(|| Type::builtin(&self.0))
    }

    fn convert<'a>(&'a self, object: Value, _: &'a str) -> Converted<'a> {
        Box::pin(std::future::ready(Ok(object)))
    }
}

/// Nothing here ever waits.
fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// Managed fields without times, in an order that does not depend on them.
fn owners(object: &Value) -> Vec<Value> {
    let mut entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    for entry in &mut entries {
        entry.as_object_mut().unwrap().remove("time");
    }
    entries.sort_by_key(ToString::to_string);
    entries
}

fn ignored(step: &Value) -> Set {
    match step["op"].as_str().unwrap().starts_with("status") {
        true => Set::of_fields(["spec"]),
        false => Set::of_fields(["status"]),
    }
}

fn check(step: &Value, versions: &dyn Versions, default: impl Fn(&mut Value)) -> Result<(), String> {
    let kind = step["kind"].as_str().unwrap_or_default();
    let kind = GroupVersion::parse(step["version"].as_str().unwrap()).unwrap().kind(kind);
    let op = step["op"].as_str().unwrap();
    let ignored = ignored(step);
    let writer = Writer {
        versions,
        kind: &kind,
        manager: step["manager"].as_str().unwrap(),
        subresource: if op.starts_with("status") { "status" } else { "" },
        ignored: &ignored,
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let live = Some(&step["before"]).filter(|before| !before.is_null());
    let after = &step["after"];
    if op.ends_with("apply") {
        let force = step["force"].as_bool().unwrap();
        let applied = now_or_never(writer.apply(live, &step["config"], force));
        return match (step["code"].as_u64().unwrap(), applied) {
            (200 | 201, Ok(mut applied)) => {
                default(&mut applied);
                for part in ["spec", "status", "data"] {
                    if step["version"].as_str().unwrap().starts_with("example") || part == "data" {
                        same(&without_nulls(&applied[part]), &without_nulls(&after[part]))?;
                    }
                }
                same(&json!(owners(&applied)), &json!(owners(after)))
            }
            (_, Err(error)) => same(&json!(error.status().message), &after["message"]),
            // Upstream leaves nulls where it pruned, which it then refuses; we leave nothing.
            (422, Ok(_)) => Ok(()),
            (code, Ok(_)) => Err(format!("applied instead of {code}: {}", after["message"])),
        };
    }
    if step["code"].as_u64().unwrap() >= 300 {
        return Ok(());
    }
    let mut new = after.clone();
    new["metadata"].as_object_mut().unwrap().remove("managedFields");
    if !step["given"].is_null() {
        new["metadata"]["managedFields"] = step["given"].clone();
    }
    now_or_never(writer.update(live, &mut new)).map_err(|error| format!("{error:?}"))?;
    same(&json!(owners(&new)), &json!(owners(after)))
}

/// Upstream leaves a null where it pruned all of an object; we leave nothing.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            let kept = kept.map(|(name, value)| (name.clone(), without_nulls(value)));
            let kept: serde_json::Map<String, Value> =
                kept.filter(|(_, value)| *value != json!({})).collect();
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

fn same(found: &Value, expected: &Value) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("found\n{found}\nexpected\n{expected}")),
    }
}

#[test]
fn every_step_ends_as_it_did_upstream() {
    let recorded: Value = serde_json::from_str(include_str!("data/apply.json")).unwrap();
    let schema = &recorded["crd"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let compiled = || Structural::compile(schema).unwrap();
    let versions = ["example.com/v1", "example.com/v1beta1"];
    let widgets = SameFields(versions.into_iter().map(|version| (version.to_owned(), compiled())).collect());
    let defaults = compiled();
    let mut wrong = Vec::new();
    let steps = recorded["steps"].as_array().unwrap();
    for (index, step) in steps.iter().enumerate() {
        let kind = step["kind"].as_str().unwrap_or_default();
        let version = GroupVersion::parse(step["version"].as_str().unwrap()).unwrap();
        let checked = match kind {
            "Widget" => check(step, &widgets, |object| defaults.default(object)),
            kind => check(step, &Builtin(version.kind(kind)), |_| {}),
        };
        if let Err(why) = checked {
            wrong.push(format!("step {index} ({} {kind} by {}): {why}", step["op"], step["manager"]));
        }
    }
    assert!(steps.len() > 100);
    assert!(
        wrong.is_empty(),
        "{} of {} steps:\n{}",
        wrong.len(),
        steps.len(),
        wrong[..wrong.len().min(6)].join("\n\n")
    );
}
