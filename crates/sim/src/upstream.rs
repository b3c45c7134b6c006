//! The way from a simulated machine to its server, which is real: TLS over the simulated network's way out.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::connect::{Connect, Error, Stream};
use agent::machine::Later;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use outbound::tls::{self, Trust};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsConnector;
use tunnel::client::Transport;
use tunnel::serve::Io;

use crate::network::Network;

/// How long a request may take, as the installer's.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most of an answer.
const LARGEST: usize = 1 << 20;

/// Whom machines trust: one TLS configuration for each authority, however many machines there are.
#[derive(Default)]
pub(crate) struct Trusts(Mutex<BTreeMap<Kind, Arc<ClientConfig>>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    System,
    Anyone,
    Authority(Vec<u8>),
}

impl Trusts {
    /// Trusts an authority in PEM; without one, whom the system trusts.
    pub(crate) fn authority(&self, pem: Option<&[u8]>) -> Result<Arc<ClientConfig>, tls::Error> {
        match pem {
            Some(pem) => self.config(Kind::Authority(pem.to_vec())),
            None => self.config(Kind::System),
        }
    }

    /// Trusts whoever answers.
    pub(crate) fn anyone(&self) -> Result<Arc<ClientConfig>, tls::Error> {
        self.config(Kind::Anyone)
    }

    fn config(&self, kind: Kind) -> Result<Arc<ClientConfig>, tls::Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = known.get(&kind) {
            return Ok(config.clone());
        }
        let trust = match &kind {
            Kind::System => Trust { system: true, ..Trust::default() },
            Kind::Anyone => Trust { anyone: true, ..Trust::default() },
            Kind::Authority(pem) => Trust { authorities: Some(pem.clone()), ..Trust::default() },
        };
        let config = Arc::new(tls::config(&trust, None)?);
        known.insert(kind, config.clone());
        Ok(config)
    }
}

/// The way from one machine to one server.
#[derive(Clone)]
pub(crate) struct Upstream {
    network: Network,
    from: Ipv4Addr,
    host: String,
    port: u16,
    /// What comes before every path.
    prefix: String,
    /// None: the server is spoken to in the clear.
    tls: Option<Arc<ClientConfig>>,
}

impl Upstream {
    /// To a server; with TLS if its URL says so.
    pub(crate) fn new(network: Network, from: Ipv4Addr, server: &Uri, tls: Arc<ClientConfig>) -> Self {
        let secure = server.scheme_str() == Some("https");
        Upstream {
            network,
            from,
            host: server.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
            port: server.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            prefix: server.path().trim_end_matches('/').to_owned(),
            tls: secure.then_some(tls),
        }
    }

    async fn open(&self) -> Result<Box<dyn Stream>, Error> {
        let to = || format!("{}:{}", self.host, self.port);
        let failed = |source| Error::Connect { to: to(), source };
        let wire = self.network.connect_out(self.from, &self.host, self.port).await.map_err(failed)?;
        let Some(config) = &self.tls else { return Ok(Box::new(wire)) };
        let name = ServerName::try_from(self.host.clone()).map_err(|_| Error::Name(self.host.clone()))?;
        let connected = TlsConnector::from(config.clone()).connect(name, wire).await;
        Ok(Box::new(connected.map_err(|source| Error::Handshake { to: to(), source })?))
    }

    /// One GET: status, headers, body.
    ///
    /// # Errors
    /// In words for a log.
    pub(crate) async fn get(
        &self,
        path: &str,
        headers: HeaderMap,
    ) -> Result<(u16, HeaderMap, Vec<u8>), String> {
        let exchange = async {
            let stream = self.open().await.map_err(|error| agent::chain(&error))?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|error| agent::chain(&error))?;
            // It ends with the sender.
            tokio::spawn(connection);
            let mut request = Request::new(Empty::<Bytes>::new());
            let path = format!("{}{path}", self.prefix);
            *request.uri_mut() = path.parse().map_err(|_| format!("{path:?} is no path"))?;
            *request.headers_mut() = headers;
            let host = format!("{}:{}", self.host, self.port);
            let host = HeaderValue::try_from(host).map_err(|error| error.to_string())?;
            request.headers_mut().insert(header::HOST, host);
            let response = sender.send_request(request).await.map_err(|error| agent::chain(&error))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, LARGEST).collect().await.map_err(|error| error.to_string())?;
            Ok((parts.status.as_u16(), parts.headers, body.to_bytes().to_vec()))
        };
        let late = || Err("no answer".to_owned());
        tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(|_| late())
    }
}

/// Why there is no way to a server that could be trusted.
#[derive(Debug)]
pub(crate) enum Unverified {
    /// It may be there later.
    NoAnswer(String),
    /// It is not the one.
    Wrong(String),
}

/// The way to a server whose authority has a checksum; without one, whom the system trusts is trusted. The authority comes
/// over a connection that nobody vouches for: its checksum does.
pub(crate) async fn verified(
    network: &Network,
    trusts: &Trusts,
    from: Ipv4Addr,
    server: &Uri,
    checksum: &str,
) -> Result<Upstream, Unverified> {
    let wrong = |error: tls::Error| Unverified::Wrong(agent::chain(&error));
    let way = |config| Upstream::new(network.clone(), from, server, config);
    if checksum.is_empty() {
        return Ok(way(trusts.authority(None).map_err(wrong)?));
    }
    let (pem, found) = authority(&way(trusts.anyone().map_err(wrong)?)).await?;
    if found != checksum.to_lowercase() {
        return Err(Unverified::Wrong(format!(
            "the CA at /cacerts has the checksum {found}, not {checksum}"
        )));
    }
    Ok(way(trusts.authority(Some(&pem)).map_err(wrong)?))
}

/// What a server says of its authority, and the checksum of that. Nobody has vouched for it.
async fn authority(anyone: &Upstream) -> Result<(Vec<u8>, String), Unverified> {
    let (status, _, pem) = anyone.get("/cacerts", HeaderMap::new()).await.map_err(Unverified::NoAnswer)?;
    if status != 200 {
        return Err(Unverified::NoAnswer(format!("/cacerts answers with status {status}")));
    }
    let found = Sha256::digest(&pem).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((pem, found))
}

/// The checksum of the authority of a server, as the server says; empty if it has none of its own.
pub(crate) async fn checksum(network: &Network, trusts: &Trusts, server: &Uri) -> Result<String, String> {
    let config = trusts.anyone().map_err(|error| agent::chain(&error))?;
    let way = Upstream::new(network.clone(), Ipv4Addr::UNSPECIFIED, server, config);
    match authority(&way).await {
        Ok((pem, _)) if pem.is_empty() => Ok(String::new()),
        Ok((_, found)) => Ok(found),
        Err(Unverified::NoAnswer(why) | Unverified::Wrong(why)) => Err(why),
    }
}

impl Connect for Upstream {
    fn connect(&self) -> Later<'_, Result<Box<dyn Stream>, Error>> {
        Box::pin(self.open())
    }
}

impl Transport for Upstream {
    fn connect(&self) -> Later<'_, io::Result<Box<dyn Io>>> {
        Box::pin(async {
            let stream = self.open().await.map_err(io::Error::other)?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }
}
