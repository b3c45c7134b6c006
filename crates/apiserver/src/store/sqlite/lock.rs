use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use jiff::Timestamp;

use super::sync_directory;
use crate::store::Error;

/// A data directory that no other process uses. The operating system frees it with the process, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes a directory, and makes it if need be, for this user's eyes only: Secrets are in there.
    pub(super) fn take(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        let path = directory.join("lock");
        // It is only made in a directory that is durable.
        if !path.exists() {
            make_durable(directory)?;
        }
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(Error::file("opening", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Who holds it is only a courtesy: that it is held is what counts.
                let _ = file.read_to_string(&mut text);
                let holder = match text.trim() {
                    "" => "another process".to_owned(),
                    named => named.to_owned(),
                };
                return Err(Error::Locked { path: directory.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(Error::file("locking", &path)(error)),
        }
        let written = file.set_len(0).and_then(|()| {
            writeln!(
                file,
                "process {} (since {})",
                std::process::id(),
                now.round(jiff::Unit::Second).unwrap_or(now)
            )
        });
        match written.map_err(Error::file("writing", &path)) {
            // The name of the holder can wait for room; the lock itself takes none.
            Ok(()) | Err(Error::DiskFull) => Ok(Lock { file }),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file would not do: a process that is being started holds a copy of it for a moment. If this
        // fails, the lock goes with the last copy.
        let _ = self.file.unlock();
    }
}

/// Makes a directory and those above it that are missing, so that a power loss does not take their names away.
fn make_durable(directory: &Path) -> Result<(), Error> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<&Path> = directory.ancestors().take_while(is_missing).collect();
    if let Some(there) = directory.ancestors().nth(missing.len()) {
        // A process may have made it and been killed before it came further. It may as well be somebody else's, where
        // only trying is possible.
        let _ = sync_above(there);
    }
    for path in missing.into_iter().rev() {
        make_private(path).map_err(Error::file("making", path))?;
        sync_above(path)?;
    }
    Ok(())
}

fn sync_above(path: &Path) -> Result<(), Error> {
    match path.parent() {
        Some(above) if above.as_os_str().is_empty() => sync_directory(Path::new(".")),
        Some(above) => sync_directory(above),
        None => Ok(()),
    }
}

#[cfg(unix)]
fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(not(unix))]
fn make_private(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)
}
