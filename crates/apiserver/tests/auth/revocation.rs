//! Watches end when who asked may not ask any more, and only then.

use std::sync::Arc;
use std::time::Duration;

use apiserver::http::{Api, Body};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::support::{World, admin};

const CORE: &str = "/api/v1/namespaces/default";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const CLUSTER: &str = "/apis/rbac.authorization.k8s.io/v1";

/// How long a watch may go on that has nothing to rest on any more.
const AT_ONCE: Duration = Duration::from_secs(5);

struct Stage {
    world: World,
    api: Api,
    token: String,
}

fn rules(verbs: &[&str]) -> Value {
    json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}])
}

fn binding(name: &str, role: &str, account: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    })
}

impl Stage {
    /// Accounts `a` and `b` that may watch ConfigMaps, and a token of `a` that is bound to the Secret `s`.
    async fn new() -> Self {
        let world = World::new().await;
        for name in ["a", "b"] {
            world.ok("POST", &format!("{CORE}/serviceaccounts"), json!({"metadata": {"name": name}})).await;
            world.ok("POST", &format!("{ROLES}/rolebindings"), binding(name, "Role", name)).await;
        }
        let role = json!({"metadata": {"name": "reader"}, "rules": rules(&["watch"])});
        world.ok("POST", &format!("{ROLES}/roles"), role.clone()).await;
        for name in ["s", "other"] {
            world.ok("POST", &format!("{CORE}/secrets"), json!({"metadata": {"name": name}})).await;
        }
        let bound = json!({"kind": "Secret", "apiVersion": "v1", "name": "s"});
        let asked = json!({"spec": {"boundObjectRef": bound}});
        let answer = world.ok("POST", &format!("{CORE}/serviceaccounts/a/token"), asked).await;
        let token = answer["status"]["token"].as_str().unwrap().to_owned();
        let api = Api::new(world.server.clone(), Arc::new(world.auth_again()));
        Stage { world, api, token }
    }

    async fn watch(&self, headers: &[(&str, &str)]) -> Body {
        let url = format!("{CORE}/configmaps?watch=true&timeoutSeconds=999999");
        let mut request = Request::builder().uri(url).header("host", "localhost");
        request = request.header("authorization", format!("Bearer {}", self.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.api.handle(request.body(Full::<bytes::Bytes>::default()).unwrap()).await;
        assert_eq!(response.status(), 200);
        response.into_body()
    }

    async fn write(&self, method: &str, url: &str, body: Value) {
        self.world.ask(&admin(), method, url, body).await.unwrap();
    }
}

/// Whether a watch ends within this time.
async fn ends(watch: &mut Body, within: Duration) -> bool {
    let end = async { while watch.frame().await.is_some() {} };
    tokio::time::timeout(within, end).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_what_it_rests_on() {
    let role = |verbs: &[&str]| json!({"metadata": {"name": "reader"}, "rules": rules(verbs)});
    let cases: Vec<(&str, &str, String, Value)> = vec![
        ("the account", "DELETE", format!("{CORE}/serviceaccounts/a"), Value::Null),
        ("the Secret of the token", "DELETE", format!("{CORE}/secrets/s"), Value::Null),
        ("the binding", "DELETE", format!("{ROLES}/rolebindings/a"), Value::Null),
        ("the role", "DELETE", format!("{ROLES}/roles/reader"), Value::Null),
        ("a rule", "PUT", format!("{ROLES}/roles/reader"), role(&["get"])),
        ("the subject", "PUT", format!("{ROLES}/rolebindings/a"), binding("a", "Role", "b")),
    ];
    for (what, method, url, body) in cases {
        let stage = Stage::new().await;
        let mut watch = stage.watch(&[]).await;
        assert!(!ends(&mut watch, Duration::from_secs(600)).await, "{what}: nothing has changed");
        stage.write(method, &url, body).await;
        assert!(ends(&mut watch, AT_ONCE).await, "{what} is gone, the watch is not");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_by_a_group_ends_with_the_groups_binding() {
    let stage = Stage::new().await;
    stage.write("DELETE", &format!("{ROLES}/rolebindings/a"), Value::Null).await;
    let role = json!({"metadata": {"name": "reader"}, "rules": rules(&["watch"])});
    stage.write("POST", &format!("{CLUSTER}/clusterroles"), role).await;
    let mut group = binding("all", "ClusterRole", "");
    group["subjects"] =
        json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"}]);
    stage.write("POST", &format!("{CLUSTER}/clusterrolebindings"), group).await;
    let mut watch = stage.watch(&[]).await;
    assert!(!ends(&mut watch, Duration::from_secs(60)).await);
    let less = json!({"metadata": {"name": "reader"}, "rules": rules(&["get"])});
    stage.write("PUT", &format!("{CLUSTER}/clusterroles/reader"), less).await;
    assert!(ends(&mut watch, AT_ONCE).await);
}

#[tokio::test(start_paused = true)]
async fn who_acts_as_somebody_else_needs_both() {
    let may = |name: &str, verbs: &[&str]| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": verbs}]});
    for gone in [format!("{ROLES}/rolebindings/b"), format!("{ROLES}/rolebindings/acts")] {
        let stage = Stage::new().await;
        stage.write("POST", &format!("{ROLES}/roles"), may("acts", &["impersonate"])).await;
        let mut acts = binding("acts", "Role", "a");
        acts["roleRef"]["name"] = json!("acts");
        stage.write("POST", &format!("{ROLES}/rolebindings"), acts).await;
        let mut watch = stage.watch(&[("impersonate-user", "system:serviceaccount:default:b")]).await;
        assert!(!ends(&mut watch, Duration::from_secs(60)).await);
        stage.write("DELETE", &gone, Value::Null).await;
        assert!(ends(&mut watch, AT_ONCE).await, "{gone}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_whatever_else_changes() {
    let stage = Stage::new().await;
    let mut watch = stage.watch(&[]).await;
    let wider = json!({"metadata": {"name": "reader"}, "rules": rules(&["get", "watch"])});
    stage.write("PUT", &format!("{ROLES}/roles/reader"), wider).await;
    for url in ["secrets/other", "serviceaccounts/b"] {
        stage.write("DELETE", &format!("{CORE}/{url}"), Value::Null).await;
    }
    stage.write("DELETE", &format!("{ROLES}/rolebindings/b"), Value::Null).await;
    let mut account = stage.world.ok("GET", &format!("{CORE}/serviceaccounts/a"), Value::Null).await;
    account["metadata"]["labels"] = json!({"x": "y"});
    stage.write("PUT", &format!("{CORE}/serviceaccounts/a"), account).await;
    assert!(!ends(&mut watch, Duration::from_secs(60)).await);
    assert!(ends(&mut watch, Duration::from_secs(3600)).await, "no watch lasts for ever");
}

/// Also one that never has to wait for its next event.
#[tokio::test(start_paused = true)]
async fn a_busy_watch_ends_too() {
    let stage = Stage::new().await;
    let mut watch = stage.watch(&[]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    stage.write("DELETE", &format!("{ROLES}/rolebindings/a"), Value::Null).await;
    for number in 0..60 {
        let document = json!({"metadata": {"name": format!("c{number}")}});
        stage.write("POST", &format!("{CORE}/configmaps"), document).await;
        match tokio::time::timeout(Duration::from_millis(100), watch.frame()).await {
            Ok(None) => return,
            Ok(Some(_)) | Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("it goes on");
}
