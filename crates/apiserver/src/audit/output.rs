//! The file that events end up in.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::Output;

/// When the next file is begun, and what stays of those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// A file does not grow beyond this. A single event may be larger.
    pub most_bytes: u64,
    /// So many older files are kept: `<name>.1` is the newest of them.
    pub kept_files: usize,
}

/// Writes whole lines.
#[derive(Debug)]
pub(super) enum Writer {
    Stdout,
    File(Rotated),
}

#[derive(Debug)]
pub(super) struct Rotated {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    bytes: u64,
}

impl Writer {
    pub(super) fn open(output: &Output) -> io::Result<Self> {
        Ok(match output {
            Output::Stdout => Writer::Stdout,
            Output::File(path, rotation) => Writer::File(Rotated::open(path, *rotation)?),
        })
    }

    /// Writes some lines: all of them, or none.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Writer::File(file) => file.write(lines),
            Writer::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(lines)?;
                stdout.flush()
            }
        }
    }
}

impl Rotated {
    fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        Ok(Rotated { path: path.to_owned(), rotation, file, bytes })
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let grown = self.bytes + lines.len() as u64;
        if self.bytes > 0
            && grown > self.rotation.most_bytes
            && let Err(error) = self.rotate()
        {
            // One that grows too large is better than none.
            tracing::warn!(%error, path = %self.path.display(), "no new audit log could be begun");
        }
        let written = self.file.write_all(lines);
        match written {
            Ok(()) => self.bytes += lines.len() as u64,
            // No half lines: what comes next has to be readable.
            Err(_) => self.file.set_len(self.bytes)?,
        }
        written
    }

    fn rotate(&mut self) -> io::Result<()> {
        let older = |number: usize| self.path.with_added_extension(number.to_string());
        for number in (1..self.rotation.kept_files).rev() {
            rename_if_there(&older(number), &older(number + 1))?;
        }
        match self.rotation.kept_files {
            0 => fs::remove_file(&self.path)?,
            _ => fs::rename(&self.path, older(1))?,
        }
        self.file = append_to(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

/// Opens a file to add to it, for its owner's eyes only.
fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn files(kept_files: usize) -> Vec<String> {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("audit.log");
        let rotation = Rotation { most_bytes: 8, kept_files };
        for line in 1..=6 {
            // Opened anew each time: what is there counts.
            let mut writer = Writer::open(&Output::File(path.clone(), rotation)).unwrap();
            writer.write(format!("{line}xx\n").as_bytes()).unwrap();
        }
        let mut names: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let show = |path: &PathBuf| {
            let text = fs::read_to_string(path).unwrap().replace('\n', " ");
            format!("{} {}", path.file_name().unwrap().to_string_lossy(), text.trim())
        };
        names.iter().map(show).collect()
    }

    #[test]
    fn the_newest_files_stay() {
        assert_eq!(files(5), ["audit.log 5xx 6xx", "audit.log.1 3xx 4xx", "audit.log.2 1xx 2xx"]);
        assert_eq!(files(1), ["audit.log 5xx 6xx", "audit.log.1 3xx 4xx"]);
        assert_eq!(files(0), ["audit.log 5xx 6xx"]);
    }

    #[test]
    fn what_cannot_be_written_leaves_no_half_line() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("audit.log");
        fs::write(&path, "whole\n").unwrap();
        let mut rotated = Rotated::open(&path, Rotation { most_bytes: 100, kept_files: 1 }).unwrap();
        // A file that is only read stands for a disk that takes nothing.
        rotated.file = File::open(&path).unwrap();
        assert!(rotated.write(b"lost\n").is_err());
        rotated.file = append_to(&path).unwrap();
        rotated.write(b"next\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole\nnext\n");
    }
}
