//! Staying out of the installer's way, and it out of ours.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use plan::interlock::{self, APPLY_ACTIVE, Interlock, RESTART_PENDING, Restart};

use super::{Postponed, later};
use crate::disk::{self, Attributes};
use crate::machine::{Executor, Machine};

/// How often to look whether a hindrance is gone.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);

pub(super) struct Interlocks {
    directory: PathBuf,
    executor: Arc<dyn Executor>,
    process: u32,
}

impl std::fmt::Debug for Interlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interlocks").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// Takes our interlock away, however the pass ends.
#[derive(Debug)]
pub(super) struct Active(PathBuf);

impl Drop for Active {
    fn drop(&mut self) {
        if let Err(error) = disk::remove(&self.0) {
            tracing::warn!(error = %crate::chain(&error), "the interlock stays");
        }
    }
}

impl Interlocks {
    pub(super) fn new(machine: &Machine, directory: &Path) -> Self {
        Interlocks {
            directory: machine.root.locate(directory),
            executor: machine.executor.clone(),
            process: machine.process,
        }
    }

    /// At the start: whatever says that an agent is at work is from before, unless it names a process that is there.
    pub(super) fn clear_stale(&self) {
        let path = self.directory.join(APPLY_ACTIVE);
        let Ok(Some(contents)) = disk::read(&path) else { return };
        if !self.is_of_another(&contents) {
            tracing::info!("an interlock that an earlier agent left is removed");
            drop(Active(path));
        }
    }

    fn is_of_another(&self, contents: &[u8]) -> bool {
        let owner = Interlock::parse(contents).pid.filter(|pid| *pid != self.process);
        owner.is_some_and(|pid| self.executor.is_alive(pid))
    }

    /// Says that we are at work, unless something is in the way.
    pub(super) fn enter(&self, now: Timestamp) -> Result<Active, Postponed> {
        disk::make_directories(&self.directory).map_err(|error| later(&error))?;
        self.check_restart(now)?;
        let path = self.directory.join(APPLY_ACTIVE);
        let there = disk::read(&path).map_err(|error| later(&error))?;
        if there.is_some_and(|contents| self.is_of_another(&contents)) {
            let until = now.checked_add(LOOK_AGAIN).ok();
            return Err(Postponed { until, why: "another agent is at work".into() });
        }
        let ours = Interlock { pid: Some(self.process), time: Some(now) };
        disk::write(&path, ours.format().as_bytes(), Attributes::PRIVATE).map_err(|error| later(&error))?;
        Ok(Active(path))
    }

    fn check_restart(&self, now: Timestamp) -> Result<(), Postponed> {
        let path = self.directory.join(RESTART_PENDING);
        let contents = disk::read(&path).map_err(|error| later(&error))?;
        match interlock::restart(contents.as_deref(), now, |pid| self.executor.is_alive(pid)) {
            Restart::Clear => Ok(()),
            Restart::Overdue => disk::remove(&path).map_err(|error| later(&error)),
            Restart::Pending { until, note } => {
                if let Some(note) = note {
                    disk::write(&path, note.as_bytes(), Attributes::PRIVATE)
                        .map_err(|error| later(&error))?;
                }
                let soon = now.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
                Err(Postponed {
                    until: Some(until.min(soon)),
                    why: "the installer is about to restart the agent".into(),
                })
            }
        }
    }
}
