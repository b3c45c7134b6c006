//! The rules of built-in kinds against what a kube-apiserver 1.34.4 answered: objects that it stored have all defaults
//! and break no rule, and what it refused is refused for the same fields.

use kubeapi::builtin::{self, Node, defaults, prepare, validation};
use serde_json::{Value, json};

const FILES: [&str; 3] = [
    include_str!("../../apiserver/tests/server/recorded/defaults.json"),
    include_str!("../../apiserver/tests/server/recorded/deletion.json"),
    include_str!("../../apiserver/tests/server/recorded/validation.json"),
];

/// All creations: of what, the object, and the answer.
fn created() -> Vec<(&'static builtin::Resource, Value, Value)> {
    let mut all = Vec::new();
    for file in FILES {
        let cases: Vec<Value> = serde_json::from_str(&file.replace("<uid>", "u")).expect("the file is JSON");
        for step in cases.iter().flat_map(|case| case["steps"].as_array().expect("steps")) {
            let Some(path) = step["do"].as_str().and_then(|text| text.strip_prefix("POST ")) else {
                continue;
            };
            let plural = path.rsplit('/').next().expect("a path has parts");
            let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or("");
            if let Some(resource) = builtin::resource(group, "v1", plural) {
                all.push((resource, step["body"].clone(), step["answer"].clone()));
            }
        }
    }
    all
}

fn node(resource: &builtin::Resource) -> Node<'static> {
    Node::of_kind(builtin::types(), &resource.gvk())
}

#[test]
fn stored_objects_have_all_defaults_and_break_no_rule() {
    let mut count = 0;
    for (resource, _, stored) in created().into_iter().filter(|(_, _, answer)| answer["kind"] != "Status") {
        let (group, plural) = (resource.group, resource.plural);
        let mut object = stored.clone();
        builtin::normalize(node(resource), &mut object).expect("amounts are right");
        defaults::fill(group, plural, &mut object);
        assert_eq!(object, stored, "{plural}");
        // Addresses and ports of Services were replaced in the record.
        if plural != "services" {
            assert_eq!(validation::create(group, plural, &stored), [], "{stored}");
            assert_eq!(validation::update(group, plural, &stored, &stored), [], "{stored}");
        }
        count += 1;
    }
    assert!(count > 60, "{count}");
}

#[test]
fn what_was_refused_is_refused_for_the_same_fields() {
    let mut count = 0;
    for (resource, body, status) in created().into_iter().filter(|(_, _, answer)| answer["code"] == 422) {
        let (group, plural) = (resource.group, resource.plural);
        let mut object = body.clone();
        object["metadata"]["namespace"] = json!("default");
        object["metadata"]["uid"] = json!("u");
        builtin::normalize(node(resource), &mut object).expect("amounts are right");
        defaults::fill(group, plural, &mut object);
        prepare::create(group, plural, &mut object, jiff::Timestamp::UNIX_EPOCH);
        let errors = validation::create(group, plural, &object);
        let found: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        let causes = status["details"]["causes"].as_array().expect("there are causes").iter();
        let wanted: Vec<&str> = causes.filter_map(|cause| cause["field"].as_str()).collect();
        // Metadata is checked elsewhere, and so is what others have.
        let elsewhere = ["metadata.name", "metadata.labels"].contains(&wanted[0])
            || status["message"].as_str().is_some_and(|why| {
                ["allocate", "not configured", "valid range"].iter().any(|one| why.contains(one))
            });
        if !elsewhere {
            assert_eq!(found, wanted, "{body}");
            count += 1;
        }
    }
    assert!(count > 130, "{count}");
}
