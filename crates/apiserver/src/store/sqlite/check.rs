use rusqlite::Connection;

use crate::store::Error;

/// Questions about the file that have to be answered with nothing, and what an answer means.
const CONTRADICTIONS: &[(&str, &str)] = &[
    ("SELECT c.key FROM current c LEFT JOIN log o ON o.revision = c.revision AND o.key = c.key WHERE o.value IS NULL", "no object for the key"),
    (
        "SELECT o.key FROM log o WHERE o.value IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM log n WHERE n.key = o.key AND n.revision > o.revision)
         AND NOT EXISTS (SELECT 1 FROM current c WHERE c.revision = o.revision)",
        "a lost key",
    ),
    (
        "SELECT o.key FROM log o WHERE o.previous > 0 AND o.revision > (SELECT value FROM counter WHERE name = 'floor')
         AND NOT EXISTS (SELECT 1 FROM log p WHERE p.revision = o.previous AND p.key = o.key)",
        "a change without the object before it",
    ),
    (
        "SELECT o.revision FROM log o WHERE o.revision > (SELECT value FROM counter WHERE name = 'floor') + 1
         AND NOT EXISTS (SELECT 1 FROM log p WHERE p.revision = o.revision - 1)",
        "a gap in the log before revision",
    ),
    (
        "SELECT max(revision) FROM log HAVING max(revision) > (SELECT value FROM counter WHERE name = 'reserved')",
        "a revision that was not reserved",
    ),
];

/// Whether the file is sound, in SQLite's eyes and in ours.
pub(super) fn check(connection: &Connection) -> Result<(), Error> {
    let sound = |verdict: String| match verdict.as_str() {
        "ok" => Ok(()),
        _ => Err(Error::Corrupt(verdict)),
    };
    let verdict = connection.pragma_query_value(None, "integrity_check", |row| row.get::<_, String>(0));
    verdict.map_err(Error::storage("checking the store")).and_then(sound)?;
    for (question, meaning) in CONTRADICTIONS {
        let mut statement = connection.prepare(question).map_err(Error::storage("checking the store"))?;
        let mut rows = statement.query([]).map_err(Error::storage("checking the store"))?;
        if let Some(row) = rows.next().map_err(Error::storage("checking the store"))? {
            let found: rusqlite::types::Value = row.get(0).map_err(Error::storage("checking the store"))?;
            return Err(Error::Corrupt(format!("{meaning}: {found:?}")));
        }
    }
    Ok(())
}
