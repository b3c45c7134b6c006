use std::pin::Pin;
use std::sync::Arc;

use apiserver::audit::Audit;
use apiserver::auth::{Auth, Tokens};
use apiserver::http::{Api, Settings, Setup};
use apiserver::server::Server;
use apiserver::store::{MemoryStore, Options, Store};
use clock::{ManualClock, SeededEntropy};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use kubeapi::authn::{MASTERS, User};
use serde_json::{Value, json};

/// The time that stands still in these tests.
pub(crate) const NOW: &str = "2026-01-02T03:04:05Z";

/// A server with a namespace `default`.
pub(crate) async fn api() -> Api {
    api_with(Options::default()).await
}

pub(crate) async fn api_with(options: Options) -> Api {
    api_of(options, Settings::default(), |server| server).await
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(NOW.parse::<Timestamp>().unwrap()))
}

pub(crate) async fn api_of(
    options: Options,
    settings: Settings,
    change: impl FnOnce(Server) -> Server,
) -> Api {
    let store = Arc::new(MemoryStore::new(options, clock()));
    api_around(store, Setup { settings, ..Setup::default() }, change).await
}

pub(crate) async fn api_on(store: Arc<dyn Store>, audit: Option<Arc<Audit>>) -> Api {
    api_around(store, Setup { audit, ..Setup::default() }, |server| server).await
}

async fn api_around(store: Arc<dyn Store>, setup: Setup, change: impl FnOnce(Server) -> Server) -> Api {
    let server = Arc::new(change(Server::new(store, clock(), Box::new(SeededEntropy::new(1)))));
    let auth = Auth::new(server.clone()).with_tokens(Arc::new(Names));
    let api = Api::with(server, Arc::new(auth), setup);
    let namespace = json!({"metadata": {"name": "default"}});
    let answer = ask(&api, "POST", "/api/v1/namespaces", &[], namespace.to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.text());
    api
}

/// A token is the name of its holder (but for `wrong`, which is nobody's), who may do everything that a group `everybody` may.
struct Names;

impl Tokens for Names {
    fn holder<'a>(
        &'a self,
        token: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<User>, String>> + Send + 'a>> {
        let groups = vec!["everybody".to_owned()];
        let holder = User { name: token.into(), groups, ..User::default() };
        Box::pin(std::future::ready(Ok((token != "wrong").then_some(holder))))
    }
}

/// Lets the holders of tokens, and people without any, do everything.
pub(crate) async fn grant_everything(api: &Api) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]);
    let role = json!({"metadata": {"name": "everything"}, "rules": rules});
    ok(api, "POST", &format!("{rbac}/clusterroles"), &role).await;
    let group = "rbac.authorization.k8s.io";
    let subject = |name| json!({"apiGroup": group, "kind": "Group", "name": name});
    let subjects = ["everybody", "system:authenticated", "system:unauthenticated"].map(subject);
    let binding = json!({
        "metadata": {"name": "everything"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "everything"},
        "subjects": subjects,
    });
    ok(api, "POST", &format!("{rbac}/clusterrolebindings"), &binding).await;
}

/// A request of who holds a token, from outside.
pub(crate) fn request_of(user: &str, method: &str, url: &str, body: &str) -> Request<Full<bytes::Bytes>> {
    let token = format!("Bearer {user}");
    let request = Request::builder().method(method).uri(url).header("authorization", token);
    let request = request.header("host", "localhost").header("content-length", body.len());
    request.body(Full::new(body.to_owned().into())).unwrap()
}

/// Somebody who may do everything.
pub(crate) fn admin() -> User {
    User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() }
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }

    /// A header's values, one after the other.
    pub(crate) fn header(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        values.collect::<Vec<_>>().join("; ")
    }
}

/// A request from the administrator.
pub(crate) fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> Request<Full<bytes::Bytes>> {
    let mut request = Request::builder().method(method).uri(url).extension(admin());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into().into())).unwrap()
}

pub(crate) async fn ask(
    api: &Api,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> Answer {
    let (parts, body) = api.handle(request(method, url, headers, body)).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Answer { code: parts.status.as_u16(), headers: parts.headers, body }
}

/// A request that has to be well answered.
pub(crate) async fn ok(api: &Api, method: &str, url: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = ask(api, method, url, &[], body).await;
    assert!(answer.code < 300, "{method} {url}: {}", answer.text());
    answer.json()
}

/// A definition of `Widget`s, in namespaces.
pub(crate) fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                }},
            }],
        },
    })
}
