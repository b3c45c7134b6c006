//! The durable backend: one SQLite file, one writer thread.

mod backup;
mod check;
mod lock;
mod reader;
mod reseal;
mod rows;
mod schema;
mod writer;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use clock::Clock;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

pub use backup::RESTORE_MARGIN;
pub use reseal::KeyUse;

use self::lock::Lock;
use self::reader::Reader;
use self::writer::{Request, Writer};
use super::core::Core;
use super::hash::LogHasher;
use super::trim::floor_for;
use super::view::Origin;
use super::{
    Answer, Commit, Error, Keyring, LogHash, Options, Page, Query, Revision, Scope, Store, Stored, View,
    Watch, Write,
};

/// Requests that wait for the writer, at most: who comes later waits to get in line.
const QUEUE: usize = 1024;

/// The database's name in the data directory.
const FILE: &str = "herdsman.db";

/// A store in a file that survives whatever happens to the process.
///
/// All objects are held in memory as well: reads of the present do not touch the file. Reads of older history and the
/// log run on tokio's blocking threads, so it is to be used inside a tokio runtime.
pub struct SqliteStore {
    core: Arc<Core>,
    reader: Arc<Reader>,
    /// Taken when the store is dropped: the writer ends when nobody can send any more.
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl SqliteStore {
    /// Opens the store in a data directory, and makes both if they are not there.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it open, [`Error::NewerSchema`] if a newer program wrote it.
    pub fn open(directory: &Path, options: Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let lock = Lock::take(directory, clock.now())?;
        let path = directory.join(FILE);
        let connection = schema::open(&path, options.quota_bytes)?;
        sync_directory(directory)?;
        let seal = options.seal.clone();
        reseal::meet(&connection, &seal)?;
        let view = rows::load(&connection, &seal)?;
        let core = Arc::new(Core::new(view, options));
        let (requests, queue) = mpsc::channel(QUEUE);
        let writer = Writer::new(connection, core.clone(), clock, lock)?;
        let spawned =
            std::thread::Builder::new().name("store-writer".into()).spawn(move || writer.run(queue));
        let writer = spawned.map_err(Error::file("starting the writer of", &path))?;
        let reader = Arc::new(Reader::new(path.clone(), seal));
        Ok(SqliteStore { core, reader, requests: Some(requests), writer: Some(writer), path })
    }

    /// Hands a request to the writer and waits for its answer.
    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request,
    ) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(Error::Closed)?;
        requests.send(request(answer)).await.map_err(|_| Error::Closed)?;
        answered.await.unwrap_or(Err(Error::Closed))
    }

    /// Writes a copy of the whole store to a new file while it is in use, and gives the revision that it has.
    /// [`SqliteStore::restore`] makes a store of it.
    ///
    /// # Errors
    /// [`Error::File`] if `target` exists or cannot be written.
    pub async fn backup(&self, target: &Path) -> Result<Revision, Error> {
        let (source, target) = (self.path.clone(), target.to_owned());
        reader::blocking(move || backup::copy(&source, &target, || Ok(BTreeMap::new()))).await
    }

    /// Writes a copy of a data directory's store to a new file, also while another process uses it, and files that go
    /// with it. `attached` is asked for them after the store has been copied.
    ///
    /// # Errors
    /// [`Error::NotAStore`] if there is none, [`Error::File`] if `target` exists or cannot be written.
    pub fn copy<E: From<Error>>(
        directory: &Path,
        target: &Path,
        now: Timestamp,
        attached: impl FnOnce() -> Result<BTreeMap<String, Vec<u8>>, E>,
    ) -> Result<Revision, E> {
        let source = directory.join(FILE);
        if !source.exists() {
            return Err(Error::NotAStore { path: source }.into());
        }
        // If nobody is there, nobody may come: a restoration would exchange the file meanwhile. Who is there may write.
        let _lock = match Lock::take(directory, now) {
            Err(Error::Locked { .. }) => None,
            lock => Some(lock?),
        };
        backup::copy(&source, target, attached)
    }

    /// Puts a backup in the place of a data directory's store. Gives the revision that the store goes on from.
    ///
    /// No revision is given out twice: the store continues above all that the backup had reserved, above the head of
    /// the store that it replaces (which is kept beside it), and, since that one may be lost, [`RESTORE_MARGIN`]
    /// beyond. Revisions from before are refused as compacted, so that clients list again.
    ///
    /// # Errors
    /// [`Error::Locked`] if the directory is in use, [`Error::NotAStore`] or [`Error::Corrupt`] if the backup is no
    /// good; then nothing has changed.
    pub fn restore(backup: &Path, directory: &Path, now: Timestamp) -> Result<Revision, Error> {
        SqliteStore::restore_with(backup, directory, now, |_| Ok(()))
    }

    /// As [`SqliteStore::restore`]; `place` is given the files that are with the backup, once it is known to be good and
    /// before it takes its place. If that fails, the store stays as it was.
    ///
    /// # Errors
    /// As [`SqliteStore::restore`], and those of `place`.
    pub fn restore_with<E: From<Error>>(
        backup: &Path,
        directory: &Path,
        now: Timestamp,
        place: impl FnOnce(&BTreeMap<String, Vec<u8>>) -> Result<(), E>,
    ) -> Result<Revision, E> {
        let _lock = Lock::take(directory, now)?;
        backup::restore(backup, directory, place)
    }

    /// Seals with the first of these keys from now on, and opens what any of them has sealed. What is there is brought
    /// under the new key by [`SqliteStore::reseal`].
    ///
    /// # Errors
    /// [`Error::WrongKey`] if one of them has the name of another key. Then all stays as it was.
    pub async fn adopt_keys(&self, keys: Keyring) -> Result<(), Error> {
        self.ask(|answer| Request::Adopt { keys, answer }).await
    }

    /// Brings values under the key that seals now, in small steps, between which writes go on. Revisions stay as they
    /// are. Costs next to nothing if there is nothing to do.
    ///
    /// # Errors
    /// [`Error::Unreadable`] for a value that does not open, [`Error::DiskFull`]. What was done stays done.
    pub async fn reseal(&self) -> Result<(), Error> {
        while self.ask(|answer| Request::Reseal { answer }).await? {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// How many values are under which key, in the store of a data directory, also while a server uses it.
    ///
    /// # Errors
    /// [`Error::NotAStore`] if there is none.
    pub fn key_usage(directory: &Path, scopes: &[Scope]) -> Result<Vec<KeyUse>, Error> {
        let connection = schema::look(&directory.join(FILE))?;
        reseal::usage(&connection, scopes).map_err(Error::storage("counting values of keys"))
    }

    /// Reads all of the file and finds out whether it is sound.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with what is wrong.
    pub async fn check(&self) -> Result<(), Error> {
        self.reader.read(|snapshot| check::check(snapshot)).await
    }
}

/// Makes new names in a directory durable.
fn sync_directory(directory: &Path) -> Result<(), Error> {
    let synced = fs::File::open(directory).and_then(|opened| opened.sync_all());
    synced.map_err(Error::file("syncing", directory))
}

impl Store for SqliteStore {
    fn view(&self) -> Arc<View> {
        self.core.view()
    }

    fn write(&self, transaction: Vec<Write>) -> Answer<'_, Commit> {
        Box::pin(self.ask(|answer| Request::Write { transaction, answer }))
    }

    fn get<'a>(&'a self, key: &'a str, at: Option<Revision>) -> Answer<'a, Option<Arc<Stored>>> {
        Box::pin(async move {
            let query = Query { at, ..Query::all(Scope::key(key)) };
            Ok(self.list(query).await?.items.pop())
        })
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        Box::pin(async move {
            let view = self.core.view();
            match view.page(&query)? {
                Some(page) => Ok(page),
                None => {
                    let revision = query.at.unwrap_or(view.head());
                    let seal = self.core.options.seal.clone();
                    self.reader.read(move |snapshot| rows::page(snapshot, &query, revision, &seal)).await
                }
            }
        })
    }

    fn watch(&self, scope: Scope, after: Revision) -> Result<Watch, Error> {
        Watch::new(self.core.clone(), Some(self.reader.clone()), scope, after)
    }

    fn expire(&self, now: Timestamp) -> Answer<'_, usize> {
        Box::pin(self.core.expire(self, now))
    }

    fn rest(&self) -> Answer<'_, ()> {
        Box::pin(self.ask(|answer| Request::Rest { answer }))
    }

    fn compact(&self, floor: Revision) -> Answer<'_, ()> {
        Box::pin(async move {
            self.ask(|answer| Request::Raise { floor, answer }).await?;
            while self.ask(|answer| Request::Sweep { answer }).await? {}
            Ok(())
        })
    }

    fn trim(&self, now: Timestamp) -> Answer<'_, Revision> {
        Box::pin(async move {
            let core = self.core.clone();
            let floor = self.reader.read(move |snapshot| {
                let view = core.view();
                floor_for(&view, &core.options, now, |revision| rows::mark(snapshot, revision))
            });
            match floor.await {
                Ok(floor) => self.compact(floor).await?,
                // Another compaction took the ground away: it goes on with the work.
                Err(Error::Compacted { .. }) => {}
                Err(error) => return Err(error),
            }
            Ok(self.core.view().floor())
        })
    }

    fn log_hash(&self) -> Answer<'_, LogHash> {
        let seal = self.core.options.seal.clone();
        Box::pin(self.reader.read(move |snapshot| {
            let mut hasher = LogHasher::default();
            let Origin { floor, head, .. } = rows::origin(snapshot)?;
            let mut after = floor;
            loop {
                let stretch = rows::stretch(snapshot, &Scope::prefix(""), after, head, &seal)?;
                if stretch.through == after {
                    return Ok(hasher.hash());
                }
                stretch.events.iter().for_each(|event| hasher.follow(event));
                after = stretch.through;
            }
        }))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.requests = None;
        self.reader.close();
        // Waits for what was accepted to be on the disk and for the lock to be free. A writer that panicked has
        // already said so.
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}
