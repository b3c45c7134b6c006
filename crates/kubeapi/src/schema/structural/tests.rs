use serde_json::{Value, json};

use super::super::Structural;

fn errors(schema: &Value) -> Vec<String> {
    match Structural::compile(schema) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// A schema with a field `f` of this schema.
fn with(field: Value) -> Value {
    json!({"type": "object", "properties": {"f": field}})
}

#[test]
fn structural_schemas_pass() {
    let good = [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 5}}}}}),
        with(json!({"x-kubernetes-int-or-string": true})),
        with(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
        with(json!({"x-kubernetes-int-or-string": true,
                    "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"maxLength": 3}]})),
        with(json!({"x-kubernetes-preserve-unknown-fields": true})),
        with(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        ),
        with(
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "not": {"properties": {"a": {"enum": ["x"]}}}}),
        ),
    ];
    for schema in good {
        assert_eq!(errors(&schema), [""; 0], "{schema}");
    }
}

#[test]
fn what_is_not_structural_is_refused() {
    const P: &str = "openAPIV3Schema.properties[f]";
    let cases: [(Value, &[&str]); 14] = [
        (json!({}), &["openAPIV3Schema.type: Required value: must not be empty at the root"]),
        (
            json!({"type": "string"}),
            &[r#"openAPIV3Schema.type: Invalid value: "string": must be object at the root"#],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            &["openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root"],
        ),
        (with(json!({})), &["{P}.type: Required value: must not be empty for specified object fields"]),
        (
            with(json!({"type": "array", "items": {}})),
            &["{P}.items.type: Required value: must not be empty for specified array items"],
        ),
        (with(json!({"type": "array"})), &["{P}.items: Required value: must be specified"]),
        (
            with(
                json!({"type": "string", "anyOf": [{"type": "string", "description": "x", "nullable": true, "default": 1}]}),
            ),
            &[
                "{P}.anyOf[0].default: Forbidden: must be undefined to be structural",
                "{P}.anyOf[0].description: Forbidden: must be empty to be structural",
                "{P}.anyOf[0].nullable: Forbidden: must be false to be structural",
                "{P}.anyOf[0].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            json!({"type": "object", "allOf": [{"properties": {"a": {"minLength": 1}}}]}),
            &[
                "openAPIV3Schema.properties[a]: Required value: because it is defined in openAPIV3Schema.allOf[0].properties[a]",
            ],
        ),
        (
            with(json!({"type": "object", "x-kubernetes-embedded-resource": true})),
            &[
                "{P}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            ],
        ),
        (
            with(
                json!({"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            ),
            &[
                r#"{P}.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true"#,
            ],
        ),
        (
            with(json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true})),
            &[
                "{P}.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
            ],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}, "kind": {"type": "integer"}}}),
            &[
                r#"openAPIV3Schema.properties[kind].type: Invalid value: "integer": must be string"#,
                "openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object"}}, "not": {"properties": {"metadata": {}}}}),
            &[
                "openAPIV3Schema.not.properties[metadata]: Forbidden: must not be specified in a nested context",
            ],
        ),
        (
            with(json!({"type": "string", "pattern": "(?=x)"})),
            &[
                "{P}.pattern: Invalid value: \"(?=x)\": must be a valid regular expression, but isn't: error parsing regexp: look-around, including look-ahead and look-behind, is not supported: `(?=x)`",
            ],
        ),
    ];
    for (schema, expected) in cases {
        let expected: Vec<String> = expected.iter().map(|text| text.replace("{P}", P)).collect();
        assert_eq!(errors(&schema), expected, "{schema}");
    }
}
