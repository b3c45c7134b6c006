//! An HTTP client that hides nothing: every header and byte is the caller's, both ways.

use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use crate::kubeconfig::Kubeconfig;

/// A request as it goes over the wire.
#[derive(Clone, Debug)]
pub struct Request {
    /// Any method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers besides the ones that HTTP itself needs.
    pub headers: Vec<(String, String)>,
    /// The body; empty is none.
    pub body: Bytes,
    /// Whether it comes over a connection with the administrator's certificate.
    pub as_administrator: bool,
    /// Over HTTP/1.1 instead of HTTP/2.
    pub old: bool,
}

/// An answer with its whole body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub body: Bytes,
}

/// An answer whose body is still coming.
#[derive(Debug)]
pub struct Streaming {
    /// The status code.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    body: Incoming,
    received: BytesMut,
}

impl Streaming {
    /// The next part of the body that `split` accepts, or none at its end. `split` gives the length of the first
    /// part if it is there as a whole.
    pub async fn next(&mut self, split: impl Fn(&[u8]) -> Option<usize>) -> Result<Option<Bytes>> {
        loop {
            if let Some(length) = split(&self.received) {
                return Ok(Some(self.received.split_to(length).freeze()));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame.context("the stream broke")?.into_data() {
                self.received.extend_from_slice(&data);
            }
        }
    }
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub struct Server {
    authority: String,
    address: String,
    with_certificate: Arc<ClientConfig>,
    without: Arc<ClientConfig>,
    token: Option<String>,
}

impl Server {
    /// As its administrator's kubeconfig says.
    pub fn new(config: &Kubeconfig) -> Result<Self> {
        let authority =
            config.server.strip_prefix("https://").context("not https")?.trim_end_matches('/').to_owned();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(config.authority.as_bytes()) {
            roots.add(certificate?)?;
        }
        let builder = || {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map(|builder| builder.with_root_certificates(roots.clone()))
        };
        let without = builder()?.with_no_client_auth();
        let with_certificate = match &config.certificate {
            None => without.clone(),
            Some((certificate, key)) => {
                let chain =
                    CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>()?;
                builder()?.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?
            }
        };
        Ok(Server {
            address: authority.clone(),
            authority,
            with_certificate: Arc::new(with_certificate),
            without: Arc::new(without),
            token: config.token.clone(),
        })
    }

    /// What requests call it.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The administrator's token, if that is how they are known.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// A connection for one protocol.
    pub(crate) async fn connect(&self, as_administrator: bool, protocol: &[u8]) -> Result<Stream> {
        let mut config =
            if as_administrator { (*self.with_certificate).clone() } else { (*self.without).clone() };
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(&self.address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        let name = ServerName::try_from(host.to_owned())?;
        let stream = BufReader::with_capacity(READ, stream);
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.context("no TLS")
    }
}

/// What is read from a socket at once. TLS alone would ask for a few kilobytes at a time: a load generator would spend
/// most of its time in the system.
const READ: usize = 256 * 1024;

/// A connection to a server.
pub(crate) type Stream = tokio_rustls::client::TlsStream<BufReader<TcpStream>>;

type Sender = http2::SendRequest<Full<Bytes>>;

/// One client's connections to a server, made when they are needed. Only the administrator's is kept: a real server
/// closes one over which somebody came without a name.
#[derive(Debug)]
pub struct Session {
    server: Server,
    administrator: Mutex<Option<Sender>>,
}

impl Session {
    /// A client without a connection yet.
    pub fn new(server: Server) -> Self {
        Session { server, administrator: Mutex::default() }
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&self, request: &Request) -> Result<Answer> {
        let streaming = self.open(request).await?;
        let body = streaming.body.collect().await.context("the answer broke off")?.to_bytes();
        Ok(Answer { status: streaming.status, headers: streaming.headers, body })
    }

    /// Sends a request and gives the answer as soon as it begins.
    pub async fn open(&self, request: &Request) -> Result<Streaming> {
        let wire = self.wire(request)?;
        let response = if request.old {
            let stream = self.server.connect(request.as_administrator, b"http/1.1").await?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            sender.send_request(wire).await
        } else {
            self.sender(request.as_administrator).await?.send_request(wire).await
        };
        let (parts, body) = response.context("no answer")?.into_parts();
        Ok(Streaming {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            received: BytesMut::new(),
        })
    }

    fn wire(&self, request: &Request) -> Result<http::Request<Full<Bytes>>> {
        let uri = if request.old {
            request.path.clone()
        } else {
            format!("https://{}{}", self.server.authority, request.path)
        };
        let mut builder =
            http::Request::builder().method(Method::from_bytes(request.method.as_bytes())?).uri(uri);
        if request.old {
            builder = builder.header("host", &self.server.authority);
        }
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        if let Some(token) = self.server.token.as_ref().filter(|_| request.as_administrator) {
            builder = builder.header("authorization", format!("Bearer {token}"));
        }
        Ok(builder.body(Full::new(request.body.clone()))?)
    }

    async fn sender(&self, as_administrator: bool) -> Result<Sender> {
        if !as_administrator {
            return self.connect(false).await;
        }
        let mut kept = self.administrator.lock().await;
        if let Some(sender) = kept.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        Ok(kept.insert(self.connect(true).await?).clone())
    }

    async fn connect(&self, as_administrator: bool) -> Result<Sender> {
        let stream = self.server.connect(as_administrator, b"h2").await?;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
