//! Backups: one file that makes a working server again.
//!
//! The file is a copy of the store with the other files of the data directory in a table of its own: the authority and
//! the key of tokens (`pki/`), without which no client would trust the restored server, and the encryption key, unless it
//! is kept elsewhere. Who has such a file has everything: it is for its owner's eyes only.
//!
//! A copy is made beside a running server, by another process: SQLite's write-ahead log gives it one state of the file
//! and lets the writer go on. So the server takes no part, needs no endpoint for it, and a backup works the same when
//! the server is down.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::encryption::{self, KEY_FILE};
use crate::files;
use crate::store::{self, BadKeys, Revision, SqliteStore};

/// The directory of the authority and other keys.
const PKI: &str = "pki";

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] files::Error),
    /// A key file makes no sense.
    #[error("{} is no key file", path.display())]
    Keys {
        /// Where it is, or would be.
        path: PathBuf,
        /// What is wrong with it.
        source: BadKeys,
    },
    /// The backup has a file in it that no backup of ours has.
    #[error("the backup has a file {0:?}, which does not belong there")]
    Stranger(String),
}

/// Copies a data directory, also while a server uses it, to a new file. Gives the revision that the copy has.
///
/// # Errors
/// If there is no store, or `target` is there already.
pub fn make(
    directory: &Path,
    target: &Path,
    with_encryption_key: bool,
    now: Timestamp,
) -> Result<Revision, Error> {
    let key_path = directory.join(KEY_FILE);
    // Keys may come and go meanwhile. Those from before and after are enough for any state in between.
    let keys = || files::read(&key_path);
    let before = keys()?;
    let attached = || {
        let mut attached = pki_files(directory)?;
        if let Some(keys) = both(&key_path, keys()?, before)?.filter(|_| with_encryption_key) {
            attached.insert(KEY_FILE.to_owned(), keys.into_bytes());
        }
        Ok(attached)
    };
    SqliteStore::copy(directory, target, now, attached)
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The revision that the store goes on from.
    pub revision: Revision,
    /// Whether the data directory has an encryption key now.
    pub has_encryption_key: bool,
    /// Under which names what was replaced is kept, beside the store.
    pub kept: Vec<PathBuf>,
}

/// Makes a data directory what it was when the backup was made. What it replaces is kept under other names; the
/// encryption keys that were there stay in the key file, behind those of the backup.
///
/// # Errors
/// If a server uses the directory, or the backup is no good; then nothing has changed.
pub fn restore(backup: &Path, directory: &Path, now: Timestamp) -> Result<Restored, Error> {
    let mut kept = Vec::new();
    let place = |attached: &BTreeMap<String, Vec<u8>>| {
        attached.keys().try_for_each(|name| ours(name))?;
        kept.extend(place_keys(directory, attached)?);
        kept.extend(place_pki(directory, attached)?);
        Ok::<_, Error>(())
    };
    let revision = SqliteStore::restore_with(backup, directory, now, place)?;
    let has_encryption_key = directory.join(KEY_FILE).exists();
    Ok(Restored { revision, has_encryption_key, kept })
}

/// Refuses names that would end up somewhere else.
fn ours(name: &str) -> Result<(), Error> {
    let in_pki = name.strip_prefix("pki/").filter(|rest| !rest.is_empty() && !rest.starts_with('.'));
    match name == KEY_FILE || in_pki.is_some_and(|rest| !rest.contains('/')) {
        true => Ok(()),
        false => Err(Error::Stranger(name.to_owned())),
    }
}

fn pki_files(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let pki = directory.join(PKI);
    let failed = || files::failed("read", &pki);
    let entries = match fs::read_dir(&pki) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries.map_err(failed())?,
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(failed())?;
        let (path, name) = (entry.path(), entry.file_name());
        let (true, Some(name)) = (path.is_file(), name.to_str()) else { continue };
        // What a crash has left half-written does not count.
        if !name.ends_with(".new") {
            let content = fs::read(&path).map_err(files::failed("read", &path))?;
            found.insert(format!("{PKI}/{name}"), content);
        }
    }
    Ok(found)
}

/// The keys of two texts of a key file.
fn both(path: &Path, first: Option<String>, second: Option<String>) -> Result<Option<String>, Error> {
    let merged = match (&first, &second) {
        (Some(first), Some(second)) => encryption::merged(first, second),
        _ => return Ok(first.or(second)),
    };
    merged.map(Some).map_err(|source| Error::Keys { path: path.to_owned(), source })
}

/// Puts the backup's keys before those that are there, so that the store that goes and the one that comes can both be
/// read whatever happens.
fn place_keys(directory: &Path, attached: &BTreeMap<String, Vec<u8>>) -> Result<Option<PathBuf>, Error> {
    let path = directory.join(KEY_FILE);
    let there = files::read(&path)?;
    let text = attached.get(KEY_FILE).map(|text| String::from_utf8_lossy(text).into_owned());
    let Some(next) = both(&path, text, there.clone())?.filter(|next| there.as_ref() != Some(next)) else {
        return Ok(None);
    };
    let kept = there.map(|there| keep(&path, there.as_bytes())).transpose()?;
    files::replace(&path, next.as_bytes(), files::Mode::Secret)?;
    Ok(kept)
}

fn place_pki(directory: &Path, attached: &BTreeMap<String, Vec<u8>>) -> Result<Vec<PathBuf>, Error> {
    let mut kept = Vec::new();
    files::make_directory(&directory.join(PKI))?;
    for (name, content) in attached.iter().filter(|(name, _)| name.as_str() != KEY_FILE) {
        let path = directory.join(name);
        let there = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            there => Some(there.map_err(files::failed("read", &path))?),
        };
        if there.as_ref() == Some(content) {
            continue;
        }
        if let Some(there) = there {
            kept.push(keep(&path, &there)?);
        }
        let mode = if name.ends_with(".crt") { files::Mode::Public } else { files::Mode::Secret };
        files::replace(&path, content, mode)?;
    }
    Ok(kept)
}

/// Keeps what is replaced under a name that is free.
fn keep(path: &Path, content: &[u8]) -> Result<PathBuf, Error> {
    let names = (1..).map(|number| path.with_added_extension(format!("replaced-{number}")));
    let free = names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| path.to_owned());
    files::replace(&free, content, files::Mode::Secret)?;
    Ok(free)
}
