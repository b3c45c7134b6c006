//! Secrets encrypted at rest: the key file, the store that is opened with it, and what happens when keys change.
//!
//! **The key file** is `encryption.key` in the data directory, for its owner's eyes only, made at the first start. It
//! has a line for each key: the first one writes, all of them read. Losing it is losing what it encrypts.
//!
//! **Rotation** needs no downtime: [`rotate`] puts a new key first; a running server takes it up within [`POLL`] (or at
//! once, when it is told to), rewrites all values in small steps in place (revisions stay as they are, watches hear
//! nothing), and after that [`drop_unused`] removes the old key. Backups from before still need it: they carry their own
//! copy unless they were made without.

mod file;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Entropy};
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::files;
use crate::store::{self, BadKeys, Key, KeyUse, Keyring, Options, Scope, Seal, SqliteStore};

/// The key file's name in the data directory.
pub const KEY_FILE: &str = "encryption.key";

/// What is encrypted unless somebody says otherwise.
pub const RESOURCES: &str = "secrets";

/// How often a running server looks whether its keys have changed.
pub const POLL: Duration = Duration::from_secs(5);

/// What can be wrong with keys.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key file cannot be read or written.
    #[error(transparent)]
    File(#[from] files::Error),
    /// Others can read the key file.
    #[error("{} can be read by others (mode {mode:03o}): make it 600, and think about who may have read it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its rights.
        mode: u32,
    },
    /// The key file makes no sense.
    #[error("{} is no key file", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: BadKeys,
    },
    /// There is no key file.
    #[error("there is no {}: the first start of a server makes it", .0.display())]
    Missing(PathBuf),
    /// The newest key is not in use yet, so that no other can go.
    #[error(
        "key {0} has not been taken up by a server yet: start one, or give the running one a few seconds"
    )]
    NotInUse(Arc<str>),
    /// The store refuses.
    #[error("{error}; its keys are in {}", keys.display())]
    Store {
        /// What it says.
        error: store::Error,
        /// The key file.
        keys: PathBuf,
    },
}

/// What is encrypted: resources as kubectl names them, such as `secrets` or `widgets.example.com`.
#[derive(Clone, Debug)]
pub struct Resources(Vec<Scope>);

impl Resources {
    /// These.
    pub fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let scope = |name: &str| {
            let (plural, group) = name.split_once('.').unwrap_or((name, "core"));
            Scope::prefix(format!("/registry/{group}/{plural}/"))
        };
        Resources(names.into_iter().map(|name| scope(name.as_ref())).collect())
    }
}

/// Opens the store of a data directory with the keys of its key file. Both are made if they are not there.
///
/// # Errors
/// A store that needs keys which are not there is refused before anything is written, and no key file is made for it.
pub fn open_store(
    directory: &Path,
    options: Options,
    resources: &Resources,
    clock: Arc<dyn Clock>,
    mut entropy: Box<dyn Entropy>,
) -> Result<SqliteStore, Error> {
    let path = directory.join(KEY_FILE);
    let found = file::read(&path)?;
    let is_new = found.is_none();
    let keys = found.unwrap_or_else(|| Keyring::new(vec![new_key(clock.now(), &mut *entropy)]));
    let seal = Arc::new(Seal::new(keys.clone(), resources.0.clone(), entropy));
    let opened = SqliteStore::open(directory, Options { seal, ..options }, clock);
    let store = opened.map_err(|error| of_store(error, &path))?;
    // The directory is ours now, and nothing has been encrypted yet.
    if is_new {
        file::create(&path, &keys)?;
    }
    Ok(store)
}

fn of_store(error: store::Error, keys: &Path) -> Error {
    Error::Store { error, keys: keys.to_owned() }
}

/// A key that is named after the time it was made at.
fn new_key(now: Timestamp, entropy: &mut dyn Entropy) -> Key {
    let mut tail = [0; 2];
    entropy.fill(&mut tail);
    let id = format!("{}-{:04x}", now.strftime("%Y%m%dT%H%M%SZ"), u16::from_be_bytes(tail));
    Key::generate(&id, entropy)
}

/// Keeps a store under the keys of its key file, for as long as it is polled: brings older values under the first key,
/// takes up keys that are added, at the latest [`POLL`] after that, or when it is woken.
///
/// What goes wrong is logged and tried again.
pub async fn follow(store: &SqliteStore, directory: &Path, wake: &Notify) {
    let path = directory.join(KEY_FILE);
    let mut known: Option<Keyring> = None;
    let mut is_behind = true;
    loop {
        match changed(store, &path, known.as_ref()).await {
            Ok(None) => {}
            Ok(Some(keys)) => (known, is_behind) = (Some(keys), true),
            Err(error) => tracing::warn!(%error, "the encryption keys could not be taken up"),
        }
        if is_behind {
            match store.reseal().await {
                Ok(()) => is_behind = false,
                Err(error) => {
                    tracing::warn!(%error, "older values could not be encrypted with the present key")
                }
            }
        }
        tokio::select! {
            biased;
            () = wake.notified() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

/// Takes up the keys of the file if they are others than those that are known.
async fn changed(
    store: &SqliteStore,
    path: &Path,
    known: Option<&Keyring>,
) -> Result<Option<Keyring>, Error> {
    let keys = file::read(path)?.ok_or_else(|| Error::Missing(path.to_owned()))?;
    if known.is_some_and(|known| known.is_same(&keys)) {
        return Ok(None);
    }
    store.adopt_keys(keys.clone()).await.map_err(|error| of_store(error, path))?;
    if let Some(first) = keys.first().filter(|_| known.is_some()) {
        tracing::info!(key = &**first.id(), "what is written from now on is encrypted with this key");
    }
    Ok(Some(keys))
}

/// Adds a key that writes from now on. Gives its name.
///
/// # Errors
/// If there is no key file, or it cannot be changed.
pub fn rotate(directory: &Path, now: Timestamp, entropy: &mut dyn Entropy) -> Result<Arc<str>, Error> {
    let path = directory.join(KEY_FILE);
    let _others_wait = file::lock(directory)?;
    let keys = file::read(&path)?.ok_or_else(|| Error::Missing(path.clone()))?;
    let first = new_key(now, entropy);
    let id = first.id().clone();
    file::replace(&path, &Keyring::new(vec![first]).followed_by(&keys))?;
    Ok(id)
}

/// The keys of a data directory and what each of them still encrypts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// In the order of the file: the first one writes.
    pub keys: Vec<KeyUse>,
    /// Values that are to be encrypted and are not.
    pub plain: KeyUse,
    /// Whether the first key has been taken up.
    pub is_taken_up: bool,
}

/// How far a rotation is, also while a server runs.
///
/// # Errors
/// If there is no store or no key file.
pub fn usage(directory: &Path, resources: &Resources) -> Result<Usage, Error> {
    let path = directory.join(KEY_FILE);
    let ring = file::read(&path)?.ok_or_else(|| Error::Missing(path.clone()))?;
    let counted = SqliteStore::key_usage(directory, &resources.0);
    let counted = counted.map_err(|error| of_store(error, &path))?;
    let of = |id: Option<&Arc<str>>| counted.iter().find(|one| one.id.as_ref() == id).cloned();
    let none = |id: Option<&Arc<str>>| KeyUse { id: id.cloned(), objects: 0, history: 0 };
    let first = ring.first().map(Key::id);
    Ok(Usage {
        keys: ring.iter().map(|key| of(Some(key.id())).unwrap_or_else(|| none(Some(key.id())))).collect(),
        plain: of(None).unwrap_or_else(|| none(None)),
        is_taken_up: of(first).is_some(),
    })
}

/// Removes the keys that nothing is encrypted with any more, but for the one that writes. Gives their names.
///
/// # Errors
/// [`Error::NotInUse`] if a server may still write with another key than the first.
pub fn drop_unused(directory: &Path, resources: &Resources) -> Result<Vec<Arc<str>>, Error> {
    let path = directory.join(KEY_FILE);
    let _others_wait = file::lock(directory)?;
    let ring = file::read(&path)?.ok_or_else(|| Error::Missing(path.clone()))?;
    let used = usage(directory, resources)?;
    if let (false, Some(first)) = (used.is_taken_up, ring.first()) {
        return Err(Error::NotInUse(first.id().clone()));
    }
    let is_unused = |one: &KeyUse| one.objects + one.history == 0;
    let unused = used.keys.iter().skip(1).filter(|one| is_unused(one)).filter_map(|one| one.id.clone());
    let unused: Vec<Arc<str>> = unused.collect();
    if !unused.is_empty() {
        let kept = ring.iter().filter(|key| !unused.contains(key.id())).cloned();
        file::replace(&path, &Keyring::new(kept.collect()))?;
    }
    Ok(unused)
}

/// The text of a key file with these keys first, then those that another one has beside them: what can read the data
/// of both.
///
/// # Errors
/// If one of the texts is no key file.
pub(crate) fn merged(first: &str, second: &str) -> Result<String, BadKeys> {
    Ok(Keyring::parse(first)?.followed_by(&Keyring::parse(second)?).render())
}
