use std::path::PathBuf;

use crate::auth::KeyError;

/// What can be wrong with keys and certificates.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory cannot be read or written.
    #[error(transparent)]
    File(#[from] crate::files::Error),
    /// There is the certificate of an authority without its key.
    #[error("{} is missing although there is a certificate for it: restore it, or remove ca.crt to start anew", .0.display())]
    NoCaKey(PathBuf),
    /// The authority's certificate cannot be read.
    #[error("the certificate of the authority (ca.crt) is damaged: {0}")]
    CaCertificate(String),
    /// The authority's key cannot be read.
    #[error("the key of the authority (ca.key) is damaged")]
    CaKey(#[source] rcgen::Error),
    /// Certificate and key are not of one authority.
    #[error("the certificate (ca.crt) and the key (ca.key) of the authority do not belong together")]
    Mismatch,
    /// The authority's time has not come, or is over.
    #[error(
        "the certificate of the authority (ca.crt) is valid from {from} until {until}, and now it is {now}"
    )]
    OutOfTime {
        /// From when.
        from: jiff::Timestamp,
        /// Until when.
        until: jiff::Timestamp,
        /// The time of the clock.
        now: jiff::Timestamp,
    },
    /// The key for tokens cannot be read.
    #[error("the key for tokens of ServiceAccounts (sa.key) is damaged")]
    SigningKey(#[source] KeyError),
    /// A key or certificate cannot be made.
    #[error("cannot make a key or certificate")]
    Make(#[source] rcgen::Error),
    /// TLS cannot be set up with it.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// Client certificates cannot be checked.
    #[error("cannot set up the check of client certificates")]
    ClientCheck(#[source] rustls::server::VerifierBuilderError),
}
