use serde_json::{Value, json};

use super::super::{Structural, unknown_field};

#[test]
fn unknown_fields_go_and_are_named() {
    let cases: [(Value, Value, Value, &[&str]); 8] = [
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "a": 1, "b": {"c": 1}}),
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "a": 1}),
            &["b"],
        ),
        (
            json!({"type": "object", "properties": {"l": {"type": "array", "items": {
                "type": "object", "properties": {"a": {"type": "string"}}}}}}),
            json!({"l": [{"a": ""}, {"b": 1, "a": ""}]}),
            json!({"l": [{"a": ""}, {"a": ""}]}),
            &["l[1].b"],
        ),
        (
            json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {
                "type": "object", "properties": {"a": {"type": "string"}}}}}}),
            json!({"m": {"x": {"a": "", "b": 1}}}),
            json!({"m": {"x": {"a": ""}}}),
            &["m.x.b"],
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "a": {"type": "object", "properties": {"b": {"type": "string"}}}}}),
            json!({"x": {"y": 1}, "a": {"b": "", "c": 1}}),
            json!({"x": {"y": 1}, "a": {"b": ""}}),
            &["a.c"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object"}}}),
            json!({"a": {"b": 1}}),
            json!({"a": {}}),
            &["a.b"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": true}}}),
            json!({"a": {"b": 1, "c": {"d": 1}}}),
            json!({"a": {"b": 1, "c": {}}}),
            &["a.c.d"],
        ),
        (
            json!({"type": "object", "properties": {"e": {
                "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}),
            json!({"e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"x": 1}}}),
            json!({"e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"x": 1}}}),
            &[],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": {"type": "object"}}}),
            json!({"metadata": {"name": "n", "x": 1}, "spec": {"metadata": {}}}),
            json!({"metadata": {"name": "n"}, "spec": {}}),
            &["metadata.x", "spec.metadata"],
        ),
    ];
    for (schema, mut object, expected, dropped) in cases {
        let schema = Structural::compile(&schema).unwrap();
        assert_eq!(schema.prune(&mut object), dropped);
        assert_eq!(object, expected);
        assert!(schema.prune(&mut object).is_empty(), "nothing is left to prune");
    }
    assert_eq!(unknown_field("spec.foo"), r#"unknown field "spec.foo""#);
}
