use super::*;

/// A definition with one version `v1` and the given schema of `spec`.
fn definition(spec: Value) -> Value {
    json!({
        "metadata": {"name": "things.example.io", "labels": {"installed": "somehow"}},
        "spec": {
            "group": "example.io",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

fn changed(mut definition: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    definition.pointer_mut(parent).unwrap()[key] = value;
    definition
}

#[test]
fn same_structure_in_other_words() {
    let cases = [
        ("descriptions", json!({"type": "string", "description": "a"}), json!({"type": "string"})),
        (
            "int or string",
            json!({"x-kubernetes-int-or-string": true}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ),
        (
            "spelling of numbers",
            json!({"type": "integer", "minimum": 1.0}),
            json!({"type": "integer", "minimum": 1}),
        ),
        (
            "order",
            json!({"required": ["a", "b"], "enum": ["x", "y"]}),
            json!({"required": ["b", "a"], "enum": ["y", "x"]}),
        ),
        ("what is said by saying nothing", json!({"nullable": false}), json!({})),
        (
            "messages of rules",
            json!({"x-kubernetes-validations": [{"rule": "self > 1", "message": "ours"}]}),
            json!({"x-kubernetes-validations": [{"rule": "self > 1", "message": "theirs"}]}),
        ),
    ];
    for (name, ours, upstream) in cases {
        assert_eq!(differences(&definition(ours), &definition(upstream)), [""; 0], "{name}");
    }
}

#[test]
fn differences_of_schemas() {
    let string = json!({"type": "string"});
    let cases = [
        (string.clone(), json!({"type": "boolean"}), r#".spec: type ours="string" upstream="boolean""#),
        (
            json!({"type": "integer", "format": "int32"}),
            json!({"type": "integer", "format": "int64"}),
            r#".spec: format ours="int32" upstream="int64""#,
        ),
        (json!({"required": ["a"]}), json!({}), r#".spec: required ours=["a"] upstream=absent"#),
        (json!({"enum": ["a"]}), json!({"enum": ["b", "a"]}), r#".spec: enum ours=["a"] upstream=["a","b"]"#),
        (json!({"maxLength": 3}), json!({"maxLength": 4.0}), ".spec: maxLength ours=3 upstream=4"),
        (json!({"minProperties": 1}), json!({}), ".spec: minProperties ours=1 upstream=absent"),
        (json!({"minimum": 0}), json!({"minimum": 0.5}), ".spec: minimum ours=0 upstream=0.5"),
        (json!({"pattern": "^a$"}), json!({"pattern": "^b$"}), r#".spec: pattern ours="^a$" upstream="^b$""#),
        (
            json!({"x-kubernetes-list-type": "atomic"}),
            json!({"x-kubernetes-list-type": "set"}),
            r#".spec: list-type ours="atomic" upstream="set""#,
        ),
        (
            json!({"x-kubernetes-list-map-keys": ["name"]}),
            json!({"x-kubernetes-list-map-keys": ["type"]}),
            r#".spec: list-map-keys ours=["name"] upstream=["type"]"#,
        ),
        (
            json!({}),
            json!({"x-kubernetes-map-type": "atomic"}),
            r#".spec: map-type ours=absent upstream="atomic""#,
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            json!({}),
            ".spec: preserve-unknown-fields ours=true upstream=absent",
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            string.clone(),
            ".spec: int-or-string ours=true upstream=absent\n.spec: type ours=absent upstream=\"string\"",
        ),
        (json!({"default": 1}), json!({"default": 2}), ".spec: default ours=1 upstream=2"),
        (json!({"default": false}), json!({"default": true}), ".spec: default ours=false upstream=true"),
        (json!({"default": false}), json!({}), ".spec: default ours=false upstream=absent"),
        (json!({"nullable": true}), json!({}), ".spec: nullable ours=true upstream=absent"),
        (
            json!({"x-kubernetes-validations": [{"rule": "self > 1"}]}),
            json!({"x-kubernetes-validations": [{"rule": "self > 2"}]}),
            r#".spec: validations ours=["self > 1"] upstream=["self > 2"]"#,
        ),
        (json!({}), json!({"not": {"type": "null"}}), r#".spec: not ours=absent upstream={"type":"null"}"#),
        (
            json!({"properties": {"mine": string, "both": string}}),
            json!({"properties": {"both": string, "theirs": {}}}),
            ".spec.mine: field ours=\"string\" upstream=absent\n.spec.theirs: field ours=absent upstream=\"anything\"",
        ),
        (
            json!({"properties": {"list": {"items": {"maxLength": 1}}}}),
            json!({"properties": {"list": {"items": {"maxLength": 2}}}}),
            ".spec.list[]: maxLength ours=1 upstream=2",
        ),
        (
            json!({"additionalProperties": {"properties": {"deep": string}}}),
            json!({"additionalProperties": {"properties": {"deep": {"type": "object"}}}}),
            r#".spec{}.deep: type ours="string" upstream="object""#,
        ),
        (json!({"items": string}), json!({}), r#".spec[]: values ours="string" upstream=absent"#),
        (
            json!({"additionalProperties": true}),
            json!({"additionalProperties": string}),
            r#".spec{}: values ours=true upstream="string""#,
        ),
    ];
    for (ours, upstream, expected) in cases {
        let expected: Vec<String> = expected.lines().map(|line| format!("things v1 {line}")).collect();
        assert_eq!(differences(&definition(ours), &definition(upstream)), expected);
    }
}

#[test]
fn differences_around_schemas() {
    let column = json!({"name": "Age", "type": "date", "jsonPath": ".age", "description": "words"});
    let wide = json!({"name": "Age", "type": "date", "jsonPath": ".age", "priority": 10});
    let scale = json!({"scale": {"specReplicasPath": ".spec.replicas"}, "status": {}});
    let cases = [
        ("/spec/group", json!("example.com"), r#"things: group ours="example.io" upstream="example.com""#),
        ("/spec/scope", json!("Cluster"), r#"things: scope ours="Namespaced" upstream="Cluster""#),
        ("/spec/names/kind", json!("Ding"), r#"things: kind ours="Thing" upstream="Ding""#),
        ("/spec/names/shortNames", json!(["t"]), r#"things: shortNames ours=absent upstream=["t"]"#),
        ("/spec/names/categories", json!(["all"]), r#"things: categories ours=absent upstream=["all"]"#),
        ("/spec/versions/0/storage", json!(false), "things v1: storage ours=true upstream=false"),
        ("/spec/versions/0/deprecated", json!(true), "things v1: deprecated ours=false upstream=true"),
        (
            "/spec/versions/0/subresources",
            scale,
            "things v1: scale subresource ours=absent upstream={\"specReplicasPath\":\".spec.replicas\"}\n\
             things v1: status subresource ours=absent upstream={}",
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([column, wide]),
            "things v1: column 1 ours=absent upstream=\"Age date .age 0\"\n\
             things v1: column 2 ours=absent upstream=\"Age date .age 10\"",
        ),
        (
            "/spec/versions/0/name",
            json!("v2"),
            "things v1: version ours=\"served\" upstream=absent\n\
             things v2: version ours=absent upstream=\"served\"",
        ),
        ("/metadata/labels", json!({}), ""),
    ];
    for (pointer, value, expected) in cases {
        let ours = definition(json!({"type": "object"}));
        let upstream = changed(ours.clone(), pointer, value);
        assert_eq!(differences(&ours, &upstream), expected.lines().collect::<Vec<_>>());
    }
}
