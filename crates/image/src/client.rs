//! HTTP requests: a connection for each, through a proxy if need be, every wait with an end.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use outbound::proxy::{self, Proxies, Proxy};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::registries::Registries;
use crate::tls;
use crate::url::Url;

/// How long a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(30);
/// How long an answer may take to begin, and then any part of it.
const ANSWER: Duration = Duration::from_secs(60);
/// How often a request may be sent elsewhere.
const MAX_REDIRECTS: usize = 10;
/// How much of an error's body is repeated.
const MAX_EXCERPT: usize = 300;
/// How long a proxy's answer to `CONNECT` may be.
const MAX_PROXY_ANSWER: usize = 8 << 10;

/// Why there is no answer, or not the one that is needed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody is there.
    #[error("cannot connect to {url}: {source}")]
    Connect {
        /// For this URL.
        url: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// Somebody is there whom we have no reason to trust.
    #[error(
        "{url}: the certificate of {host} is not trusted: {source}; if it is the right one, name its authority in \
         registries.yaml: configs, \"{host}\", tls, ca_file"
    )]
    Untrusted {
        /// For this URL.
        url: String,
        /// The host, as `registries.yaml` would name it.
        host: String,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// Our own TLS settings are of no use.
    #[error("{url}: {source}")]
    Tls {
        /// For this URL.
        url: String,
        /// What is wrong.
        source: tls::Error,
    },
    /// The proxy is of no use.
    #[error("{url}: {source}")]
    Proxy {
        /// For this URL.
        url: String,
        /// What is wrong.
        source: proxy::Error,
    },
    /// It took too long.
    #[error("{url}: no {what} within {} s", after.as_secs())]
    Timeout {
        /// For this URL.
        url: String,
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// The connection broke, or what came over it is not HTTP.
    #[error("{url}: {source}")]
    Http {
        /// For this URL.
        url: String,
        /// What is wrong.
        source: hyper::Error,
    },
    /// A redirection that is not followed.
    #[error("{url}: redirected {reason}")]
    Redirect {
        /// The first URL.
        url: String,
        /// Why not.
        reason: &'static str,
    },
    /// Another status than was hoped for.
    #[error("{url}: {status}{excerpt}")]
    Status {
        /// For this URL.
        url: String,
        /// The status.
        status: StatusCode,
        /// The beginning of the body, if it is text.
        excerpt: String,
    },
}

impl Error {
    /// Whether the same request may well succeed a moment later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Error::Connect { .. } | Error::Timeout { .. } | Error::Http { .. } => true,
            Error::Status { status, .. } => {
                status.is_server_error()
                    || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(status)
            }
            _ => false,
        }
    }
}

/// A request without credentials.
pub(crate) struct Request<'a> {
    pub(crate) url: &'a Url,
    pub(crate) accept: Option<&'static str>,
    pub(crate) authorization: Option<&'a str>,
    /// The body of a POST; without it this is a GET.
    pub(crate) form: Option<String>,
}

/// An answer of which only the head is here yet.
pub(crate) struct Response {
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
}

/// A client for all hosts that `registries.yaml` may say something about.
pub(crate) struct Client {
    registries: Arc<Registries>,
    proxies: Proxies,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Client {
    pub(crate) fn new(registries: Arc<Registries>, proxies: Proxies) -> Self {
        Client { registries, proxies }
    }

    /// Sends a request and follows where it is sent to. Credentials go to their own host only, and nothing goes from
    /// an encrypted connection to one that is not.
    pub(crate) async fn send(&self, request: Request<'_>) -> Result<Response, Error> {
        let mut url = request.url.clone();
        let mut authorization = request.authorization;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.once(&url, &request, authorization).await?;
            let location = response.headers.get(LOCATION).and_then(|location| location.to_str().ok());
            let (true, Some(location)) = (response.status.is_redirection(), location) else {
                return Ok(response);
            };
            let refused = |reason| Error::Redirect { url: request.url.to_string(), reason };
            let next = url.join(location).ok_or_else(|| refused("to what is no URL"))?;
            if url.secure && !next.secure {
                return Err(refused("to an unencrypted connection"));
            }
            if !next.same_origin(request.url) {
                authorization = None;
            }
            url = next;
        }
        Err(Error::Redirect { url: request.url.to_string(), reason: "too often" })
    }

    async fn once(
        &self,
        url: &Url,
        request: &Request<'_>,
        authorization: Option<&str>,
    ) -> Result<Response, Error> {
        let refused = |source| Error::Proxy { url: url.to_string(), source };
        let proxy = self.proxies.choose(url.secure, url.host(), url.port()).map_err(refused)?;
        if proxy.as_ref().is_some_and(|proxy| proxy.tls) {
            return Err(refused(proxy::Error::Scheme("https".into())));
        }
        let stream = limited(CONNECT, "connection", url, self.connect(url, proxy.as_ref())).await?;
        let broken = |source| Error::Http { url: url.to_string(), source };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // It ends with the answer, which says what went wrong.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let message = message(url, request, authorization, proxy.as_ref());
        let answer = async { sender.send_request(message).await.map_err(broken) };
        let (head, body) = limited(ANSWER, "answer", url, answer).await?.into_parts();
        Ok(Response { url: url.clone(), status: head.status, headers: head.headers, body })
    }

    async fn connect(&self, url: &Url, proxy: Option<&Proxy>) -> Result<Box<dyn Stream>, Error> {
        let failed = |source| Error::Connect { url: url.to_string(), source };
        let (host, port) = (url.host().trim_start_matches('[').trim_end_matches(']'), url.port());
        let tcp = match proxy {
            None => TcpStream::connect((host, port)).await.map_err(failed)?,
            Some(proxy) => {
                let mut tcp = TcpStream::connect((proxy.host.as_str(), proxy.port)).await.map_err(failed)?;
                if url.secure {
                    tunnel(&mut tcp, url, proxy).await.map_err(failed)?;
                }
                tcp
            }
        };
        if !url.secure {
            return Ok(Box::new(tcp));
        }
        let config = tls::config(self.registries.tls(&url.authority));
        let config = config.map_err(|source| Error::Tls { url: url.to_string(), source })?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(io::Error::other(error)))?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
        Ok(Box::new(stream.map_err(|error| tls_failure(url, error))?))
    }
}

/// What a request looks like on the wire.
fn message(
    url: &Url,
    request: &Request<'_>,
    authorization: Option<&str>,
    proxy: Option<&Proxy>,
) -> http::Request<Full<Bytes>> {
    let plain_proxy = proxy.filter(|_| !url.secure);
    let target = match plain_proxy {
        Some(_) => format!("http://{}{}", url.authority, url.target),
        None => url.target.clone(),
    };
    let method = if request.form.is_some() { Method::POST } else { Method::GET };
    let body = Full::from(request.form.clone().unwrap_or_default());
    let mut message = http::Request::new(body);
    *message.method_mut() = method;
    // Only checked URLs come here; the default would be refused by any server.
    *message.uri_mut() = target.parse().unwrap_or_default();
    let headers = [
        (HOST, Some(url.authority.as_str())),
        (USER_AGENT, Some(concat!("herdsman-agent/", env!("CARGO_PKG_VERSION")))),
        (ACCEPT, request.accept),
        (AUTHORIZATION, authorization),
        (CONTENT_TYPE, request.form.as_ref().map(|_| "application/x-www-form-urlencoded")),
        (PROXY_AUTHORIZATION, plain_proxy.and_then(|proxy| proxy.authorization.as_deref())),
    ];
    for (name, value) in headers {
        if let Some(value) = value.and_then(|value| value.parse().ok()) {
            message.headers_mut().insert(name, value);
        }
    }
    message
}

/// Asks a proxy for a way to the host.
async fn tunnel(tcp: &mut TcpStream, url: &Url, proxy: &Proxy) -> io::Result<()> {
    let to = format!("{}:{}", url.host(), url.port());
    let authorization = proxy.authorization.as_ref().map(|value| format!("Proxy-Authorization: {value}\r\n"));
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{}\r\n", authorization.unwrap_or_default());
    tcp.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the head belongs to the host.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > MAX_PROXY_ANSWER {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
        answer.push(tcp.read_u8().await?);
    }
    let answer = String::from_utf8_lossy(&answer);
    let line = answer.lines().next().unwrap_or_default();
    match line.split_whitespace().nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(io::Error::other(format!("the proxy says: {line}"))),
    }
}

fn tls_failure(url: &Url, error: io::Error) -> Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(cause @ rustls::Error::InvalidCertificate(_)) => {
            Error::Untrusted { url: url.to_string(), host: url.authority.clone(), source: cause.clone() }
        }
        _ => Error::Connect { url: url.to_string(), source: error },
    }
}

async fn limited<T>(
    after: Duration,
    what: &'static str,
    url: &Url,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let timeout = |_| Error::Timeout { url: url.to_string(), what, after };
    tokio::time::timeout(after, future).await.map_err(timeout)?
}

impl Response {
    /// The next part of the body.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let url = self.url.clone();
        let broken = |source| Error::Http { url: url.to_string(), source };
        let body = &mut self.body;
        let next = async {
            loop {
                match body.frame().await.transpose().map_err(broken)? {
                    Some(frame) => match frame.into_data() {
                        Ok(data) => return Ok(Some(data)),
                        Err(_trailers) => continue,
                    },
                    None => return Ok(None),
                }
            }
        };
        limited(ANSWER, "more of the answer", &self.url, next).await
    }

    /// The body up to a length; `None` if it is longer.
    pub(crate) async fn bytes(mut self, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > limit {
                return Ok(None);
            }
        }
        Ok(Some(bytes))
    }

    /// The response, if its status is a success.
    pub(crate) async fn success(mut self) -> Result<Self, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        let mut body = Vec::new();
        while body.len() < MAX_EXCERPT {
            match self.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
        Err(Error::Status { url: self.url.to_string(), status: self.status, excerpt: excerpt(&body) })
    }
}

/// What is printable at the beginning of a body.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text: String =
        text.trim().chars().filter(|character| !character.is_control()).take(MAX_EXCERPT).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}
