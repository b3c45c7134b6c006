//! Connections to webhooks.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Error, trust};

/// How many idle connections to one webhook are kept.
const MOST_IDLE: usize = 4;

/// How many trust configurations are remembered.
const MOST_CONFIGS: usize = 64;

/// A connection that requests are sent on.
pub(super) type Sender = http1::SendRequest<Full<Bytes>>;

/// What a connection is made to, and whom it has to prove to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// Where to connect.
    pub(super) address: (String, u16),
    /// The name that its certificate has to be for.
    pub(super) server_name: String,
    /// Who has to have signed it.
    pub(super) ca_bundle: Vec<u8>,
}

#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<BTreeMap<Target, Vec<Sender>>>,
    configs: Mutex<BTreeMap<Vec<u8>, Arc<rustls::ClientConfig>>>,
}

impl Pool {
    /// An idle connection that is still open.
    pub(super) fn take(&self, target: &Target) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(target)?;
        kept.retain(|sender| !sender.is_closed());
        let taken = kept.pop();
        if kept.is_empty() {
            idle.remove(target);
        }
        taken
    }

    /// Keeps a connection for the next call.
    pub(super) fn give_back(&self, target: &Target, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(target.clone()).or_default();
        if kept.len() < MOST_IDLE && !sender.is_closed() {
            kept.push(sender);
        }
    }

    /// A new connection; the inner error is the network's.
    pub(super) async fn connect(&self, target: &Target) -> Result<Result<Sender, String>, Error> {
        let config = self.config(&target.ca_bundle)?;
        Ok(dial(target, config).await)
    }

    fn config(&self, ca_bundle: &[u8]) -> Result<Arc<rustls::ClientConfig>, Error> {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = configs.get(ca_bundle) {
            return Ok(known.clone());
        }
        let config = Arc::new(trust(roots(ca_bundle)?)?);
        if configs.len() >= MOST_CONFIGS {
            configs.clear();
        }
        configs.insert(ca_bundle.to_vec(), config.clone());
        Ok(config)
    }
}

fn roots(ca_bundle: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    if ca_bundle.is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    } else {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(ca_bundle).collect();
        let certificates = certificates.map_err(|error| Error::Roots(error.to_string()))?;
        roots.add_parsable_certificates(certificates);
    }
    match roots.is_empty() {
        true => Err(Error::Roots("unable to parse bytes as PEM block".into())),
        false => Ok(roots),
    }
}

fn trust(roots: RootCertStore) -> Result<rustls::ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Roots(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

async fn dial(target: &Target, config: Arc<rustls::ClientConfig>) -> Result<Sender, String> {
    let (host, port) = &target.address;
    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            _ => error.to_string(),
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        format!("dial tcp {host}:{port}: connect: {why}")
    })?;
    let name = ServerName::try_from(target.server_name.clone()).map_err(|error| error.to_string())?;
    let stream =
        TlsConnector::from(config).connect(name, stream).await.map_err(|error| trust::explain(&error))?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It ends when both sides have hung up; what went wrong is told to who sends.
    tokio::spawn(connection);
    Ok(sender)
}
