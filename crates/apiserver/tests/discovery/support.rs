use std::sync::Arc;

use apiserver::Document;
use apiserver::openapi::OpenApi;
use apiserver::registry::Registry;
use apiserver::server::{Notes, Request, Server};
use apiserver::store::{MemoryStore, Options};
use clock::{ManualClock, SeededEntropy};
use jiff::Timestamp;
use kubeapi::Status;
use kubeapi::authn::User;
use kubeapi::media::PatchType;
use kubeapi::request::{Query, Target};
use serde_json::Value;

/// Definitions with all that a schema can say.
pub(crate) const DEFINITIONS: &str = include_str!("crds.yaml");

/// A server that serves [`DEFINITIONS`].
pub(crate) async fn server() -> Server {
    let clock = Arc::new(ManualClock::at("2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap()));
    let store = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
    let server = Server::new(store, clock, Box::new(SeededEntropy::new(1)));
    for definition in DEFINITIONS.split("---\n") {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let definition: Value = serde_saphyr::from_str(definition).unwrap();
        ask(&server, "POST", path, Some(definition)).await;
    }
    server
}

/// What [`server`] serves.
pub(crate) async fn registry() -> Arc<Registry> {
    server().await.registry()
}

/// Has a request done, well.
pub(crate) async fn ask(server: &Server, method: &str, path: &str, body: Option<Value>) {
    let query = Query::default();
    let Ok(Target::Resource(target)) = Target::parse(method, path, &query) else { panic!("{path}") };
    let request = Request {
        target,
        query,
        body,
        patch: PatchType::Merge,
        user: User::anonymous(),
        user_agent: String::new(),
        notes: Notes::default(),
    };
    server.serve(&request).await.unwrap();
}

/// The document of discovery at a path.
pub(crate) fn discovery(registry: &Registry, path: &str, accept: &str) -> Option<Result<Document, Status>> {
    apiserver::discovery::answer(registry, path, accept)
}

/// The JSON at a path of discovery.
pub(crate) fn discovered(registry: &Registry, path: &str, accept: &str) -> Value {
    serde_json::from_slice(&discovery(registry, path, accept).unwrap().unwrap().body).unwrap()
}

/// The values of a field in each item of a list.
pub(crate) fn each<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one[field].as_str().unwrap()).collect()
}

/// The JSON of an OpenAPI document.
pub(crate) fn opened(registry: &Arc<Registry>, path: &str) -> Value {
    let answer = OpenApi::default().answer(registry, path, &Query::default(), "");
    serde_json::from_slice(&answer.unwrap().unwrap().body).unwrap()
}
