//! The server's own certificate: replaced while it runs, and followed by nodes.
//!
//! Either somebody brings one ([`Certificates::own`]), or an authority of ours issues it ([`Certificates::issued`]) and renews it in
//! time. When the authority itself gives way to a new one ([`Authorities::succeeded`]), the old one has signed the new one's key: the
//! server shows that, too, so that a node which only knows the old authority trusts what the new one issues.

mod authority;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use clock::{Clock, Entropy};
use jiff::Timestamp;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::server::{WantsServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{ConfigBuilder, RootCertStore, ServerConfig, WantsVerifier};

pub use authority::{Authorities, Authority};

/// What is wrong with certificates or keys.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Text that is no certificates.
    #[error("{0}: no certificates in PEM format")]
    Certificates(&'static str),
    /// Text that is no key.
    #[error("{0}: no private key in PEM format")]
    Key(&'static str),
    /// A key that cannot be used, or is not the certificate's.
    #[error("the key and the certificate cannot be used together")]
    Mismatch(#[source] rustls::Error),
    /// Nothing can be issued.
    #[error("cannot issue a certificate")]
    Issue(#[source] rcgen::Error),
    /// An authority that is none.
    #[error("the authority's certificate cannot be used: {0}")]
    Authority(String),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// What the server shows at the moment.
struct Shown {
    key: Arc<CertifiedKey>,
    source: Source,
    /// When the next one is to be issued.
    renew_at: Option<Timestamp>,
}

enum Source {
    Own { ca: String },
    Issued { authorities: Authorities, names: Vec<String> },
}

impl Source {
    fn trusted(&self) -> String {
        match self {
            Source::Own { ca } => with_newline(ca),
            Source::Issued { authorities, .. } => authorities.trusted(),
        }
    }
}

fn with_newline(pem: &str) -> String {
    match pem.trim() {
        "" => String::new(),
        pem => format!("{pem}\n"),
    }
}

/// The server's certificate. Clones are the same one.
#[derive(Clone)]
pub struct Certificates(Arc<Inner>);

struct Inner {
    shown: ArcSwap<Shown>,
    renewing: Mutex<Box<dyn Entropy>>,
    clock: Arc<dyn Clock>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("renew_at", &self.0.shown.load().renew_at).finish()
    }
}

impl Certificates {
    /// One that somebody brings, with its chain and key in PEM format. `ca` is who vouches for it; empty if every system trusts it.
    ///
    /// # Errors
    /// If they cannot be used together.
    pub fn own(chain: &str, key: &str, ca: &str, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let shown = own(chain, key, ca, &provider)?;
        Ok(Certificates::new(shown, clock, Box::new(clock::SystemEntropy), provider))
    }

    /// One that our own authority issues for these host names and addresses.
    ///
    /// # Errors
    /// If nothing can be issued.
    pub fn issued(
        authorities: Authorities,
        names: Vec<String>,
        clock: Arc<dyn Clock>,
        mut entropy: Box<dyn Entropy>,
    ) -> Result<Self, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let shown = issued(authorities, names, clock.now(), entropy.as_mut(), &provider)?;
        Ok(Certificates::new(shown, clock, entropy, provider))
    }

    fn new(
        shown: Shown,
        clock: Arc<dyn Clock>,
        entropy: Box<dyn Entropy>,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        let renewing = Mutex::new(entropy);
        Certificates(Arc::new(Inner { shown: ArcSwap::from_pointee(shown), renewing, clock, provider }))
    }

    /// From now on another one that somebody brings is shown: its file has changed.
    ///
    /// # Errors
    /// If it cannot be used; then the last one stays.
    pub fn replace_own(&self, chain: &str, key: &str, ca: &str) -> Result<(), Error> {
        self.0.shown.store(Arc::new(own(chain, key, ca, &self.0.provider)?));
        Ok(())
    }

    /// From now on these authorities issue what is shown.
    ///
    /// # Errors
    /// If nothing can be issued; then the last one stays.
    pub fn replace_issued(&self, authorities: Authorities, names: Vec<String>) -> Result<(), Error> {
        let mut entropy = self.0.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = issued(authorities, names, self.0.clock.now(), entropy.as_mut(), &self.0.provider)?;
        self.0.shown.store(Arc::new(shown));
        Ok(())
    }

    /// From now on these authorities issue what is shown, for the same names. Nothing happens to a certificate that somebody brought.
    ///
    /// # Errors
    /// If nothing can be issued; then the last one stays.
    pub fn replace_authorities(&self, authorities: Authorities) -> Result<(), Error> {
        match &self.0.shown.load().source {
            Source::Own { .. } => Ok(()),
            Source::Issued { names, .. } => self.replace_issued(authorities, names.clone()),
        }
    }

    /// Who issues what is shown; nobody of ours if somebody brought it.
    pub fn authorities(&self) -> Option<Authorities> {
        match &self.0.shown.load().source {
            Source::Own { .. } => None,
            Source::Issued { authorities, .. } => Some(authorities.clone()),
        }
    }

    /// Who vouches for the server, as PEM; empty if every system trusts it. `/cacerts` answers this.
    pub fn trusted(&self) -> String {
        self.0.shown.load().source.trusted()
    }

    /// The server's side of TLS: version 1.2 and above, HTTP/2 and 1.1, no client certificates.
    ///
    /// # Errors
    /// If there is no TLS.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, Error> {
        Ok(self.finished(self.builder()?.with_no_client_auth()))
    }

    /// The same for clients who may show a certificate of these authorities, or none.
    ///
    /// # Errors
    /// If there is no TLS, or no authority.
    pub fn server_config_for(&self, clients: RootCertStore) -> Result<Arc<ServerConfig>, Error> {
        let verifier = WebPkiClientVerifier::builder_with_provider(clients.into(), self.0.provider.clone());
        let none = |_| Error::Certificates("the authority of the clients");
        let verifier = verifier.allow_unauthenticated().build().map_err(none)?;
        Ok(self.finished(self.builder()?.with_client_cert_verifier(verifier)))
    }

    fn builder(&self) -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, Error> {
        let time = Arc::new(Time(self.0.clock.clone()));
        let builder = ServerConfig::builder_with_details(self.0.provider.clone(), time);
        builder.with_protocol_versions(&[&TLS13, &TLS12]).map_err(Error::Tls)
    }

    fn finished(&self, builder: ConfigBuilder<ServerConfig, WantsServerCert>) -> Arc<ServerConfig> {
        let mut config = builder.with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }

    /// Issues the next one if it is time.
    fn renew(&self) -> Result<(), Error> {
        let mut entropy = self.0.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        let (shown, now) = (self.0.shown.load(), self.0.clock.now());
        if let Source::Issued { authorities, names } = &shown.source
            && shown.renew_at.is_some_and(|at| now >= at)
        {
            let next = issued(authorities.clone(), names.clone(), now, entropy.as_mut(), &self.0.provider)?;
            self.0.shown.store(Arc::new(next));
        }
        Ok(())
    }
}

fn own(chain: &str, key: &str, ca: &str, provider: &CryptoProvider) -> Result<Shown, Error> {
    let certificates = read(chain).ok_or(Error::Certificates("the server's certificate"))?;
    if !ca.trim().is_empty() {
        read(ca).ok_or(Error::Certificates("the server's authority"))?;
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| Error::Key("the server's key"))?;
    let key = CertifiedKey::from_der(certificates, key, provider).map_err(Error::Mismatch)?;
    Ok(Shown { key: Arc::new(key), source: Source::Own { ca: ca.into() }, renew_at: None })
}

fn read(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    all.ok().filter(|all| !all.is_empty())
}

fn issued(
    authorities: Authorities,
    names: Vec<String>,
    now: Timestamp,
    entropy: &mut dyn Entropy,
    provider: &CryptoProvider,
) -> Result<Shown, Error> {
    let (chain, key, renew_at) = authorities.issue(&names, now, entropy)?;
    let key = CertifiedKey::from_der(chain, key, provider).map_err(Error::Mismatch)?;
    let source = Source::Issued { authorities, names };
    Ok(Shown { key: Arc::new(key), source, renew_at: Some(renew_at) })
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.0.shown.load();
        if shown.renew_at.is_some_and(|at| self.0.clock.now() >= at) {
            if let Err(error) = self.renew() {
                tracing::error!(%error, "the server's certificate cannot be renewed");
            }
            return Some(self.0.shown.load().key.clone());
        }
        Some(shown.key.clone())
    }
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

#[cfg(test)]
#[path = "certificates/tests.rs"]
mod tests;
