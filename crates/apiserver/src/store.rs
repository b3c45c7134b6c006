//! Where objects are kept: opaque keys, serialised values, one revision that counts every change.
//!
//! The store knows nothing of kinds. It offers what an API server needs of one:
//! - **One dense revision.** Every change of a key takes the next number. A number is never given out twice, also not
//!   by a store that was restored from a backup.
//! - **Compare and swap.** A write names what it expects to find, and is refused with what is there instead.
//! - **Durable before acknowledged.** [`SqliteStore`] answers after the commit reached the disk; requests that come
//!   in during one commit share the next one.
//! - **Consistent reads without locks.** The present is a persistent map: a reader takes a [`View`] and reads it for
//!   as long as it likes. Older revisions come from the log, down to the floor that compaction has raised.
//! - **Watches** see every change above a revision, in order, once each.
//!
//! A transaction of several writes is atomic (all of it is there, or nothing), and its changes take consecutive
//! revisions; a reader that asks for a revision in its middle sees it half done.

mod content;
mod core;
mod draft;
mod error;
mod expiry;
mod hash;
mod hub;
mod memory;
mod model;
mod options;
mod scope;
mod seal;
mod sqlite;
mod trim;
mod view;
mod watch;

use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;

pub use error::Error;
pub use hash::LogHash;
pub use memory::MemoryStore;
pub use model::{Change, Commit, Event, Expect, Page, Query, Revision, Stored, Write};
pub use options::Options;
pub use scope::Scope;
pub use seal::{BadKeys, Key, Keyring, Seal};
pub use sqlite::{KeyUse, RESTORE_MARGIN, SqliteStore};
pub use view::View;
pub use watch::Watch;

/// What a store's methods give: a future of a result.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A store of objects with history.
///
/// A future that is dropped half-way does not take its write back: a request that was handed over is carried out.
pub trait Store: Send + Sync {
    /// The present, as it is after the last acknowledged write. Costs nothing and stays as it is.
    fn view(&self) -> Arc<View>;

    /// Carries out all of the transaction's writes, in order, or none.
    ///
    /// # Errors
    /// The first expectation that is not met; [`Error::DiskFull`] or [`Error::Storage`] if it could not be kept.
    fn write(&self, transaction: Vec<Write>) -> Answer<'_, Commit>;

    /// The object at a key: the present one, or the one at a revision.
    ///
    /// # Errors
    /// [`Error::Compacted`] below the floor, [`Error::FutureRevision`] above the head.
    fn get<'a>(&'a self, key: &'a str, at: Option<Revision>) -> Answer<'a, Option<Arc<Stored>>>;

    /// Objects in order of their keys, all as of one revision. For further pages ask with the first page's revision
    /// and the last key seen.
    ///
    /// # Errors
    /// [`Error::Compacted`] below the floor, [`Error::FutureRevision`] above the head.
    fn list(&self, query: Query) -> Answer<'_, Page>;

    /// Every change in `scope` with a revision above `after`, in order, once each.
    ///
    /// # Errors
    /// [`Error::Compacted`] below the floor, [`Error::FutureRevision`] above the head.
    fn watch(&self, scope: Scope, after: Revision) -> Result<Watch, Error>;

    /// Deletes what was to live no longer than until `now`, as ordinary deletions. Gives their number.
    fn expire(&self, now: Timestamp) -> Answer<'_, usize>;

    /// Forgets the history below `floor`: reads and watches from there are refused from now on. The space is freed in
    /// small steps, between which writes go on; the answer comes after the last.
    ///
    /// # Errors
    /// [`Error::FutureRevision`] above the head. A floor that is already passed is no error.
    fn compact(&self, floor: Revision) -> Answer<'_, ()>;

    /// Compacts as far as the limits of age and size in [`Options`] ask for. Gives the floor.
    fn trim(&self, now: Timestamp) -> Answer<'_, Revision>;

    /// Gives back what is kept only to write quickly: for who sees that nobody writes. A store in memory has nothing of the kind.
    fn rest(&self) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// A hash over the log, to compare two runs: the same changes at the same times give the same hash.
    /// [`MemoryStore`] covers every change since it was made; [`SqliteStore`] those above the floor, so that the two
    /// agree as long as nothing was compacted.
    fn log_hash(&self) -> Answer<'_, LogHash>;
}
