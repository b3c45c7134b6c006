//! What a kube-apiserver 1.34.4 answered to these objects, word for word. It walks maps at random, so the order of
//! the errors does not count.

use kubeapi::schema::Structural;
use serde_json::{Value, json};

fn schema() -> Value {
    serde_json::from_str(include_str!("recorded/schema.json")).expect("the file is JSON")
}

#[test]
fn errors_are_those_of_a_real_server() {
    let cases: Vec<(Value, Vec<&str>)> = vec![
        (
            json!({"must":"","n":"x","t":"y"}),
            vec![
                r#"spec.n: Invalid value: "string": spec.n in body must be of type integer: "string""#,
                r#"spec.t: Invalid value: "y": spec.t in body must be of type date-time: "y""#,
                r#"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"#,
            ],
        ),
        (
            json!({"n":0,"p":"A1","e":"x","en":3}),
            vec![
                r#"spec.e: Unsupported value: "x": supported values: "a", "b""#,
                r#"spec.p: Invalid value: "A1": spec.p in body should match '^[a-z]+$'"#,
                r#"spec.en: Unsupported value: 3: supported values: "1", "2""#,
                r#"spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"#,
                r#"spec.must: Required value"#,
                r#"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"#,
            ],
        ),
        (
            json!({"must":"","n":11,"p":"abcdef"}),
            vec![
                r#"spec.n: Invalid value: 11: spec.n in body should be less than or equal to 10"#,
                r#"spec.p: Too long: may not be more than 5 bytes"#,
                r#"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"#,
            ],
        ),
        (
            json!({"must":"","p":"a","f":3,"l":[],"m":{"a":"x","b":1}}),
            vec![
                r#"spec.m: Too many: 2: must have at most 1 item"#,
                r#"spec.m.b: Invalid value: "integer": spec.m.b in body must be of type string: "integer""#,
                r#"spec.p: Invalid value: "a": spec.p in body should be at least 2 chars long"#,
                r#"spec.f: Invalid value: 3: spec.f in body should be less than or equal to 2"#,
                r#"spec.l: Invalid value: 0: spec.l in body should have at least 1 items"#,
                r#"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"#,
            ],
        ),
        (
            json!({"must":"","l":["a","b","c"],"t":5,"ios":true}),
            vec![
                r#"spec.l: Too many: 3: must have at most 2 items"#,
                r#"spec.t: Invalid value: "int64": spec.t in body must be of type date-time: "int64""#,
                r#"spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean""#,
                r#"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"#,
            ],
        ),
        (
            json!({"must":"","emb":{"kind":"A_b","apiVersion":"a/b/c"}}),
            vec![
                r#"spec.emb.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
                r#"spec.emb.kind: Invalid value: "A_b": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#,
            ],
        ),
        (
            json!({"must":"","one":{}}),
            vec![
                r#"<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid"#,
                r#"spec.one.a: Required value"#,
                r#"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"#,
            ],
        ),
        (
            json!({"must":"","one":{"a":"","b":""},"r":{"x":2,"y":1}}),
            vec![
                r#"<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
                r#"spec.r.x: Invalid value: "object": failed rule: self.x <= self.y"#,
            ],
        ),
        (
            json!({"must":"","r":{"x":2}}),
            vec![r#"spec.r: Invalid value: "object": no such key: y evaluating rule: self.x <= self.y"#],
        ),
        (
            json!({"must":null,"e":"q","r":{"x":2}}),
            vec![
                r#"spec.e: Unsupported value: "q": supported values: "a", "b""#,
                r#"spec.must: Required value"#,
                r#"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"#,
            ],
        ),
    ];
    let schema = Structural::compile(&schema()).expect("the real server took it");
    for (spec, mut expected) in cases {
        let mut object = json!({"spec": spec});
        schema.default(&mut object);
        let mut found: Vec<String> = schema.validate(&object, None).iter().map(ToString::to_string).collect();
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{spec}");
    }
}
