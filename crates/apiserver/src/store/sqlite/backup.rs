//! Copies of a store, and stores made of copies.

use std::fs::{self, File};
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{FILE, check, rows, schema, sync_directory};
use crate::store::{Error, Revision};

/// How far a restored store jumps ahead, since the store that it replaces went on after the backup was made and may be
/// lost: what that one would take most of a year for with 50,000 writes a second.
pub const RESTORE_MARGIN: i64 = 1_000_000_000_000;

/// Copies the store at `source` to a new file. Writers are not held up: the copy is made from one state of it.
pub(super) fn copy(source: &Path, target: &Path) -> Result<Revision, Error> {
    if target.exists() {
        return Err(Error::file("making", target)(IoError::from(ErrorKind::AlreadyExists)));
    }
    let partial = beside(target, "partial");
    remove_if_there(&partial)?;
    let copied = write_copy(source, &partial);
    if copied.is_err() {
        // The half copy is of no use, and room may be what is missing. What went wrong before says more.
        let _ = fs::remove_file(&partial);
    }
    let revision = copied?;
    fs::rename(&partial, target).map_err(Error::file("making", target))?;
    sync_directory(parent(target))?;
    Ok(revision)
}

fn write_copy(source: &Path, partial: &Path) -> Result<Revision, Error> {
    let connection = Connection::open(source).map_err(Error::storage("opening the store to copy it"))?;
    let name = partial.to_str().ok_or_else(|| Error::NotAStore { path: partial.to_owned() })?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(Error::storage("copying the store"))?;
    private(partial).map_err(Error::file("making private", partial))?;
    sync(partial)?;
    let copy = Connection::open(partial).map_err(Error::storage("opening the copy"))?;
    Ok(rows::origin(&copy)?.head)
}

/// Puts a backup in the place of the store in `directory`, which is locked.
pub(super) fn restore(backup: &Path, directory: &Path) -> Result<Revision, Error> {
    let (path, partial) = (directory.join(FILE), directory.join("restore.partial"));
    remove_if_there(&partial)?;
    fs::copy(backup, &partial).map_err(Error::file("copying", backup))?;
    private(&partial).map_err(Error::file("making private", &partial))?;
    let replaced = match path.exists() {
        true => Some(retire(&path)?),
        false => None,
    };
    let head = go_on_above(&partial, replaced.unwrap_or_default())?;
    sync(&partial)?;
    if replaced.is_some() {
        keep_old(&path)?;
    }
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
fn go_on_above(partial: &Path, replaced: Revision) -> Result<Revision, Error> {
    let looked = Connection::open(partial).map_err(Error::storage("opening the backup"))?;
    if schema::version(&looked, partial)? == 0 {
        return Err(Error::NotAStore { path: partial.to_owned() });
    }
    drop(looked);
    let connection = schema::open(partial, None)?;
    check::check(&connection)?;
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
    Ok(Revision(head))
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

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file("removing", path)(error)),
        _ => Ok(()),
    }
}

fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::file("syncing", path))
}

#[cfg(unix)]
fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn private(_path: &Path) -> std::io::Result<()> {
    Ok(())
}
