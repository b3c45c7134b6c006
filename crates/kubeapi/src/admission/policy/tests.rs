use serde_json::json;

use super::*;

fn evaluate(spec: Value, params: Value) -> Evaluated {
    let policy = Policy::read(&json!({"spec": spec})).unwrap();
    let object = json!({"metadata": {"name": "a", "namespace": "n", "labels": {"x/y": "z"}}, "spec": {"replicas": 5, "on": true}});
    let request =
        json!({"operation": "CREATE", "userInfo": {"username": "u", "groups": ["g"]}, "namespace": "n"});
    policy.evaluate(PolicyInputs {
        request: &request,
        object: &object,
        old_object: &Value::Null,
        namespace: &json!({"metadata": {"name": "n", "labels": {"env": "prod"}}}),
        params: &params,
    })
}

fn deny(message: &str) -> Decision {
    Decision::Deny { message: message.into(), reason: "Invalid".into() }
}

fn failed(message: &str) -> Decision {
    Decision::Deny { message: message.into(), reason: String::new() }
}

#[test]
fn expressions_see_the_request() {
    for (expression, wanted) in [
        ("object.spec.replicas <= 5", Decision::Admit),
        ("object.spec.replicas < 5", deny("failed expression: object.spec.replicas < 5")),
        ("object.metadata.namespace == request.namespace", Decision::Admit),
        ("object.metadata.labels['x/y'] == 'z'", Decision::Admit),
        ("oldObject == null", Decision::Admit),
        ("has(object.spec.paused) || object.spec.on", Decision::Admit),
        ("!has(oldObject.spec)", Decision::Admit),
        ("request.operation == 'CREATE' && 'g' in request.userInfo.groups", Decision::Admit),
        ("namespaceObject.metadata.labels.env == 'prod'", Decision::Admit),
        ("object.?spec.?none.orValue(3) == 3", Decision::Admit),
        ("object.spec.replicas <= params.most", Decision::Admit),
        (
            "object.spec.none == 1",
            failed("expression 'object.spec.none == 1' resulted in error: no such key: none"),
        ),
        (
            "oldObject.spec.replicas == 1",
            failed("expression 'oldObject.spec.replicas == 1' resulted in error: no such overload"),
        ),
        ("[1, 2].all(variables, variables > 0)", Decision::Admit),
    ] {
        let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "X"}, "validations": [{"expression": expression}]});
        let evaluated = evaluate(spec, json!({"most": 7}));
        assert_eq!(evaluated.decisions, [wanted], "{expression}");
    }
}

#[test]
fn variables_are_lazy_and_build_on_each_other() {
    let variables = json!([
        {"name": "replicas", "expression": "object.spec.replicas"},
        {"name": "twice", "expression": "variables.replicas * 2"},
        {"name": "broken", "expression": "object.spec.none"},
        {"name": "brokenToo", "expression": "variables.broken + 1"},
    ]);
    for (expression, wanted) in [
        ("variables.twice == 10", Decision::Admit),
        ("has(variables.broken)", Decision::Admit),
        ("variables.twice == 10 || variables.broken == 1", Decision::Admit),
        ("object.spec.on ? true : variables.brokenToo == 1", Decision::Admit),
        (
            "variables.broken == 1",
            failed(
                "expression 'variables.broken == 1' resulted in error: composited variable \"broken\" fails to evaluate: no such key: none",
            ),
        ),
        (
            "variables.brokenToo == 1",
            failed(
                "expression 'variables.brokenToo == 1' resulted in error: composited variable \"brokenToo\" fails to evaluate: composited variable \"broken\" fails to evaluate: no such key: none",
            ),
        ),
    ] {
        let spec = json!({"variables": variables, "validations": [{"expression": expression}]});
        assert_eq!(evaluate(spec, Value::Null).decisions, [wanted], "{expression}");
    }
}

#[test]
fn refusals_have_words_and_reasons() {
    let no = "object.spec.replicas > 9";
    for (validation, wanted) in [
        (json!({"expression": no, "message": " too few "}), deny("too few")),
        (
            json!({"expression": no, "message": "m", "messageExpression": "'have ' + string(object.spec.replicas)"}),
            deny("have 5"),
        ),
        (json!({"expression": no, "message": "m", "messageExpression": "object.spec.none"}), deny("m")),
        (json!({"expression": no, "message": "m", "messageExpression": "' '"}), deny("m")),
        (json!({"expression": no, "message": "m", "messageExpression": "'a\\nb'"}), deny("m")),
        (
            json!({"expression": no, "reason": "Forbidden"}),
            Decision::Deny { message: format!("failed expression: {no}"), reason: "Forbidden".into() },
        ),
    ] {
        let evaluated = evaluate(json!({"validations": [validation]}), Value::Null);
        assert_eq!(evaluated.decisions, [wanted], "{validation}");
    }
}

#[test]
fn failures_and_conditions() {
    let broken = json!([{"expression": "object.spec.none == 1"}]);
    let ignored = evaluate(json!({"failurePolicy": "Ignore", "validations": broken}), Value::Null);
    assert_eq!(ignored.decisions, [Decision::Admit]);
    let no = json!([{"expression": "false"}]);
    for (conditions, policy, wanted) in [
        (json!([{"expression": "true"}]), "Fail", vec![deny("failed expression: false")]),
        (json!([{"expression": "true"}, {"expression": "false"}]), "Fail", vec![]),
        // One that is false outweighs one that fails.
        (json!([{"expression": "object.none"}, {"expression": "false"}]), "Fail", vec![]),
        (
            json!([{"expression": "object.none == 1"}]),
            "Fail",
            vec![failed("expression 'object.none == 1' resulted in error: no such key: none")],
        ),
        (json!([{"expression": "object.none == 1"}]), "Ignore", vec![]),
    ] {
        let spec = json!({"failurePolicy": policy, "matchConditions": conditions, "validations": no});
        assert_eq!(evaluate(spec, Value::Null).decisions, wanted, "{conditions} {policy}");
    }
}

#[test]
fn endless_work_ends() {
    let loops = (0..6).fold("true".to_owned(), |inner, depth| format!("l.all(v{depth}, {inner})"));
    let expression = loops.replace("l.", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20].");
    let spec = json!({"validations": [{"expression": expression}]});
    let Decision::Deny { message, .. } = &evaluate(spec, Value::Null).decisions[0] else {
        panic!("admitted")
    };
    assert!(message.ends_with("operation cancelled: actual cost limit exceeded"), "{message}");
}

#[test]
fn annotations_are_texts_or_nothing() {
    let annotate = |expression: &str, policy: &str| {
        evaluate(
            json!({"failurePolicy": policy, "auditAnnotations": [{"key": "k", "valueExpression": expression}]}),
            Value::Null,
        )
    };
    assert_eq!(annotate("' v '", "Fail").annotations, [("k".to_owned(), "v".to_owned())]);
    assert_eq!(annotate("null", "Fail"), Evaluated::default());
    assert_eq!(annotate("object.none", "Ignore"), Evaluated::default());
    let failed = annotate("object.none", "Fail").failed_annotations;
    assert_eq!(failed, ["expression 'object.none' resulted in error: no such key: none"]);
    let failed = annotate("object.spec.replicas", "Ignore").failed_annotations;
    assert_eq!(
        failed,
        [
            "valueExpression 'object.spec.replicas' resulted in unsupported return type: int. Return type must be either string or null."
        ]
    );
}

#[test]
fn what_cannot_be_evaluated_is_refused_before() {
    let names = Names { params: false, variables: Some(Vec::new()) };
    for (part, source, wanted) in [
        (Part::Validation, "object.a == 1", None),
        (Part::Validation, "object.on", Some("must evaluate to bool but got dyn")),
        (Part::Validation, "'a'", Some("must evaluate to bool but got string")),
        (Part::Validation, "1", Some("must evaluate to bool")),
        (Part::Validation, "params.a == 1", Some("compilation failed: undeclared reference to 'params'")),
        (Part::Validation, "variables.a == 1", Some("compilation failed: undefined field 'a'")),
        (Part::Validation, "variables == null", Some("compilation failed: 'variables' has to be followed")),
        (
            Part::Validation,
            "authorizer.group('').resource('pods').check('get').allowed()",
            Some("compilation failed: undeclared reference to 'authorizer'"),
        ),
        (Part::Validation, "request.none == 1", Some("compilation failed: undefined field 'none'")),
        (Part::Validation, "request.kind.kind == 'Pod'", None),
        (
            Part::Validation,
            "namespaceObject.metadata.none == ''",
            Some("compilation failed: undefined field"),
        ),
        (
            Part::Validation,
            "Object{a: 1} == null",
            Some("compilation failed: undeclared reference to 'Object'"),
        ),
        (Part::Validation, "object.a ==", Some("compilation failed: ")),
        (Part::Message, "'a' + string(object.a)", None),
        (Part::Message, "true", Some("must evaluate to string but got bool")),
        (Part::Annotation, "true", Some("must evaluate to one of [string null_type] but got bool")),
    ] {
        match (wrong_part(part, source, &names), wanted) {
            (None, None) => {}
            (Some(why), Some(wanted)) => assert!(why.starts_with(wanted), "{source}: {why}"),
            (found, wanted) => panic!("{source}: {found:?}, not {wanted:?}"),
        }
    }
}
