//! Files that are whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file or directory that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {}", path.display())]
pub struct Error {
    /// What was tried.
    what: &'static str,
    /// Where.
    path: PathBuf,
    /// Why not.
    source: io::Error,
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everybody.
    Public,
    /// Its owner.
    Secret,
}

pub(crate) fn failed<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + use<'a> {
    move |source| Error { what, path: path.to_owned(), source }
}

pub(crate) fn make_directory(path: &Path) -> Result<(), Error> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(failed("create", path))
}

/// What is in a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// What is in a file; if there is none, it is made, and is on the disk when this returns.
pub(crate) fn keep<E: From<Error>>(
    path: &Path,
    mode: Mode,
    make: impl FnOnce() -> Result<String, E>,
) -> Result<String, E> {
    if let Some(text) = read(path)? {
        return Ok(text);
    }
    let text = make()?;
    let temporary = write_beside(path, text.as_bytes(), mode)?;
    // A link, unlike a new name, never takes the place of what is there.
    let linked = fs::hard_link(&temporary, path).map_err(failed("create", path));
    fs::remove_file(&temporary).map_err(failed("remove", &temporary))?;
    linked?;
    sync_directory(path)?;
    Ok(text)
}

/// Puts something in a file, in the place of what may be there.
pub(crate) fn replace(path: &Path, content: &[u8], mode: Mode) -> Result<(), Error> {
    let temporary = write_beside(path, content, mode)?;
    fs::rename(&temporary, path).map_err(failed("replace", path))?;
    sync_directory(path)
}

/// Puts something in a file that only its owner may read, in the place of what may be there.
///
/// # Errors
/// If it cannot be written; what was there is then still there.
pub fn replace_secret(path: &Path, content: &[u8]) -> Result<(), Error> {
    replace(path, content, Mode::Secret)
}

/// Puts something in a file that everybody may read, in the place of what may be there.
///
/// # Errors
/// If it cannot be written; what was there is then still there.
pub fn replace_public(path: &Path, content: &[u8]) -> Result<(), Error> {
    replace(path, content, Mode::Public)
}

fn write_beside(path: &Path, content: &[u8], mode: Mode) -> Result<PathBuf, Error> {
    let temporary = path.with_added_extension("new");
    // One that a crash has left may be readable for others.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", &temporary)(error));
        }
        _ => {}
    }
    let mode = if mode == Mode::Secret { 0o600 } else { 0o644 };
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(failed("write", &temporary))?;
    Ok(temporary)
}

fn sync_directory(of: &Path) -> Result<(), Error> {
    // A bare file name has an empty one.
    let directory = of.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    File::open(directory).and_then(|file| file.sync_all()).map_err(failed("sync", directory))
}
