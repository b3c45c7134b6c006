//! Writing roles and bindings: their rules, and that nobody grants what they do not have.

use serde_json::{Value, json};

use crate::support::{RBAC, World, user};

const GROUP: &str = "rbac.authorization.k8s.io";

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": resources})
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name}, "roleRef": {"kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user}],
    })
}

/// Ann may write all RBAC objects and read pods, no more.
async fn world() -> World {
    let world = World::new().await;
    let writer =
        json!({"verbs": ["create", "update", "patch", "delete"], "apiGroups": [GROUP], "resources": ["*"]});
    let of_pods = rule(&["get", "list"], &["pods"]);
    world.ok("POST", &format!("{RBAC}/clusterroles"), role("writer", &[writer, of_pods])).await;
    world
        .ok("POST", &format!("{RBAC}/clusterrolebindings"), binding("ann", "ClusterRole", "writer", "ann"))
        .await;
    world
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_have() {
    let world = world().await;
    let ann = user("ann", &[]);
    let ask = async |method: &str, url: &str, body: Value| {
        world.ask(&ann, method, &format!("{RBAC}/{url}"), body).await
    };
    let refusal = |resource: &str, name: &str, missing: &str| {
        format!(
            "{resource}.{GROUP} {name:?} is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{missing}"
        )
    };
    ask("POST", "namespaces/default/roles", role("r", &[rule(&["get"], &["pods"])])).await.unwrap();
    let of_secrets = r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#;
    let wider = role("r", &[rule(&["get"], &["secrets", "pods"])]);
    let rows = [
        (
            "POST",
            "namespaces/default/roles",
            role("s", &[rule(&["get"], &["secrets"])]),
            refusal("roles", "s", of_secrets),
        ),
        (
            "POST",
            "namespaces/default/roles?dryRun=All",
            role("s", &[rule(&["get"], &["secrets"])]),
            refusal("roles", "s", of_secrets),
        ),
        (
            "POST",
            "clusterroles",
            role("s", &[rule(&["get"], &["secrets"])]),
            refusal("clusterroles", "s", of_secrets),
        ),
        ("PUT", "namespaces/default/roles/r", wider.clone(), refusal("roles", "r", of_secrets)),
        (
            "merge",
            "namespaces/default/roles/r",
            json!({"rules": wider["rules"]}),
            refusal("roles", "r", of_secrets),
        ),
        (
            "POST",
            "namespaces/default/rolebindings",
            binding("b", "ClusterRole", "system:discovery", "eve"),
            String::new(),
        ),
        (
            "POST",
            "namespaces/default/rolebindings",
            binding("c", "Role", "absent", "eve"),
            format!("role.{GROUP} \"absent\" not found"),
        ),
        (
            "POST",
            "clusterroles",
            json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
            format!(
                "clusterroles.{GROUP} \"all\" is forbidden: must have cluster-admin privileges to use the aggregationRule"
            ),
        ),
    ];
    for (method, url, body, expected) in rows {
        let message = ask(method, url, body).await.map_or_else(|status| status.message, |_| String::new());
        assert_eq!(message, expected, "{method} {url}");
    }
    let admin = ask("POST", "clusterrolebindings", binding("x", "ClusterRole", "cluster-admin", "ann")).await;
    let status = admin.unwrap_err();
    assert_eq!(status.code, 403);
    assert!(status.message.contains(r#"{APIGroups:["*"], Resources:["*"], Verbs:["*"]}"#), "{status}");
}

#[tokio::test]
async fn escalate_and_bind_are_rights_of_their_own() {
    let world = world().await;
    let ann = user("ann", &[]);
    let special = [
        json!({"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles"]}),
        json!({"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["edit-all"]}),
    ];
    world.ok("POST", &format!("{RBAC}/clusterroles"), role("special", &special)).await;
    world.ok("POST", &format!("{RBAC}/clusterroles"), role("edit-all", &[rule(&["*"], &["*"])])).await;
    let secrets = role("s", &[rule(&["get"], &["secrets"])]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let bound = || binding("b", "ClusterRole", "edit-all", "eve");
    assert_eq!(world.ask(&ann, "POST", &bindings, bound()).await.unwrap_err().code, 403);
    world
        .ok(
            "POST",
            &format!("{RBAC}/clusterrolebindings"),
            binding("special", "ClusterRole", "special", "ann"),
        )
        .await;
    world.ask(&ann, "POST", &roles, secrets).await.unwrap();
    world.ask(&ann, "POST", &bindings, bound()).await.unwrap();
    let other = binding("c", "ClusterRole", "cluster-admin", "eve");
    assert_eq!(world.ask(&ann, "POST", &bindings, other).await.unwrap_err().code, 403);
}

#[tokio::test]
async fn finalizers_and_owners_may_be_changed_by_all_who_may_write() {
    let world = world().await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let mut secrets = role("s", &[rule(&["get"], &["secrets"])]);
    secrets["metadata"]["finalizers"] = json!(["example.com/wait"]);
    world.ok("POST", &roles, secrets).await;
    let ann = user("ann", &[]);
    let patch = |body: Value| {
        world.ask(&ann, "merge", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/s", body)
    };
    assert_eq!(patch(json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap_err().code, 403);
    patch(json!({"metadata": {"finalizers": null}})).await.unwrap();
}

#[tokio::test]
async fn roles_and_bindings_have_rules() {
    let world = world().await;
    let with = |object: Value, change: Value| {
        let mut object = object;
        for (field, value) in change.as_object().unwrap() {
            object[field] = value.clone();
        }
        object
    };
    let of_url = json!({"verbs": ["get"], "nonResourceURLs": ["/x"]});
    let both = json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]});
    let rows = [
        (
            "namespaces/default/roles",
            role("r", &[json!({})]),
            "Role.rbac.authorization.k8s.io \"r\" is invalid: [rules[0].verbs: Required value: verbs must contain at least one value, rules[0].apiGroups: Required value: resource rules must supply at least one api group, rules[0].resources: Required value: resource rules must supply at least one resource]",
        ),
        (
            "namespaces/default/roles",
            role("r", &[of_url]),
            "Role.rbac.authorization.k8s.io \"r\" is invalid: rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
        ),
        (
            "clusterroles",
            role("r", &[both]),
            "ClusterRole.rbac.authorization.k8s.io \"r\" is invalid: rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
        ),
        (
            "clusterroles",
            with(role("r", &[]), json!({"aggregationRule": {}})),
            "ClusterRole.rbac.authorization.k8s.io \"r\" is invalid: aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
        ),
        (
            "clusterrolebindings",
            with(
                binding("b", "Role", "r", "u"),
                json!({"subjects": [{"kind": "ServiceAccount", "name": "a"}]}),
            ),
            "ClusterRoleBinding.rbac.authorization.k8s.io \"b\" is invalid: [roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\", subjects[0].namespace: Required value]",
        ),
        (
            "namespaces/default/rolebindings",
            with(
                binding("b", "Role", "a/b", "u"),
                json!({"subjects": [{"kind": "Robot", "name": "r"}, {"kind": "User", "apiGroup": "x"}]}),
            ),
            "RoleBinding.rbac.authorization.k8s.io \"b\" is invalid: [roleRef.name: Invalid value: \"a/b\": may not contain '/', subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\", subjects[1].name: Required value, subjects[1].apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"]",
        ),
    ];
    for (url, body, message) in rows {
        assert_eq!(world.refused("POST", &format!("{RBAC}/{url}"), body).await.message, message);
    }
}

#[tokio::test]
async fn a_binding_keeps_its_role() {
    let world = world().await;
    let url = format!("{RBAC}/namespaces/default/rolebindings");
    let made = world.ok("POST", &url, binding("b", "Role", "r", "u")).await;
    assert_eq!(made["roleRef"], json!({"apiGroup": GROUP, "kind": "Role", "name": "r"}));
    assert_eq!(made["subjects"], json!([{"apiGroup": GROUP, "kind": "User", "name": "u"}]));
    let other = json!({"roleRef": {"name": "q"}});
    let status = world.refused("merge", &format!("{url}/b"), other).await;
    assert_eq!(
        status.message,
        "RoleBinding.rbac.authorization.k8s.io \"b\" is invalid: roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"q\"}: cannot change roleRef"
    );
}
