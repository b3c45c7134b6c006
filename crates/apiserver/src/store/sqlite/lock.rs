use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use jiff::Timestamp;

use crate::store::Error;

/// A data directory that no other process uses. The operating system frees it with the process, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes a directory, and makes it if need be, for this user's eyes only: Secrets are in there.
    pub(super) fn take(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        make_private(directory).map_err(Error::file("making", directory))?;
        let path = directory.join("lock");
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

#[cfg(unix)]
fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(not(unix))]
fn make_private(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)
}
