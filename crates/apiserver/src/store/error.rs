use std::path::PathBuf;
use std::sync::Arc;

use super::seal::Unreadable;
use super::{Revision, Stored};

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A write expected the key to be absent.
    #[error("key {key} already exists at revision {}", found.modified)]
    AlreadyExists {
        /// The key.
        key: Arc<str>,
        /// What is there.
        found: Arc<Stored>,
    },
    /// A write expected the key to be there.
    #[error("key {key} not found")]
    NotFound {
        /// The key.
        key: Arc<str>,
    },
    /// A write expected another revision of the object.
    #[error("key {key} is at revision {}, not {expected}", found.modified)]
    Conflict {
        /// The key.
        key: Arc<str>,
        /// What the write was made for.
        expected: Revision,
        /// What is there.
        found: Arc<Stored>,
    },
    /// A value that no request of an API server should ever reach.
    #[error("value of key {key} has {bytes} bytes, more than {most}")]
    TooLarge {
        /// The key.
        key: Arc<str>,
        /// The value's size.
        bytes: usize,
        /// The largest possible one.
        most: usize,
    },
    /// History below the floor is asked for. Clients get 410 Gone and list again.
    #[error("revision {asked} has been compacted; the oldest one is {floor}")]
    Compacted {
        /// What was asked for.
        asked: Revision,
        /// The oldest revision that can be read.
        floor: Revision,
    },
    /// A revision is asked for that has not been given out yet.
    #[error("revision {asked} is in the future; the newest one is {head}")]
    FutureRevision {
        /// What was asked for.
        asked: Revision,
        /// The newest revision.
        head: Revision,
    },
    /// A watch did not take its changes fast enough. A new one from `resume` goes on without a gap.
    #[error("the watch was too slow; resume from revision {resume}")]
    Lagged {
        /// The last revision that the watch gave.
        resume: Revision,
    },
    /// No room. Nothing of the write is kept; writes work again once there is room.
    #[error("no space left for the store: free some, or raise its quota")]
    DiskFull,
    /// The file could not be read or written. Nothing of a failed write is kept.
    #[error("{doing}: {source}")]
    Storage {
        /// What was being done.
        doing: &'static str,
        /// What SQLite says.
        source: Arc<rusqlite::Error>,
    },
    /// A file outside the database could not be used.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: Arc<std::io::Error>,
    },
    /// Another process uses the data directory.
    #[error("{} is in use by {holder}: stop it first, or choose another data directory", path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// Who, as far as it can be told.
        holder: String,
    },
    /// A newer program wrote the file.
    #[error(
        "the store has schema version {found}, and this program knows versions up to {known}: \
         use the newer program that wrote it, or restore a backup from before; nothing was changed"
    )]
    NewerSchema {
        /// The file's schema.
        found: i64,
        /// The newest one that is known here.
        known: i64,
    },
    /// An older program wrote the file, and it is only looked at.
    #[error("the store has schema version {found} and not {known} yet: start the server on it once")]
    OlderSchema {
        /// The file's schema.
        found: i64,
        /// The one that is written here.
        known: i64,
    },
    /// The file is something else.
    #[error("{} is not a store", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// The file contradicts itself.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// There are values that nobody can read without a key that was not given. Nothing has changed.
    #[error(
        "the store has {values} values that are encrypted with key {id}, which was not given: \
         put back the key file that belongs to this store"
    )]
    NoKey {
        /// The key's name.
        id: Arc<str>,
        /// How many values need it.
        values: u64,
    },
    /// A key has the right name and is another one. Nothing has changed.
    #[error(
        "key {id} is not the one that the store was encrypted with: \
         put back the key file that belongs to this store"
    )]
    WrongKey {
        /// The key's name.
        id: Arc<str>,
    },
    /// A value was damaged, or is not where it was written.
    #[error("{0}: it was damaged, or put there by somebody else")]
    Unreadable(String),
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// Wraps what SQLite says, telling a full disk from the rest.
    pub(super) fn storage(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
        move |source| match &source {
            rusqlite::Error::FromSqlConversionFailure(_, _, why) if why.is::<Unreadable>() => {
                Error::Unreadable(why.to_string())
            }
            _ if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => Error::DiskFull,
            _ => Error::Storage { doing, source: Arc::new(source) },
        }
    }

    /// Wraps what the operating system says about `path`.
    pub(super) fn file(doing: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Error::DiskFull,
            _ => Error::File { doing, path, source: Arc::new(source) },
        }
    }
}
