use serde_json::json;

use super::*;

const PODS: Place<'static> = Place {
    operation: "CREATE",
    group: "",
    version: "v1",
    resource: "pods",
    subresource: "",
    namespace: "n",
    name: "p",
};
const NODES: Place<'static> = Place { resource: "nodes", namespace: "", ..PODS };
const NAMESPACES: Place<'static> = Place { resource: "namespaces", ..PODS };
const STATUS: Place<'static> = Place { subresource: "status", ..PODS };

fn rule(changes: Value) -> Rule {
    let mut rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
    for (field, value) in changes.as_object().unwrap() {
        rule[field] = value.clone();
    }
    serde_json::from_value(rule).unwrap()
}

#[test]
fn rules_match_what_they_name() {
    for (changes, place, wanted) in [
        (json!({}), PODS, true),
        (json!({"operations": ["CREATE", "UPDATE"]}), PODS, true),
        (json!({"operations": ["DELETE"]}), PODS, false),
        (json!({"apiGroups": [""]}), PODS, true),
        (json!({"apiGroups": ["apps"]}), PODS, false),
        (json!({"apiVersions": ["v1beta1", "v1"]}), PODS, true),
        (json!({"apiVersions": ["v1beta1"]}), PODS, false),
        (json!({"resources": ["pods"]}), PODS, true),
        (json!({"resources": ["nodes"]}), PODS, false),
        // `*` is no subresource, and a subresource is not the whole.
        (json!({"resources": ["*"]}), STATUS, false),
        (json!({"resources": ["pods"]}), STATUS, false),
        (json!({"resources": ["*/*"]}), STATUS, true),
        (json!({"resources": ["*/*"]}), PODS, true),
        (json!({"resources": ["pods/*"]}), STATUS, true),
        (json!({"resources": ["pods/*"]}), PODS, true),
        (json!({"resources": ["*/status"]}), STATUS, true),
        (json!({"resources": ["*/status"]}), PODS, false),
        (json!({"resources": ["pods/status"]}), STATUS, true),
        (json!({"resources": ["pods/scale"]}), STATUS, false),
        (json!({"scope": "*"}), NODES, true),
        (json!({"scope": "Namespaced"}), PODS, true),
        (json!({"scope": "Namespaced"}), NODES, false),
        (json!({"scope": "Namespaced"}), NAMESPACES, false),
        (json!({"scope": "Cluster"}), PODS, false),
        (json!({"scope": "Cluster"}), NODES, true),
        (json!({"scope": "Cluster"}), NAMESPACES, true),
    ] {
        assert_eq!(rule(changes.clone()).matches(&place), wanted, "{changes} {place:?}");
    }
}

#[test]
fn other_versions_match_if_they_may() {
    let others = [("", "v2"), ("x", "v1")];
    for (versions, policy, wanted) in [
        (json!(["v1", "v2"]), MatchPolicy::Equivalent, Some(("", "v1"))),
        (json!(["v2"]), MatchPolicy::Equivalent, Some(("", "v2"))),
        (json!(["v2"]), MatchPolicy::Exact, None),
        (json!(["v3"]), MatchPolicy::Equivalent, None),
    ] {
        let rules = [rule(json!({"apiVersions": versions, "apiGroups": [""]}))];
        assert_eq!(Rule::first_match(&rules, policy, &PODS, &others), wanted, "{versions} {policy:?}");
    }
    // The rule that comes first decides.
    let rules = [rule(json!({"apiGroups": ["x"]})), rule(json!({"apiVersions": ["v2"]}))];
    assert_eq!(Rule::first_match(&rules, MatchPolicy::Equivalent, &PODS, &others), Some(("x", "v1")));
}

#[test]
fn policies_are_about_some_objects() {
    let rule = |names: Value| json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "resourceNames": names});
    let here = Some(("", "v1"));
    for (included, excluded, wanted) in [
        (json!([]), json!([]), here),
        (json!([rule(json!([]))]), json!([]), here),
        (json!([rule(json!(["p"]))]), json!([]), here),
        (json!([rule(json!(["q"]))]), json!([]), None),
        (json!([rule(json!(["q"])), rule(json!(["p"]))]), json!([]), here),
        (json!([rule(json!([]))]), json!([rule(json!(["p"]))]), None),
        (json!([rule(json!([]))]), json!([rule(json!(["q"]))]), here),
    ] {
        let resources = json!({"resourceRules": included, "excludeResourceRules": excluded});
        let meant: MatchResources = serde_json::from_value(resources.clone()).unwrap();
        assert_eq!(meant.matches(&PODS, &[]), wanted, "{resources}");
    }
}

#[test]
fn configurations_and_reviews_are_left_alone() {
    assert!(is_exempt("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"));
    assert!(!is_exempt("example.com", "ValidatingAdmissionPolicy"));
    assert!(is_hidden_from_policies("authorization.k8s.io", "subjectaccessreviews"));
    assert!(!is_hidden_from_policies("", "pods"));
}
