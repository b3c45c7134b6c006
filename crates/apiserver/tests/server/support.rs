use std::sync::Arc;

use apiserver::server::{Answer, Notes, Request, Server, Watching};
use apiserver::store::{MemoryStore, Options, Store};
use clock::{Clock, ManualClock, SeededEntropy};
use jiff::Timestamp;
use kubeapi::Status;
use kubeapi::authn::{MASTERS, User};
use kubeapi::media::{Endpoint, PatchType, patch_type};
use kubeapi::request::{Query, Target};
use serde_json::{Value, json};

/// The time that stands still in these tests.
pub(crate) const NOW: &str = "2026-01-02T03:04:05Z";

/// A server with a namespace `default`.
pub(crate) async fn server() -> Server {
    server_on(|clock| Arc::new(MemoryStore::new(Options::default(), clock))).await
}

pub(crate) async fn server_on(store: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Store>) -> Server {
    server_with(store, |server| server).await
}

/// A server that was given something more.
pub(crate) async fn new_server(more: impl FnOnce(Server) -> Server) -> Server {
    server_with(|clock| Arc::new(MemoryStore::new(Options::default(), clock)), more).await
}

async fn server_with(
    store: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Store>,
    more: impl FnOnce(Server) -> Server,
) -> Server {
    let clock = Arc::new(ManualClock::at(NOW.parse::<Timestamp>().unwrap()));
    let server = more(Server::new(store(clock.clone()), clock, Box::new(SeededEntropy::new(1))));
    let namespace = json!({"metadata": {"name": "default"}});
    ask(&server, "POST", "/api/v1/namespaces", Some(namespace)).await.unwrap();
    server
}

/// A request. The method may name a kind of patch: `merge`, `json` or `strategic`.
pub(crate) fn request(method: &str, url: &str, body: Option<Value>) -> Request {
    let (method, patch) = match method {
        "merge" => ("PATCH", "application/merge-patch+json"),
        "json" => ("PATCH", "application/json-patch+json"),
        "strategic" => ("PATCH", "application/strategic-merge-patch+json"),
        other => (other, ""),
    };
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let query = Query::parse(query);
    let Ok(Target::Resource(target)) = Target::parse(method, path, &query) else { panic!("{method} {url}") };
    let patch = patch_type(patch, Endpoint::Builtin).unwrap_or(PatchType::Merge);
    let user = User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() };
    Request { target, query, body, patch, user, user_agent: "tests".into(), notes: Notes::default() }
}

pub(crate) async fn ask(
    server: &Server,
    method: &str,
    url: &str,
    body: Option<Value>,
) -> Result<Answer, Status> {
    server.serve(&request(method, url, body)).await
}

/// The body of an answer that has to be good.
pub(crate) async fn ok(server: &Server, method: &str, url: &str, body: Value) -> Value {
    let body = (!body.is_null()).then_some(body);
    match ask(server, method, url, body).await {
        Ok(answer) => answer.body,
        Err(status) => panic!("{method} {url}: {status:?}"),
    }
}

/// The Status of an answer that has to be bad.
pub(crate) async fn refused(server: &Server, method: &str, url: &str, body: Value) -> Status {
    let body = (!body.is_null()).then_some(body);
    match ask(server, method, url, body).await {
        Ok(answer) => panic!("{method} {url}: {}", answer.body),
        Err(status) => status,
    }
}

pub(crate) fn watch(server: &Server, url: &str) -> Result<Watching, Status> {
    server.watch(&request("GET", url, None))
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}
