use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::aggregation::{gathered_rules, out_of_date};
use super::escalation::{BindingWrite, RoleWrite, check_binding, check_role, only_collects_garbage};
use super::*;
use crate::authn::UNAUTHENTICATED;

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.into(), groups, ..User::default() }
}

fn role(namespace: &str, name: &str, rules: &Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

fn binding(namespace: &str, name: &str, role: (&str, &str), subjects: &Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    json!({
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": GROUP, "kind": role.0, "name": role.1},
        "subjects": subjects,
    })
}

fn resource<'a>(resource: &'a str, namespace: &'a str, name: &'a str) -> Target<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Target::Resource(ResourceTarget { group: "", resource, subresource, namespace, name })
}

/// Labels match as far as `matchLabels` goes, which is all that these tests use.
fn by_labels(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let wanted = selector["matchLabels"].as_object().cloned().unwrap_or_default();
    wanted.iter().all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
}

/// Does for the roles what a server does: gathers.
fn settled(objects: &[Value]) -> Policy {
    let mut policy = Policy::of(objects).expect("the objects are well formed");
    for (name, rules) in out_of_date(policy.cluster_roles(), by_labels) {
        let mut object = objects.iter().find(|object| object["metadata"]["name"] == name).cloned();
        if let Some(object) = &mut object {
            object["rules"] = json!(rules);
            policy.put(object).expect("it was well formed before");
        }
    }
    policy
}

#[test]
fn rules_match_as_upstreams() {
    let rule = |rule: Value| serde_json::from_value::<PolicyRule>(rule).unwrap();
    let pods = rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}));
    let named =
        rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods/log"], "resourceNames": ["a"]}));
    let scale = rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*/scale"]}));
    let all = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    let other = rule(json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["pods"]}));
    let paths = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]}));
    let any_path = rule(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    let cases = [
        (&pods, "get", resource("pods", "", ""), true),
        (&pods, "get", resource("pods", "n", "a"), true),
        (&pods, "list", resource("pods", "n", ""), false),
        (&pods, "get", resource("pods/log", "n", "a"), false),
        (&pods, "get", resource("secrets", "n", "a"), false),
        (&other, "get", resource("pods", "n", "a"), false),
        (&named, "get", resource("pods/log", "n", "a"), true),
        (&named, "get", resource("pods/log", "n", "b"), false),
        (&named, "list", resource("pods/log", "n", ""), false),
        (&named, "get", resource("pods", "n", "a"), false),
        (&scale, "get", resource("deployments/scale", "n", "a"), true),
        (&scale, "get", resource("deployments/status", "n", "a"), false),
        (&scale, "get", resource("scale", "n", "a"), false),
        (&all, "anything", resource("widgets/status", "n", "a"), true),
        (&all, "get", Target::Path("/healthz"), false),
        (&paths, "get", Target::Path("/healthz"), true),
        (&paths, "get", Target::Path("/healthz/etcd"), false),
        (&paths, "get", Target::Path("/api/v1"), true),
        (&paths, "get", Target::Path("/api"), false),
        (&paths, "post", Target::Path("/healthz"), false),
        (&any_path, "post", Target::Path("/anything"), true),
        (&any_path, "get", resource("pods", "", ""), false),
    ];
    for (rule, verb, target, allowed) in cases {
        assert_eq!(rule.allows(verb, &target), allowed, "{rule} {verb} {target:?}");
    }
}

fn sample_policy() -> Policy {
    let read = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    Policy::of(&[
        role("", "reader", &read),
        role("n", "local", &read),
        binding("", "everywhere", ("ClusterRole", "reader"), &json!([{"kind": "User", "name": "ann"}])),
        binding(
            "n",
            "here",
            ("ClusterRole", "reader"),
            &json!([{"kind": "User", "name": "x"}, {"kind": "Group", "name": "devs"}]),
        ),
        binding("n", "accounts", ("Role", "local"), &json!([{"kind": "ServiceAccount", "name": "sa"}])),
        binding(
            "m",
            "foreign",
            ("ClusterRole", "reader"),
            &json!([{"kind": "ServiceAccount", "name": "sa", "namespace": "n"}]),
        ),
        binding("m", "broken", ("Role", "gone"), &json!([{"kind": "User", "name": "bob"}])),
        binding("", "broken", ("ClusterRole", "gone"), &json!([{"kind": "User", "name": "bob"}])),
        // Without a namespace this is nobody.
        binding("", "nobody", ("ClusterRole", "reader"), &json!([{"kind": "ServiceAccount", "name": "sa"}])),
    ])
    .expect("the objects are well formed")
}

#[test]
fn reasons_name_the_binding() {
    let policy = sample_policy();
    let account = "system:serviceaccount:n:sa";
    let cases = [
        (
            "ann",
            "",
            "n",
            Some(r#"RBAC: allowed by ClusterRoleBinding "everywhere" of ClusterRole "reader" to User "ann""#),
        ),
        (
            "ann",
            "",
            "",
            Some(r#"RBAC: allowed by ClusterRoleBinding "everywhere" of ClusterRole "reader" to User "ann""#),
        ),
        (
            "eve",
            "devs",
            "n",
            Some(r#"RBAC: allowed by RoleBinding "here/n" of ClusterRole "reader" to Group "devs""#),
        ),
        ("eve", "devs", "m", None),
        ("eve", "devs", "", None),
        (
            account,
            "",
            "n",
            Some(r#"RBAC: allowed by RoleBinding "accounts/n" of Role "local" to ServiceAccount "sa/n""#),
        ),
        (
            account,
            "",
            "m",
            Some(
                r#"RBAC: allowed by RoleBinding "foreign/m" of ClusterRole "reader" to ServiceAccount "sa/n""#,
            ),
        ),
        (account, "", "", None),
        ("system:serviceaccount:m:sa", "", "n", None),
        ("eve", MASTERS, "m", Some("")),
    ];
    for (name, group, namespace, reason) in cases {
        let user = user(name, &[group]);
        let attributes = Attributes { user: &user, verb: "get", target: resource("pods", namespace, "p") };
        let decision = authorize(&attributes, &policy);
        let expected = Decision { allowed: reason.is_some(), reason: reason.unwrap_or_default().into() };
        assert_eq!(decision, expected, "{name} in {namespace:?}");
    }
}

#[test]
fn bindings_to_roles_that_are_gone_are_the_reason() {
    let (policy, bob) = (sample_policy(), user("bob", &[]));
    let decide = |namespace| {
        let target = resource("pods", namespace, "p");
        authorize(&Attributes { user: &bob, verb: "get", target }, &policy).reason
    };
    assert_eq!(decide(""), r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#);
    assert_eq!(
        decide("m"),
        r#"RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]"#
    );
}

#[test]
fn what_is_replaced_or_removed_no_longer_counts() {
    let mut policy = sample_policy();
    let may = |policy: &Policy, name: &str| {
        let (user, target) = (user(name, &[]), resource("pods", "", "p"));
        authorize(&Attributes { user: &user, verb: "get", target }, policy).allowed
    };
    let everywhere = |name: &str| {
        binding("", "everywhere", ("ClusterRole", "reader"), &json!([{"kind": "User", "name": name}]))
    };
    policy.put(&everywhere("zoe")).unwrap();
    assert!(!may(&policy, "ann") && may(&policy, "zoe"));
    policy.remove(&role("", "reader", &json!(null))).unwrap();
    assert!(!may(&policy, "zoe"));
    policy
        .put(&role("", "reader", &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])))
        .unwrap();
    assert!(may(&policy, "zoe"));
    policy.remove(&everywhere("zoe")).unwrap();
    assert!(!may(&policy, "zoe"));
    assert!(policy.put(&json!({"kind": "Pod", "metadata": {"name": "a"}})).is_err());
    assert!(policy.put(&role("", "bad", &json!("x"))).is_err());
}

#[test]
fn the_answer_to_what_is_forbidden() {
    let user = user("u", &[]);
    let scale = ResourceTarget {
        group: "apps",
        resource: "deployments",
        subresource: "scale",
        namespace: "n",
        name: "d",
    };
    let cases = [
        (
            "get",
            resource("pods", "n", ""),
            "",
            r#"pods is forbidden: User "u" cannot get resource "pods" in API group "" in the namespace "n""#,
        ),
        (
            "update",
            Target::Resource(scale),
            "because",
            r#"deployments.apps "d" is forbidden: User "u" cannot update resource "deployments/scale" in API group "apps" in the namespace "n": because"#,
        ),
        (
            "list",
            resource("nodes", "", ""),
            "",
            r#"nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope"#,
        ),
        ("get", Target::Path("/<x>"), "", r#"forbidden: User "u" cannot get path "/&lt;x&gt;""#),
    ];
    for (verb, target, reason, message) in cases {
        let status = forbidden(&Attributes { user: &user, verb, target }, reason);
        assert_eq!((status.code, status.message.as_str()), (403, message));
    }
}

#[test]
fn a_review_lists_all_rules_of_a_user() {
    let policy = settled(&bootstrap::objects());
    let review = review_rules(&user("u", &["system:authenticated"]), "n", &policy);
    let review = serde_json::to_value(review).unwrap();
    assert_eq!(
        review["resourceRules"],
        json!([
            {
                "verbs": ["create"],
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
            },
            {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]}
        ])
    );
    let urls = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    assert_eq!(review["nonResourceRules"][1], json!({"verbs": ["get"], "nonResourceURLs": urls}));
    assert_eq!((&review["incomplete"], review.get("evaluationError")), (&json!(false), None));

    let broken = serde_json::to_value(review_rules(&user("bob", &[]), "n", &sample_policy())).unwrap();
    assert_eq!(broken["evaluationError"], r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#);
}

#[test]
fn the_bootstrap_policy_gives_what_upstreams_gives() {
    let mut objects = bootstrap::objects();
    for name in ["admin", "edit", "view"] {
        objects.push(binding("n", name, ("ClusterRole", name), &json!([{"kind": "User", "name": name}])));
    }
    let policy = settled(&objects);
    let roles = Target::Resource(ResourceTarget {
        group: GROUP,
        resource: "roles",
        namespace: "n",
        ..Default::default()
    });
    let cases = [
        ("view", "list", resource("pods", "n", ""), true),
        ("view", "get", resource("secrets", "n", "a"), false),
        ("view", "delete", resource("pods", "n", "a"), false),
        ("view", "list", resource("pods", "m", ""), false),
        ("edit", "list", resource("pods", "n", ""), true),
        ("edit", "get", resource("secrets", "n", "a"), true),
        ("edit", "create", resource("pods/eviction", "n", "a"), true),
        ("edit", "create", resource("serviceaccounts/token", "n", "a"), true),
        ("edit", "impersonate", resource("serviceaccounts", "n", "a"), true),
        ("edit", "create", roles, false),
        ("admin", "create", roles, true),
        ("admin", "list", resource("configmaps", "n", ""), true),
        ("admin", "create", resource("namespaces", "", ""), false),
        ("admin", "list", resource("nodes", "", ""), false),
    ];
    for (name, verb, target, allowed) in cases {
        let user = user(name, &["system:authenticated"]);
        let decision = authorize(&Attributes { user: &user, verb, target }, &policy);
        assert_eq!(decision.allowed, allowed, "{name} {verb} {target:?}");
    }
    let paths = [
        (UNAUTHENTICATED, "/version", true),
        (UNAUTHENTICATED, "/api", false),
        (UNAUTHENTICATED, "/metrics", false),
        ("system:authenticated", "/openapi/v3", true),
        ("system:authenticated", "/metrics", false),
        ("system:monitoring", "/metrics", true),
        ("system:serviceaccounts", "/openid/v1/jwks", true),
    ];
    for (group, path, allowed) in paths {
        let user = user("u", &[group]);
        let decision =
            authorize(&Attributes { user: &user, verb: "get", target: Target::Path(path) }, &policy);
        assert_eq!(decision.allowed, allowed, "{group} {path}");
    }
}

#[test]
fn roles_gather_rules_once_in_the_order_of_names() {
    let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
    let labelled = |name: &str, label: &str, rules: &[&str], gathers: Option<&str>| {
        let mut object = role("", name, &json!(rules.iter().map(|verb| rule(verb)).collect::<Vec<_>>()));
        object["metadata"]["labels"] = json!({label: "true"});
        if let Some(label) = gathers {
            object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        }
        object
    };
    let objects = [
        labelled("b", "x", &["get", "list"], None),
        labelled("a", "x", &["list", "watch"], None),
        labelled("own", "x", &["delete"], Some("x")),
        labelled("top", "-", &[], Some("-none")),
        labelled("above", "-", &[], Some("y")),
        labelled("middle", "y", &[], Some("x")),
    ];
    let policy = Policy::of(&objects).unwrap();
    let verbs = |rules: &[PolicyRule]| rules.iter().flat_map(|rule| rule.verbs.clone()).collect::<Vec<_>>();
    let gathered = gathered_rules("middle", policy.cluster_roles(), by_labels).unwrap();
    assert_eq!(verbs(&gathered), ["list", "watch", "get", "delete"]);
    assert_eq!(gathered_rules("a", policy.cluster_roles(), by_labels), None);
    assert_eq!(gathered_rules("top", policy.cluster_roles(), by_labels), Some(vec![]));
    let changes = out_of_date(policy.cluster_roles(), by_labels);
    let changed: Vec<(&str, Vec<String>)> =
        changes.iter().map(|(name, rules)| (name.as_str(), verbs(rules))).collect();
    let all = || ["list", "watch", "get"].map(str::to_owned).to_vec();
    assert_eq!(changed, [("above", all()), ("middle", all()), ("own", all())]);

    let circle = [labelled("a", "x", &["get"], Some("y")), labelled("b", "y", &["list"], Some("x"))];
    let circle = Policy::of(&circle).unwrap();
    assert_eq!(verbs(&out_of_date(circle.cluster_roles(), by_labels)["a"]), ["list"]);
}

fn granting_policy() -> Policy {
    let grants = json!([
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]},
        {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]},
    ]);
    let rbac = |verb: &str, resource: &str| json!([{"verbs": [verb], "apiGroups": [GROUP], "resources": [resource], "resourceNames": ["special"]}]);
    let to = |name: &str| json!([{"kind": "User", "name": name}]);
    Policy::of(&[
        role("", "held", &grants),
        role("", "special", &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])),
        role("", "escalates", &rbac("escalate", "clusterroles")),
        role("", "binds", &rbac("bind", "clusterroles")),
        binding("", "ann", ("ClusterRole", "held"), &to("ann")),
        binding("", "esc", ("ClusterRole", "escalates"), &to("esc")),
        binding("n", "bin", ("ClusterRole", "binds"), &to("bin")),
        binding("", "root", ("ClusterRole", "special"), &to("root")),
    ])
    .expect("the objects are well formed")
}

#[test]
fn roles_grant_only_what_their_writer_holds() {
    let policy = granting_policy();
    let resources = |verbs: &[&str], resources: &[&str], names: &[&str]| json!({"verbs": verbs, "apiGroups": [""], "resources": resources, "resourceNames": names});
    let prefix = r#"clusterroles.rbac.authorization.k8s.io "r" is forbidden: user "ann" (groups=["g1" "g2"]) is attempting to grant RBAC permissions not currently held:"#;
    let cases = [
        (resources(&["get"], &["pods"], &[]), None),
        (resources(&["list"], &["pods"], &["one"]), None),
        (resources(&["get"], &["deployments/scale"], &[]), None),
        (resources(&["get"], &["secrets"], &["mine"]), None),
        (json!({"verbs": ["get"], "nonResourceURLs": ["/logs/*", "/logs/a", "/logs/a*"]}), None),
        (
            resources(&["get", "delete", "watch"], &["pods", "nodes"], &[]),
            Some(
                "\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"delete\" \"watch\"]}\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"watch\"]}",
            ),
        ),
        (
            resources(&["get"], &["secrets"], &[]),
            Some("\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"),
        ),
        (
            resources(&["get"], &["secrets"], &["mine", "yours"]),
            Some("\n{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"yours\"], Verbs:[\"get\"]}"),
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["/logs", "/"]}),
            Some(
                "\n{NonResourceURLs:[\"/\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/logs\"], Verbs:[\"get\"]}",
            ),
        ),
    ];
    for (rule, problem) in cases {
        let rules = [serde_json::from_value(rule).unwrap()];
        let write = RoleWrite { namespace: "", path_name: "", name: "r", rules: &rules, aggregates: false };
        let answer =
            check_role(&user("ann", &["g1", "g2"]), &write, &policy).map_err(|status| status.message);
        assert_eq!(answer.err(), problem.map(|problem| format!("{prefix}{problem}")), "{rules:?}");
    }
}

#[test]
fn escalation_and_aggregation_need_rights_of_their_own() {
    let policy = granting_policy();
    let none = [];
    let everything =
        [serde_json::from_value(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})).unwrap()];
    let write = |path_name, rules, aggregates| RoleWrite {
        namespace: "",
        path_name,
        name: "special",
        rules,
        aggregates,
    };
    let aggregation = r#"clusterroles.rbac.authorization.k8s.io "special" is forbidden: must have cluster-admin privileges to use the aggregationRule"#;
    let check = |name, groups: &[&str], write| {
        check_role(&user(name, groups), &write, &policy).map_err(|status| status.message)
    };
    assert_eq!(check("esc", &[], write("special", &everything, true)), Ok(()));
    assert!(check("esc", &[], write("other", &everything, false)).is_err());
    // When it is created the path has no name, and the right to one name does not apply.
    assert!(check("esc", &[], write("", &everything, false)).is_err());
    assert_eq!(check("ann", &[], write("", &none, true)), Err(aggregation.into()));
    // All verbs are `escalate`, too.
    assert_eq!(check("root", &[], write("", &everything, true)), Ok(()));
    assert_eq!(check("eve", &[MASTERS], write("", &everything, true)), Ok(()));
}

#[test]
fn bindings_grant_only_what_their_writer_holds_or_may_bind() {
    let policy = granting_policy();
    let held = r#"is attempting to grant RBAC permissions not currently held"#;
    let cases = [
        ("ann", "", "ClusterRole", "held", None),
        ("ann", "n", "ClusterRole", "held", None),
        ("eve", "n", "ClusterRole", "held", Some((403, held))),
        ("bin", "n", "ClusterRole", "special", None),
        ("bin", "n", "ClusterRole", "held", Some((403, held))),
        ("bin", "", "ClusterRole", "special", Some((403, held))),
        ("bin", "m", "ClusterRole", "special", Some((403, held))),
        ("root", "", "ClusterRole", "special", None),
        (
            "ann",
            "",
            "ClusterRole",
            "gone",
            Some((404, r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#)),
        ),
        ("ann", "n", "Role", "gone", Some((404, r#"role.rbac.authorization.k8s.io "gone" not found"#))),
    ];
    for (name, namespace, kind, role, problem) in cases {
        let role_ref = RoleRef { api_group: GROUP.into(), kind: kind.into(), name: role.into() };
        let write = BindingWrite { namespace, name: "b", role_ref: &role_ref };
        let answer = check_binding(&user(name, &[]), &write, &policy).err();
        let matches = match (&answer, problem) {
            (None, None) => true,
            (Some(status), Some((code, text))) => status.code == code && status.message.contains(text),
            _ => false,
        };
        assert!(matches, "{name} binds {role} in {namespace:?}: {answer:?}");
    }
}

#[test]
fn collecting_garbage_is_no_change_of_a_role() {
    let old = json!({"metadata": {"name": "a", "finalizers": ["x"], "managedFields": [{}]}, "rules": []});
    let cases = [
        (json!({"metadata": {"name": "a"}, "rules": []}), true),
        (json!({"metadata": {"name": "a", "ownerReferences": [{}], "finalizers": []}, "rules": []}), true),
        (json!({"metadata": {"name": "a", "labels": {"b": "c"}}, "rules": []}), false),
        (json!({"metadata": {"name": "a"}, "rules": [{}]}), false),
    ];
    for (new, only) in cases {
        assert_eq!(only_collects_garbage(&new, &old), only, "{new}");
    }
}
