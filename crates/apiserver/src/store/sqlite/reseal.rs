//! Keys come and go: older values are sealed anew, in place, while the store is in use.
//!
//! Rewriting changes no revision and tells no watch: an object is what it was. It covers history too, so that an old
//! key is needed by nobody once all is done.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::{rows, schema, writer};
use crate::store::seal::{Sealed, proves};
use crate::store::{Error, Key, Keyring, Revision, Scope, Seal};

/// Rows that one step looks at: writes wait for no longer than that takes.
const STEP: i64 = 200;

/// How many values are under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The key's name; none for values that should be sealed and are not yet.
    pub id: Option<Arc<str>>,
    /// Objects that are there now.
    pub objects: u64,
    /// Older values in the history.
    pub history: u64,
}

/// Checks at the start whether all keys are there that the file needs, and notes the one that seals from now on.
pub(super) fn meet(connection: &Connection, seal: &Seal) -> Result<(), Error> {
    let keys = seal.keys();
    let known = known(connection).map_err(Error::storage("reading the names of keys"))?;
    for (id, proof) in known {
        let values = count(connection, &id).map_err(Error::storage("counting values of a key"))?;
        match keys.get(&id) {
            Some(key) if !proves(key, proof) => return Err(Error::WrongKey { id }),
            None if values > 0 => return Err(Error::NoKey { id, values }),
            _ => {}
        }
    }
    keys.first().map_or(Ok(()), |key| note(connection, seal, key))
}

/// Has the first of these keys seal from now on.
pub(super) fn adopt(connection: &Connection, seal: &Seal, keys: &Keyring) -> Result<(), Error> {
    let known = known(connection).map_err(Error::storage("reading the names of keys"))?;
    let wrong =
        known.into_iter().find(|(id, proof)| keys.get(id).is_some_and(|key| !proves(key, proof.clone())));
    if let Some((id, _)) = wrong {
        return Err(Error::WrongKey { id });
    }
    if let Some(first) = keys.first() {
        // The file has to know a key before it holds values of it.
        note(connection, seal, first)?;
        seal.adopt(keys);
    }
    Ok(())
}

fn known(connection: &Connection) -> rusqlite::Result<Vec<(Arc<str>, Vec<u8>)>> {
    let mut statement = connection.prepare("SELECT id, proof FROM sealing_key ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn count(connection: &Connection, id: &str) -> rusqlite::Result<u64> {
    let count: i64 =
        connection.query_row("SELECT count(*) FROM log WHERE sealed = ?1", [id], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

fn note(connection: &Connection, seal: &Seal, key: &Key) -> Result<(), Error> {
    let sql = "INSERT OR IGNORE INTO sealing_key (id, proof) VALUES (?1, ?2)";
    let noted = connection.execute(sql, params![&**key.id(), seal.proof(key)]);
    noted.map(drop).map_err(Error::storage("noting a key"))
}

/// How many values are under which key, and how many of `scopes` are under none.
pub(super) fn usage(connection: &Connection, scopes: &[Scope]) -> rusqlite::Result<Vec<KeyUse>> {
    let present = "EXISTS (SELECT 1 FROM current c WHERE c.key = o.key AND c.revision = o.revision)";
    let mut statement = connection.prepare(&format!(
        "SELECT k.id, count(o.revision), coalesce(sum({present}), 0)
         FROM sealing_key k LEFT JOIN log o ON o.sealed = k.id GROUP BY k.id ORDER BY k.id"
    ))?;
    let counts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut counts = counts.collect::<rusqlite::Result<Vec<(Option<Arc<str>>, i64, i64)>>>()?;
    let mut plain = (None, 0, 0);
    let sql = format!(
        "SELECT count(*), coalesce(sum({present}), 0) FROM log o
         WHERE o.key >= ?1 AND o.key < ?2 AND o.sealed IS NULL AND o.value IS NOT NULL"
    );
    for scope in scopes {
        let bounds = params![scope.start(), rows::end(scope)];
        let (all, now): (i64, i64) =
            connection.query_row(&sql, bounds, |row| Ok((row.get(0)?, row.get(1)?)))?;
        (plain.1, plain.2) = (plain.1 + all, plain.2 + now);
    }
    counts.push(plain);
    let number = |count: i64| count.unsigned_abs();
    let used = |(id, all, now)| KeyUse { id, objects: number(now), history: number(all - now) };
    Ok(counts.into_iter().map(used).collect())
}

/// How far the rewriting is. A new one begins at the beginning.
#[derive(Debug, Default)]
pub(super) struct Resealing {
    stage: Stage,
    /// Whether values were found that had not been sealed: what they left behind has to go.
    found_plain: bool,
}

#[derive(Debug)]
enum Stage {
    /// Values that are sealed, in order of their seals: this is the last one seen.
    Sealed {
        id: Arc<str>,
        place: Place,
    },
    /// Values of a scope that are to be sealed, in order of their keys.
    Plain {
        scope: usize,
        place: Place,
    },
    /// Pages that are free are given back: they may hold what was rewritten.
    Tidy,
    Done,
}

impl Default for Stage {
    fn default() -> Self {
        Stage::Sealed { id: "".into(), place: Place::default() }
    }
}

/// A row's place in the order of keys.
#[derive(Clone, Debug, Default)]
struct Place {
    key: Arc<str>,
    revision: i64,
}

/// A row that has been looked at: its place and its seal, if there is a value at all.
struct Seen {
    place: Place,
    sealed: Option<Arc<str>>,
    is_value: bool,
}

impl Resealing {
    /// Looks at some rows and rewrites those that are not as they should be. Says whether there is more to do.
    pub(super) fn step(&mut self, connection: &mut Connection, seal: &Seal) -> Result<bool, Error> {
        let next = self.advance(connection, seal).map_err(Error::storage("sealing values anew"))?;
        self.stage = next;
        Ok(!matches!(self.stage, Stage::Done))
    }

    fn advance(&mut self, connection: &mut Connection, seal: &Seal) -> rusqlite::Result<Stage> {
        match &self.stage {
            Stage::Done => Ok(Stage::Done),
            Stage::Tidy => tidy(connection, seal),
            Stage::Sealed { id, place } => {
                let seen = sealed_after(connection, id, place)?;
                rewrite(connection, seal, &seen)?;
                Ok(match seen.into_iter().next_back() {
                    Some(Seen { place, sealed: Some(id), .. }) => Stage::Sealed { id, place },
                    _ => Stage::Plain { scope: 0, place: Place::default() },
                })
            }
            Stage::Plain { scope: index, place } => {
                let Some(scope) = seal.scopes().get(*index) else {
                    return if self.found_plain { Ok(Stage::Tidy) } else { forget_unused(connection, seal) };
                };
                let seen = in_scope_after(connection, scope, place)?;
                self.found_plain |= rewrite(connection, seal, &seen)?;
                Ok(match seen.into_iter().next_back() {
                    Some(last) => Stage::Plain { scope: *index, place: last.place },
                    None => Stage::Plain { scope: index + 1, place: Place::default() },
                })
            }
        }
    }
}

fn sealed_after(connection: &Connection, id: &str, place: &Place) -> rusqlite::Result<Vec<Seen>> {
    let mut statement = connection.prepare_cached(
        "SELECT key, revision, sealed, 1 FROM log
         WHERE sealed IS NOT NULL AND (sealed, key, revision) > (?1, ?2, ?3)
         ORDER BY sealed, key, revision LIMIT ?4",
    )?;
    let rows = statement.query_map(params![id, &*place.key, place.revision, STEP], seen)?;
    rows.collect()
}

fn in_scope_after(connection: &Connection, scope: &Scope, place: &Place) -> rusqlite::Result<Vec<Seen>> {
    let mut statement = connection.prepare_cached(
        "SELECT key, revision, sealed, value IS NOT NULL FROM log
         WHERE key >= ?1 AND key < ?2 AND (key, revision) > (?3, ?4) ORDER BY key, revision LIMIT ?5",
    )?;
    let start = scope.start().max(&place.key);
    let range = params![start, rows::end(scope), &*place.key, place.revision, STEP];
    let rows = statement.query_map(range, seen)?;
    rows.collect()
}

fn seen(row: &rusqlite::Row<'_>) -> rusqlite::Result<Seen> {
    let place = Place { key: row.get(0)?, revision: row.get(1)? };
    Ok(Seen { place, sealed: row.get(2)?, is_value: row.get(3)? })
}

/// Rewrites those rows that are not sealed as they should be. Says whether one of them was not sealed at all.
fn rewrite(connection: &mut Connection, seal: &Seal, rows: &[Seen]) -> rusqlite::Result<bool> {
    let is_due = |row: &&Seen| {
        let wanted = seal.wanted(&row.place.key).map(|key| key.id().clone());
        row.is_value && wanted != row.sealed
    };
    let due: Vec<&Seen> = rows.iter().filter(is_due).collect();
    if due.is_empty() {
        return Ok(false);
    }
    // What is overwritten must not stay readable in the page.
    connection.pragma_update(None, "secure_delete", true)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for row in &due {
        rewrite_one(&transaction, seal, row)?;
    }
    transaction.commit()?;
    connection.pragma_update(None, "secure_delete", false)?;
    Ok(due.iter().any(|row| row.sealed.is_none()))
}

fn rewrite_one(transaction: &Transaction<'_>, seal: &Seal, row: &Seen) -> rusqlite::Result<()> {
    let Place { key, revision } = &row.place;
    let mut read = transaction.prepare_cached("SELECT value FROM log WHERE revision = ?1")?;
    let value = read.query_row([revision], |row| row.get(0))?;
    let plain = seal.open(row.sealed.clone(), key, Revision(*revision), value);
    let plain = plain.map_err(|why| rows::unreadable(0, why))?;
    let (id, value) = match seal.seal(key, Revision(*revision), &plain) {
        Some(Sealed { id, value }) => (Some(id), value),
        None => (None, plain),
    };
    let mut write =
        transaction.prepare_cached("UPDATE log SET value = ?2, sealed = ?3 WHERE revision = ?1")?;
    write.execute(params![revision, value, id.as_deref()]).map(drop)
}

/// Gives free pages back, which may hold values from before they were sealed, and empties the write-ahead log, which
/// may hold them too.
fn tidy(connection: &Connection, seal: &Seal) -> rusqlite::Result<Stage> {
    writer::give_back(connection)?;
    let free: i64 = connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    if free > 0 {
        return Ok(Stage::Tidy);
    }
    // Readers may be in the way. Then the next writes overwrite it.
    connection.busy_timeout(Duration::ZERO)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    connection.busy_timeout(schema::PATIENCE)?;
    forget_unused(connection, seal)
}

/// Forgets the names of keys that no value needs, but for the one that seals.
fn forget_unused(connection: &Connection, seal: &Seal) -> rusqlite::Result<Stage> {
    let first = seal.keys().first().map(|key| key.id().clone());
    connection.execute(
        "DELETE FROM sealing_key WHERE id IS NOT ?1 AND NOT EXISTS (SELECT 1 FROM log WHERE sealed = id)",
        params![first.as_deref()],
    )?;
    Ok(Stage::Done)
}
