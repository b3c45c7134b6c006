//! Rows into objects and back.

use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::store::content::Content;
use crate::store::seal::Unreadable;
use crate::store::trim::Mark;
use crate::store::view::Origin;
use crate::store::watch::Stretch;
use crate::store::{Error, Event, Page, Query, Revision, Scope, Seal, Stored, View};

/// Rows of the log that are read in one go.
const STRETCH: i64 = 1000;

const OBJECT: &str = "o.key, o.value, o.created, o.revision, o.expires, o.sealed";

/// A named number of the file.
pub(super) fn counter(connection: &Connection, name: &str) -> Result<i64, Error> {
    let mut statement = connection
        .prepare_cached("SELECT value FROM counter WHERE name = ?1")
        .map_err(Error::storage("reading a counter"))?;
    statement.query_row([name], |row| row.get(0)).map_err(Error::storage("reading a counter"))
}

pub(super) fn set_counter(connection: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE counter SET value = ?2 WHERE name = ?1")?
        .execute(params![name, value])
        .map(drop)
}

pub(super) fn floor(connection: &Connection) -> Result<Revision, Error> {
    counter(connection, "floor").map(Revision)
}

/// The present, from the file.
pub(super) fn load(connection: &Connection, seal: &Seal) -> Result<View, Error> {
    let objects = objects(connection, seal).map_err(Error::storage("loading the store"))?;
    Ok(View::new(origin(connection)?, objects))
}

/// The newest revision and what goes with it. Its row is gone if it was a deletion that is below the floor by now.
pub(super) fn origin(connection: &Connection) -> Result<Origin, Error> {
    let (floor, forgotten) = (floor(connection)?, counter(connection, "forgotten")?);
    let newest = connection.query_row(
        "SELECT revision, time, superseded FROM log ORDER BY revision DESC LIMIT 1",
        [],
        |row| Ok((row.get(0)?, time(row, 1)?, row.get(2)?)),
    );
    let newest = newest.optional().map_err(Error::storage("reading the newest revision"))?;
    let (revision, time, superseded) = newest.unwrap_or((0, Timestamp::UNIX_EPOCH, 0));
    let head = floor.max(Revision(revision));
    Ok(Origin { head, floor, time, superseded: superseded.max(forgotten), forgotten })
}

fn objects(connection: &Connection, seal: &Seal) -> rusqlite::Result<OrdMap<Arc<str>, Arc<Stored>>> {
    let sql = format!("SELECT {OBJECT} FROM current c JOIN log o ON o.revision = c.revision ORDER BY c.key");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| object(row, 0, seal))?;
    rows.map(|row| row.map(|object| (object.key.clone(), object))).collect()
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let milliseconds: i64 = row.get(column)?;
    Timestamp::from_millisecond(milliseconds)
        .map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, milliseconds))
}

/// The object in the six columns from `first` on.
fn object(row: &Row<'_>, first: usize, seal: &Seal) -> rusqlite::Result<Arc<Stored>> {
    let (key, modified) = (row.get(first)?, Revision(row.get(first + 3)?));
    let value = seal.open(row.get(first + 5)?, &key, modified, row.get(first + 1)?);
    let value = value.map_err(|why| unreadable(first + 1, why))?;
    let expires: Option<i64> = row.get(first + 4)?;
    Ok(Arc::new(Stored {
        key,
        content: Content::new(Bytes::from(value)),
        created: Revision(row.get(first + 2)?),
        modified,
        expires: expires.map(|_| time(row, first + 4)).transpose()?,
    }))
}

/// As an error of the database's: [`Error::storage`] tells it from others.
pub(super) fn unreadable(column: usize, why: Unreadable) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, Box::new(why))
}

/// A page of a list at an older revision, from the log.
pub(super) fn page(
    connection: &Connection,
    query: &Query,
    revision: Revision,
    seal: &Seal,
) -> Result<Page, Error> {
    refuse_compacted(connection, revision)?;
    page_rows(connection, query, revision, seal).map_err(Error::storage("listing an older revision"))
}

fn page_rows(
    connection: &Connection,
    query: &Query,
    revision: Revision,
    seal: &Seal,
) -> rusqlite::Result<Page> {
    let after = query.after.as_deref().unwrap_or("");
    // Each key's last row at the revision; the start is inclusive, `after` exclusive.
    let from = "FROM log o WHERE o.key >= ?1 AND o.key < ?2 AND (?3 = '' OR o.key > ?3) AND o.revision <= ?4
        AND o.value IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM log n WHERE n.key = o.key AND n.revision > o.revision AND n.revision <= ?4)";
    let range = params![query.scope.start().max(after), end(&query.scope), after, revision.0];
    let total: i64 =
        connection.prepare_cached(&format!("SELECT count(*) {from}"))?.query_row(range, |row| row.get(0))?;
    let total = usize::try_from(total).unwrap_or(0);
    let limit = query.limit.unwrap_or(usize::MAX).min(total);
    let sql = format!("SELECT {OBJECT} {from} ORDER BY o.key LIMIT ?5");
    let mut statement = connection.prepare_cached(&sql)?;
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(
        params![query.scope.start().max(after), end(&query.scope), after, revision.0, most],
        |row| object(row, 0, seal),
    )?;
    let items = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(Page { remaining: total - items.len(), items, revision })
}

/// The text after all keys of a scope. A blob sorts after every text.
pub(super) fn end(scope: &Scope) -> Value {
    scope.end().map_or(Value::Blob(Vec::new()), Value::Text)
}

/// The next part of the log above `after`, and not above `most`.
pub(super) fn stretch(
    connection: &Connection,
    scope: &Scope,
    after: Revision,
    most: Revision,
    seal: &Seal,
) -> Result<Stretch, Error> {
    refuse_compacted(connection, after)?;
    let reading = || Error::storage("reading the log");
    let through = connection
        .prepare_cached("SELECT max(revision) FROM (SELECT revision FROM log WHERE revision > ?1 AND revision <= ?2 ORDER BY revision LIMIT ?3)")
        .and_then(|mut statement| statement.query_row([after.0, most.0, STRETCH], |row| row.get::<_, Option<i64>>(0)))
        .map_err(reading())?;
    let Some(through) = through.map(Revision) else {
        return Ok(Stretch { events: Vec::new(), through: after });
    };
    let events = events(connection, scope, after, through, seal).map_err(reading())?;
    Ok(Stretch { events, through })
}

fn events(
    connection: &Connection,
    scope: &Scope,
    after: Revision,
    through: Revision,
    seal: &Seal,
) -> rusqlite::Result<Vec<Arc<Event>>> {
    // The unary plus keeps the planner on the revisions: a stretch is short, a scope may be everything.
    let mut statement = connection.prepare_cached(
        "SELECT o.key, o.value, o.created, o.revision, o.expires, o.sealed,
                p.key, p.value, p.created, p.revision, p.expires, p.sealed, o.time, o.superseded
         FROM log o LEFT JOIN log p ON p.revision = o.previous
         WHERE o.revision > ?1 AND o.revision <= ?2 AND +o.key >= ?3 AND +o.key < ?4
         ORDER BY o.revision",
    )?;
    let range = params![after.0, through.0, scope.start(), end(scope)];
    let rows = statement.query_map(range, |row| {
        let there = |column| row.get_ref(column).map(|value| value != rusqlite::types::ValueRef::Null);
        Ok(Arc::new(Event {
            revision: Revision(row.get(3)?),
            key: row.get(0)?,
            time: time(row, 12)?,
            previous: there(7)?.then(|| object(row, 6, seal)).transpose()?,
            current: there(1)?.then(|| object(row, 0, seal)).transpose()?,
            superseded: row.get(13)?,
        }))
    })?;
    rows.collect()
}

/// What the limits of history look at.
pub(super) fn mark(connection: &Connection, revision: Revision) -> Result<Mark, Error> {
    let sql = "SELECT time, superseded FROM log WHERE revision = ?1";
    let mark = connection.prepare_cached(sql).and_then(|mut statement| {
        statement.query_row([revision.0], |row| Ok(Mark { time: time(row, 0)?, superseded: row.get(1)? }))
    });
    match mark.optional().map_err(Error::storage("looking into the log"))? {
        Some(mark) => Ok(mark),
        None => Err(Error::Compacted { asked: revision, floor: floor(connection)? }),
    }
}

/// The floor counts as the file has it: it may have been raised since the caller looked.
fn refuse_compacted(connection: &Connection, asked: Revision) -> Result<(), Error> {
    let floor = floor(connection)?;
    match asked < floor {
        true => Err(Error::Compacted { asked, floor }),
        false => Ok(()),
    }
}
