//! TLS towards a registry: whom we trust there, and who we are.

use std::path::PathBuf;

use outbound::tls::{self, Trust};
use rustls::ClientConfig;

use crate::registries::Tls;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of `registries.yaml` cannot be read.
    #[error("cannot use {}: {message}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A certificate without its key, or the other way round.
    #[error("cert_file and key_file go together; only one of them is set")]
    HalfIdentity,
    /// What is in the files is of no use.
    #[error("the files in registries.yaml are of no use: {0}")]
    Unusable(tls::Error),
}

/// The settings for a host; `None` is nothing configured. The system's authorities are trusted in any case.
pub(crate) fn config(tls: Option<&Tls>) -> Result<ClientConfig, Error> {
    let none = Tls::default();
    let tls = tls.unwrap_or(&none);
    let identity = match (tls.cert_file.as_str(), tls.key_file.as_str()) {
        ("", "") => None,
        (cert, key) if cert.is_empty() != key.is_empty() => return Err(Error::HalfIdentity),
        (cert, key) => Some((read(cert)?, read(key)?)),
    };
    let authorities = if tls.ca_file.is_empty() { None } else { Some(read(&tls.ca_file)?) };
    let trust = Trust { system: true, authorities, anyone: tls.insecure_skip_verify };
    tls::config(&trust, identity.as_ref()).map_err(Error::Unusable)
}

fn read(path: &str) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| Error::File { path: path.into(), message: error.to_string() })
}
