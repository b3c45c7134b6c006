//! Files that are whole or not there: what is written is on the disk when the function returns, and a reader sees the
//! old file or the new one, whatever is pulled out in between.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A file or directory that could not be dealt with.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {}", path.display())]
pub struct Error {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn failed<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + use<'a> {
    move |source| Error { what, path: path.to_owned(), source }
}

/// What a file has beside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits.
    pub mode: u32,
    /// User and group; none: as they come.
    pub owner: Option<(u32, u32)>,
}

impl Attributes {
    /// For the agent's own eyes.
    pub const PRIVATE: Attributes = Attributes { mode: 0o600, owner: None };
}

/// What is in a file; none if there is none.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    missing_is_none(fs::read(path)).map_err(failed("read", path))
}

/// Puts `content` in the place of what is there, if it is not just that already. Says whether it was not.
pub fn write(path: &Path, content: &[u8], attributes: Attributes) -> Result<bool, Error> {
    let before = missing_is_none(fs::symlink_metadata(path)).map_err(failed("look at", path))?;
    let same = before.is_some_and(|meta| meta.is_file() && meta.len() == content.len() as u64)
        && read(path)?.is_some_and(|there| there == content);
    if same {
        return set_attributes(path, attributes);
    }
    let temporary = beside(path);
    remove(&temporary)?;
    let result = write_new(&temporary, content, attributes)
        .and_then(|()| fs::rename(&temporary, path).map_err(failed("replace", path)));
    if let Err(error) = result {
        // Best effort: the next write to this place removes it too.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_directory_of(path)?;
    Ok(true)
}

fn write_new(path: &Path, content: &[u8], attributes: Attributes) -> Result<(), Error> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(failed("create", path))?;
    file.write_all(content).map_err(failed("write", path))?;
    set_attributes(path, attributes)?;
    file.sync_all().map_err(failed("sync", path))
}

/// Makes a directory and those above it, which get 0755.
pub fn make_directory(path: &Path, attributes: Attributes) -> Result<(), Error> {
    make_directories(path)?;
    set_attributes(path, attributes).map(drop)
}

/// Makes a directory and those above it; what is there is left as it is.
pub fn make_directories(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directories(parent)?;
    }
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(failed("create", path)(error)),
        Ok(()) => sync_directory_of(path),
    }
}

/// Removes a file, an empty directory, or a link but not what it points to; fine if there is none.
pub fn remove(path: &Path) -> Result<(), Error> {
    let directory = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    let removed = if directory { fs::remove_dir(path) } else { fs::remove_file(path) };
    match missing_is_none(removed).map_err(failed("remove", path))? {
        Some(()) => sync_directory_of(path),
        None => Ok(()),
    }
}

/// Removes a directory with all that is in it, or a file; fine if there is none.
pub fn remove_all(path: &Path) -> Result<(), Error> {
    let meta = missing_is_none(fs::symlink_metadata(path)).map_err(failed("look at", path))?;
    match meta {
        None => Ok(()),
        Some(meta) if meta.is_dir() => {
            missing_is_none(fs::remove_dir_all(path)).map_err(failed("remove", path))?;
            sync_directory_of(path)
        }
        Some(_) => remove(path),
    }
}

/// Names in a directory, sorted; none if there is no such directory.
pub fn names(path: &Path) -> Result<Vec<String>, Error> {
    let Some(entries) = missing_is_none(fs::read_dir(path)).map_err(failed("list", path))? else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(failed("list", path))?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Says whether anything had to be changed.
fn set_attributes(path: &Path, wanted: Attributes) -> Result<bool, Error> {
    let meta = fs::metadata(path).map_err(failed("look at", path))?;
    // The owner first: a change of it may take permission bits away.
    let owner = wanted.owner.filter(|owner| *owner != (meta.uid(), meta.gid()));
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(failed("set the owner of", path))?;
    }
    let mode = owner.is_some() || meta.mode() & 0o7777 != wanted.mode;
    if mode {
        let permissions = Permissions::from_mode(wanted.mode);
        fs::set_permissions(path, permissions).map_err(failed("set the mode of", path))?;
    }
    Ok(mode)
}

/// A name in the same directory, the same at each try so that what a crash left is found.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let sum = plan::Checksum::of(name.as_encoded_bytes()).to_string();
    path.with_file_name(format!(".herdsman-{}.new", &sum[..16]))
}

fn sync_directory_of(path: &Path) -> Result<(), Error> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let synced = File::open(parent).and_then(|directory| directory.sync_all());
    match synced {
        // Removed meanwhile: nothing to keep.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(failed("sync", parent)),
    }
}

fn missing_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
