//! Copies of a store, and stores made of copies.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::{FILE, check, rows, schema, sync_directory};
use crate::store::{Error, Revision};

/// How far a restored store jumps ahead, since the store that it replaces went on after the backup was made and may be
/// lost: what that one would take most of a year for with 50,000 writes a second.
pub const RESTORE_MARGIN: i64 = 1_000_000_000_000;

/// Files that go with a store, by their names.
pub(super) type Attached = BTreeMap<String, Vec<u8>>;

/// Where a copy has them. A store in use never has this table.
const ATTACHED: &str = "CREATE TABLE attached (name TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT";

/// Copies the store at `source` to a new file, with what `attached` gives once the copy is made. Writers are not held
/// up: the copy is made from one state of it.
pub(super) fn copy<E: From<Error>>(
    source: &Path,
    target: &Path,
    attached: impl FnOnce() -> Result<Attached, E>,
) -> Result<Revision, E> {
    if target.exists() {
        return Err(Error::file("making", target)(io::Error::from(ErrorKind::AlreadyExists)).into());
    }
    let partial = beside(target, "partial");
    remove_with_side_files(&partial)?;
    let copied = write_copy(source, &partial, attached);
    if copied.is_err() {
        // The half copy is of no use, and room may be what is missing. What went wrong before says more.
        let _ = fs::remove_file(&partial);
    }
    let revision = copied?;
    fs::rename(&partial, target).map_err(Error::file("making", target))?;
    sync_directory(parent(target))?;
    Ok(revision)
}

fn write_copy<E: From<Error>>(
    source: &Path,
    partial: &Path,
    attached: impl FnOnce() -> Result<Attached, E>,
) -> Result<Revision, E> {
    let connection = Connection::open(source).map_err(Error::storage("opening the store to copy it"))?;
    let name = partial.to_str().ok_or_else(|| Error::NotAStore { path: partial.to_owned() })?;
    // An empty file is taken for a new one, and keeps its rights.
    schema::touch_private(partial).map_err(Error::file("making", partial))?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(Error::storage("copying the store"))?;
    let copy = Connection::open(partial).map_err(Error::storage("opening the copy"))?;
    let head = rows::origin(&copy)?.head;
    attach(&copy, &attached()?).map_err(Error::storage("adding files to the copy"))?;
    copy.close().map_err(|(_, error)| Error::storage("closing the copy")(error))?;
    sync(partial)?;
    Ok(head)
}

fn attach(copy: &Connection, attached: &Attached) -> rusqlite::Result<()> {
    if attached.is_empty() {
        return Ok(());
    }
    let transaction = copy.unchecked_transaction()?;
    transaction.execute(ATTACHED, [])?;
    for (name, content) in attached {
        transaction.execute("INSERT INTO attached VALUES (?1, ?2)", params![name, content])?;
    }
    transaction.commit()
}

/// Takes the files out of a copy that becomes a store. Keys must not stay in it: what is deleted is overwritten.
fn detach(copy: &Connection) -> rusqlite::Result<Attached> {
    if !copy.table_exists(None, "attached")? {
        return Ok(Attached::new());
    }
    let attached = copy
        .prepare("SELECT name, content FROM attached")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Attached>>()?;
    copy.pragma_update(None, "secure_delete", true)?;
    copy.execute("DROP TABLE attached", [])?;
    Ok(attached)
}

/// Puts a backup in the place of the store in `directory`, which is locked. `place` is given the backup's files before
/// that, when all is known to be good.
pub(super) fn restore<E: From<Error>>(
    backup: &Path,
    directory: &Path,
    place: impl FnOnce(&Attached) -> Result<(), E>,
) -> Result<Revision, E> {
    let (path, partial) = (directory.join(FILE), directory.join("restore.partial"));
    remove_with_side_files(&partial)?;
    copy_private(backup, &partial)?;
    let replaced = match path.exists() {
        true => Some(retire(&path)?),
        // Side files alone are of no use, and must not meet the new store.
        false => remove_with_side_files(&path).map(|()| None)?,
    };
    let (head, attached) = go_on_above(&partial, replaced.unwrap_or_default())?;
    sync(&partial)?;
    place(&attached)?;
    if replaced.is_some() {
        keep_old(&path)?;
    }
    // The old store has to be safe under its other name, and its side files gone for good, before the new one comes.
    sync_directory(directory)?;
    fs::rename(&partial, &path).map_err(Error::file("putting in place", &path))?;
    sync_directory(directory)?;
    Ok(head)
}

/// Folds the old store's side files into it (they must not meet the new one), and gives its newest revision.
fn retire(path: &Path) -> Result<Revision, Error> {
    let connection = schema::open(path, None)?;
    let head = rows::origin(&connection)?.head;
    connection.close().map_err(|(_, error)| Error::storage("closing the old store")(error))?;
    match beside(path, "wal").exists() {
        true => Err(Error::Corrupt(format!("{} is still in use", path.display()))),
        false => Ok(head),
    }
}

/// Keeps the old store under another name. Its own name stays until the new one takes it: a crash leaves one of both.
fn keep_old(path: &Path) -> Result<(), Error> {
    for number in 1.. {
        let kept = path.with_file_name(format!("{FILE}.replaced-{number}"));
        match fs::hard_link(path, &kept) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return other.map_err(Error::file("keeping the old store as", &kept)),
        }
    }
    Ok(())
}

/// Lets a copied store continue above all revisions, and forget those of before: they may mean something else.
fn go_on_above(partial: &Path, replaced: Revision) -> Result<(Revision, Attached), Error> {
    let looked = Connection::open(partial).map_err(Error::storage("opening the backup"))?;
    if schema::version(&looked, partial)? == 0 {
        return Err(Error::NotAStore { path: partial.to_owned() });
    }
    drop(looked);
    let connection = schema::open(partial, None)?;
    check::check(&connection)?;
    let attached = detach(&connection).map_err(Error::storage("taking files out of the backup"))?;
    let known =
        rows::counter(&connection, "reserved")?.max(rows::origin(&connection)?.head.0).max(replaced.0);
    let head = known + RESTORE_MARGIN;
    let set = connection.unchecked_transaction().and_then(|transaction| {
        rows::set_counter(&transaction, "floor", head)?;
        rows::set_counter(&transaction, "reserved", head)?;
        transaction.commit()
    });
    set.map_err(Error::storage("raising the backup's revision"))?;
    connection.close().map_err(|(_, error)| Error::storage("closing the backup")(error))?;
    Ok((Revision(head), attached))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-");
    name.push(suffix);
    PathBuf::from(name)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes a database that is not to be used. What a killed process left beside it would be taken for a part of the
/// next one of that name.
fn remove_with_side_files(path: &Path) -> Result<(), Error> {
    let side_files = ["wal", "shm", "journal"].map(|suffix| beside(path, suffix));
    for file in [path].into_iter().chain(side_files.iter().map(PathBuf::as_path)) {
        match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::file("removing", file)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Copies a file to a new one, for this user's eyes only.
fn copy_private(from: &Path, to: &Path) -> Result<(), Error> {
    let mut source = File::open(from).map_err(Error::file("opening", from))?;
    schema::touch_private(to).map_err(Error::file("making", to))?;
    let mut target = File::options().write(true).open(to).map_err(Error::file("opening", to))?;
    io::copy(&mut source, &mut target).map(drop).map_err(Error::file("copying", from))
}

fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::file("syncing", path))
}
