//! ValidatingAdmissionPolicies.

use apiserver::server::Server;
use kubeapi::authn::User;
use serde_json::{Value, json};

use crate::asked::CONFIGURATIONS;
use crate::support::{ask, ok, refused, request, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

/// A policy for ConfigMaps; `more` goes over its spec.
fn policy(name: &str, more: Value) -> Value {
    let mut spec = json!({
        "matchConstraints": {"resourceRules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
    });
    more.as_object().unwrap().iter().for_each(|(field, value)| spec[field] = value.clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn binding(name: &str, more: Value) -> Value {
    let mut spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    more.as_object().unwrap().iter().for_each(|(field, value)| spec[field] = value.clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn set(server: &Server, policy: Value, bindings: Vec<Value>) {
    for plural in ["validatingadmissionpolicies", "validatingadmissionpolicybindings"] {
        ok(server, "DELETE", &format!("{CONFIGURATIONS}/{plural}"), Value::Null).await;
    }
    ok(server, "POST", &format!("{CONFIGURATIONS}/validatingadmissionpolicies"), policy).await;
    for binding in bindings {
        ok(server, "POST", &format!("{CONFIGURATIONS}/validatingadmissionpolicybindings"), binding).await;
    }
}

const DENIED: &str =
    "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";

#[tokio::test]
async fn writes_are_judged() {
    let server = server().await;
    let few = json!([{"expression": "size(object.data) < 2"}]);
    let none = json!({});
    for (spec, bound, wanted) in [
        (
            json!({"validations": few}),
            none.clone(),
            Some((422, "Invalid", "failed expression: size(object.data) < 2")),
        ),
        (
            json!({"validations": [{"expression": "false", "message": "no", "reason": "Forbidden"}]}),
            none.clone(),
            Some((403, "Forbidden", "no")),
        ),
        (
            json!({"variables": [{"name": "n", "expression": "size(object.data)"}],
                "validations": [{"expression": "variables.n < 2", "messageExpression": "'found ' + string(variables.n)"}]}),
            none.clone(),
            Some((422, "Invalid", "found 2")),
        ),
        (
            json!({"validations": [{"expression": "object.none == 1"}]}),
            none.clone(),
            Some((422, "Invalid", "expression 'object.none == 1' resulted in error: no such key: none")),
        ),
        (
            json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.none == 1"}]}),
            none.clone(),
            None,
        ),
        (
            json!({"matchConditions": [{"name": "c", "expression": "request.name != 'm'"}], "validations": few}),
            none.clone(),
            None,
        ),
        (
            json!({"validations": few}),
            json!({"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}),
            None,
        ),
        (
            json!({"validations": few}),
            json!({"matchResources": {"excludeResourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "resourceNames": ["m"]}]}}),
            None,
        ),
        (json!({"validations": few}), json!({"validationActions": ["Audit"]}), None),
        (
            json!({"validations": [{"expression": "namespaceObject.metadata.name != 'default'", "message": "here"}]}),
            none.clone(),
            Some((422, "Invalid", "here")),
        ),
        (
            json!({"auditAnnotations": [{"key": "k", "valueExpression": "'x' + object.none"}]}),
            none,
            Some((422, "Invalid", "expression ''x' + object.none' resulted in error: no such key: none")),
        ),
    ] {
        set(&server, policy("p", spec.clone()), vec![binding("b", bound.clone())]).await;
        let body = map("m", json!({"a": "1", "b": "2"}));
        let answer = ask(&server, "POST", &format!("{MAPS}?dryRun=All"), Some(body)).await;
        match (answer, wanted) {
            (Ok(_), None) => {}
            (Err(status), Some((code, reason, why))) => {
                let found = (status.code, status.reason.as_str(), status.message.clone());
                assert_eq!(found, (code, reason, format!("{DENIED}{why}")), "{spec} {bound}");
                let cause = &status.details.unwrap().causes[0].message;
                assert!(cause.ends_with(why) && cause.starts_with("ValidatingAdmissionPolicy"), "{cause}");
            }
            (answer, wanted) => panic!("{spec} {bound}: {answer:?}, not {wanted:?}"),
        }
    }
}

#[tokio::test]
async fn bindings_warn_and_go_with_their_policies() {
    let server = server().await;
    let spec = json!({"validations": [{"expression": "false", "message": "no"}]});
    set(&server, policy("p", spec), vec![binding("b", json!({"validationActions": ["Warn", "Audit"]}))])
        .await;
    let answer = ask(&server, "POST", MAPS, Some(map("m", json!({})))).await.unwrap();
    assert_eq!(answer.warnings, ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no"]);
    let url = format!("{CONFIGURATIONS}/validatingadmissionpolicybindings/b");
    ok(&server, "merge", &url, json!({"spec": {"validationActions": ["Deny"]}})).await;
    refused(&server, "merge", &format!("{MAPS}/m"), json!({"data": {"a": "b"}})).await;
    // It was not asked about deletions.
    ok(&server, "DELETE", &format!("{MAPS}/m"), Value::Null).await;
    ok(&server, "DELETE", &url, Value::Null).await;
    ok(&server, "POST", MAPS, map("m", json!({}))).await;
}

#[tokio::test]
async fn parameters_are_objects() {
    let server = server().await;
    ok(&server, "POST", "/api/v1/namespaces", json!({"metadata": {"name": "far"}})).await;
    let labelled = |name: &str, most: &str| json!({"metadata": {"name": name, "labels": {"limit": "yes"}}, "data": {"most": most}});
    ok(&server, "POST", MAPS, labelled("low", "1")).await;
    ok(&server, "POST", MAPS, labelled("high", "5")).await;
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "c", "expression": "request.operation == 'CREATE'"}],
        "validations": [{"expression": "params == null || size(object.data) <= int(params.data.most)",
            "messageExpression": "'at most ' + params.data.most"}],
    });
    let allow = |mut reference: Value, action: &str| {
        reference["parameterNotFoundAction"] = json!(action);
        json!({"paramRef": reference})
    };
    let here = json!({"name": "low", "namespace": "default"});
    let missing =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    for (reference, namespace, wanted) in [
        (json!({}), "default", None),
        (allow(here.clone(), "Deny"), "default", Some("at most 1")),
        (allow(here, "Deny"), "far", Some("at most 1")),
        (allow(json!({"name": "high", "namespace": "default"}), "Deny"), "default", None),
        // Without a namespace they are in that of the object.
        (allow(json!({"name": "low"}), "Deny"), "default", Some("at most 1")),
        (allow(json!({"name": "low"}), "Deny"), "far", Some(missing)),
        (allow(json!({"name": "low"}), "Allow"), "far", None),
        (allow(json!({"selector": {"matchLabels": {"limit": "yes"}}}), "Deny"), "default", Some("at most 1")),
        (allow(json!({"selector": {"matchLabels": {"limit": "no"}}}), "Allow"), "default", None),
    ] {
        set(&server, policy("p", spec.clone()), vec![binding("b", reference.clone())]).await;
        let url = format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All");
        let answer = ask(&server, "POST", &url, Some(map("m", json!({"a": "1", "b": "2"})))).await;
        let message = answer.err().map(|status| status.message);
        assert_eq!(message, wanted.map(|why| format!("{DENIED}{why}")), "{reference} {namespace}");
    }
    let mut unknown = spec;
    unknown["paramKind"] = json!({"apiVersion": "x.example.com/v1", "kind": "Odd"});
    set(&server, policy("p", unknown), vec![binding("b", json!({}))]).await;
    let status = refused(&server, "POST", MAPS, map("m", json!({}))).await;
    assert_eq!(
        status.message,
        "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'x.example.com/v1, Kind=Odd'"
    );
}

#[tokio::test]
async fn nobody_reads_more_through_a_policy() {
    let server = server().await;
    let spec =
        json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}, "validations": [{"expression": "true"}]});
    let reference =
        json!({"paramRef": {"name": "s", "namespace": "default", "parameterNotFoundAction": "Deny"}});
    let by_nobody = |url: &str, body: Value| {
        let mut request = request("POST", url, Some(body));
        request.user = User { name: "eve".into(), ..User::default() };
        request
    };
    let url = format!("{CONFIGURATIONS}/validatingadmissionpolicies");
    let status = server.serve(&by_nobody(&url, policy("p", spec.clone()))).await.unwrap_err();
    assert!(
        status.message.ends_with(
            "spec.paramKind: Forbidden: user eve must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"
        ),
        "{}",
        status.message
    );
    set(&server, policy("p", spec), vec![]).await;
    let url = format!("{CONFIGURATIONS}/validatingadmissionpolicybindings");
    let status = server.serve(&by_nobody(&url, binding("b", reference))).await.unwrap_err();
    assert!(
        status.message.ends_with(
            "spec.paramRef: Forbidden: user eve does not have \"get\" permission on the object referenced by paramRef"
        ),
        "{}",
        status.message
    );
}

#[tokio::test]
async fn policies_are_validated() {
    let server = server().await;
    let valid = json!([{"expression": "true"}]);
    let no = |field: &str, why: &str| format!("spec.{field}: {why}");
    let url = format!("{CONFIGURATIONS}/validatingadmissionpolicies");
    for (spec, wanted) in [
        (
            json!({}),
            no(
                "validations",
                "Required value: validations or auditAnnotations must contain at least one item",
            ),
        ),
        (json!({"validations": valid, "matchConstraints": null}), no("matchConstraints", "Required value")),
        (
            json!({"validations": valid, "matchConstraints": {}}),
            no("matchConstraints.resourceRules", "Required value"),
        ),
        (
            json!({"validations": [{"expression": ""}]}),
            no("validations[0].expression", "Required value: expression is not specified"),
        ),
        (
            json!({"validations": [{"expression": "'x'"}]}),
            no("validations[0].expression", "Invalid value: \"'x'\": must evaluate to bool but got string"),
        ),
        (
            json!({"validations": [{"expression": "nothing.like == this"}]}),
            no("validations[0].expression", "Invalid value: \"nothing.like == this\": compilation failed: "),
        ),
        (
            json!({"validations": [{"expression": "variables.x == 1"}], "variables": [{"name": "y", "expression": "1"}]}),
            no(
                "validations[0].expression",
                "Invalid value: \"variables.x == 1\": compilation failed: undefined field 'x'",
            ),
        ),
        (
            json!({"validations": valid, "variables": [{"name": "1x", "expression": "1"}]}),
            no("variables[0].name", "Invalid value: \"1x\": must be a valid CEL identifier"),
        ),
        (
            json!({"validations": [{"expression": "true", "reason": "Odd"}]}),
            no(
                "validations[0].reason",
                "Unsupported value: \"Odd\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
            ),
        ),
        (
            json!({"validations": [{"expression": "true", "message": "a\nb"}]}),
            no("validations[0].message", "Invalid value: \"a\\nb\": must not contain line breaks"),
        ),
        (
            json!({"validations": valid, "paramKind": {"kind": "X"}}),
            no("paramKind.apiVersion", "Required value"),
        ),
        (
            json!({"validations": valid, "failurePolicy": "Odd"}),
            no("failurePolicy", "Unsupported value: \"Odd\""),
        ),
    ] {
        let status = refused(&server, "POST", &url, policy("p", spec.clone())).await;
        assert!(status.code == 422 && status.message.contains(&wanted), "{spec}: {}", status.message);
    }
    let url = format!("{CONFIGURATIONS}/validatingadmissionpolicybindings");
    for (spec, wanted) in [
        (json!({"policyName": ""}), no("policyName", "Required value")),
        (
            json!({"validationActions": []}),
            no("validationActions", "Required value: at least one validation action is required"),
        ),
        (
            json!({"validationActions": ["Deny", "Warn"]}),
            no(
                "validationActions",
                "Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn",
            ),
        ),
        (
            json!({"paramRef": {"parameterNotFoundAction": "Deny"}}),
            no("paramRef", "Required value: one of name or selector must be specified"),
        ),
        (json!({"paramRef": {"name": "a"}}), no("paramRef.parameterNotFoundAction", "Required value")),
    ] {
        let status = refused(&server, "POST", &url, binding("b", spec.clone())).await;
        assert!(status.code == 422 && status.message.contains(&wanted), "{spec}: {}", status.message);
    }
}
