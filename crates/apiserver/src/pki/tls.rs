//! TLS with the authority's certificates.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use clock::Clock;
use jiff::Timestamp;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::UnixTime;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use super::{Error, Pki};

/// The names under which Pods know the API server, and this machine itself.
const NAMES: [&str; 7] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    "::1",
];

/// Whether clients may show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// They may; those that the authority has not issued are refused.
    MayShowCertificates,
    /// They are not asked.
    ShowNone,
}

impl Pki {
    /// The server's side of TLS: version 1.2 and above, HTTP/2 and 1.1. Its certificate is for the usual names of an
    /// API server, for this machine's, and for `names` (host names and addresses, such as the Service's); it is replaced while it runs
    /// before it ends.
    ///
    /// # Errors
    /// If a name is none, or nothing can be issued.
    pub fn server_config(
        self: &Arc<Self>,
        names: &[String],
        clients: Clients,
    ) -> Result<Arc<ServerConfig>, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let time = Arc::new(Time(self.clock.clone()));
        let builder = ServerConfig::builder_with_details(provider.clone(), time)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(Error::Tls)?;
        let builder = match clients {
            Clients::ShowNone => builder.with_no_client_auth(),
            Clients::MayShowCertificates => {
                let mut roots = RootCertStore::empty();
                roots.add(self.certificate.clone()).map_err(Error::Tls)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
                    .allow_unauthenticated()
                    .build()
                    .map_err(Error::ClientCheck)?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let certificate = Renewed::new(self.clone(), all_names(names), provider)?;
        let mut config = builder.with_cert_resolver(Arc::new(certificate));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The usual names, that of this machine, then the others, each once.
fn all_names(more: &[String]) -> Vec<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_ascii() { host } else { "" };
    let mut all: Vec<String> = Vec::new();
    for name in NAMES.into_iter().chain([host]).chain(more.iter().map(String::as_str)) {
        if !name.is_empty() && !all.iter().any(|known| known == name) {
            all.push(name.to_owned());
        }
    }
    all
}

/// The time of our clock, for rustls.
struct Time(Arc<dyn Clock>);

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Time")
    }
}

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        let since = std::time::Duration::try_from(self.0.now().duration_since(Timestamp::UNIX_EPOCH)).ok()?;
        Some(UnixTime::since_unix_epoch(since))
    }
}

/// A server certificate that never ends: it is replaced in time.
#[derive(Debug)]
struct Renewed {
    pki: Arc<Pki>,
    names: Vec<String>,
    provider: Arc<CryptoProvider>,
    current: Mutex<(Arc<CertifiedKey>, Timestamp)>,
}

impl Renewed {
    fn new(pki: Arc<Pki>, names: Vec<String>, provider: Arc<CryptoProvider>) -> Result<Self, Error> {
        let current = Mutex::new(issue(&pki, &names, &provider)?);
        Ok(Renewed { pki, names, provider, current })
    }
}

fn issue(
    pki: &Pki,
    names: &[String],
    provider: &CryptoProvider,
) -> Result<(Arc<CertifiedKey>, Timestamp), Error> {
    let issued = pki.issue_server(names)?;
    let key = CertifiedKey::from_der(vec![issued.certificate], issued.key, provider).map_err(Error::Tls)?;
    Ok((Arc::new(key), issued.renew_at))
}

impl ResolvesServerCert for Renewed {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if self.pki.clock.now() >= current.1 {
            match issue(&self.pki, &self.names, &self.provider) {
                Ok(next) => *current = next,
                Err(error) => tracing::error!(%error, "the server's certificate cannot be renewed"),
            }
        }
        Some(current.0.clone())
    }
}
