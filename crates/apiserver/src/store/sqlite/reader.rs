use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, Transaction};

use super::rows;
use crate::store::watch::{History, Stretch};
use crate::store::{Answer, Error, Revision, Scope, Seal};

/// Connections that stay open between reads.
const KEPT: usize = 2;

/// Reads the file beside the writer. Each read sees one state of it and holds nobody up.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    seal: Arc<Seal>,
    /// None once the store is closed: watches may outlive it, connections must not.
    idle: Arc<Mutex<Option<Vec<Connection>>>>,
}

impl Reader {
    pub(super) fn new(path: PathBuf, seal: Arc<Seal>) -> Self {
        Reader { path, seal, idle: Arc::new(Mutex::new(Some(Vec::new()))) }
    }

    /// Closes the file, as soon as reads that are under way have ended.
    pub(super) fn close(&self) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Runs `read` on one state of the file, on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (path, idle) = (self.path.clone(), self.idle.clone());
        blocking(move || {
            let kept = match &mut *idle.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(idle) => idle.pop(),
                None => return Err(Error::Closed),
            };
            let opened = kept.map_or_else(|| open(&path), Ok);
            let mut connection = opened.map_err(Error::storage("opening the store to read"))?;
            let snapshot = connection.transaction().map_err(Error::storage("beginning to read the store"))?;
            let result = read(&snapshot);
            snapshot.finish().map_err(Error::storage("ending a read of the store"))?;
            // Pages that the next read may not want: it finds them again with the system.
            connection.release_memory().map_err(Error::storage("ending a read of the store"))?;
            if let Some(idle) = &mut *idle.lock().unwrap_or_else(PoisonError::into_inner)
                && idle.len() < KEPT
            {
                idle.push(connection);
            }
            result
        })
        .await
    }
}

fn open(path: &std::path::Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -2048)?;
    Ok(connection)
}

/// Runs what blocks on tokio's threads for that.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::Closed),
        },
    }
}

impl History for Reader {
    fn read<'a>(&'a self, scope: &'a Scope, after: Revision, most: Revision) -> Answer<'a, Stretch> {
        let (scope, seal) = (scope.clone(), self.seal.clone());
        Box::pin(self.read(move |snapshot| rows::stretch(snapshot, &scope, after, most, &seal)))
    }
}
