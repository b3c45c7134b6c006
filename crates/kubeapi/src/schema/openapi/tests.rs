use serde_json::{Value, json};

use super::super::{Structural, check_root_with_status};
use crate::Path;

#[track_caller]
fn check(field: Value, expected: &[&str]) {
    let schema = json!({"type": "object", "properties": {"f": field}});
    let errors: Vec<String> = match Structural::compile(&schema) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    };
    let expected: Vec<String> =
        expected.iter().map(|text| format!("openAPIV3Schema.properties[f]{text}")).collect();
    assert_eq!(errors, expected, "{field}");
}

#[test]
fn fields_that_no_schema_may_have() {
    check(
        json!({"type": "strin"}),
        &[
            r#".type: Unsupported value: "strin": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ],
    );
    check(json!({"type": "string", "$ref": "#/x"}), &[".$ref: Forbidden: $ref is not supported"]);
    check(
        json!({"type": "object", "patternProperties": {"a": {}}}),
        &[".patternProperties: Forbidden: patternProperties is not supported"],
    );
    check(
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        &[
            ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ],
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
        &[".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    );
    check(
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
        &[".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    );
}

#[test]
fn kinds_of_lists_and_maps() {
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "o": {"type": "object"}}});
    check(
        json!({"type": "object", "x-kubernetes-list-type": "set"}),
        &[r#".type: Invalid value: "object": must be array if x-kubernetes-list-type is specified"#],
    );
    check(
        json!({"type": "array", "items": item, "x-kubernetes-list-type": "map"}),
        &[".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
    );
    check(
        json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "k", "x", "o"]}),
        &[
            r#".x-kubernetes-list-map-keys: Invalid value: ["k","k","x","o"]: must not contain duplicate entries"#,
            r#".x-kubernetes-list-map-keys: Invalid value: ["k","k","x","o"]: entries must all be names of item properties"#,
            r#".items.properties[o].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map"#,
            ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ".items.properties[o].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ],
    );
    check(
        json!({"type": "array", "items": item, "x-kubernetes-list-type": "set"}),
        &[
            ".items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ],
    );
    check(
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}),
        &[r#".x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map""#],
    );
    check(
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-map-keys": ["a"]}),
        &[".x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty"],
    );
    check(
        json!({"type": "string", "x-kubernetes-map-type": "odd"}),
        &[
            r#".type: Invalid value: "string": must be object if x-kubernetes-map-type is specified"#,
            r#".x-kubernetes-map-type: Unsupported value: "odd": supported values: "atomic", "granular""#,
        ],
    );
}

#[test]
fn defaults_have_to_be_right() {
    check(
        json!({"type": "string", "default": 1}),
        &[r#".default: Invalid value: "integer":  in body must be of type string: "integer""#],
    );
    check(
        json!({"type": "object", "default": {"a": 1, "x": 2}, "properties": {"a": {"type": "string"}}}),
        &[
            r#".default: Invalid value: {"a":1,"x":2}: must not have unknown fields"#,
            r#".default.a: Invalid value: "integer": a in body must be of type string: "integer""#,
        ],
    );
    check(
        json!({"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1"}]}),
        &[r#".default: Invalid value: "integer": failed rule: self > 1"#],
    );
    let top = json!({"type": "object", "properties": {"kind": {"type": "string", "default": "X"}}});
    let errors = Structural::compile(&top).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "openAPIV3Schema.properties[kind].default: Forbidden: must not be set in top-level kind"
    );
}

#[test]
fn fields_of_rules() {
    let rules = |rule: Value| json!({"type": "string", "x-kubernetes-validations": [rule]});
    let cases = [
        (json!({"rule": " "}), ".rule: Required value: rule is not specified"),
        (
            json!({"rule": "true\n", "message": "a\nb"}),
            r#".message: Invalid value: "a\nb": must not contain line breaks"#,
        ),
        (
            json!({"rule": "true ||\ntrue"}),
            ".message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "message": " "}),
            r#".message: Invalid value: " ": must be non-empty if specified"#,
        ),
        (
            json!({"rule": "true", "reason": "Because"}),
            r#".reason: Unsupported value: "Because": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
        ),
        (
            json!({"rule": "true", "fieldPath": ".x"}),
            r#".fieldPath: Invalid value: ".x": must be a valid path"#,
        ),
    ];
    for (rule, error) in cases {
        check(rules(rule), &[&format!(".x-kubernetes-validations[0]{error}")]);
    }
}

#[test]
fn a_root_beside_a_status_subresource_says_little() {
    let path = Path::new("s");
    assert_eq!(check_root_with_status(&json!({"type": "object", "description": "x"}), &path), None);
    let error = check_root_with_status(&json!({"type": "object", "minProperties": 1}), &path).unwrap();
    assert!(error.detail.starts_with("only [Description Type "), "{error}");
    let error = check_root_with_status(&json!({"type": "string"}), &path).unwrap();
    assert_eq!(
        error.to_string(),
        r#"s.type: Invalid value: "string": only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#
    );
}
