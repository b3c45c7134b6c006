//! Decoders that are parts of the server: asked through its whole HTTP face. A server that panics answers 500.

use std::sync::Arc;

use apiserver::auth::{Auth, SigningKey};
use apiserver::http::Api;
use apiserver::server::Server;
use apiserver::store::{MemoryStore, Options};
use clock::{ManualClock, SeededEntropy};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use kubeapi::authn::{MASTERS, User};
use serde_json::Value;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// A key that signs nothing but is one.
const KEY: &str = include_str!("../../apiserver/tests/data/sa.key");

struct World {
    api: Api,
    runtime: tokio::runtime::Runtime,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let store = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
        let server = Arc::new(Server::new(store, clock, Box::new(SeededEntropy::new(1))));
        let key = SigningKey::from_pem(KEY).expect("it is a key");
        let api = Api::new(server.clone(), Arc::new(Auth::new(server).with_key(key)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let world = World { api, runtime: runtime.expect("a runtime") };
        for (url, name) in [("/api/v1/namespaces", "default"), (SECRETS, "a")] {
            let body = format!("{{\"metadata\":{{\"name\":{name:?}}}}}");
            assert_eq!(world.ask("POST", url, "application/json", body.as_bytes()), 201, "{url}");
        }
        world
    }

    /// The code of an answer to the administrator.
    fn ask(&self, method: &str, url: &str, content_type: &str, body: &[u8]) -> u16 {
        self.answer_to_admin(method, url, content_type, body).status().as_u16()
    }

    fn answer_to_admin(&self, method: &str, url: &str, content_type: &str, body: &[u8]) -> Answer {
        let admin = User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() };
        let request = Request::builder().method(method).uri(url).header("content-type", content_type);
        let request = request.extension(admin).body(Full::new(body.to_vec().into()));
        self.answer(request.expect("a request"))
    }

    fn answer(&self, request: Request<Full<bytes::Bytes>>) -> Answer {
        self.runtime.block_on(self.api.handle(request))
    }

    /// Why a request was refused, in one word.
    fn reason(&self, answer: Answer) -> Value {
        let body = self.runtime.block_on(answer.into_body().collect()).expect("a body").to_bytes();
        serde_json::from_slice::<Value>(&body).expect("a Status")["reason"].take()
    }
}

type Answer = Response<apiserver::http::Body>;

thread_local! {
    static WORLD: World = World::new();
}

/// Asks, and nothing is kept.
fn try_out(method: &str, url: &str, content_type: &str, body: &[u8]) {
    let asked = format!("{url}?dryRun=All&fieldManager=x");
    WORLD.with(|world| {
        let answer = world.answer_to_admin(method, &asked, content_type, body);
        // What cannot be applied is told as upstream does: with this code, but without a reason.
        let bad = answer.status().as_u16() == 500 && !world.reason(answer).is_null();
        assert!(!bad, "{method} {url}");
    });
}

pub(crate) fn body_json(bytes: &[u8]) {
    try_out("POST", SECRETS, "application/json", bytes);
    try_out("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", bytes);
    try_out("DELETE", &format!("{SECRETS}/a"), "application/json", bytes);
}

pub(crate) fn body_yaml(bytes: &[u8]) {
    try_out("POST", SECRETS, "application/yaml", bytes);
}

pub(crate) fn body_apply(bytes: &[u8]) {
    try_out("PATCH", &format!("{SECRETS}/a"), "application/apply-patch+yaml", bytes);
}

pub(crate) fn continue_token(bytes: &[u8]) {
    let escaped: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
    let url = format!("{SECRETS}?limit=1&continue={escaped}");
    // Longer ones are no URL.
    if url.len() < 30_000 {
        let code = WORLD.with(|world| world.ask("GET", &url, "", b""));
        assert!(code != 500, "{code}");
    }
}

pub(crate) fn jwt(bytes: &[u8]) {
    let Ok(header) = HeaderValue::from_bytes(&[b"Bearer ", bytes].concat()) else { return };
    let request = Request::get(SECRETS).header("authorization", header).body(Full::default());
    let code = WORLD.with(|world| world.answer(request.expect("a request")).status().as_u16());
    assert!(matches!(code, 401 | 403), "{code}");
}
