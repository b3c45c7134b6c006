use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use agent::connect::{Connect, Error, Stream};
use agent::machine::Later;
use apiserver::auth::{SigningKey, Tokens};
use apiserver::http::Api;
use apiserver::instance::{Instance, Parts};
use apiserver::store::{MemoryStore, Options};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clock::{RuntimeClock, SeededEntropy};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubeapi::authn::{MASTERS, User};
use plan::secret::Data;
use serde_json::{Value, json};
use tokio::sync::watch;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// The embedded API server behind a wire that can be cut. It holds one Secret that matters: `default/plan`.
#[derive(Clone)]
pub(crate) struct Server(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Connections end when it changes.
    epoch: watch::Sender<u32>,
}

struct State {
    /// None: nobody answers.
    instance: Option<Arc<Instance>>,
    puts: usize,
    gets: usize,
    /// What agents are told instead of the Secret's own uid: a restored Secret has the one it had.
    uid: Option<(String, String)>,
    /// Writes that are answered with an error although they were done.
    lost_answers: usize,
    /// Reads of the Secret that are answered with "not found" although it is there.
    denied: usize,
    /// What others write just before each of an agent's next writes, last first.
    races: Vec<Data>,
    /// The agent that is given out.
    binary: Option<Bytes>,
}

async fn instance() -> Arc<Instance> {
    let clock = Arc::new(RuntimeClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
    let store = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
    let key = SigningKey::from_pem(include_str!("../../data/sa.key")).unwrap();
    let mut parts = Parts::new(store, clock, Box::new(SeededEntropy::new(1)), "-- a certificate --", key);
    parts.tokens = Some(Arc::new(Anybody));
    Arc::new(Instance::start(parts).await.unwrap())
}

struct Anybody;

impl Tokens for Anybody {
    fn holder<'a>(&'a self, _: &'a str) -> Later<'a, Result<Option<User>, String>> {
        Box::pin(std::future::ready(Ok(Some(admin()))))
    }
}

fn admin() -> User {
    User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() }
}

impl Server {
    pub(crate) async fn new() -> Self {
        let instance = Some(instance().await);
        let state = State {
            instance,
            puts: 0,
            gets: 0,
            uid: None,
            lost_answers: 0,
            denied: 0,
            races: Vec::new(),
            binary: None,
        };
        Server(Arc::new(Inner { state: Mutex::new(state), epoch: watch::Sender::new(0) }))
    }

    fn api(&self) -> Option<Api> {
        self.0.state.lock().unwrap().instance.as_ref().map(|instance| instance.api().clone())
    }

    /// Serves agents that are processes; they may do everything, whatever their token.
    pub(crate) async fn listen(&self, tls: Arc<rustls::ServerConfig>) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let instance = self.0.state.lock().unwrap().instance.clone().unwrap();
        tokio::spawn(async move { instance.listen(listener, Some(tls)).await });
        address
    }

    /// A request of the orchestrator.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        ask(&self.api().unwrap(), method, path, body).await
    }

    /// Makes the Secret.
    pub(crate) async fn create(&self, data: &Data) {
        let (code, answer) = self.ask("POST", SECRETS, &secret(data)).await;
        assert_eq!(code, 201, "{answer}");
    }

    pub(crate) async fn delete(&self) {
        assert_eq!(self.ask("DELETE", &format!("{SECRETS}/plan"), &Value::Null).await.0, 200);
    }

    pub(crate) async fn document(&self) -> Value {
        let (code, answer) = self.ask("GET", &format!("{SECRETS}/plan"), &Value::Null).await;
        assert_eq!(code, 200, "{answer}");
        answer
    }

    pub(crate) async fn data(&self) -> Data {
        let document = self.document().await;
        let data = document["data"].as_object().cloned().unwrap_or_default();
        data.into_iter()
            .map(|(key, value)| (key, STANDARD.decode(value.as_str().unwrap()).unwrap()))
            .collect()
    }

    /// Changes keys of the Secret, whatever stands there.
    pub(crate) async fn set(&self, data: &Data) {
        set(&self.api().unwrap(), data).await;
    }

    /// How often agents have written since the last time.
    pub(crate) fn take_puts(&self) -> usize {
        std::mem::take(&mut self.0.state.lock().unwrap().puts)
    }

    pub(crate) fn take_gets(&self) -> usize {
        std::mem::take(&mut self.0.state.lock().unwrap().gets)
    }

    /// The next writes are done, but nobody learns of it.
    pub(crate) fn lose_answers(&self, count: usize) {
        self.0.state.lock().unwrap().lost_answers = count;
    }

    /// The next reads are told that there is no such Secret.
    pub(crate) fn deny(&self, count: usize) {
        self.0.state.lock().unwrap().denied = count;
    }

    /// Just before each of the next writes of an agent, somebody else writes one of these.
    pub(crate) fn race(&self, mut writes: Vec<Data>) {
        writes.reverse();
        self.0.state.lock().unwrap().races = writes;
    }

    /// Gives out an agent from now on.
    pub(crate) fn give(&self, binary: &'static [u8]) {
        self.0.state.lock().unwrap().binary = Some(Bytes::from_static(binary));
    }

    /// Says something on the Secret.
    pub(crate) async fn annotate(&self, name: &str, value: &str) {
        let patch = json!({"metadata": {"annotations": {name: value}}});
        assert_eq!(self.ask("PATCH", &format!("{SECRETS}/plan"), &patch).await.0, 200);
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.0.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// Nobody answers any more.
    pub(crate) fn go_away(&self) -> Arc<Instance> {
        let gone = self.0.state.lock().unwrap().instance.take().unwrap();
        self.cut();
        gone
    }

    pub(crate) fn come_back(&self, instance: Arc<Instance>) {
        self.0.state.lock().unwrap().instance = Some(instance);
    }

    /// The server is as it was when the Secret said this, with revisions that start again.
    pub(crate) async fn restore(&self, data: &Data) {
        let old = self.document().await["metadata"]["uid"].as_str().unwrap().to_owned();
        let told = self.0.state.lock().unwrap().uid.take().map_or(old, |(_, told)| told);
        let instance = instance().await;
        let (code, made) = ask(instance.api(), "POST", SECRETS, &secret(data)).await;
        assert_eq!(code, 201);
        let real = made["metadata"]["uid"].as_str().unwrap().to_owned();
        let mut state = self.0.state.lock().unwrap();
        state.instance = Some(instance);
        state.uid = Some((real, told));
        drop(state);
        self.cut();
    }

    async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, String>>, Infallible> {
        if let Some(file) = request.uri().path().strip_prefix("/assets/") {
            assert!(file.starts_with("rancher-system-agent-"), "{file}");
            let binary = self.0.state.lock().unwrap().binary.clone();
            let Some(binary) = binary else { return Ok(refusal(StatusCode::NOT_FOUND)) };
            return Ok(Response::new(Full::new(binary).map_err(|never| match never {}).boxed_unsync()));
        }
        let is_put = request.method() == Method::PUT;
        let is_read = request.method() == Method::GET && request.uri().path().ends_with("/plan");
        let (api, uid, race, lost) = {
            let mut state = self.0.state.lock().unwrap();
            if is_read && state.denied > 0 {
                state.denied -= 1;
                return Ok(refusal(StatusCode::NOT_FOUND));
            }
            let lost = is_put && state.lost_answers > 0;
            state.lost_answers -= usize::from(lost);
            state.puts += usize::from(is_put);
            state.gets += usize::from(request.method() == Method::GET);
            let race = if is_put { state.races.pop() } else { None };
            (state.instance.as_ref().unwrap().api().clone(), state.uid.clone(), race, lost)
        };
        if let Some(data) = race {
            set(&api, &data).await;
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = uid.as_ref().map_or(body.clone(), |(real, told)| replace(&body, told, real));
        let mut request = Request::from_parts(parts, Full::new(body));
        request.headers_mut().remove("content-length");
        request.extensions_mut().insert(admin());
        let (parts, body) = api.handle(request).await.into_parts();
        if lost {
            return Ok(refusal(StatusCode::BAD_GATEWAY));
        }
        let body = body.map_frame(move |frame| {
            let uid = uid.clone();
            frame.map_data(move |bytes| {
                uid.map_or(bytes.clone(), |(real, told)| replace(&bytes, &real, &told))
            })
        });
        Ok(Response::from_parts(parts, body.map_err(|error| error.to_string()).boxed_unsync()))
    }
}

fn refusal(code: StatusCode) -> Response<UnsyncBoxBody<Bytes, String>> {
    let body = Full::new(Bytes::from_static(b"no")).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

/// Both have the same length.
fn replace(bytes: &Bytes, from: &str, to: &str) -> Bytes {
    String::from_utf8(bytes.to_vec()).unwrap().replace(from, to).into()
}

fn secret(data: &Data) -> Value {
    let data: serde_json::Map<_, _> =
        data.iter().map(|(key, value)| (key.clone(), STANDARD.encode(value).into())).collect();
    json!({"metadata": {"name": "plan"}, "type": "rke.cattle.io/machine-plan", "data": data})
}

async fn set(api: &Api, data: &Data) {
    let data = secret(data)["data"].clone();
    let (code, answer) = ask(api, "PATCH", &format!("{SECRETS}/plan"), &json!({"data": data})).await;
    assert_eq!(code, 200, "{answer}");
}

async fn ask(api: &Api, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("content-type", content);
    let request = request.extension(admin()).body(Full::new(Bytes::from(text))).unwrap();
    let (parts, body) = api.handle(request).await.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
}

impl Connect for Server {
    fn connect(&self) -> Later<'_, Result<Box<dyn Stream>, Error>> {
        Box::pin(async {
            if self.api().is_none() {
                return Err(Error::Timeout("the server".into()));
            }
            let (near, far) = tokio::io::duplex(64 << 10);
            let (server, mut epoch) = (self.clone(), self.0.epoch.subscribe());
            tokio::spawn(async move {
                let serve = service_fn(move |request| server.clone().answer(request));
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), serve);
                tokio::select! {
                    biased;
                    _ = epoch.changed() => {}
                    _ = connection => {}
                }
            });
            let stream: Box<dyn Stream> = Box::new(near);
            Ok(stream)
        })
    }
}
