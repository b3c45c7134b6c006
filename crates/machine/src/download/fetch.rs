//! A file by HTTP: through a proxy if need be, where it is sent to, every wait with an end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, LOCATION, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use outbound::proxy::{self, Proxies, Proxy};
use outbound::tls::{self, Trust};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Larger files are not drivers.
const LARGEST: usize = 512 << 20;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a connection may take, and then an answer to begin.
const CONNECT: Duration = Duration::from_secs(60);
/// How often a request may be sent elsewhere.
const MAX_REDIRECTS: usize = 10;

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is none that can be fetched.
    #[error("{0:?} is not an http or https URL")]
    Url(String),
    /// Nobody is there.
    #[error("cannot connect to {host}: {source}")]
    Connect {
        /// To whom.
        host: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// TLS is not set up.
    #[error("cannot set up TLS")]
    Tls(#[from] tls::Error),
    /// The proxy is of no use.
    #[error(transparent)]
    Proxy(#[from] proxy::Error),
    /// The connection broke.
    #[error("{url}: {source}")]
    Http {
        /// Which file.
        url: String,
        /// What is wrong.
        source: hyper::Error,
    },
    /// The server does not give it.
    #[error("{url}: {status}")]
    Status {
        /// Which file.
        url: String,
        /// What the server says.
        status: StatusCode,
    },
    /// It goes on and on.
    #[error("{0}: {1}")]
    TooMuch(String, &'static str),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A whole file.
pub(super) async fn get(url: &str, authorities: &str, proxies: &Proxies) -> Result<Bytes, Error> {
    let follow = async {
        let mut next: Uri = url.parse().map_err(|_| Error::Url(url.into()))?;
        for _ in 0..=MAX_REDIRECTS {
            let response = once(&next, authorities, proxies).await?;
            let status = response.status();
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            match location.filter(|_| status.is_redirection()) {
                Some(location) => {
                    next = joined(&next, location).ok_or_else(|| Error::Url(location.into()))?
                }
                None if status.is_success() => return collect(url, response.into_body()).await,
                None => return Err(Error::Status { url: next.to_string(), status }),
            }
        }
        Err(Error::TooMuch(url.into(), "redirected too often"))
    };
    let late = |_| Error::TooMuch(url.into(), "it takes too long");
    tokio::time::timeout(PATIENCE, follow).await.map_err(late)?
}

async fn collect(url: &str, body: Incoming) -> Result<Bytes, Error> {
    let read = Limited::new(body, LARGEST).collect().await;
    let read = read.map_err(|_| Error::TooMuch(url.into(), "it breaks off, or is too large for a driver"))?;
    Ok(read.to_bytes())
}

/// Where a server sends us. Never from an encrypted connection to one that is not.
fn joined(from: &Uri, location: &str) -> Option<Uri> {
    let text = match location.starts_with('/') {
        true => format!("{}://{}{location}", from.scheme_str()?, from.authority()?),
        false => location.to_owned(),
    };
    let next: Uri = text.parse().ok()?;
    let weaker = from.scheme_str() == Some("https") && next.scheme_str() != Some("https");
    (!weaker && next.host().is_some()).then_some(next)
}

async fn once(url: &Uri, authorities: &str, proxies: &Proxies) -> Result<http::Response<Incoming>, Error> {
    let secure = match url.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(Error::Url(url.to_string())),
    };
    let host = url.host().ok_or_else(|| Error::Url(url.to_string()))?;
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let proxy = proxies.choose(secure, host, port)?;
    let failed = |source| Error::Connect { host: format!("{host}:{port}"), source };
    let connect = connect(host, port, secure, authorities, proxy.as_ref());
    let late = |_| failed(io::ErrorKind::TimedOut.into());
    let stream = tokio::time::timeout(CONNECT, connect).await.map_err(late)??;
    let broken = |source| Error::Http { url: url.to_string(), source };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It ends with the answer, which says what went wrong.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let plain_proxy = proxy.filter(|_| !secure);
    let target = match &plain_proxy {
        Some(_) => url.to_string(),
        None => url.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
    };
    let mut request = Request::new(Empty::<Bytes>::new());
    // It was part of a URI already.
    *request.uri_mut() = target.parse().unwrap_or_default();
    let authority = url.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let headers = [
        (HOST, Some(authority)),
        (USER_AGENT, Some(concat!("herdsman/", env!("CARGO_PKG_VERSION")))),
        (PROXY_AUTHORIZATION, plain_proxy.as_ref().and_then(|proxy| proxy.authorization.as_deref())),
    ];
    for (name, value) in headers {
        if let Some(value) = value.and_then(|value| value.parse().ok()) {
            request.headers_mut().insert(name, value);
        }
    }
    sender.send_request(request).await.map_err(broken)
}

async fn connect(
    host: &str,
    port: u16,
    secure: bool,
    authorities: &str,
    proxy: Option<&Proxy>,
) -> Result<Box<dyn Stream>, Error> {
    let failed = |source| Error::Connect { host: format!("{host}:{port}"), source };
    let bare = proxy::bare(host);
    let tcp = match proxy {
        None => TcpStream::connect((bare, port)).await.map_err(failed)?,
        Some(proxy) => {
            let mut tcp = TcpStream::connect((proxy.host.as_str(), proxy.port)).await.map_err(failed)?;
            if secure {
                tunnel(&mut tcp, host, port, proxy).await.map_err(failed)?;
            }
            tcp
        }
    };
    if !secure {
        return Ok(Box::new(tcp));
    }
    let own = (!authorities.is_empty()).then(|| authorities.as_bytes().to_vec());
    let config = tls::config(&Trust { system: true, authorities: own, anyone: false }, None)?;
    let name = ServerName::try_from(bare.to_owned()).map_err(|error| failed(io::Error::other(error)))?;
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map_err(failed)?))
}

/// Asks a proxy for a way to the host.
async fn tunnel(tcp: &mut TcpStream, host: &str, port: u16, proxy: &Proxy) -> io::Result<()> {
    let authorization = proxy.authorization.as_ref().map(|value| format!("Proxy-Authorization: {value}\r\n"));
    let authorization = authorization.unwrap_or_default();
    let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}\r\n");
    tcp.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the head belongs to the host.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > 8 << 10 {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
        answer.push(tcp.read_u8().await?);
    }
    let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    match line.split_whitespace().nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(io::Error::other(format!("the proxy says: {line}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_never_lose_encryption() {
        let from: Uri = "https://a/b".parse().unwrap();
        assert_eq!(joined(&from, "/c").unwrap().to_string(), "https://a/c");
        assert_eq!(joined(&from, "https://d/e").unwrap().to_string(), "https://d/e");
        assert_eq!(joined(&from, "http://d/e"), None);
        assert_eq!(joined(&from, "c"), None);
    }

    #[tokio::test]
    async fn what_is_no_url_is_told() {
        for url in ["ftp://x/y", "file:///etc/passwd", "/x", "x"] {
            assert!(matches!(get(url, "", &Proxies::default()).await, Err(Error::Url(_))), "{url}");
        }
    }
}
