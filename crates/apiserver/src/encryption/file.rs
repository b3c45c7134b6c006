//! The key file: read with care, written whole.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::Error;
use crate::files::{self, Mode};
use crate::store::Keyring;

/// The keys of a file; none if it is not there.
pub(super) fn read(path: &Path) -> Result<Option<Keyring>, Error> {
    let Some(text) = files::read(path)? else { return Ok(None) };
    let mode = std::fs::metadata(path).map_err(files::failed("read", path))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Error::Exposed { path: path.to_owned(), mode });
    }
    let keys = Keyring::parse(&text).map_err(|source| Error::Malformed { path: path.to_owned(), source })?;
    Ok(Some(keys))
}

/// Makes the file. One that is there is not touched.
pub(super) fn create(path: &Path, keys: &Keyring) -> Result<(), Error> {
    files::keep(path, Mode::Secret, || Ok::<_, Error>(keys.render())).map(drop)
}

/// Puts these keys in the place of those that are there.
pub(super) fn replace(path: &Path, keys: &Keyring) -> Result<(), Error> {
    Ok(files::replace(path, keys.render().as_bytes(), Mode::Secret)?)
}

/// Lets nobody else change the file for as long as it is held: a change is made of what was read.
pub(super) fn lock(directory: &Path) -> Result<File, Error> {
    let opened = File::open(directory).and_then(|file| file.lock().map(|()| file));
    Ok(opened.map_err(files::failed("lock", directory))?)
}
