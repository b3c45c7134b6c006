//! Authorisation and impersonation by the roles and bindings in the store.

use kubeapi::authn::User;
use kubeapi::request::{Query, Target};
use serde_json::{Value, json};

use crate::support::{RBAC, World, headers, user};

fn role(name: &str, verbs: &[&str], resources: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "rules": [{"verbs": verbs, "apiGroups": [""], "resources": resources}]})
}

fn binding(name: &str, role: (&str, &str), subject: (&str, &str)) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": subject.0, "name": subject.1}],
    })
}

/// The reason of a refusal, empty if it is allowed.
fn why(world: &World, user: &User, method: &str, url: &str) -> String {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let target = Target::parse(method, path, &Query::parse(query)).unwrap();
    world.auth.authorize(user, &target).map_err(|status| status.message).err().unwrap_or_default()
}

#[tokio::test]
async fn without_credentials_there_is_only_health_and_the_version() {
    let world = World::new().await;
    let nobody = world.auth.authenticate(&headers(&[]), &[]).await.unwrap();
    assert_eq!(nobody, User::anonymous());
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(why(&world, &nobody, "GET", path), "");
    }
    for path in ["/api", "/apis", "/openapi/v3", "/metrics"] {
        let expected = format!("forbidden: User \"system:anonymous\" cannot get path {path:?}");
        assert_eq!(why(&world, &nobody, "GET", path), expected);
    }
    assert_eq!(why(&world, &user("ann", &[]), "GET", "/apis"), "");
    assert_eq!(
        why(&world, &nobody, "GET", "/api/v1/namespaces/default/pods?labelSelector=a"),
        "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
}

#[tokio::test]
async fn the_next_request_sees_every_change_of_the_policy() {
    let world = World::new().await;
    let ann = user("ann", &["team"]);
    let pods = "/api/v1/namespaces/default/pods";
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let refusal = "pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
    assert_eq!(why(&world, &ann, "GET", pods), refusal);

    world.ok("POST", &bindings, binding("b", ("Role", "r"), ("Group", "team"))).await;
    let absent = format!("{refusal}: RBAC: role.rbac.authorization.k8s.io \"r\" not found");
    assert_eq!(why(&world, &ann, "GET", pods), absent);
    world.ok("POST", &roles, role("r", &["list"], &["pods"])).await;
    assert_eq!(why(&world, &ann, "GET", pods), "");
    assert_ne!(why(&world, &ann, "GET", "/api/v1/pods"), "");

    let of = |rule: Value| json!({"rules": [rule]});
    let secrets = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]});
    world.ok("merge", &format!("{roles}/r"), of(secrets)).await;
    assert_eq!(why(&world, &ann, "GET", pods), refusal);
    world.ok("PUT", &format!("{roles}/r"), role("r", &["*"], &["*"])).await;
    assert_eq!(why(&world, &ann, "GET", pods), "");
    world.ok("PUT", &format!("{roles}/r?dryRun=All"), role("r", &["get"], &["pods"])).await;
    assert_eq!(why(&world, &ann, "GET", pods), "");
    world.ok("DELETE", &bindings, Value::Null).await;
    assert_eq!(why(&world, &ann, "GET", pods), refusal);

    world
        .ok(
            "POST",
            &format!("{RBAC}/clusterrolebindings"),
            binding("c", ("ClusterRole", "cluster-admin"), ("User", "ann")),
        )
        .await;
    assert_eq!(why(&world, &ann, "DELETE", "/api/v1/nodes/n"), "");
    world.ok("DELETE", &format!("{RBAC}/clusterrolebindings/c"), Value::Null).await;
    assert_ne!(why(&world, &ann, "DELETE", "/api/v1/nodes/n"), "");
}

#[tokio::test]
async fn an_object_that_cannot_be_read_breaks_nothing() {
    use apiserver::store::Write;
    let world = World::new().await;
    let bindings = format!("{RBAC}/clusterrolebindings");
    let good = binding("good", ("ClusterRole", "cluster-admin"), ("User", "ann"));
    world.ok("POST", &bindings, good).await;
    let (key, before) = {
        let view = world.server.store().view();
        let stored = view.get("/registry/rbac.authorization.k8s.io/clusterrolebindings/good").unwrap();
        (stored.key.clone(), stored.modified)
    };
    let broken = bytes::Bytes::from_static(br#"{"kind": "ClusterRoleBinding", "subjects": 7}"#);
    world.server.store().write(vec![Write::update(key, broken, before)]).await.unwrap();
    world.ok("POST", &bindings, binding("next", ("ClusterRole", "cluster-admin"), ("User", "bob"))).await;
    assert_eq!(why(&world, &user("bob", &[]), "GET", "/api/v1/nodes"), "");
    assert_ne!(why(&world, &user("ann", &[]), "GET", "/api/v1/nodes"), "", "it grants nothing any more");
}

#[tokio::test]
async fn acting_as_somebody_needs_a_right_for_each_header() {
    let world = World::new().await;
    world.ok("POST", &format!("{RBAC}/clusterroles"), json!({
        "metadata": {"name": "act"},
        "rules": [
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]},
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]},
        ],
    })).await;
    world
        .ok(
            "POST",
            &format!("{RBAC}/clusterrolebindings"),
            binding("act", ("ClusterRole", "act"), ("User", "ann")),
        )
        .await;
    let ann = user("ann", &[]);
    let act = |pairs: &[(&str, &str)]| world.auth.impersonate(ann.clone(), &headers(pairs));
    assert_eq!(act(&[("accept", "*/*")]).unwrap(), ann);
    assert_eq!(act(&[("Impersonate-User", "bob")]).unwrap(), user("bob", &[]));
    assert_eq!(
        act(&[("Impersonate-User", "system:serviceaccount:default:x")]).unwrap().groups,
        ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    );
    let refused = [
        (
            vec![("Impersonate-User", "eve")],
            403,
            "users \"eve\" is forbidden: User \"ann\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
        ),
        (
            vec![("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")],
            403,
            "groups \"system:masters\" is forbidden: User \"ann\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope",
        ),
        (
            vec![("Impersonate-Group", "g")],
            500,
            "Internal error occurred: requested [{Group  g    }] without impersonating a user",
        ),
    ];
    for (pairs, code, message) in refused {
        let status = act(&pairs).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (code, message));
    }
}
