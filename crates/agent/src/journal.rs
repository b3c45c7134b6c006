//! What has to survive the process: the last result, until the Secret has it.

use std::path::{Path, PathBuf};

use plan::agent::Report;

use crate::disk::{self, Attributes};
use crate::machine::Root;

/// The file with the last result.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// What is on the disk.
    saved: Option<Report>,
}

impl Journal {
    /// Opens the journal of a state directory. A file that cannot be understood is none: then a plan is run once more
    /// than need be, which every plan has to bear.
    pub fn open(root: &Root, directory: &Path) -> Result<Self, disk::Error> {
        let directory = root.locate(directory);
        disk::make_directories(&directory)?;
        disk::make_directory(&directory, Attributes { mode: 0o700, owner: None })?;
        let path = directory.join("report.json");
        let saved = disk::read(&path)?.and_then(|bytes| {
            let report = Report::decode(&bytes);
            report.inspect_err(|error| tracing::error!(%error, "the last result cannot be read")).ok()
        });
        Ok(Journal { path, saved })
    }

    /// What the last process left.
    pub fn report(&self) -> Option<&Report> {
        self.saved.as_ref()
    }

    /// Puts a report on the disk, or takes it from there; it is there (or gone) when this returns.
    pub fn save(&mut self, report: Option<&Report>) -> Result<(), disk::Error> {
        if self.saved.as_ref() == report {
            return Ok(());
        }
        match report {
            Some(report) => disk::write(&self.path, &report.encode(), Attributes::PRIVATE).map(drop)?,
            None => disk::remove(&self.path)?,
        }
        self.saved = report.cloned();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plan::Checksum;
    use plan::agent::Delivery;

    use super::*;

    fn report(revision: i64) -> Report {
        let checksum = Checksum::of(b"plan");
        Report {
            delivery: Delivery { uid: "u".into(), checksum, revision: Some(revision) },
            succeeded: true,
            outputs: [("a".to_owned(), vec![0, 255])].into(),
            failure_count: 0,
            success_count: 1,
            at: "2026-01-02T03:04:05.678Z".parse().unwrap(),
            reported: false,
        }
    }

    #[test]
    fn what_was_saved_is_there_after_a_start() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        let open = || Journal::open(&root, Path::new("/state")).unwrap();
        assert_eq!(open().report(), None);
        open().save(Some(&report(1))).unwrap();
        let mut journal = open();
        assert_eq!(journal.report(), Some(&report(1)));
        journal.save(Some(&report(2))).unwrap();
        assert_eq!(open().report(), Some(&report(2)));
        journal.save(None).unwrap();
        assert_eq!(open().report(), None);
        std::fs::write(root.locate("/state/report.json"), "{").unwrap();
        assert_eq!(open().report(), None, "what cannot be read is nothing");
    }
}
