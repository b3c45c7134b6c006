//! The server that machines register at: the embedded API, a registration endpoint, a hub for tunnels. In the clear, over
//! pipes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use agent::connect::Stream;
use agent::machine::Later;
use apiserver::auth::SigningKey;
use apiserver::http::Body;
use apiserver::instance::{Instance, Parts};
use apiserver::pki::{Clients, Keys, Pki};
use apiserver::store::{MemoryStore, Options, Store};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clock::{Clock, SeededEntropy};
use http::{HeaderMap, Request, Response, request};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubeapi::authn::{MASTERS, User};
use serde_json::json;
use sim::Uplink;
use tokio_rustls::TlsAcceptor;
use tunnel::hub::{Authorizer, Verdict};
use tunnel::session::Settings;
use tunnel::{ClientKey, Hub};

pub(crate) const URL: &str = "http://herdsman.test";
pub(crate) const NAMESPACE: &str = "fleet-default";

#[derive(Clone)]
pub(crate) struct Management(Arc<Inner>);

struct Inner {
    instance: Instance,
    store: Arc<dyn Store>,
    hub: Hub,
    /// What registered: headers, by token.
    registered: Mutex<BTreeMap<String, HeaderMap>>,
    /// What tunnels said of their clusters.
    params: Mutex<Vec<String>>,
    /// TLS, and the authority that `/cacerts` shows.
    tls: Option<(TlsAcceptor, String)>,
}

impl Management {
    pub(crate) async fn start(clock: &Arc<dyn Clock>, seed: u64) -> Self {
        Management::start_with(clock, seed, None).await
    }

    /// One that speaks TLS, with an authority of its own.
    pub(crate) async fn secure(clock: &Arc<dyn Clock>, seed: u64, directory: &Path) -> Self {
        let keys = Keys::open(directory, clock.as_ref(), &mut SeededEntropy::new(seed)).unwrap();
        let pki = Arc::new(Pki::new(keys, clock.clone(), Box::new(SeededEntropy::new(seed))).unwrap());
        let tls = pki.server_config(&["herdsman.test".into()], Clients::ShowNone).unwrap();
        let mut tls = (*tls).clone();
        tls.alpn_protocols.clear();
        let tls = (TlsAcceptor::from(Arc::new(tls)), pki.ca_certificate().to_owned());
        Management::start_with(clock, seed, Some(tls)).await
    }

    async fn start_with(clock: &Arc<dyn Clock>, seed: u64, tls: Option<(TlsAcceptor, String)>) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Options::default(), clock.clone()));
        let key = SigningKey::from_pem(include_str!("../../../apiserver/tests/data/sa.key")).unwrap();
        let entropy = Box::new(SeededEntropy::new(seed));
        let parts = Parts {
            namespaces: vec![NAMESPACE.into()],
            ..Parts::new(store.clone(), clock.clone(), entropy, "-- a certificate --", key)
        };
        let hub = Hub::new(Settings::default(), clock.clone(), Box::new(SeededEntropy::new(seed)));
        let instance = Instance::start(parts).await.unwrap();
        Management(Arc::new(Inner {
            instance,
            store,
            hub,
            registered: Mutex::default(),
            params: Mutex::default(),
            tls,
        }))
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.0.instance.api().as_user(admin()), NAMESPACE)
    }

    /// What `/cacerts` answers; empty without TLS.
    pub(crate) fn authority(&self) -> &str {
        self.0.tls.as_ref().map_or("", |(_, authority)| authority)
    }

    pub(crate) fn url(&self) -> &'static str {
        if self.0.tls.is_some() { "https://herdsman.test" } else { URL }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// What a machine said of itself when it registered with a token.
    pub(crate) fn registered(&self, token: &str) -> Option<HeaderMap> {
        self.0.registered.lock().unwrap().get(token).cloned()
    }

    pub(crate) fn tunnel_params(&self) -> Vec<String> {
        self.0.params.lock().unwrap().clone()
    }

    async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, String>>, Infallible> {
        let plain = |status: u16, text: String| {
            let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
            Ok(Response::builder().status(status).body(body).unwrap())
        };
        match request.uri().path() {
            "/healthz" => plain(200, "ok".into()),
            "/cacerts" => plain(200, self.authority().to_owned()),
            "/v3/connect/agent" => {
                let headers = request.headers().clone();
                let token =
                    headers["authorization"].to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned();
                let Some(machine) = token.strip_prefix("token-of-") else { return plain(401, "who?".into()) };
                let authority = BASE64_STANDARD.encode(self.authority());
                let cluster = json!({"server": self.url(), "certificate-authority-data": authority});
                let kubeconfig = json!({
                    "clusters": [{"name": "agent", "cluster": cluster}],
                    "users": [{"name": "agent", "user": {"token": "x"}}],
                    "contexts": [{"name": "agent", "context": {"cluster": "agent", "user": "agent"}}],
                    "current-context": "agent",
                });
                let answer = json!({
                    "namespace": NAMESPACE,
                    "secretName": format!("{machine}-plan"),
                    "kubeConfig": kubeconfig.to_string(),
                });
                self.0.registered.lock().unwrap().insert(token, headers);
                plain(200, answer.to_string())
            }
            path if path.starts_with("/v3/connect") => {
                let response = self.0.hub.answer(request, &self).await;
                Ok(response.map(|body| body.map_err(|error| error.to_string()).boxed_unsync()))
            }
            _ => {
                let mut request = request;
                request.extensions_mut().insert(admin());
                let response: Response<Body> = self.0.instance.api().handle(request).await;
                Ok(response.map(|body| body.map_err(|error| error.to_string()).boxed_unsync()))
            }
        }
    }
}

fn admin() -> User {
    User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() }
}

impl Authorizer for Management {
    fn authorize<'a>(&'a self, head: &'a request::Parts) -> tunnel::serve::Later<'a, Verdict> {
        let header =
            |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let known = header("x-api-tunnel-token") == "registration-token";
        self.0.params.lock().unwrap().push(header("x-api-tunnel-params").to_owned());
        let verdict = if known { Verdict::Is(ClientKey::new("c-m-1").unwrap()) } else { Verdict::Nobody };
        Box::pin(std::future::ready(verdict))
    }
}

impl Uplink for Management {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Later<'a, io::Result<Box<dyn Stream>>> {
        let known = if self.0.tls.is_some() { 443 } else { 80 };
        assert_eq!((host, port), ("herdsman.test", known), "machines know no other server");
        let (near, far) = tokio::io::duplex(64 << 10);
        let (this, tls) = (self.clone(), self.0.tls.as_ref().map(|(tls, _)| tls.clone()));
        tokio::spawn(async move {
            let serve = service_fn(move |request| this.clone().answer(request));
            let http = hyper::server::conn::http1::Builder::new();
            match tls {
                None => drop(http.serve_connection(TokioIo::new(far), serve).with_upgrades().await),
                Some(tls) => {
                    let Ok(far) = tls.accept(far).await else { return };
                    drop(http.serve_connection(TokioIo::new(far), serve).with_upgrades().await);
                }
            }
        });
        Box::pin(std::future::ready(Ok(Box::new(near) as Box<dyn Stream>)))
    }
}
