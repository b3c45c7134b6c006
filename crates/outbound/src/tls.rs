//! Whom we trust, and who we are.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Certificates that are none.
    #[error("{what} is not a certificate in PEM: {message}")]
    Certificate {
        /// Which.
        what: &'static str,
        /// What is wrong.
        message: String,
    },
    /// A key that is none.
    #[error("the client key is not a key in PEM: {0}")]
    Key(String),
    /// A certificate and key that do not go together, or what else the library does not like.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// Who may answer.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Whoever the system trusts.
    pub system: bool,
    /// Authorities in PEM.
    pub authorities: Option<Vec<u8>>,
    /// Anybody at all.
    pub anyone: bool,
}

/// A configuration for clients. `identity` is certificate and key in PEM.
///
/// # Errors
/// If what is given is not what it should be.
pub fn config(trust: &Trust, identity: Option<&(Vec<u8>, Vec<u8>)>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match trust.anyone {
        true => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone::new(&provider))),
        false => builder.with_root_certificates(roots(trust)?),
    };
    let Some((certificate, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates("the client certificate", certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| Error::Key(error.to_string()))?;
    Ok(builder.with_client_auth_cert(chain, key)?)
}

fn roots(trust: &Trust) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    if trust.system {
        // What cannot be read of the system's is not trusted; that is all.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if let Some(pem) = &trust.authorities {
        roots.add_parsable_certificates(certificates("the authority", pem)?);
    }
    Ok(roots)
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong = |message: String| Error::Certificate { what, message };
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(wrong("there is none in it".into())),
        Ok(all) => Ok(all),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// Whether a handshake failed because no authority that we trust has signed: what Go calls "signed by unknown
/// authority".
pub fn is_unknown_authority(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    // An authority of the right name with another key gives a bad signature.
    matches!(
        inner,
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature
        ))
    )
}

/// Takes any certificate, as long as the peer has its key.
#[derive(Debug)]
struct Anyone(WebPkiSupportedAlgorithms);

impl Anyone {
    fn new(provider: &CryptoProvider) -> Self {
        Anyone(provider.signature_verification_algorithms)
    }
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
