//! The directory a throw-away Kubernetes lives in.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clock::{Entropy, SystemEntropy};

const PREFIX: &str = "herdsman-kubernetes-";
const LOCK: &str = "lock";

/// A private directory, removed with this value. What a crashed process left is removed by the next one.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    /// Held as long as the directory is in use.
    _lock: File,
}

impl DataDirectory {
    pub(super) fn create() -> io::Result<Self> {
        let parent = std::env::temp_dir();
        sweep(&parent);
        let path = create_free(&parent)?;
        let lock = lock(&path)?;
        Ok(DataDirectory { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that only this user can read.
    pub(super) fn write(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(content.as_bytes())?;
        Ok(path)
    }
}

impl Drop for DataDirectory {
    fn drop(&mut self) {
        // Nobody to tell; the next one sweeps.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A name is never used twice: a sweeper that is slow must not remove a newcomer of the same name.
fn create_free(parent: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    SystemEntropy.fill(&mut random);
    let path = parent.join(format!("{PREFIX}{:016x}", u64::from_le_bytes(random)));
    DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

/// Locks before the file has its name, so that no other process ever sees it unlocked while we live.
fn lock(directory: &Path) -> io::Result<File> {
    let unnamed = directory.join("lock.new");
    let file = File::create(&unnamed)?;
    file.lock()?;
    fs::rename(unnamed, directory.join(LOCK))?;
    Ok(file)
}

/// Removes directories whose process is gone.
fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let abandoned = File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if abandoned {
            // Another sweeper may be at it: either of us gets it done.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use std::time::Duration;

    use clock::{Deadline, SystemClock};

    use super::*;

    #[test]
    fn files_are_private_and_go_with_the_directory() {
        let directory = DataDirectory::create().unwrap();
        let file = directory.write("secret", "x").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let path = directory.path().to_owned();
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn only_abandoned_directories_are_swept() {
        let used = DataDirectory::create().unwrap();
        let parent = std::env::temp_dir();
        let abandoned = create_free(&parent).unwrap();
        drop(lock(&abandoned).unwrap());
        // A process that another test starts holds a copy of the lock until it has become its program.
        let deadline = Deadline::after(&SystemClock, Duration::from_secs(60));
        while abandoned.exists() && !deadline.passed(&SystemClock) {
            sweep(&parent);
        }
        assert!(used.path().exists() && !abandoned.exists());
    }
}
