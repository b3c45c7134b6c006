//! Ways to a server: byte streams, through TLS and proxies as need be.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use outbound::proxy::{self, Proxy};
use outbound::tls;
use rustix::net::sockopt;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::machine::Later;

/// How long it may take until a server can be spoken to.
const PATIENCE: Duration = Duration::from_secs(20);
/// A peer that says nothing for so long is asked whether it is there, ...
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// ... again after so long, ...
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// ... and is taken for gone after so many times.
const KEEPALIVE_TRIES: u32 = 3;
/// What a proxy may say before the stream begins.
const PROXY_ANSWER: usize = 8 << 10;

/// Why a server cannot be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection.
    #[error("cannot connect to {to}")]
    Connect {
        /// Host and port.
        to: String,
        /// Why not.
        source: io::Error,
    },
    /// No handshake.
    #[error("no TLS with {to}")]
    Handshake {
        /// The name.
        to: String,
        /// Why not.
        source: io::Error,
    },
    /// A host that certificates cannot name.
    #[error("{0:?} is no name for a certificate")]
    Name(String),
    /// The proxy does not lead there.
    #[error("proxy {proxy:?} says {answer:?}")]
    Proxy {
        /// Which.
        proxy: Proxy,
        /// Its first line.
        answer: String,
    },
    /// It took too long.
    #[error("{0} does not answer")]
    Timeout(String),
}

impl Error {
    /// Whether no authority that we trust has signed the server's certificate.
    pub fn is_unknown_authority(&self) -> bool {
        matches!(self, Error::Handshake { source, .. } if tls::is_unknown_authority(source))
    }

    /// Whether the peer answered, but not so that TLS came about: waiting does not help.
    pub fn is_handshake(&self) -> bool {
        let rustls = |source: &io::Error| {
            source.get_ref().is_some_and(|inner| {
                matches!(inner.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
            })
        };
        matches!(self, Error::Handshake { source, .. } if rustls(source))
    }
}

/// A byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A way to one server.
pub trait Connect: Send + Sync {
    /// A new stream to it.
    fn connect(&self) -> Later<'_, Result<Box<dyn Stream>, Error>>;
}

/// The way over the network.
#[derive(Clone, Debug)]
pub struct Network {
    host: String,
    port: u16,
    tls: Option<(Arc<ClientConfig>, String)>,
    proxy: Option<(Proxy, Option<Arc<ClientConfig>>)>,
}

impl Network {
    /// Straight to a server; with `tls` if it is `https`. `name` is what its certificate is for, if not its host.
    pub fn to(server: &Uri, tls: Option<Arc<ClientConfig>>, name: Option<String>) -> Self {
        let host = proxy::bare(server.host().unwrap_or_default()).to_owned();
        let is_tls = server.scheme_str() == Some("https");
        let port = server.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let name = name.unwrap_or_else(|| host.clone());
        Network { host, port, tls: tls.filter(|_| is_tls).map(|config| (config, name)), proxy: None }
    }

    /// Through a proxy, which is asked for a tunnel. `tls` is for speaking to the proxy itself.
    #[must_use]
    pub fn through(self, proxy: Proxy, tls: Option<Arc<ClientConfig>>) -> Self {
        Network { proxy: Some((proxy, tls)), ..self }
    }

    /// The same way with others to trust, if it is one with TLS.
    #[must_use]
    pub fn trusting(self, config: Arc<ClientConfig>) -> Self {
        Network { tls: self.tls.map(|(_, name)| (config, name)), ..self }
    }

    async fn dial(&self) -> Result<Box<dyn Stream>, Error> {
        let stream = match &self.proxy {
            None => Box::new(tcp(&self.host, self.port).await?),
            Some((proxy, config)) => self.tunnel(proxy, config.as_ref()).await?,
        };
        match &self.tls {
            None => Ok(stream),
            Some((config, name)) => handshake(stream, config, name).await,
        }
    }

    async fn tunnel(
        &self,
        proxy: &Proxy,
        config: Option<&Arc<ClientConfig>>,
    ) -> Result<Box<dyn Stream>, Error> {
        let stream: Box<dyn Stream> = Box::new(tcp(&proxy.host, proxy.port).await?);
        let mut stream = match config.filter(|_| proxy.tls) {
            Some(config) => handshake(stream, config, &proxy.host).await?,
            None => stream,
        };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let to = format!("{host}:{}", self.port);
        let authorization = proxy.authorization.as_ref();
        let authorization = authorization.map(|value| format!("Proxy-Authorization: {value}\r\n"));
        let ask = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{}\r\n", authorization.unwrap_or_default());
        let failed = |source| Error::Connect { to: format!("{to} through {proxy:?}"), source };
        stream.write_all(ask.as_bytes()).await.map_err(failed)?;
        stream.flush().await.map_err(failed)?;
        let answer = head(&mut stream).await.map_err(failed)?;
        let line = answer.lines().next().unwrap_or_default();
        match line.split(' ').nth(1) {
            Some(code) if line.starts_with("HTTP/1.") && code.starts_with('2') => Ok(stream),
            _ => Err(Error::Proxy { proxy: proxy.clone(), answer: line.to_owned() }),
        }
    }
}

impl Connect for Network {
    fn connect(&self) -> Later<'_, Result<Box<dyn Stream>, Error>> {
        Box::pin(async {
            let timeout = Error::Timeout(format!("{}:{}", self.host, self.port));
            tokio::time::timeout(PATIENCE, self.dial()).await.unwrap_or(Err(timeout))
        })
    }
}

async fn tcp(host: &str, port: u16) -> Result<TcpStream, Error> {
    let failed = |source| Error::Connect { to: format!("{host}:{port}"), source };
    let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    keep_alive(&stream).map_err(|errno| failed(errno.into()))?;
    Ok(stream)
}

/// A peer that vanished without a word is noticed, also while we wait for it and while we send.
fn keep_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_TRIES)?;
    sockopt::set_tcp_user_timeout(stream, 30_000)
}

async fn handshake(
    stream: Box<dyn Stream>,
    config: &Arc<ClientConfig>,
    name: &str,
) -> Result<Box<dyn Stream>, Error> {
    let server = ServerName::try_from(name.to_owned()).map_err(|_| Error::Name(name.to_owned()))?;
    let connected = TlsConnector::from(config.clone()).connect(server, stream).await;
    Ok(Box::new(connected.map_err(|source| Error::Handshake { to: name.to_owned(), source })?))
}

/// Up to the empty line, and not a byte more: what follows belongs to the server.
async fn head(stream: &mut Box<dyn Stream>) -> io::Result<String> {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > PROXY_ANSWER {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
        answer.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
