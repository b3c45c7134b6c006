use serde_json::{Value, json};

use super::super::Structural;
use crate::Path;

fn compile(schema: Value) -> Structural {
    Structural::compile(&schema).unwrap_or_else(|errors| panic!("{schema}: {errors:?}"))
}

fn texts(schema: &Structural, object: &Value, old: Option<&Value>) -> Vec<String> {
    schema.validate(object, old).iter().map(ToString::to_string).collect()
}

/// A schema whose `spec` has these properties and one rule.
fn spec(properties: Value, rule: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": properties, "x-kubernetes-validations": [rule],
    }}})
}

#[test]
fn a_broken_rule_says_so() {
    let numbers = json!({"min": {"type": "integer"}, "max": {"type": "integer"}});
    let rule = "self.min <= self.max";
    let object = json!({"spec": {"min": 2, "max": 1}});
    let cases = [
        (json!({"rule": rule}), r#"spec: Invalid value: "object": failed rule: self.min <= self.max"#),
        (json!({"rule": rule, "message": "no "}), r#"spec: Invalid value: "object": no"#),
        (
            json!({"rule": rule, "message": "no", "messageExpression": "'%d > %d'.format([self.min, self.max])"}),
            r#"spec: Invalid value: "object": 2 > 1"#,
        ),
        (
            json!({"rule": rule, "message": "no", "messageExpression": "'a\\nb'"}),
            r#"spec: Invalid value: "object": no"#,
        ),
        (
            json!({"rule": rule, "message": "no", "fieldPath": ".max"}),
            r#"spec.max: Invalid value: "object": no"#,
        ),
        (json!({"rule": rule, "message": "no", "reason": "FieldValueForbidden"}), "spec: Forbidden: no"),
        (json!({"rule": rule, "message": "no", "reason": "FieldValueRequired"}), "spec: Required value: no"),
        (
            json!({"rule": rule, "message": "no", "reason": "FieldValueDuplicate"}),
            r#"spec: Duplicate value: "object""#,
        ),
    ];
    for (rule, error) in cases {
        let schema = compile(spec(numbers.clone(), rule));
        assert_eq!(texts(&schema, &object, None), [error]);
        assert_eq!(texts(&schema, &json!({"spec": {"min": 1, "max": 1}}), None), [""; 0]);
    }
}

#[test]
fn places_in_lists_and_maps() {
    let positive = json!([{"rule": "self > 0"}]);
    let schema = compile(json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": positive}},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": positive}},
    }}));
    assert_eq!(
        texts(&schema, &json!({"list": [1, -1], "map": {"a.b": 0}}), None),
        [
            r#"list[1]: Invalid value: "integer": failed rule: self > 0"#,
            r#"map[a.b]: Invalid value: "integer": failed rule: self > 0"#,
        ]
    );
}

#[test]
fn rules_see_what_kubernetes_shows_them() {
    let properties = json!({
        "namespace": {"type": "string"}, "a-b": {"type": "string"}, "a_b": {"type": "string"},
        "when": {"type": "string", "format": "date-time"}, "for": {"type": "string", "format": "duration"},
        "bytes": {"type": "string", "format": "byte"}, "float": {"type": "number"},
        "either": {"x-kubernetes-int-or-string": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "absent": {"type": "string"},
    });
    let object = json!({"metadata": {"name": "x"}, "spec": {
        "namespace": "ns", "a-b": "dash", "a_b": "underscore", "when": "2024-01-02T00:00:00Z", "for": "1h30m",
        "bytes": "aGk=", "float": 1, "either": "50%", "labels": {"a/b": "c"}, "list": [{"n": 1}, {"n": 2}],
    }});
    let rules = [
        "self.__namespace__ == 'ns' && self.a__dash__b == 'dash' && self.a_b == 'underscore'",
        "self.when > timestamp('2024-01-01T00:00:00Z')",
        "self.__for__ == duration('90m')",
        "self.bytes == b'hi'",
        "self.float / 2.0 == 0.5",
        "type(self.either) == string ? self.either.matches('^[0-9]+%$') : self.either > 0",
        "'a/b' in self.labels && self.labels['a/b'] == 'c'",
        "self.labels.all(k, k.startsWith('a'))",
        "self.list.exists(i, i.n == 2) && self.list.map(i, i.n).sum() == 3",
        "self.list.all(x, self.list.exists_one(y, x.n == y.n))",
        "!has(self.absent) && has(self.list)",
        "self.?absent.orValue('d') == 'd'",
        "quantity('1Gi').isGreaterThan(quantity('1Mi')) && isURL('https://a') && !format.dns1123Label().validate('a').hasValue()",
        "self.list.filter(i, i.n > 1).size() == 1",
        "sets.contains([1, 2], [1]) && math.greatest(1, 2) == 2",
    ];
    for rule in rules {
        let schema = compile(spec(properties.clone(), json!({"rule": rule})));
        assert_eq!(texts(&schema, &object, None), [""; 0], "{rule}");
    }
    let root = compile(json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith('y')", "message": "wants a y"},
    ]}));
    assert_eq!(texts(&root, &object, None), [r#"<nil>: Invalid value: "object": wants a y"#]);
}

#[test]
fn transition_rules_need_an_old_value() {
    let properties = json!({
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]},
        "list": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object", "required": ["k"],
                "properties": {"k": {"type": "string"}, "n": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.n >= oldSelf.n", "message": "grows"}],
            },
        },
        "set_once": {"type": "string"},
    });
    let rule = json!({
        "rule": "!oldSelf.hasValue() || !has(oldSelf.value().set_once) || has(self.set_once)", "message": "kept",
        "optionalOldSelf": true,
    });
    let schema = compile(spec(properties, rule));
    let object = |fixed: &str, a: i64, b: i64| json!({"spec": {"fixed": fixed, "set_once": "x", "list": [{"k": "a", "n": a}, {"k": "b", "n": b}]}});
    let old = object("x", 5, 5);
    let swapped = json!({"spec": {"fixed": "x", "set_once": "x", "list": [{"k": "b", "n": 5}, {"k": "a", "n": 6}, {"k": "c", "n": 0}]}});
    assert_eq!(texts(&schema, &object("y", 0, 0), None), [""; 0]);
    assert_eq!(texts(&schema, &swapped, Some(&old)), [""; 0]);
    assert_eq!(
        texts(&schema, &object("y", 5, 4), Some(&old)),
        [r#"spec.fixed: Invalid value: "string": fixed"#, r#"spec.list[1]: Invalid value: "object": grows"#,]
    );
    assert_eq!(
        texts(&schema, &json!({"spec": {"fixed": "x", "list": []}}), Some(&old)),
        [r#"spec: Invalid value: "object": kept"#]
    );
}

#[test]
fn broken_rules_are_tolerated_where_nothing_changed() {
    let schema = compile(json!({"type": "object", "properties": {
        "a": {"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.n > 0"}]},
        "b": {"type": "string"},
    }}));
    let old = json!({"a": {"n": 0}, "b": "x"});
    assert_eq!(texts(&schema, &json!({"a": {"n": 0}, "b": "y"}), Some(&old)), [""; 0]);
    assert_eq!(texts(&schema, &json!({"a": {"n": -1}, "b": "x"}), Some(&old)).len(), 1);
    assert_eq!(texts(&schema, &old, None).len(), 1);
}

#[test]
fn rules_wait_until_the_rest_is_right() {
    let schema = compile(spec(
        json!({"a": {"type": "string"}, "n": {"type": "integer"}}),
        json!({"rule": "self.a == 'x'"}),
    ));
    let unchecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    let errors = texts(&schema, &json!({"spec": {"a": "y", "n": "1"}}), None);
    assert_eq!(errors.len(), 2);
    assert_eq!(errors[1], unchecked);
}

#[test]
fn evaluation_can_fail() {
    let properties = json!({"a": {"type": "integer"}, "l": {"type": "array", "items": {"type": "integer"}}});
    let cases = [
        ("self.a > 0", json!({}), "no such key: a evaluating rule: self.a > 0"),
        ("1 / self.a > 0", json!({"a": 0}), "division by zero evaluating rule: 1 / self.a > 0"),
        (
            "self.l[0] + 'x' == ''",
            json!({"l": [1]}),
            "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self.l[0] + 'x' == ''",
        ),
    ];
    for (rule, object, error) in cases {
        let schema = compile(spec(properties.clone(), json!({"rule": rule})));
        let error = format!(r#"spec: Invalid value: "object": {error}"#);
        assert_eq!(texts(&schema, &json!({"spec": object}), None), [error]);
    }
}

#[test]
fn what_cannot_be_asked_is_refused_with_the_schema() {
    let properties = json!({
        "a": {"type": "string"},
        "l": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    });
    let cases = [
        (json!({"rule": "self.a =="}), ".rule", "compilation failed: "),
        (json!({"rule": "self.nope == 'x'"}), ".rule", "compilation failed: undefined field 'nope'"),
        (json!({"rule": "has(self.nope)"}), ".rule", "compilation failed: undefined field 'nope'"),
        (json!({"rule": "self.l.all(i, i.nope > 0)"}), ".rule", "compilation failed: undefined field 'nope'"),
        (json!({"rule": "other.a == 'x'"}), ".rule", "compilation failed: undeclared reference to 'other'"),
        (
            json!({"rule": "self.a.frobnicate()"}),
            ".rule",
            "compilation failed: undeclared reference to 'frobnicate'",
        ),
        (
            json!({"rule": "self.l.sortBy(i, i.n).size() > 0"}),
            ".rule",
            "compilation failed: undeclared reference to",
        ),
        (json!({"rule": "self.a"}), ".rule", "cel expression must evaluate to a bool"),
        (
            json!({"rule": "self.a == 'x'", "messageExpression": "1 == 1"}),
            ".messageExpression",
            "messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "self.a == 'x'", "messageExpression": "self.b"}),
            ".messageExpression",
            "compilation failed: undefined field 'b'",
        ),
        (
            json!({"rule": "self.a == 'x'", "optionalOldSelf": true}),
            ".optionalOldSelf",
            "may not be set if oldSelf is not used in rule",
        ),
    ];
    for (rule, field, why) in cases {
        let errors = Structural::compile(&spec(properties.clone(), rule.clone())).unwrap_err();
        let path = format!("openAPIV3Schema.properties[spec].x-kubernetes-validations[0]{field}");
        assert_eq!((errors.len(), errors[0].path.as_str()), (1, path.as_str()), "{rule}");
        assert!(errors[0].detail.starts_with(why), "{rule}: {}", errors[0]);
    }
    let errors =
        Structural::compile(&json!({"type": "object", "properties": {"l": {"type": "array", "items": {
        "type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}}))
        .unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        r#"openAPIV3Schema.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within openAPIV3Schema.properties[l]"#
    );
}

#[test]
fn loops_are_ended_when_they_cost_too_much() {
    let list = json!({"l": {"type": "array", "items": {"type": "integer"}}});
    let numbers = |count: i64| json!({"spec": {"l": (0..count).collect::<Vec<_>>()}});
    let nested = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))";
    let schema = compile(spec(list.clone(), json!({"rule": nested, "message": "m"})));
    assert_eq!(texts(&schema, &numbers(10), None), [""; 0]);
    assert_eq!(
        texts(&schema, &numbers(1000), None),
        [
            r#"spec: Invalid value: "object": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: m"#
        ]
    );
    let each = json!({"type": "object", "properties": {"l": {"type": "array", "items": {
        "type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, a + b >= 0))"}],
    }}}});
    let rows = |count: usize| json!({"l": vec![(0..200).collect::<Vec<i64>>(); count]});
    let schema = compile(each);
    let (errors, left) = super::validate(schema.node(), &rows(1), None, &Path::root(), 1_000_000);
    let cost = 1_000_000 - left.unwrap();
    assert!(errors.is_empty() && cost > 200 * 200, "{cost}");
    let (errors, left) = super::validate(schema.node(), &rows(3), None, &Path::root(), cost * 5 / 2);
    assert_eq!((errors.len(), left), (1, None));
    assert_eq!(
        errors[0].to_string(),
        r#"l[2]: Invalid value: "array": validation failed due to running out of cost budget, no further validation rules will be run"#
    );
}
