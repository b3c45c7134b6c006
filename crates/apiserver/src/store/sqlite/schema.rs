//! The file's layout, and how older ones become the present one.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::store::Error;

/// Marks the file as ours: "hrds".
const APPLICATION: i64 = 0x6872_6473;

/// How long to wait for another process that looks into the file.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Each script takes the file from the version that is its index to the next one. Published scripts never change.
const MIGRATIONS: &[&str] = &[
    // 1: the log, where each key's present object is in it, and counters.
    //
    // The log holds every change above the floor, and below it those that left an object which was there at the
    // floor. `previous` is 0 for an object that was not there before; `value` is null for one that is gone;
    // `superseded` counts the weight of the history up to the row. The value comes last: what is before it can be
    // read without touching the pages that a large one spills over.
    "CREATE TABLE log (
         revision INTEGER PRIMARY KEY,
         previous INTEGER NOT NULL,
         created INTEGER NOT NULL,
         time INTEGER NOT NULL,
         expires INTEGER,
         superseded INTEGER NOT NULL,
         key TEXT NOT NULL,
         value BLOB
     ) STRICT;
     CREATE INDEX log_by_key ON log (key, revision);
     CREATE TABLE current (key TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT, WITHOUT ROWID;
     CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
     INSERT INTO counter VALUES ('floor', 0), ('swept', 0), ('forgotten', 0), ('reserved', 0);",
    // 2: sealed values.
    //
    // `sealed` names the key that the row's value is sealed with; it is null where the value is as it is. A key's proof
    // shows whether a key of that name is the same one.
    "ALTER TABLE log ADD COLUMN sealed TEXT;
     CREATE INDEX log_by_seal ON log (sealed, key, revision) WHERE sealed IS NOT NULL;
     CREATE TABLE sealing_key (id TEXT PRIMARY KEY, proof BLOB NOT NULL) STRICT, WITHOUT ROWID;",
];

/// The version that this program writes.
const LATEST: i64 = MIGRATIONS.len() as i64;

/// Opens the database for writing and brings it up to date; makes it if it is not there.
pub(super) fn open(path: &Path, quota: Option<u64>) -> Result<Connection, Error> {
    touch_private(path).map_err(Error::file("opening", path))?;
    let mut connection = Connection::open(path).map_err(Error::storage("opening the store"))?;
    connection.busy_timeout(PATIENCE).map_err(Error::storage("setting up the store"))?;
    // Before anything is set: that would already change the file of a newer program.
    let found = version(&connection, path)?;
    if found > LATEST {
        return Err(Error::NewerSchema { found, known: LATEST });
    }
    configure(&connection).map_err(Error::storage("setting up the store"))?;
    migrate(&mut connection, found)?;
    if let Some(quota) = quota {
        limit(&connection, quota).map_err(Error::storage("setting the store's quota"))?;
    }
    Ok(connection)
}

/// Opens a database that is there, to look at it beside a server that may be using it. One of an older version is not
/// migrated: that is for its owner to do.
///
/// # Errors
/// [`Error::NotAStore`] if there is none, [`Error::NewerSchema`] and [`Error::OlderSchema`] by its version.
pub(super) fn look(path: &Path) -> Result<Connection, Error> {
    if !path.exists() {
        return Err(Error::NotAStore { path: path.to_owned() });
    }
    let connection = Connection::open(path).map_err(Error::storage("opening the store"))?;
    let set = connection.busy_timeout(PATIENCE);
    set.and_then(|()| connection.pragma_update(None, "query_only", true))
        .map_err(Error::storage("setting up the store"))?;
    match version(&connection, path)? {
        0 => Err(Error::NotAStore { path: path.to_owned() }),
        found if found > LATEST => Err(Error::NewerSchema { found, known: LATEST }),
        found if found < LATEST => Err(Error::OlderSchema { found, known: LATEST }),
        _ => Ok(connection),
    }
}

/// Makes the file with rights for its owner only; SQLite gives its side files the same.
pub(super) fn touch_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    // Only heeded before the first table, so it comes first of all.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // The objects are in memory already: a second copy of them in the page cache helps nobody.
    connection.pragma_update(None, "cache_size", -2048)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn limit(connection: &Connection, quota: u64) -> rusqlite::Result<()> {
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = i64::try_from(quota).unwrap_or(i64::MAX) / page;
    connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
}

fn migrate(connection: &mut Connection, found: i64) -> Result<(), Error> {
    for (version, script) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        let migrated =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|step| {
                step.execute_batch(script)?;
                step.pragma_update(None, "user_version", version)?;
                step.pragma_update(None, "application_id", APPLICATION)?;
                step.commit()
            });
        migrated.map_err(Error::storage("migrating the store"))?;
    }
    Ok(())
}

/// The file's schema version; 0 for an empty file.
pub(super) fn version(connection: &Connection, path: &Path) -> Result<i64, Error> {
    let pragma = |name| {
        let read = connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        read.map_err(|error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => Error::NotAStore { path: path.to_owned() },
            _ => Error::storage("reading the store's version")(error),
        })
    };
    match (pragma("application_id")?, pragma("user_version")?, pragma("schema_version")?) {
        (APPLICATION, version, _) => Ok(version),
        (0, 0, 0) => Ok(0),
        _ => Err(Error::NotAStore { path: path.to_owned() }),
    }
}
