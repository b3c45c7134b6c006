//! A downstream cluster whose agent dials in.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::instance::Instance;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::{SeededEntropy, SystemClock};
use gateway::certificates::Authority;
use gateway::{Authorities, Certificates, Gateway};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::json;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tunnel::Target;
use tunnel::client::{Client, Hello, Transport};
use tunnel::serve::{Dial, Forward, Io, Later};

use crate::world::{ADMIN_TOKEN, World, pipe, server};

pub(crate) const ADDRESS: &str = "10.43.0.1:443";

/// The cluster: its API over TLS, at one address that only its own network knows.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) instance: Arc<Instance>,
    /// Where its agent finds the API.
    pub(crate) address: &'static str,
    tls: TlsAcceptor,
    ca: String,
    /// Connections so far.
    pub(crate) dialled: Arc<AtomicUsize>,
}

/// A body of any kind.
type Body = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, std::convert::Infallible>;

impl Cluster {
    pub(crate) async fn new(world: &World) -> Self {
        let mut entropy = SeededEntropy::new(11);
        // Clients go by the system's time.
        let now = clock::Clock::now(&SystemClock);
        let authorities = Authorities::only(Authority::new(now, &mut entropy).unwrap());
        let ca = authorities.trusted();
        let shown = Certificates::issued(
            authorities,
            vec!["10.43.0.1".into(), "10.0.0.5".into()],
            Arc::new(SystemClock),
            Box::new(entropy),
        );
        let tls = TlsAcceptor::from(shown.unwrap().server_config().unwrap());
        let instance = Arc::new(server(&world.clock, 12, None).await);
        Cluster { instance, address: ADDRESS, tls, ca, dialled: Arc::default() }
    }

    /// What its agent says of it.
    pub(crate) fn params(&self) -> String {
        let cluster =
            json!({"address": self.address, "token": ADMIN_TOKEN, "caCert": STANDARD.encode(&self.ca)});
        STANDARD.encode(json!({ "cluster": cluster }).to_string())
    }

    async fn answer(self, mut request: Request<Incoming>) -> Response<Body> {
        if request.uri().path() != "/exec" {
            return self.instance.api().handle(request).await.map(BodyExt::boxed_unsync);
        }
        // What a kubelet does: another protocol from here on.
        let upgrade = hyper::upgrade::on(&mut request);
        let protocol = request.headers()["upgrade"].clone();
        let said =
            request.headers().get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let greeting = format!("{said} {}\n", request.uri());
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.unwrap());
            stream.write_all(greeting.as_bytes()).await.unwrap();
            let (mut from, mut to) = tokio::io::split(stream);
            let _ = tokio::io::copy(&mut from, &mut to).await;
            let _ = to.shutdown().await;
        });
        let answer = Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header("connection", "Upgrade")
            .header("upgrade", protocol)
            .header("x-stream-protocol-version", "v4.channel.k8s.io");
        answer.body(Body::default()).unwrap()
    }
}

impl Dial for Cluster {
    fn dial(&self, target: Target) -> Later<'static, io::Result<Box<dyn Io>>> {
        let this = self.clone();
        Box::pin(async move {
            if target.address != this.address {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            this.dialled.fetch_add(1, Ordering::Relaxed);
            let (near, far) = tokio::io::duplex(64 << 10);
            tokio::spawn(async move {
                let Ok(stream) = this.tls.accept(far).await else { return };
                let service = service_fn(move |request| {
                    let this = this.clone();
                    async move { Ok::<_, std::convert::Infallible>(this.answer(request).await) }
                });
                let http = auto::Builder::new(TokioExecutor::new());
                let _ = http.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            });
            Ok(Box::new(near) as Box<dyn Io>)
        })
    }
}

/// The way to the gateway.
pub(crate) struct Way(pub(crate) Gateway);

impl Way {
    pub(crate) fn pipe(&self) -> DuplexStream {
        pipe(&self.0, "203.0.113.50:1000".parse().unwrap())
    }
}

impl Transport for Way {
    fn connect(&self) -> Later<'_, io::Result<Box<dyn Io>>> {
        Box::pin(std::future::ready(Ok(Box::new(self.pipe()) as Box<dyn Io>)))
    }
}

/// What an agent asks for a session with.
pub(crate) fn hello(token: &str, params: &str) -> Hello {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-tunnel-token", token.parse().unwrap());
    headers.insert("x-api-tunnel-params", params.parse().unwrap());
    Hello { url: "ws://herd.example.com/v3/connect/register".parse().unwrap(), headers }
}

/// A client with the way to the gateway, in front of a cluster.
pub(crate) fn client(world: &World, cluster: &Cluster) -> Client {
    Client {
        transport: Arc::new(Way(world.gateway.clone())),
        handler: Arc::new(Forward::new(|_: &Target| true, cluster.clone())),
        settings: tunnel::session::Settings::default(),
        clock: world.clock.clone(),
        entropy: Box::new(SeededEntropy::new(13)),
    }
}

/// The cluster's agent: it dials in for ever, until it is aborted.
pub(crate) fn dial_in(world: &World, cluster: &Cluster, token: &str) -> JoinHandle<()> {
    let (client, hello) = (client(world, cluster), hello(token, &cluster.params()));
    tokio::spawn(async move {
        client.run(move || hello.clone(), |_| {}).await;
    })
}
