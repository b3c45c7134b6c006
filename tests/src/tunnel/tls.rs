//! A server's certificate that nobody has to check.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ServerConfig};

/// Certificate and key in files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Files {
    /// Makes a pair for `localhost`.
    pub fn make(directory: &Path) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()])?;
        let files = Files { certificate: directory.join("tls.crt"), key: directory.join("tls.key") };
        std::fs::write(&files.certificate, made.cert.pem())?;
        std::fs::write(&files.key, made.signing_key.serialize_pem())?;
        Ok(files)
    }

    /// What a server needs of them.
    pub fn server(&self) -> Result<Arc<ServerConfig>> {
        let certificate = CertificateDer::from_pem_file(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok(Arc::new(builder.with_no_client_auth().with_single_cert(vec![certificate], key)?))
    }
}

/// A client that takes whoever answers.
pub fn client() -> Result<Arc<ClientConfig>> {
    let trust = outbound::tls::Trust { anyone: true, ..outbound::tls::Trust::default() };
    Ok(Arc::new(outbound::tls::config(&trust, None).context("TLS for clients")?))
}
