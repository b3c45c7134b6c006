//! Following the server's wish for another binary: it is fetched, checked, and put in the place of this one. Going over to it is
//! then as with any other binary that is found there.

use jiff::{SignedDuration, Timestamp};
use plan::binary::{self, REFUSED, RUNNING, Running, Wanted};
use sha2::{Digest as _, Sha256};

use super::judge::wants;
use super::keeper::{self, Keeper};
use crate::client::{self, Client};
use crate::disk::{self, Attributes};

/// Between two tries to fetch the same binary.
const PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// No agent is as large.
const LARGEST: usize = 128 << 20;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// What the plan Secret should say: annotations and their values.
    pub notes: Vec<(&'static str, String)>,
    /// When to try again, if it did not work.
    pub again: Option<Timestamp>,
}

/// Why the agent stays with the binary that it has.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot fetch {path}")]
    Fetch { path: String, source: client::Error },
    #[error("{path} has the checksum {found}: the server has another one than it says, perhaps for a moment")]
    Other { path: String, found: String },
    #[error(transparent)]
    Disk(#[from] disk::Error),
    #[error(transparent)]
    Keeper(#[from] keeper::Error),
}

impl Keeper {
    /// Gets the binary that the server wants, unless it runs, is in its place, or was taken back lately.
    pub async fn follow(&mut self, client: &Client, wanted: &str) -> Followed {
        let architecture = binary::architecture(std::env::consts::ARCH);
        let running = Running { architecture: architecture.to_owned(), binary: self.running.clone() };
        let mut notes = vec![(RUNNING, running.text())];
        let now = self.machine.clock.now();
        let wanted = Wanted::read(wanted).and_then(|mut wanted| wanted.binaries.remove(architecture));
        let Some(wanted) = wanted.filter(|wanted| *wanted != self.running) else {
            return Followed { notes, again: None };
        };
        if !wants(&self.state, &self.running, &wanted, now) {
            notes.push((REFUSED, wanted));
            return Followed { notes, again: None };
        }
        if let Some((_, at)) = self.later.as_ref().filter(|(tried, at)| *tried == wanted && *at > now) {
            return Followed { notes, again: Some(*at) };
        }
        match self.fetch(client, architecture, &wanted).await {
            // If it is not gone over to, that is to be said.
            Ok(()) => Followed { notes, again: Some(now + SignedDuration::from_secs(1)) },
            Err(error) => {
                let error = crate::chain(&error);
                tracing::warn!(error, binary = wanted, "the binary that the server wants is not to be had");
                self.later = Some((wanted, now + PAUSE));
                Followed { notes, again: Some(now + PAUSE) }
            }
        }
    }

    async fn fetch(&mut self, client: &Client, architecture: &str, wanted: &str) -> Result<(), Error> {
        if self.found()?.as_deref() == Some(wanted) {
            return Ok(());
        }
        let path = format!("/assets/{}", binary::file(architecture));
        let bytes = client.file(&path, LARGEST).await;
        let bytes = bytes.map_err(|source| Error::Fetch { path: path.clone(), source })?;
        let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if found != wanted {
            return Err(Error::Other { path, found });
        }
        disk::write(&self.binary, &bytes, Attributes { mode: 0o755, owner: None })?;
        tracing::info!(binary = wanted, "the server's binary is in place");
        Ok(())
    }
}
