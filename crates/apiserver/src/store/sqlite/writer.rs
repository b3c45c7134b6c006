//! The one writer: takes what waits, commits it together, then answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use clock::Clock;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tokio::sync::{mpsc, oneshot};

use super::lock::Lock;
use super::reseal::{self, Resealing};
use super::rows;
use crate::store::core::Core;
use crate::store::draft::Draft;
use crate::store::{Commit, Error, Event, Keyring, Revision, Seal, Write};

/// One commit holds requests until there are so many of them, or so many bytes in them.
const BATCH_REQUESTS: usize = 512;
const BATCH_BYTES: usize = 4 << 20;

/// Revisions are set aside in the file so many at a time.
const RESERVE: i64 = 1_000_000;

/// The write-ahead log is brought into the database when it has so many pages: as many as SQLite has by default.
const WAL_PAGES: i32 = 1000;

/// Rows of the log that one step of sweeping passes, and pages that it gives back.
const SWEEP_ROWS: i64 = 500;
const SWEEP_PAGES: i64 = 500;

type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// What the writer can be asked for.
#[derive(Debug)]
pub(super) enum Request {
    Write {
        transaction: Vec<Write>,
        answer: Reply<Commit>,
    },
    /// Raise the floor.
    Raise {
        floor: Revision,
        answer: Reply<()>,
    },
    /// Free some of what is below the floor; says whether there is more.
    Sweep {
        answer: Reply<bool>,
    },
    /// Give back the pages that are kept for the next write.
    Rest {
        answer: Reply<()>,
    },
    /// Seal with the first of these keys from now on.
    Adopt {
        keys: Keyring,
        answer: Reply<()>,
    },
    /// Bring some of the older values under the present key; says whether there is more.
    Reseal {
        answer: Reply<bool>,
    },
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Request::Write { transaction, .. } => transaction.iter().map(Write::bytes).sum(),
            _ => 0,
        }
    }
}

pub(super) struct Writer {
    connection: Connection,
    core: Arc<Core>,
    clock: Arc<dyn Clock>,
    /// No revision above this has been given out by this file, nor can be without raising it first.
    reserved: i64,
    resealing: Resealing,
    /// Pages in the write-ahead log after the last commit.
    wal: Arc<AtomicI32>,
    /// Held as long as something may be written. Fields are dropped in order: the connection goes before.
    _lock: Lock,
}

/// Ends the watches also if the writer panics.
struct CloseOnExit(Arc<Core>);

impl Drop for CloseOnExit {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Writer {
    pub(super) fn new(
        mut connection: Connection,
        core: Arc<Core>,
        clock: Arc<dyn Clock>,
        lock: Lock,
    ) -> Result<Self, Error> {
        let reserved = rows::counter(&connection, "reserved")?;
        let wal = Arc::<AtomicI32>::default();
        let noted = wal.clone();
        // Takes the place of SQLite's own, which would bring the log in before a commit is over.
        let hook = connection.wal_hook(Some(move |_: &mut Wal, pages| {
            noted.store(pages, Ordering::Relaxed);
            Ok(())
        }));
        hook.map_err(Error::storage("setting up the store"))?;
        Ok(Writer { connection, core, clock, reserved, resealing: Resealing::default(), wal, _lock: lock })
    }

    /// Works until nobody can ask any more.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Request>) {
        let _close = CloseOnExit(self.core.clone());
        while let Some(first) = queue.blocking_recv() {
            let mut writes = Vec::new();
            let mut bytes = 0;
            let mut next = Some(first);
            while let Some(request) = next.take() {
                bytes += request.bytes();
                match request {
                    Request::Write { transaction, answer } => writes.push((transaction, answer)),
                    chore => {
                        self.commit(std::mem::take(&mut writes));
                        self.chore(chore);
                    }
                }
                if writes.len() < BATCH_REQUESTS && bytes < BATCH_BYTES {
                    next = queue.try_recv().ok();
                }
            }
            self.commit(writes);
            self.shorten_log();
        }
    }

    /// Brings the write-ahead log into the database when it is long. After everybody was answered and told: they need
    /// not wait for this. What cannot be brought in now, for a reader or for want of room, is the next time.
    fn shorten_log(&mut self) {
        if self.wal.load(Ordering::Relaxed) < WAL_PAGES {
            return;
        }
        let shortened = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = shortened {
            tracing::debug!(%error, "the write-ahead log stays long");
        }
    }

    /// Carries out a batch in one transaction of the database, and answers after it is on the disk.
    fn commit(&mut self, batch: Vec<(Vec<Write>, Reply<Commit>)>) {
        let mut draft = Draft::on(&self.core.view(), self.clock.now());
        let outcomes: Vec<_> =
            batch.into_iter().map(|(transaction, answer)| (draft.apply(&transaction), answer)).collect();
        let kept = match draft.events.is_empty() {
            true => Ok(()),
            false => self.keep(&draft).map_err(Error::storage("writing to the store")),
        };
        if kept.is_ok() && !draft.events.is_empty() {
            self.core.publish(draft);
        }
        for (outcome, answer) in outcomes {
            // Refusals may rest on changes of the same batch: they fall with it. Who asked may be gone: no matter.
            let _ = answer.send(kept.clone().and(outcome));
        }
    }

    fn keep(&mut self, draft: &Draft) -> rusqlite::Result<()> {
        let reserved = match draft.head.0 > self.reserved {
            true => draft.head.0 + RESERVE,
            false => self.reserved,
        };
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if reserved != self.reserved {
            rows::set_counter(&transaction, "reserved", reserved)?;
        }
        append(&transaction, &draft.events, &self.core.options.seal)?;
        transaction.commit()?;
        self.reserved = reserved;
        Ok(())
    }

    fn chore(&mut self, request: Request) {
        // Who asked may be gone: no matter.
        match request {
            Request::Write { .. } => {}
            Request::Raise { floor, answer } => drop(answer.send(self.raise(floor))),
            Request::Sweep { answer } => {
                let swept = sweep(&mut self.connection).map_err(Error::storage("compacting the store"));
                let result = swept.map(|(more, forgotten)| {
                    self.core.revise(|view| view.freed(forgotten));
                    more
                });
                drop(answer.send(result));
            }
            Request::Rest { answer } => {
                let released = self.connection.release_memory();
                drop(answer.send(released.map_err(Error::storage("resting"))));
            }
            Request::Adopt { keys, answer } => {
                let adopted = reseal::adopt(&self.connection, &self.core.options.seal, &keys);
                self.resealing = Resealing::default();
                drop(answer.send(adopted));
            }
            Request::Reseal { answer } => {
                drop(answer.send(self.resealing.step(&mut self.connection, &self.core.options.seal)));
            }
        }
    }

    fn raise(&mut self, floor: Revision) -> Result<(), Error> {
        let view = self.core.view();
        if floor > view.head() {
            return Err(Error::FutureRevision { asked: floor, head: view.head() });
        }
        if floor > view.floor() {
            let raised = rows::set_counter(&self.connection, "floor", floor.0);
            raised.map_err(Error::storage("raising the floor"))?;
            self.core.revise(|view| view.above(floor));
        }
        Ok(())
    }
}

fn append(transaction: &Transaction<'_>, events: &[Arc<Event>], seal: &Seal) -> rusqlite::Result<()> {
    let mut log = transaction.prepare_cached(
        "INSERT INTO log (revision, previous, created, time, expires, superseded, key, value, sealed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let mut put = transaction.prepare_cached("REPLACE INTO current (key, revision) VALUES (?1, ?2)")?;
    let mut remove = transaction.prepare_cached("DELETE FROM current WHERE key = ?1")?;
    for event in events {
        let current = event.current.as_ref();
        let object = current.or(event.previous.as_ref());
        let plain = current.map(|current| current.value());
        let sealed = plain.as_ref().and_then(|plain| seal.seal(&event.key, event.revision, plain));
        log.execute(params![
            event.revision.0,
            event.previous.as_ref().map_or(0, |previous| previous.modified.0),
            object.map_or(0, |object| object.created.0),
            event.time.as_millisecond(),
            current.and_then(|current| current.expires).map(jiff::Timestamp::as_millisecond),
            event.superseded,
            &*event.key,
            sealed.as_ref().map(|sealed| &*sealed.value).or(plain.as_deref()),
            sealed.as_ref().map(|sealed| &*sealed.id),
        ])?;
        match current {
            Some(_) => put.execute(params![&*event.key, event.revision.0])?,
            None => remove.execute([&*event.key])?,
        };
    }
    Ok(())
}

/// Frees what the next changes below the floor have made unreachable: the object before each of them, and the
/// change itself if it is a deletion. Says whether there is more, and the weight of all that is gone.
fn sweep(connection: &mut Connection) -> rusqlite::Result<(bool, i64)> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let number = |name: &str| {
        transaction.query_row("SELECT value FROM counter WHERE name = ?1", [name], |row| row.get::<_, i64>(0))
    };
    let (floor, swept, forgotten) = (number("floor")?, number("swept")?, number("forgotten")?);
    let (passed, last, weight): (i64, Option<i64>, Option<i64>) = transaction.query_row(
        "SELECT count(*), max(revision), max(superseded) FROM (SELECT revision, superseded FROM log
         WHERE revision > ?1 AND revision <= ?2 ORDER BY revision LIMIT ?3)",
        [swept, floor, SWEEP_ROWS],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let (more, through) = match last {
        Some(last) if passed == SWEEP_ROWS => (last < floor, last),
        _ => (false, floor),
    };
    let forgotten = weight.unwrap_or(forgotten).max(forgotten);
    if through > swept {
        transaction.execute(
            "DELETE FROM log WHERE revision IN
             (SELECT previous FROM log WHERE revision > ?1 AND revision <= ?2 AND previous > 0)",
            [swept, through],
        )?;
        transaction.execute(
            "DELETE FROM log WHERE revision > ?1 AND revision <= ?2 AND value IS NULL",
            [swept, through],
        )?;
        rows::set_counter(&transaction, "swept", through)?;
        rows::set_counter(&transaction, "forgotten", forgotten)?;
    }
    transaction.commit()?;
    give_back(connection)?;
    Ok((more, forgotten))
}

/// Gives free pages back to the file system, some at a time; the rest of them is reused.
pub(super) fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({SWEEP_PAGES})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
