//! Our own CRDs, and objects at random that fit their schemas.

use kubeapi::crd::{self, Definition};
use kubeapi::schema::Structural;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

fn crds() -> Vec<Value> {
    let mut crds: Vec<Value> =
        api::crd::all().iter().map(|crd| serde_json::to_value(crd).expect("a CRD is JSON")).collect();
    for crd in &mut crds {
        crd::default(crd);
        crd::prepare_create(crd);
    }
    crds
}

/// Every version of every CRD: its name and schema.
fn schemas() -> Vec<(String, Value)> {
    let versions = |crd: &Value| {
        let definition = Definition::read(crd);
        let name = format!("{}.{}", definition.names.plural, definition.group);
        definition
            .versions
            .into_iter()
            .map(move |version| {
                (
                    format!("{name}/{}", version.name),
                    version.schema.expect("every version has a schema").read(),
                )
            })
            .collect::<Vec<_>>()
    };
    crds().iter().flat_map(versions).collect()
}

/// Objects that fit a schema, with metadata: of that, a schema says nothing.
fn objects(schema: &Value) -> impl Strategy<Value = Value> + use<> {
    samples::values(schema, |_| None).prop_map(|mut object| {
        object["metadata"] = json!({"name": "a", "labels": {"a": "b"}});
        object
    })
}

#[test]
fn a_server_takes_all_of_them() {
    let all = crds();
    assert!(!all.is_empty());
    for crd in &all {
        let name = crd["metadata"]["name"].as_str().unwrap();
        let errors: Vec<String> = crd::validate(crd).iter().map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
        assert!(crd::validate_update(crd, crd).is_empty(), "{name}");
        assert!(crd::accept_names(crd, &all).established.holds, "{name}");
    }
}

#[test]
fn some_of_them_have_rules_and_all_compile() {
    let schemas = schemas();
    let with_rules = schemas
        .iter()
        .filter(|(name, schema)| {
            Structural::compile(schema).unwrap_or_else(|e| panic!("{name}: {e:?}")).has_rules()
        })
        .count();
    assert!(with_rules > 0, "there would be nothing to compile");
}

/// Errors of CEL rules say `Invalid value: "<type>": <message>`; all others are about the value itself.
fn without_rules(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "x-kubernetes-validations")
            .map(|(name, value)| (name.clone(), without_rules(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_rules).collect(),
        other => other.clone(),
    }
}

#[test]
fn what_fits_a_schema_is_valid_and_stays_as_it_is() {
    for (name, schema) in schemas() {
        let compiled = Structural::compile(&without_rules(&schema)).unwrap();
        let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = TestRunner::new(config);
        let outcome = runner.run(&objects(&schema), |object| {
            let errors: Vec<String> =
                compiled.validate(&object, None).iter().map(ToString::to_string).collect();
            prop_assert!(errors.is_empty(), "{errors:#?}");
            prop_assert_eq!(compiled.validate(&object, Some(&object)), []);
            let mut pruned = object.clone();
            prop_assert_eq!(compiled.prune(&mut pruned), Vec::<String>::new());
            prop_assert_eq!(&pruned, &object);
            let mut once = object.clone();
            compiled.default(&mut once);
            prop_assert!(compiled.validate(&once, None).is_empty(), "defaults are valid");
            let mut twice = once.clone();
            compiled.default(&mut twice);
            prop_assert_eq!(once, twice);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn unknown_fields_of_any_object_are_found() {
    for (name, schema) in schemas() {
        let compiled = Structural::compile(&schema).unwrap();
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            continue;
        }
        let mut object = json!({"spec": {}, "nonsense": {"a": [1]}});
        assert!(compiled.prune(&mut object).contains(&"nonsense".to_owned()), "{name}");
        assert_eq!(object.get("nonsense"), None, "{name}");
    }
}

/// Rules are asked about any object without an evaluation going wrong in the evaluator itself.
#[test]
fn rules_can_be_asked_about_whatever_fits() {
    for (name, schema) in schemas() {
        let compiled = Structural::compile(&schema).unwrap();
        if !compiled.has_rules() {
            continue;
        }
        let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = TestRunner::new(config);
        let outcome = runner.run(&objects(&schema), |object| {
            for error in
                compiled.validate(&object, Some(&object)).iter().chain(&compiled.validate(&object, None))
            {
                let text = error.to_string();
                prop_assert!(!text.contains("evaluating rule") && !text.contains("call arguments"), "{text}");
            }
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
