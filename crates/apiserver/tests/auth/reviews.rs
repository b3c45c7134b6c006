//! Reviews of access, rules and oneself.

use kubeapi::Status;
use kubeapi::authn::User;
use serde_json::{Value, json};

use crate::support::{NOW, RBAC, World, admin, user};

const ACCESS: &str = "/apis/authorization.k8s.io/v1";

async fn review(world: &World, user: &User, plural: &str, spec: Value) -> Result<Value, Status> {
    let url = match plural.starts_with("local") {
        true => format!("{ACCESS}/namespaces/default/{plural}"),
        false => format!("{ACCESS}/{plural}"),
    };
    let answer = world.ask(user, "POST", &url, json!({"spec": spec})).await?;
    assert_eq!(answer.code, 201);
    Ok(answer.body)
}

async fn world() -> World {
    let world = World::new().await;
    world
        .ok(
            "POST",
            &format!("{RBAC}/namespaces/default/rolebindings"),
            json!({
                "metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "name": "x"}],
            }),
        )
        .await;
    world.ok("POST", &format!("{RBAC}/namespaces/default/roles"), json!({
        "metadata": {"name": "r"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]}],
    })).await;
    world
}

fn pod(verb: &str) -> Value {
    json!({"verb": verb, "resource": "pods", "namespace": "default", "name": "p"})
}

#[tokio::test]
async fn somebodys_access() {
    let world = world().await;
    let allowed = "RBAC: allowed by RoleBinding \"b/default\" of Role \"r\" to User \"ann\"";
    let of_account =
        "RBAC: allowed by RoleBinding \"b/default\" of Role \"r\" to ServiceAccount \"x/default\"";
    let rows = [
        (
            json!({"user": "ann", "resourceAttributes": pod("get")}),
            json!({"allowed": true, "reason": allowed}),
        ),
        (json!({"user": "ann", "resourceAttributes": pod("delete")}), json!({"allowed": false})),
        (json!({"user": "bob", "resourceAttributes": pod("get")}), json!({"allowed": false})),
        (
            json!({"user": "system:serviceaccount:default:x", "resourceAttributes": pod("get")}),
            json!({"allowed": true, "reason": of_account}),
        ),
        (
            json!({"groups": ["system:masters"], "resourceAttributes": pod("delete")}),
            json!({"allowed": true}),
        ),
    ];
    for (spec, status) in rows {
        for plural in ["subjectaccessreviews", "localsubjectaccessreviews"] {
            let answer = review(&world, &admin(), plural, spec.clone()).await.unwrap();
            assert_eq!((&answer["spec"], &answer["status"]), (&spec, &status));
        }
    }
    let path = json!({"user": "bob", "groups": ["system:unauthenticated"], "nonResourceAttributes": {"path": "/healthz", "verb": "get"}});
    assert_eq!(
        review(&world, &admin(), "subjectaccessreviews", path).await.unwrap()["status"]["allowed"],
        true
    );
}

#[tokio::test]
async fn ones_own_access() {
    let world = world().await;
    let ann = user("ann", &[]);
    for (verb, allowed) in [("get", true), ("list", false)] {
        let spec = json!({"resourceAttributes": pod(verb)});
        let answer = review(&world, &ann, "selfsubjectaccessreviews", spec).await.unwrap();
        assert_eq!(answer["status"]["allowed"], allowed);
        assert_eq!(answer["metadata"], json!({}));
    }
}

#[tokio::test]
async fn selectors_are_looked_at_though_roles_do_not() {
    let world = world().await;
    let requirements = |list: Value| json!({"requirements": list});
    let ignored = |name: &str, how: &str| format!("spec.resourceAttributes.{name} {how} due to parse error");
    let exact = json!({"key": "metadata.name", "operator": "In", "values": ["p"]});
    let present = json!({"key": "a", "operator": "Exists"});
    let newer = json!({"key": "a", "operator": "Newer"});
    let rows = [
        (json!({"rawSelector": "a=b"}), json!({"rawSelector": "a in (b)"}), String::new()),
        (json!({"rawSelector": "a=b"}), json!({"rawSelector": "a=b=c"}), ignored("labelSelector", "ignored")),
        (requirements(json!([exact])), requirements(json!([present])), String::new()),
        (
            requirements(json!([exact, present])),
            requirements(json!([newer])),
            [ignored("fieldSelector", "partially ignored"), ignored("labelSelector", "ignored")].join("; "),
        ),
    ];
    for (field, label, expected) in rows {
        let mut attributes = pod("get");
        attributes["fieldSelector"] = field;
        attributes["labelSelector"] = label;
        let spec = json!({"resourceAttributes": attributes});
        let answer =
            review(&world, &user("ann", &[]), "selfsubjectaccessreviews", spec.clone()).await.unwrap();
        assert_eq!((&answer["spec"], &answer["status"]["allowed"]), (&spec, &json!(true)));
        assert_eq!(answer["status"]["evaluationError"].as_str().unwrap_or_default(), expected);
    }
}

#[tokio::test]
async fn reviews_that_make_no_sense() {
    let world = world().await;
    let elsewhere =
        json!({"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "n"}});
    let rows = [
        (
            "subjectaccessreviews",
            json!({}),
            ".authorization.k8s.io \"\" is invalid: [spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: \"\": at least one of user or group must be specified]",
        ),
        (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/"}}),
            ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"\"}: cannot be specified in combination with resourceAttributes",
        ),
        (
            "localsubjectaccessreviews",
            elsewhere,
            ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"n\": must match metadata.namespace",
        ),
        (
            "localsubjectaccessreviews",
            json!({"user": "u", "nonResourceAttributes": {"path": "/"}}),
            ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"\"}: disallowed on this kind of request",
        ),
        (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": {"verb": "get", "fieldSelector": {}}}),
            ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
        ),
        (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": {
                "verb": "get",
                "labelSelector": {"requirements": [{"key": "a b", "operator": "Foo"}]},
                "fieldSelector": {"requirements": [{"key": "", "operator": "In"}]},
            }}),
            ".authorization.k8s.io \"\" is invalid: [spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified, spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn', spec.resourceAttributes.labelSelector.requirements[0].key: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')]",
        ),
        ("selfsubjectrulesreviews", json!({}), "no namespace on request"),
    ];
    for (plural, spec, message) in rows {
        assert_eq!(review(&world, &admin(), plural, spec).await.unwrap_err().message, message);
    }
    let named = json!({"metadata": {"name": "x"}, "spec": {"resourceAttributes": pod("get")}});
    let status = world.refused("POST", &format!("{ACCESS}/selfsubjectaccessreviews"), named).await;
    assert!(status.message.ends_with("metadata: Invalid value: {\"name\":\"x\"}: must be empty"), "{status}");
    let status =
        world.refused("POST", "/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {}})).await;
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "token is required for TokenReview in authentication")
    );
}

#[tokio::test]
async fn rights_in_a_namespace_review_no_tokens() {
    let world = world().await;
    let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let role = json!({"metadata": {"name": "tenant"}, "rules": everything});
    world.ok("POST", &format!("{RBAC}/namespaces/default/roles"), role).await;
    let binding = json!({
        "metadata": {"name": "tenant"}, "roleRef": {"kind": "Role", "name": "tenant"},
        "subjects": [{"kind": "User", "name": "ann"}],
    });
    world.ok("POST", &format!("{RBAC}/namespaces/default/rolebindings"), binding).await;
    let url = "/apis/authentication.k8s.io/v1/namespaces/default/tokenreviews";
    let answer = world.ask(&user("ann", &[]), "POST", url, json!({"spec": {"token": "t"}})).await;
    assert_eq!(answer.map(|answer| answer.body).unwrap_err().code, 404);
}

#[tokio::test]
async fn only_those_with_rights_ask_about_others() {
    let world = world().await;
    let ann = user("ann", &[]);
    let spec = json!({"user": "bob", "resourceAttributes": pod("get")});
    let status = review(&world, &ann, "subjectaccessreviews", spec).await.unwrap_err();
    assert_eq!(status.code, 403);
}

#[tokio::test]
async fn all_that_one_may() {
    let world = world().await;
    let spec = json!({"namespace": "default"});
    let answer = review(&world, &user("ann", &[]), "selfsubjectrulesreviews", spec).await.unwrap();
    assert_eq!((&answer["spec"], &answer["metadata"]), (&json!({}), &json!({})));
    let own = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]});
    assert!(answer["status"]["resourceRules"].as_array().unwrap().contains(&own), "{answer}");
    assert_eq!(answer["status"]["incomplete"], false);
}

#[tokio::test]
async fn who_one_is() {
    let world = world().await;
    let ann =
        User { uid: "7".into(), extra: [("k".into(), vec!["v".into()])].into(), ..user("ann", &["team"]) };
    let url = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = world.ask(&ann, "POST", url, json!({})).await.unwrap();
    let info = json!({
        "username": "ann", "uid": "7", "groups": ["team", "system:authenticated"], "extra": {"k": ["v"]},
    });
    assert_eq!((answer.code, &answer.body["status"]["userInfo"]), (201, &info));
    assert_eq!(answer.body["metadata"], json!({"creationTimestamp": NOW}));
}
