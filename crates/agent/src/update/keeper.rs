//! Doing what was decided about binaries.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::judge::{Event, Rejected, State, Trial, Verdict, judge, wants};
use crate::disk::{self, Attributes};
use crate::machine::{Machine, Program};

/// How long a new binary has to say its version.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why binaries cannot be looked after.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A binary.
    #[error("cannot read {}", path.display())]
    Binary {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The state.
    #[error(transparent)]
    Disk(#[from] disk::Error),
}

/// Looks after the binary of this process.
#[derive(Debug)]
pub struct Keeper {
    pub(super) machine: Machine,
    pub(super) binary: PathBuf,
    pub(super) running: String,
    /// What was last found in its place, and its digest.
    found: (Option<Stamp>, String),
    directory: PathBuf,
    pub(super) state: State,
    /// After a binary that could not be fetched: which, and when the next try is.
    pub(super) later: Option<(String, Timestamp)>,
}

pub(super) type Stamp = (u64, u64, u64, i64, i64);

/// What tells one file from another that took its place.
pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

impl Keeper {
    /// For a process that has just been started from `binary`, with its state in a directory of the machine.
    pub fn new(machine: Machine, binary: PathBuf, directory: &Path) -> Result<Self, Error> {
        let directory = machine.root.locate(directory);
        let bytes = disk::read(&directory.join("update.json"))?.unwrap_or_default();
        // What cannot be read is nothing: then there is no trial.
        let state = serde_json::from_slice(&bytes).unwrap_or_default();
        let running = digest(&binary)?;
        let found = (stamp(&binary), running.clone());
        Ok(Keeper { found, machine, binary, running, directory, state, later: None })
    }

    fn save(&mut self, state: State) -> Result<(), Error> {
        if self.state != state {
            let bytes = serde_json::to_vec(&state).unwrap_or_default();
            disk::make_directories(&self.directory)?;
            disk::write(&self.directory.join("update.json"), &bytes, Attributes::PRIVATE)?;
            self.state = state;
        }
        Ok(())
    }

    fn kept(&self) -> PathBuf {
        self.directory.join("agent.good")
    }

    /// Takes in what has happened. If the verdict is to fall back, the binary before is in its place again, to be
    /// gone over to.
    pub fn happened(&mut self, event: Event) -> Result<Verdict, Error> {
        let (verdict, mut next) = judge(&self.state, &self.running, event, self.machine.clock.now());
        match verdict {
            Verdict::Keep if event == Event::Connected && next.good.as_ref() != Some(&self.running) => {
                self.keep_copy()?;
                next.good = Some(self.running.clone());
            }
            Verdict::FallBack => {
                tracing::error!(
                    binary = self.running,
                    "this binary does not reach its server: the one before comes back"
                );
                if !self.put_back()? {
                    // Somebody removed it: there is nothing to fall back to.
                    self.save(State { good: None, ..next })?;
                    return Ok(Verdict::Keep);
                }
            }
            Verdict::Keep | Verdict::Until(_) => {}
        }
        self.save(next)?;
        Ok(verdict)
    }

    /// Puts the last binary that reached its server in its place again. Says whether there is one.
    fn put_back(&self) -> Result<bool, Error> {
        let Some(before) = disk::read(&self.kept())? else { return Ok(false) };
        disk::write(&self.binary, &before, Attributes { mode: 0o755, owner: None })?;
        Ok(true)
    }

    fn keep_copy(&self) -> Result<(), Error> {
        // What runs, not what may be in its place by now.
        let path = if self.machine.root.directory() == Path::new("/") {
            PathBuf::from("/proc/self/exe")
        } else {
            self.binary.clone()
        };
        let bytes = fs::read(&path).map_err(|source| Error::Binary { path, source })?;
        disk::make_directories(&self.directory)?;
        disk::write(&self.kept(), &bytes, Attributes { mode: 0o700, owner: None })?;
        Ok(())
    }

    /// Whether there is another binary in place of this one that is worth a trial; from then on it is on trial.
    pub async fn found_another(&mut self) -> Result<bool, Error> {
        let now = self.machine.clock.now();
        let Some(found) = self.found()? else { return Ok(false) };
        if !wants(&self.state, &self.running, &found, now) {
            return Ok(false);
        }
        let next = match self.runs().await {
            true => {
                tracing::info!(binary = found, "going over to another binary");
                State {
                    trial: Some(Trial { binary: found, since: now.as_second(), starts: 0 }),
                    ..self.state.clone()
                }
            }
            false => {
                tracing::error!(binary = found, "the binary in our place does not run");
                State {
                    rejected: Some(Rejected { binary: found, at: now.as_second() }),
                    ..self.state.clone()
                }
            }
        };
        let goes = next.trial.is_some();
        self.save(next)?;
        if !goes {
            // The next start must not find it.
            self.put_back()?;
        }
        Ok(goes)
    }

    /// The digest of what is in the place of this binary, if anything is.
    pub(super) fn found(&mut self) -> Result<Option<String>, Error> {
        let Some(stamp) = stamp(&self.binary) else { return Ok(None) };
        if self.found.0 != Some(stamp) {
            self.found = (Some(stamp), digest(&self.binary)?);
        }
        Ok(Some(self.found.1.clone()))
    }

    /// Whether it can be started at all.
    async fn runs(&self) -> bool {
        let program = Program {
            label: "version".into(),
            command: self.binary.to_string_lossy().into_owned(),
            args: vec!["version".into()],
            env: self.machine.environment.clone(),
            directory: self.machine.root.directory().to_owned(),
        };
        let ended = tokio::time::timeout(PATIENCE, self.machine.executor.run(&program)).await;
        ended.is_ok_and(|ended| ended.exit_code == 0)
    }
}

fn digest(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Binary { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let (mut sum, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            read => sum.update(&buffer[..read]),
        }
    }
    Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
