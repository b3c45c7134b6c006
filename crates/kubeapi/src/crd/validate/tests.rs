use serde_json::{Value, json};

use super::super::{default, prepare_create, prepare_update};
use super::*;

fn good() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}},
                }}},
            }],
        },
    })
}

/// A good CRD with values put in by JSON pointer.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut crd = good();
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        crd.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}"))[name] = value.clone();
    }
    crd
}

fn created(mut crd: Value) -> Vec<String> {
    default(&mut crd);
    prepare_create(&mut crd);
    validate(&crd).iter().map(ToString::to_string).collect()
}

#[test]
fn good_ones_pass() {
    assert_eq!(created(good()), [""; 0]);
    let full = with(&[
        ("/spec/names/shortNames", json!(["fo"])),
        (
            "/spec/versions/0/subresources",
            json!({"status": {}, "scale": {
            "specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}}),
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "N", "type": "integer", "jsonPath": ".spec.n"}]),
        ),
        ("/spec/versions/0/selectableFields", json!([{"jsonPath": ".spec.s"}])),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "a", "namespace": "b", "path": "/convert"}}}}),
        ),
    ]);
    assert_eq!(created(full), [""; 0]);
}

#[test]
fn wrong_names_and_scopes() {
    let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    type Case<'a> = (&'a [(&'a str, Value)], Vec<String>);
    let cases: [Case<'_>; 9] = [
        (
            &[("/metadata/name", json!("bars.example.com"))],
            vec![r#"metadata.name: Invalid value: "bars.example.com": must be spec.names.plural+"."+spec.group"#.into()],
        ),
        (
            &[("/spec/group", json!("example")), ("/metadata/name", json!("foos.example"))],
            vec![r#"spec.group: Invalid value: "example": should be a domain with at least one dot"#.into()],
        ),
        (
            &[("/spec/scope", json!("Everywhere"))],
            vec![r#"spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced""#.into()],
        ),
        (&[("/spec/scope", json!(null))], vec!["spec.scope: Required value".into()]),
        (
            &[("/spec/names/kind", json!(""))],
            vec![
                "spec.names.singular: Required value".into(),
                "spec.names.kind: Required value".into(),
                "spec.names.listKind: Required value".into(),
            ],
        ),
        (
            &[("/spec/names/shortNames", json!(["F"]))],
            vec![format!(r#"spec.names.shortNames[0]: Invalid value: "F": {label}"#)],
        ),
        (
            &[("/spec/names/listKind", json!("Foo"))],
            vec![r#"spec.names.listKind: Invalid value: "Foo": kind and listKind may not be the same"#.into()],
        ),
        (
            &[("/spec/versions/0/name", json!("1"))],
            vec![format!(r#"spec.versions[0].name: Invalid value: "1": {label}"#)],
        ),
        (
            &[("/spec/group", json!("x.k8s.io")), ("/metadata/name", json!("foos.x.k8s.io"))],
            vec![
                r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#.into(),
            ],
        ),
    ];
    for (changes, expected) in cases {
        assert_eq!(created(with(changes)), expected);
    }
}

#[test]
fn wrong_versions() {
    let second = |storage: bool, name: &str| {
        let version = json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"x": {"type": "string"}}}}});
        let mut crd = good();
        crd["spec"]["versions"].as_array_mut().unwrap().push(version);
        crd
    };
    assert_eq!(created(second(false, "v2")), [""; 0]);
    let errors = created(second(true, "v2"));
    assert!(errors[0].ends_with("must have exactly one version marked as storage version"), "{errors:?}");
    let errors = created(second(false, "v1"));
    assert!(errors[0].ends_with("must contain unique version names"), "{errors:?}");
    let mut different = second(false, "v2");
    different["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["x"] = json!({});
    assert_eq!(
        created(different),
        [
            "spec.versions[1].schema.openAPIV3Schema.properties[x].type: Required value: must not be empty for specified object fields"
        ]
    );
    let no_schema = with(&[("/spec/versions/0/schema", json!(null))]);
    assert_eq!(created(no_schema), ["spec.versions[0].schema.openAPIV3Schema: Required value"]);
    let warning = with(&[("/spec/versions/0/deprecationWarning", json!("x"))]);
    assert_eq!(
        created(warning),
        [
            r#"spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions"#
        ]
    );
}

#[test]
fn wrong_parts_of_a_single_version() {
    let version = "/spec/versions/0";
    let cases = [
        (
            "schema",
            json!({"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}),
            "spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            "subresources",
            json!({"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}),
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec"#,
        ),
        (
            "subresources",
            json!({"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": "x"}}),
            r#"spec.subresources.scale.labelSelectorPath: Invalid value: "x": must be a simple json path starting with ."#,
        ),
        (
            "additionalPrinterColumns",
            json!([{"name": "N", "type": "int", "jsonPath": ".spec.n"}]),
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "int": must be one of boolean,date,integer,number,string"#,
        ),
        (
            "additionalPrinterColumns",
            json!([{"name": "N", "type": "integer", "jsonPath": "spec.n"}]),
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.n": must be a simple json path starting with ."#,
        ),
        (
            "selectableFields",
            json!([{"jsonPath": ".spec.nope"}]),
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.nope": is an invalid path: does not refer to a valid field"#,
        ),
        (
            "selectableFields",
            json!([{"jsonPath": ".spec"}]),
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#,
        ),
        (
            "selectableFields",
            json!([{"jsonPath": ".spec.s"}, {"jsonPath": ".spec.s"}]),
            r#"spec.selectableFields[1].jsonPath: Duplicate value: ".spec.s""#,
        ),
    ];
    for (part, value, error) in cases {
        assert_eq!(created(with(&[(&format!("{version}/{part}"), value)])), [error]);
    }
}

#[test]
fn wrong_conversions() {
    let webhook = |client: Value, reviews: Value| json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": reviews}});
    let service = json!({"service": {"name": "a", "namespace": "b"}});
    let cases = [
        (
            json!({"strategy": "Magic"}),
            r#"spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook""#,
        ),
        (
            json!({"strategy": "None", "webhook": {"clientConfig": service}}),
            "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
        ),
        (
            webhook(json!(null), json!(["v1"])),
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        ),
        (
            webhook(json!({}), json!(["v1"])),
            "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required",
        ),
        (
            webhook(json!({"url": "http://a/b"}), json!(["v1"])),
            r#"spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
        ),
        (webhook(service.clone(), json!([])), "spec.conversion.conversionReviewVersions: Required value"),
        (
            webhook(service, json!(["v9"])),
            r#"spec.conversion.conversionReviewVersions: Invalid value: ["v9"]: must include at least one of v1, v1beta1"#,
        ),
        (
            webhook(json!({"service": {"name": "a", "namespace": "b", "port": 0}}), json!(["v1"])),
            "spec.conversion.webhookClientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
        ),
        (
            webhook(json!({"service": {"name": "a", "namespace": "b", "path": "x"}}), json!(["v1"])),
            r#"spec.conversion.webhookClientConfig.service.path: Invalid value: "x": must start with a '/'"#,
        ),
    ];
    for (conversion, error) in cases {
        let errors = created(with(&[("/spec/conversion", conversion.clone())]));
        assert_eq!(errors[0], error, "{conversion}");
    }
}

#[test]
fn what_may_not_change() {
    let mut old = good();
    default(&mut old);
    prepare_create(&mut old);
    let updated = |old: &Value, changes: &[(&str, Value)]| -> Vec<String> {
        let mut new = with(changes);
        default(&mut new);
        prepare_update(&mut new, old);
        validate_update(&new, old).iter().map(ToString::to_string).collect()
    };
    assert_eq!(updated(&old, &[]), [""; 0]);
    assert_eq!(updated(&old, &[("/spec/scope", json!("Cluster"))]), [""; 0]);
    assert_eq!(
        updated(&old, &[("/spec/group", json!("other.com"))]),
        [r#"spec.group: Invalid value: "other.com": field is immutable"#]
    );
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    assert_eq!(
        updated(&old, &[("/spec/scope", json!("Cluster"))]),
        [r#"spec.scope: Invalid value: "Cluster": field is immutable"#]
    );
    assert_eq!(
        updated(&old, &[("/spec/versions/0/name", json!("v2"))]),
        [
            r#"status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"#
        ]
    );
    assert_eq!(
        updated(&old, &[("/spec/preserveUnknownFields", json!(true))]),
        [
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        ]
    );
}
