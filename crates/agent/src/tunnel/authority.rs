//! Whom to trust as the server, by a checksum: the server is asked for its authority by anybody's certificate, and believed
//! if the answer has the checksum. That is how a pod knows its server.

use std::sync::Arc;

use http::Uri;
use outbound::tls::{self, Trust};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use crate::client::{self, Client};
use crate::connect::Network;

/// Why nobody is trusted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The server does not tell.
    #[error("cannot get the server's authority from /cacerts")]
    Asked(#[from] client::Error),
    /// It tells of another one.
    #[error("the authority at /cacerts has the checksum {found}, not {wanted} as CATTLE_CA_CHECKSUM says")]
    Checksum { found: String, wanted: String },
    /// What it tells is of no use.
    #[error("/cacerts")]
    Tls(#[from] tls::Error),
}

impl Error {
    /// Whether the server was there, but is not who it should be.
    pub(super) fn is_not_trusted(&self) -> bool {
        matches!(self, Error::Checksum { .. } | Error::Tls(_) | Error::Asked(client::Error::Status { .. }))
    }
}

/// A way to a server whose authority is asked for once.
pub(super) struct Asked {
    anyone: Network,
    server: Uri,
    checksum: String,
    known: OnceCell<Network>,
}

impl Asked {
    /// `anyone` is the way to the server, whoever it is.
    pub(super) fn new(anyone: Network, server: &Uri, checksum: String) -> Self {
        Asked { anyone, server: server.clone(), checksum, known: OnceCell::new() }
    }

    /// The way to the server that the authority vouches for.
    pub(super) async fn way(&self) -> Result<&Network, Error> {
        self.known.get_or_try_init(|| self.ask()).await
    }

    async fn ask(&self) -> Result<Network, Error> {
        let client = Client::new(Arc::new(self.anyone.clone()), &self.server, None)?;
        let pem = client.bytes("/cacerts").await?;
        let found = checksum(&pem);
        if found != self.checksum {
            return Err(Error::Checksum { found, wanted: self.checksum.clone() });
        }
        let trust = Trust { authorities: Some(pem.to_vec()), ..Trust::default() };
        Ok(self.anyone.clone().trusting(Arc::new(tls::config(&trust, None)?)))
    }
}

fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
