//! Real connections: TLS, both versions of HTTP, client certificates, an orderly end.

use std::sync::Arc;
use std::time::Duration;

use apiserver::http::{Api, Certificates, Settings, listen, serve, tls_config};
use apiserver::store::Options;
use http::{Request, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use crate::support::{api, api_of, grant_everything, ok};

const WATCH: &str = "/api/v1/namespaces?watch=1";

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }

    fn issue(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }
}

/// A client that trusts `server`, and shows a certificate of `shown`.
fn client(server: &Authority, shown: Option<&Authority>, protocol: &str) -> TlsConnector {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions();
    let builder = builder.unwrap().with_root_certificates(server.roots());
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let (certificates, key) = authority.issue();
            builder.with_client_auth_cert(certificates, key).unwrap()
        }
    };
    config.alpn_protocols = vec![protocol.into()];
    Arc::new(config).into()
}

/// What is left of a connection: it is driven in the background.
enum Sender {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(http2::SendRequest<Empty<Bytes>>),
}

impl Sender {
    async fn connect(address: std::net::SocketAddr, tls: TlsConnector) -> Result<Self, std::io::Error> {
        let stream = TcpStream::connect(address).await?;
        let stream = tls.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
        let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(stream);
        if two {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            return Ok(Sender::Two(sender));
        }
        let (sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        Ok(Sender::One(sender))
    }

    async fn get(&mut self, path: &str) -> Result<http::Response<Incoming>, hyper::Error> {
        let url = format!("https://localhost{path}");
        let request = Request::get(url).header("host", "localhost").body(Empty::new()).unwrap();
        match self {
            Sender::One(sender) => sender.send_request(request).await,
            Sender::Two(sender) => sender.send_request(request).await,
        }
    }
}

async fn listening(api: &Api, server: &Authority) -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (certificates, key) = server.issue();
    let tls = tls_config(certificates, key, Some(server.roots())).unwrap();
    (address, tokio::spawn(listen(api.clone(), listener, Some(tls), Duration::from_secs(60))))
}

#[tokio::test]
async fn both_versions_of_http_are_served_over_tls_until_the_end() {
    let (api, authority) = (api().await, Authority::new());
    grant_everything(&api).await;
    let (address, listening) = listening(&api, &authority).await;
    let mut watches = Vec::new();
    for (protocol, version) in [("h2", Version::HTTP_2), ("http/1.1", Version::HTTP_11)] {
        for shown in [None, Some(&authority)] {
            let mut sender = Sender::connect(address, client(&authority, shown, protocol)).await.unwrap();
            let answer = sender.get("/api/v1/namespaces/default").await.unwrap();
            assert_eq!((answer.status().as_u16(), answer.version()), (200, version));
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(
                serde_json::from_slice::<serde_json::Value>(&body).unwrap()["metadata"]["name"],
                "default"
            );
            let mut watch = sender.get(WATCH).await.unwrap().into_body();
            assert!(watch.frame().await.unwrap().unwrap().data_ref().unwrap().starts_with(b"{\"type\""));
            watches.push((sender, watch));
        }
    }
    api.close();
    for (_, watch) in watches {
        let rest = watch.collect().await.expect("a watch ends properly").to_bytes();
        assert!(rest.is_empty());
    }
    listening.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn certificates_of_a_stranger_are_refused() {
    let (api, authority, stranger) = (api().await, Authority::new(), Authority::new());
    grant_everything(&api).await;
    let (address, _listening) = listening(&api, &authority).await;
    let answered = match Sender::connect(address, client(&authority, Some(&stranger), "h2")).await {
        // The client learns of it with its first request.
        Ok(mut sender) => sender.get("/livez").await.is_ok(),
        Err(_) => false,
    };
    assert!(!answered);
    // A connection that never says anything sensible harms nobody.
    TcpStream::connect(address).await.unwrap().try_write(b"GET / HTTP/1.1\r\n\r\n").ok();
    let mut sender = Sender::connect(address, client(&authority, None, "h2")).await.unwrap();
    assert_eq!(sender.get("/livez").await.unwrap().status(), 200);
}

#[tokio::test]
async fn any_stream_can_be_a_connection() {
    let api = api().await;
    grant_everything(&api).await;
    let (near, far) = tokio::io::duplex(1024);
    tokio::spawn(serve(api, far, Certificates::default()));
    let (mut sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/livez").header("host", "x").body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_watch_is_the_last_answer_of_a_connection() {
    let api = api().await;
    grant_everything(&api).await;
    ok(&api, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "one"}})).await;
    let (near, far) = tokio::io::duplex(64 * 1024);
    let serving = tokio::spawn(serve(api, far, Certificates::default()));
    let (mut sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    let request = |path: &str| Request::get(path).header("host", "x").body(Empty::<Bytes>::new()).unwrap();
    // What comes before it on the connection is answered as ever.
    let before = sender.send_request(request("/livez")).await.unwrap();
    assert_eq!((before.status().as_u16(), before.headers().get("connection")), (200, None));
    before.into_body().collect().await.unwrap();
    sender.ready().await.unwrap();
    let watch = sender.send_request(request(&format!("{WATCH}&timeoutSeconds=1"))).await.unwrap();
    let header = |name: &str| watch.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(watch.status(), 200);
    assert_eq!(header("connection").as_deref(), Some("close"));
    assert_eq!(header("transfer-encoding").as_deref(), Some("chunked"));
    assert_eq!(header("date").as_deref(), Some("Fri, 02 Jan 2026 03:04:05 GMT"));
    assert!(header("audit-id").is_some());
    let told = watch.into_body().collect().await.expect("it has an end").to_bytes();
    let mut events = serde_json::Deserializer::from_slice(&told).into_iter::<Value>().map(Result::unwrap);
    assert!(events.any(|event| event["type"] == "ADDED" && event["object"]["metadata"]["name"] == "one"));
    serving.await.unwrap();
    assert!(sender.ready().await.is_err(), "it is over");
}

#[tokio::test]
async fn a_watch_counts_as_a_connection_of_who_asked() {
    let settings = Settings { connections_per_user: 1, ..Settings::default() };
    let api = api_of(Options::default(), settings, |server| server).await;
    grant_everything(&api).await;
    let connect = async || {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let serving = tokio::spawn(serve(api.clone(), far, Certificates::default()));
        let (sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
        tokio::spawn(connection);
        (sender, serving)
    };
    let request = |path: &str| Request::get(path).header("host", "x").body(Empty::<Bytes>::new()).unwrap();
    let (mut watching, serving) = connect().await;
    let watch = watching.send_request(request(&format!("{WATCH}&timeoutSeconds=1"))).await.unwrap();
    assert_eq!(connect().await.0.send_request(request("/version")).await.unwrap().status(), 429);
    watch.into_body().collect().await.unwrap();
    serving.await.unwrap();
    assert_eq!(connect().await.0.send_request(request("/version")).await.unwrap().status(), 200);
}
