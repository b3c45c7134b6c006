//! The whole way: find the image, then extract it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outbound::proxy::Proxies;

use crate::archives;
use crate::extract::{self, Extracted};
use crate::keychain::Keychain;
use crate::limits::Limits;
use crate::manifest::Platform;
use crate::pull::{NotPulled, Puller};
use crate::reference::{self, Reference};
use crate::registries::{self, Registries};

/// Why an image's files are not in the directory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image's name is none.
    #[error(transparent)]
    Reference(#[from] reference::Error),
    /// The images directory cannot be read.
    #[error(transparent)]
    Archives(#[from] archives::Error),
    /// `registries.yaml` cannot be read.
    #[error(transparent)]
    Registries(#[from] registries::Error),
    /// No registry has it, or none gives it to us.
    #[error("cannot pull {image}: {source}")]
    Pull {
        /// The image.
        image: String,
        /// What each place says.
        source: NotPulled,
    },
    /// It was found and cannot be extracted.
    #[error("cannot extract {image}: {source}")]
    Extract {
        /// The image.
        image: String,
        /// What is wrong.
        source: extract::Error,
    },
    /// There is no room for its layers.
    #[error("cannot use {} for layers: {source}", path.display())]
    Spool {
        /// Where they would be.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The program is ending.
    #[error("the extraction was given up")]
    Abandoned,
}

/// Where images come from, and what is allowed.
#[derive(Clone)]
pub struct Options {
    /// Archives are looked for below this directory. It need not exist.
    pub images: PathBuf,
    /// `registries.yaml`: the first of these that exists counts.
    pub registries: Vec<PathBuf>,
    /// Kubelet's `CredentialProviderConfig` and the directory of the providers. Neither need exist.
    pub credential_providers: Option<(PathBuf, PathBuf)>,
    /// Docker's `config.json`. It need not exist.
    pub docker_config: Option<PathBuf>,
    /// Proxies for pulls.
    pub proxies: Proxies,
    /// Whose image is chosen where there are several.
    pub platform: Platform,
    /// How large it may be.
    pub limits: Limits,
}

impl Options {
    /// The system's: Docker's file in the home directory and the proxies of the environment, read by name.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Self {
        let home = get("HOME").filter(|home| !home.is_empty());
        Options {
            images: "/var/lib/rancher/agent/images".into(),
            registries: ["agent", "rke2", "k3s"]
                .map(|owner| format!("/etc/rancher/{owner}/registries.yaml").into())
                .to_vec(),
            credential_providers: Some((
                "/var/lib/rancher/credentialprovider/config.yaml".into(),
                "/var/lib/rancher/credentialprovider/bin".into(),
            )),
            docker_config: home.map(|home| Path::new(&home).join(".docker/config.json")),
            proxies: Proxies::from_variables(get),
            platform: Platform::ours(),
            limits: Limits::default(),
        }
    }
}

/// An image whose files are in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// Where it came from: an archive's path or a registry's URL.
    pub source: String,
    /// What was written.
    pub extracted: Extracted,
}

/// Puts an image's files into a directory, which is made if it is not there.
///
/// An archive with the image is preferred to a pull. Layers pass through `<into>.layers`, which is removed in the end
/// whatever happens; one that a crash left there is removed at the next start. Nothing else outside of `into` is
/// written. After an error the directory may hold a part of the files.
pub async fn stage(options: &Options, image: &str, into: &Path) -> Result<Staged, Error> {
    let reference: Reference = image.parse()?;
    let spool = Spool::create(into)?;
    let (layers, source) = find(options, &reference, &spool.0).await?;
    let (into, limits) = (into.to_owned(), options.limits.clone());
    let extracted = blocking(move || extract::layers(&layers, &into, &limits)).await?;
    let extracted = extracted.map_err(|source| Error::Extract { image: image.into(), source })?;
    Ok(Staged { source, extracted })
}

/// The image's layers, each in a file, and where they came from.
async fn find(
    options: &Options,
    reference: &Reference,
    spool: &Path,
) -> Result<(Vec<PathBuf>, String), Error> {
    let found = {
        let (options, reference, spool) = (options.clone(), reference.clone(), spool.to_owned());
        blocking(move || {
            archives::find(&options.images, &reference, &options.platform, &options.limits, &spool)
        })
    };
    if let Some(found) = found.await?? {
        tracing::info!("image {reference} found in {}", found.archive.display());
        return Ok((found.layers, found.archive.display().to_string()));
    }
    let puller = Puller {
        registries: Arc::new(Registries::read_first(&options.registries)?),
        proxies: options.proxies.clone(),
        keychain: Keychain {
            docker: options.docker_config.clone(),
            providers: options.credential_providers.clone(),
        },
        platform: &options.platform,
        limits: &options.limits,
    };
    tracing::info!("pulling image {reference}");
    let pulled = puller.pull(reference, spool).await;
    let pulled = pulled.map_err(|source| Error::Pull { image: reference.to_string(), source })?;
    Ok((pulled.layers, pulled.endpoint))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Abandoned)
}

/// A directory for layers, gone with this value.
struct Spool(PathBuf);

impl Spool {
    fn create(into: &Path) -> Result<Self, Error> {
        let mut name = into.file_name().unwrap_or_default().to_owned();
        name.push(".layers");
        let path = into.with_file_name(name);
        let failed = |source| Error::Spool { path: path.clone(), source };
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        std::fs::create_dir_all(&path).map_err(failed)?;
        Ok(Spool(path))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!("cannot remove {}: {error}", self.0.display());
        }
    }
}
