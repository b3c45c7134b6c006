//! The files of attempts: `<directory>/<pod's UID>` while one runs, `<directory>/logs` for what they said.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::documents::End;

/// How much a log may grow before its beginning is dropped.
const LARGEST_LOG: u64 = 1 << 20;

/// The log of a machine's Jobs.
pub(super) fn log(directory: &Path, namespace: &str, job: &str) -> PathBuf {
    directory.join("logs").join(format!("{namespace}.{job}.log"))
}

/// The files of one attempt.
#[derive(Clone, Debug)]
pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    pub(super) fn of(directory: &Path, pod_uid: &str) -> Self {
        Files { root: directory.join(pod_uid) }
    }

    /// Makes the directories, for nobody but us.
    pub(super) fn create(&self) -> io::Result<()> {
        let make = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        make(&self.root)?;
        make(&self.storage())
    }

    /// Where the driver's state is.
    pub(super) fn storage(&self) -> PathBuf {
        self.root.join("storage")
    }

    /// Where a path of the Job's container is here.
    pub(super) fn mounted(&self, path: &str) -> PathBuf {
        self.root.join("mounts").join(path.trim_start_matches('/'))
    }

    /// Writes a file of a mounted Secret. One that would lie elsewhere is refused: whoever may make a Job does not get to write
    /// where the server runs.
    pub(super) fn mount(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        if !path.starts_with(self.mounted("")) || path.components().any(|part| part == Component::ParentDir) {
            let words = format!("a Secret cannot be mounted at {}: it leads elsewhere", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        if let Some(parent) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        // Nobody else gets through the directories anyway.
        file.set_permissions(fs::Permissions::from_mode(mode & 0o777))
    }

    /// Notes which process runs, so that another one of us finds it.
    pub(super) fn note_process(&self, note: &str) -> io::Result<()> {
        fs::write(self.root.join("process"), note)
    }

    pub(super) fn noted_process(&self) -> Option<String> {
        fs::read_to_string(self.root.join("process")).ok()
    }

    /// Notes how the program ended, before anybody is told.
    pub(super) fn note_end(&self, end: &End) -> io::Result<()> {
        let note = serde_json::json!({"exitCode": end.exit_code, "words": end.words});
        let (new, path) = (self.root.join("end.new"), self.root.join("end"));
        let mut file = fs::File::create(&new)?;
        file.write_all(note.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(new, path)
    }

    pub(super) fn noted_end(&self) -> Option<End> {
        let note: Value = serde_json::from_slice(&fs::read(self.root.join("end")).ok()?).ok()?;
        let exit_code = i32::try_from(note["exitCode"].as_i64()?).ok()?;
        Some(End { exit_code, words: note["words"].as_str().unwrap_or_default().to_owned() })
    }

    /// Notes that the storage has what was known of the server.
    pub(super) fn mark_loaded(&self) -> io::Result<()> {
        fs::write(self.root.join("loaded"), "")
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.root.join("loaded").exists()
    }

    pub(super) fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.root)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.root.display(), %error, "files of a Job are left");
        }
    }
}

/// Opens a log to write at its end, without what is too old to be kept.
pub(super) fn open_log(path: &Path) -> io::Result<fs::File> {
    if let Some(parent) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mut options = fs::OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).mode(0o600).open(path)?;
    let length = file.metadata()?.len();
    if length > LARGEST_LOG {
        let mut kept = String::new();
        file.seek(SeekFrom::Start(length - LARGEST_LOG / 2))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        kept.push_str(&String::from_utf8_lossy(&bytes));
        file.set_len(0)?;
        file.write_all(kept.split_once('\n').map_or("", |(_, lines)| lines).as_bytes())?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = log(directory.path(), "n", "j");
        let mut file = open_log(&path).unwrap();
        for number in 0..200_000 {
            writeln!(file, "line {number}").unwrap();
        }
        let mut file = open_log(&path).unwrap();
        writeln!(file, "more").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.len() < 600_000 && text.starts_with("line ") && text.ends_with("line 199999\nmore\n"));
    }

    #[test]
    fn an_end_is_noted_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::of(directory.path(), "u");
        files.create().unwrap();
        assert_eq!(files.noted_end(), None);
        let end = End { exit_code: 3, words: "no quota".into() };
        files.note_end(&end).unwrap();
        assert_eq!(files.noted_end(), Some(end));
        let path = files.mounted("/run/secrets/machine").join("value");
        files.mount(&path, b"secret", 0o777).unwrap();
        assert!(path.starts_with(directory.path()) && path.exists());
        files.remove();
        assert!(!directory.path().join("u").exists());
    }

    #[test]
    fn nothing_is_mounted_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::of(directory.path(), "u");
        files.create().unwrap();
        for (at, name) in
            [("/../../x", "f"), ("/run/../../../x", "f"), ("/run", "../../../x/f"), ("/run", "/x/f")]
        {
            let path = files.mounted(at).join(name);
            let refused = files.mount(&path, b"mine", 0o644).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{at} {name}");
        }
        assert!(!directory.path().join("x").exists());
    }
}
