//! Pulling: an image's layers from the first place that has them, each checked against its digest.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use outbound::proxy::Proxies;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use crate::attempts::{Attempt, attempts};
use crate::client::{Client, Response};
use crate::credentials::Credentials;
use crate::digest::{Digest, Hasher};
use crate::keychain::Keychain;
use crate::limits::Limits;
use crate::manifest::{self, ACCEPT, Descriptor, Manifest, Platform, select};
use crate::reference::{Reference, Selector};
use crate::registries::Registries;
use crate::session::{self, Session};

/// How long is waited before a request is repeated.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// How deep indexes may lie in indexes.
const MAX_DEPTH: usize = 4;

/// Why one place does not have the image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The registry does not give it.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// A manifest is of no use.
    #[error("{endpoint}: {source}")]
    Manifest {
        /// From here.
        endpoint: String,
        /// What is wrong.
        source: manifest::Error,
    },
    /// What came is not what was asked for.
    #[error("{endpoint}: asked for {expected}, got {got}")]
    Digest {
        /// From here.
        endpoint: String,
        /// What was asked for.
        expected: String,
        /// What came.
        got: String,
    },
    /// What comes is too large, or longer than announced.
    #[error("{endpoint}: {what} is larger than {limit} bytes")]
    TooLarge {
        /// From here.
        endpoint: String,
        /// What is.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// It cannot be kept.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
}

impl Error {
    fn is_transient(&self) -> bool {
        match self {
            Error::Session(error) => error.is_transient(),
            // A cut transfer looks like that as well.
            Error::Digest { .. } => true,
            _ => false,
        }
    }
}

/// Why no place has the image.
#[derive(Debug, thiserror::Error)]
pub struct NotPulled(Vec<Error>);

impl fmt::Display for NotPulled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(Error::to_string).collect();
        f.write_str(&all.join("; then "))
    }
}

/// What is needed to pull.
pub(crate) struct Puller<'a> {
    pub(crate) registries: Arc<Registries>,
    pub(crate) proxies: Proxies,
    pub(crate) keychain: Keychain,
    pub(crate) platform: &'a Platform,
    pub(crate) limits: &'a Limits,
}

/// An image that was pulled.
pub(crate) struct Pulled {
    /// From here.
    pub(crate) endpoint: String,
    /// Its layers, each in a file, the lowest first.
    pub(crate) layers: Vec<PathBuf>,
}

impl Puller<'_> {
    /// Tries every place in turn and puts the layers into files in `spool`.
    pub(crate) async fn pull(&self, reference: &Reference, spool: &Path) -> Result<Pulled, NotPulled> {
        let client = Client::new(self.registries.clone(), self.proxies.clone());
        let mut errors = Vec::new();
        for attempt in attempts(&self.registries, reference) {
            let endpoint = attempt.endpoint.to_string();
            let credentials = match &attempt.auth {
                Some(auth) => Credentials::of(auth),
                None => Credentials::Anonymous,
            };
            let credentials = match credentials {
                Credentials::Anonymous => self.keychain.find(&attempt).await,
                known => known,
            };
            let session = Session::new(&client, &attempt, credentials);
            let mut transfer = Transfer { session, attempt: &attempt, limits: self.limits };
            match transfer.image(&reference.selector, self.platform, spool).await {
                Ok(layers) => return Ok(Pulled { endpoint, layers }),
                Err(error) => {
                    tracing::warn!("image {reference} not pulled from {endpoint}: {error}");
                    errors.push(error);
                }
            }
        }
        Err(NotPulled(errors))
    }
}

/// One place that is being tried.
struct Transfer<'a> {
    session: Session<'a>,
    attempt: &'a Attempt,
    limits: &'a Limits,
}

impl Transfer<'_> {
    async fn image(
        &mut self,
        selector: &Selector,
        platform: &Platform,
        spool: &Path,
    ) -> Result<Vec<PathBuf>, Error> {
        let layers = self.layers(selector, platform).await?;
        let size = layers.iter().fold(0u64, |size, layer| size.saturating_add(layer.size));
        if size > self.limits.packed {
            return Err(self.too_large("the image", self.limits.packed));
        }
        let mut files: Vec<PathBuf> = Vec::new();
        for layer in &layers {
            let file = spool.join(layer.digest.hex());
            if !files.contains(&file) {
                self.blob(layer, &file).await?;
            }
            files.push(file);
        }
        Ok(files)
    }

    /// The layers that a tag or a digest leads to.
    async fn layers(&mut self, selector: &Selector, platform: &Platform) -> Result<Vec<Descriptor>, Error> {
        let endpoint = self.attempt.endpoint.to_string();
        let unusable = |source| Error::Manifest { endpoint: endpoint.clone(), source };
        let mut selector = selector.clone();
        for _ in 0..MAX_DEPTH {
            let bytes = self.manifest(&selector).await?;
            match Manifest::parse(&bytes).map_err(unusable)? {
                Manifest::Image(layers) => return Ok(layers),
                Manifest::Index(entries) => {
                    let chosen = select(&entries, platform).map_err(unusable)?;
                    selector = Selector::Digest(chosen.digest.clone());
                }
            }
        }
        Err(unusable(manifest::Error::Nested))
    }

    async fn manifest(&mut self, selector: &Selector) -> Result<Vec<u8>, Error> {
        let mut patience = Patience::new();
        loop {
            match self.manifest_once(selector).await {
                Err(error) => patience.wait(error).await?,
                done => return done,
            }
        }
    }

    async fn manifest_once(&mut self, selector: &Selector) -> Result<Vec<u8>, Error> {
        let response = self.session.get(&format!("manifests/{selector}"), Some(ACCEPT)).await?;
        let bytes = response.bytes(self.limits.manifest).await.map_err(session::Error::from)?;
        let bytes = bytes.ok_or_else(|| self.too_large("the manifest", self.limits.manifest))?;
        if let Selector::Digest(digest) = selector {
            self.check(digest, Digest::of(&bytes))?;
        }
        Ok(bytes)
    }

    async fn blob(&mut self, layer: &Descriptor, file: &Path) -> Result<(), Error> {
        let mut patience = Patience::new();
        loop {
            match self.blob_once(layer, file).await {
                Err(error) => patience.wait(error).await?,
                done => return done,
            }
        }
    }

    async fn blob_once(&mut self, layer: &Descriptor, path: &Path) -> Result<(), Error> {
        let failed = |source| Error::Write { path: path.to_owned(), source };
        let mut response: Response = self.session.get(&format!("blobs/{}", layer.digest), None).await?;
        let mut file = File::create(path).await.map_err(failed)?;
        let (mut hasher, mut left) = (Hasher::default(), layer.size);
        while let Some(chunk) = response.chunk().await.map_err(session::Error::from)? {
            left = left
                .checked_sub(chunk.len() as u64)
                .ok_or_else(|| self.too_large(&format!("layer {}", layer.digest), layer.size))?;
            hasher.update(&chunk);
            file.write_all(&chunk).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)?;
        self.check(&layer.digest, hasher.finish())
    }

    fn check(&self, expected: &Digest, got: Digest) -> Result<(), Error> {
        if *expected == got {
            return Ok(());
        }
        let endpoint = self.attempt.endpoint.to_string();
        Err(Error::Digest { endpoint, expected: expected.to_string(), got: got.to_string() })
    }

    fn too_large(&self, what: &str, limit: u64) -> Error {
        Error::TooLarge { endpoint: self.attempt.endpoint.to_string(), what: what.into(), limit }
    }
}

/// The tries that are left for one request.
struct Patience(std::slice::Iter<'static, Duration>);

impl Patience {
    fn new() -> Self {
        Patience(PAUSES.iter())
    }

    /// Waits before another try. The error stands if none is left, or if none would help.
    async fn wait(&mut self, error: Error) -> Result<(), Error> {
        let pause = self.0.next().filter(|_| error.is_transient());
        let Some(pause) = pause else { return Err(error) };
        tracing::info!("once more in {} s: {error}", pause.as_secs());
        tokio::time::sleep(*pause).await;
        Ok(())
    }
}
