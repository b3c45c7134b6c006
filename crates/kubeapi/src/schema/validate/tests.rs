use serde_json::{Value, json};

use super::super::Structural;

/// The errors of a field `f` of this schema with this value.
fn errors(schema: Value, value: Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"f": schema}});
    let schema = Structural::compile(&schema).unwrap_or_else(|errors| panic!("{schema}: {errors:?}"));
    schema.validate(&json!({"f": value}), None).iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(schema: Value, value: Value, expected: &[&str]) {
    assert_eq!(errors(schema.clone(), value.clone()), expected, "{schema} with {value}");
}

#[test]
fn types() {
    let wrong = |found: &str, wanted: &str| {
        format!("f: Invalid value: {found:?}: f in body must be of type {wanted}: {found:?}")
    };
    let object = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let array = json!({"type": "array", "items": {"type": "string"}});
    let cases = [
        (json!({"type": "integer"}), json!("a"), Some(wrong("string", "integer"))),
        (json!({"type": "integer"}), json!(1.5), Some(wrong("number", "integer"))),
        (json!({"type": "integer"}), json!(1.0), None),
        (json!({"type": "integer", "format": "int32"}), json!(3_000_000_000_i64), None),
        (json!({"type": "number"}), json!(1), None),
        (json!({"type": "string"}), json!(1), Some(wrong("integer", "string"))),
        (json!({"type": "string"}), json!(null), Some(wrong("null", "string"))),
        (json!({"type": "string", "nullable": true}), json!(null), None),
        (json!({"type": "boolean"}), json!([]), Some(wrong("array", "boolean"))),
        (object, json!(true), Some(wrong("boolean", "object"))),
        (array, json!({}), Some(wrong("object", "array"))),
        (json!({"x-kubernetes-int-or-string": true}), json!(1), None),
        (json!({"x-kubernetes-int-or-string": true}), json!("1"), None),
        (json!({"x-kubernetes-int-or-string": true}), json!(true), Some(wrong("boolean", "integer,string"))),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!([1, {"a": null}]), None),
    ];
    for (schema, value, expected) in cases {
        check(schema, value, expected.as_deref().as_slice());
    }
}

#[test]
fn strings() {
    let limits = json!({"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"});
    check(limits.clone(), json!("ab"), &[]);
    check(
        limits.clone(),
        json!("a"),
        &[r#"f: Invalid value: "a": f in body should be at least 2 chars long"#],
    );
    check(limits.clone(), json!("abcd"), &["f: Too long: may not be more than 3 bytes"]);
    check(limits.clone(), json!("ääää"), &["f: Too long: may not be more than 3 bytes"]);
    check(limits, json!("A1"), &[r#"f: Invalid value: "A1": f in body should match '^[a-z]+$'"#]);
    let time = json!({"type": "string", "format": "date-time"});
    check(time.clone(), json!("x"), &[r#"f: Invalid value: "x": f in body must be of type date-time: "x""#]);
    check(time, json!(5), &[r#"f: Invalid value: "int64": f in body must be of type date-time: "int64""#]);
    check(json!({"type": "string", "format": "nonsense"}), json!("x"), &[]);
}

#[test]
fn numbers() {
    let limits = json!({"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2});
    check(limits.clone(), json!(4), &[]);
    check(
        limits.clone(),
        json!(-1),
        &[
            "f: Invalid value: -1: f in body should be a multiple of 2",
            "f: Invalid value: -1: f in body should be greater than or equal to 1",
        ],
    );
    check(limits, json!(12), &["f: Invalid value: 12: f in body should be less than or equal to 10"]);
    let open = json!({"type": "number", "minimum": 0.5, "exclusiveMinimum": true, "maximum": 2, "exclusiveMaximum": true});
    check(open.clone(), json!(0.5), &["f: Invalid value: 0.5: f in body should be greater than 0.5"]);
    check(open.clone(), json!(2.0), &["f: Invalid value: 2: f in body should be less than 2"]);
    check(open, json!(1.5), &[]);
    check(
        json!({"type": "integer", "multipleOf": 0.5}),
        json!(1),
        &["f: Invalid value: 0: factor MultipleOf declared for f must be positive: 0"],
    );
    check(json!({"type": "number", "multipleOf": 0.1}), json!(0.3), &[]);
}

#[test]
fn lists_and_maps() {
    let list = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}});
    check(list.clone(), json!([]), &["f: Invalid value: 0: f in body should have at least 1 items"]);
    check(list.clone(), json!(["a", "b", "c"]), &["f: Too many: 3: must have at most 2 items"]);
    check(
        list,
        json!(["a", 1]),
        &[r#"f[1]: Invalid value: "integer": f[1] in body must be of type string: "integer""#],
    );
    let map = json!({"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "string"}});
    check(map.clone(), json!({}), &["f: Invalid value: 0: f in body should have at least 1 properties"]);
    check(
        map,
        json!({"a": "x", "b.c": 1}),
        &[
            "f: Too many: 2: must have at most 1 item",
            r#"f.b.c: Invalid value: "integer": f.b.c in body must be of type string: "integer""#,
        ],
    );
    check(
        json!({"type": "object", "additionalProperties": false}),
        json!({"x": 1}),
        &[r#"f: Invalid value: "x": f.x in body is a forbidden property"#],
    );
    let object = json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    check(object, json!({"a": ""}), &["f.b: Required value"]);
}

#[test]
fn enumerations() {
    let words = json!({"type": "string", "enum": ["a", "b"]});
    check(words.clone(), json!("x"), &[r#"f: Unsupported value: "x": supported values: "a", "b""#]);
    check(words, json!("b"), &[]);
    let numbers = json!({"type": "integer", "enum": [1, 2.0]});
    check(numbers.clone(), json!(2), &[]);
    check(numbers, json!(3), &[r#"f: Unsupported value: 3: supported values: "1", "2.0""#]);
    let nullable = json!({"type": "string", "nullable": true, "enum": ["a", null]});
    check(nullable, json!(null), &[r#"f: Unsupported value: null: supported values: "a", "null""#]);
}

#[test]
fn branches() {
    let fields = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    let one =
        json!({"type": "object", "properties": fields, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    check(one.clone(), json!({"a": ""}), &[]);
    check(
        one.clone(),
        json!({}),
        &[
            r#"<nil>: Invalid value: "": "f" must validate one and only one schema (oneOf). Found none valid"#,
            "f.a: Required value",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ][..2],
    );
    check(
        one,
        json!({"a": "", "b": ""}),
        &[
            r#"<nil>: Invalid value: "": "f" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    let any =
        json!({"type": "object", "properties": fields, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    check(any.clone(), json!({"a": "", "b": ""}), &[]);
    check(
        any,
        json!({}),
        &[
            r#"<nil>: Invalid value: "": "f" must validate at least one schema (anyOf)"#,
            "f.a: Required value",
        ],
    );
    let all = json!({"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^a"}]});
    check(all.clone(), json!("ab"), &[]);
    check(
        all.clone(),
        json!("a"),
        &[
            r#"f: Invalid value: "a": f in body should be at least 2 chars long"#,
            r#"<nil>: Invalid value: "": "f" must validate all the schemas (allOf)"#,
        ],
    );
    check(
        all,
        json!("b"),
        &[
            r#"f: Invalid value: "b": f in body should be at least 2 chars long"#,
            r#"f: Invalid value: "b": f in body should match '^a'"#,
            r#"<nil>: Invalid value: "": "f" must validate all the schemas (allOf). None validated"#,
        ],
    );
    check(
        json!({"type": "string", "not": {"enum": ["x"]}}),
        json!("x"),
        &[r#"<nil>: Invalid value: "": "f" must not validate the schema (not)"#],
    );
    let int_or_string =
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    check(int_or_string, json!("50%"), &[]);
}

#[test]
fn sets_and_keyed_lists_have_nothing_twice() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    check(set.clone(), json!(["a", "b"]), &[]);
    check(set, json!(["a", "b", "a", "a"]), &[r#"f[2]: Duplicate value: "a""#]);
    let map = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n", "p"],
        "items": {"type": "object", "required": ["n"], "properties": {
            "n": {"type": "string"}, "p": {"type": "integer", "default": 1}, "v": {"type": "string"},
        }},
    });
    check(map.clone(), json!([{"n": "a", "p": 1}, {"n": "a", "p": 2}]), &[]);
    check(map, json!([{"n": "a", "v": "x"}, {"n": "a"}]), &[r#"f[1]: Duplicate value: {"n":"a"}"#]);
}

fn ratchet_schema() -> Structural {
    Structural::compile(&json!({"type": "object", "properties": {
        "apiVersion": {"type": "string", "maxLength": 1},
        "spec": {"type": "object", "required": ["must"], "properties": {
            "must": {"type": "string"},
            "short": {"type": "string", "maxLength": 2},
            "count": {"type": "integer"},
            "atomic": {"type": "array", "items": {"type": "string", "maxLength": 2}},
            "keyed": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {
                    "k": {"type": "string"}, "short": {"type": "string", "maxLength": 2}, "other": {"type": "string"},
                }},
            },
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        }},
    }}))
    .unwrap()
}

#[test]
fn what_was_wrong_and_has_not_changed_is_tolerated() {
    let tolerated: [(Value, Value); 5] = [
        (json!({"spec": {"short": "long"}}), json!({"spec": {"short": "long", "must": ""}})),
        (
            json!({"spec": {"must": "", "count": 1, "atomic": ["long"]}}),
            json!({"spec": {"must": "", "count": 2, "atomic": ["long"]}}),
        ),
        (
            json!({"spec": {"must": "", "keyed": [{"k": "a", "short": "long"}, {"k": "b"}]}}),
            json!({"spec": {"must": "", "keyed": [{"k": "b"}, {"k": "a", "short": "long", "other": "new"}]}}),
        ),
        (
            json!({"spec": {"must": "", "set": ["a", "a"]}}),
            json!({"spec": {"must": "", "set": ["a", "a", "b"]}}),
        ),
        (json!({"spec": {"must": "", "one": {}}}), json!({"spec": {"must": "x", "one": {}}})),
    ];
    for (old, new) in tolerated {
        assert_eq!(ratchet_schema().validate(&new, Some(&old)), [], "{new}");
        assert_ne!(ratchet_schema().validate(&new, None), [], "{new}");
    }
}

#[test]
fn what_has_changed_has_to_be_right() {
    let refused: [(Value, Value, &str); 5] = [
        (
            json!({"spec": {"must": "", "short": "long"}}),
            json!({"spec": {"must": "", "short": "longer"}}),
            "spec.short: Too long: may not be more than 2 bytes",
        ),
        (json!({"spec": {"short": "a"}}), json!({"spec": {"short": "b"}}), "spec.must: Required value"),
        (
            json!({"spec": {"must": "", "atomic": ["long"]}}),
            json!({"spec": {"must": "", "atomic": ["long", "b"]}}),
            "spec.atomic[0]: Too long: may not be more than 2 bytes",
        ),
        (
            json!({"spec": {"must": "", "keyed": [{"k": "a", "short": "long"}]}}),
            json!({"spec": {"must": "", "keyed": [{"k": "b", "short": "long"}]}}),
            "spec.keyed[0].short: Too long: may not be more than 2 bytes",
        ),
        (
            json!({"apiVersion": "v1", "spec": {"must": ""}}),
            json!({"apiVersion": "v1", "spec": {"must": "x"}}),
            "apiVersion: Too long: may not be more than 1 byte",
        ),
    ];
    for (old, new, error) in refused {
        let errors = ratchet_schema().validate(&new, Some(&old));
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [error], "{new}");
    }
}

#[test]
fn a_status_is_checked_by_itself() {
    let schema = Structural::compile(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }}))
    .unwrap();
    let errors =
        schema.validate_status(&json!({"spec": {}, "status": {"phase": 1}}), Some(&json!({"spec": {}})));
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [r#"status.phase: Invalid value: "integer": phase in body must be of type string: "integer""#]
    );
}
