//! Making the machine what a plan says: files, one-time instructions, periodic ones.
//!
//! One pass at a time, whoever asks for it. A pass that is dropped in its middle leaves whole files, kills what it
//! runs and takes its interlock away; what comes next begins again.

mod history;
mod instruction;
mod interlocks;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use plan::agent::Outcome;
use plan::document::Document;
use plan::output::{Outputs, PeriodicOutputs};
use plan::periodic::{self, Run};
use tokio::sync::Mutex;

use crate::capture;
use crate::config::Config;
use crate::disk;
use crate::files;
use crate::machine::Machine;

use instruction::Runner;
use interlocks::Interlocks;

/// The name under which the agent itself says why a plan failed before any instruction of it ran.
pub const OWN_OUTPUT: &str = "herdsman-agent";

/// A periodic instruction that ran: its place in the plan, what it gave, when it started.
pub type PeriodicRun = (usize, Run, Timestamp);

/// Why nothing was done, and until when; it is not the plan's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postponed {
    /// When to try again; none: after a growing pause.
    pub until: Option<Timestamp>,
    /// For the log.
    pub why: String,
}

/// Applies plans to one machine.
#[derive(Debug)]
pub struct Applier {
    machine: Machine,
    work: PathBuf,
    preserve_work: bool,
    history: Option<PathBuf>,
    interlocks: Option<Interlocks>,
    turn: Mutex<()>,
}

impl Applier {
    /// For a machine, with the directories of a configuration. Interlocks that a dead agent left are cleared.
    pub fn new(machine: Machine, config: &Config) -> Self {
        let interlocks =
            config.interlock_directory.as_ref().map(|directory| Interlocks::new(&machine, directory));
        if let Some(interlocks) = &interlocks {
            interlocks.clear_stale();
        }
        Applier {
            work: machine.root.locate(&config.work_directory),
            preserve_work: config.preserve_work_directory,
            history: config.applied_plan_directory.as_ref().map(|path| machine.root.locate(path)),
            interlocks,
            machine,
            turn: Mutex::new(()),
        }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Writes the files and runs the one-time instructions. `kept` is output of earlier runs: it is cut too if all
    /// together would not fit into the Secret.
    pub async fn apply(&self, document: &Document, attempt: i64, kept: &Outputs) -> Outcome {
        match self.try_apply(document, attempt, kept).await {
            Ok(outcome) => outcome,
            Err(postponed) => {
                tracing::warn!(why = postponed.why, until = ?postponed.until, "the plan is not applied now");
                Outcome::Postponed(postponed.until)
            }
        }
    }

    async fn try_apply(
        &self,
        document: &Document,
        attempt: i64,
        kept: &Outputs,
    ) -> Result<Outcome, Postponed> {
        let _turn = self.turn.lock().await;
        let _active = self
            .interlocks
            .as_ref()
            .map(|interlocks| interlocks.enter(self.machine.clock.now()))
            .transpose()?;
        let now = self.machine.clock.now();
        if let Some(history) = &self.history {
            history::record(history, document, now);
        }
        let rendered = match files::render(&document.plan().files, &self.machine.root) {
            Ok(rendered) => rendered,
            Err(error) => {
                tracing::error!(%error, "the plan cannot be applied");
                return Ok(Outcome::Failed(Outputs::from([(
                    OWN_OUTPUT.into(),
                    format!("{error}\n").into_bytes(),
                )])));
            }
        };
        let changed = rendered.write(&self.machine.root).map_err(|error| later(&error))?;
        tracing::info!(plan = %document.checksum(), attempt, changed, "files are written");
        self.clear_work().map_err(|error| later(&error))?;
        let (succeeded, outputs) = self.one_time(document, attempt, now).await;
        self.tidy();
        let mut all = kept.clone();
        all.extend(outputs);
        let all = capture::fit(all, capture::budget(document.bytes().len()));
        Ok(if succeeded { Outcome::Succeeded(all) } else { Outcome::Failed(all) })
    }

    async fn one_time(&self, document: &Document, attempt: i64, now: Timestamp) -> (bool, Outputs) {
        let runner = Runner::new(&self.machine, &self.work, document.checksum(), now);
        let mut outputs = Outputs::new();
        for (index, instruction) in document.plan().instructions.iter().enumerate() {
            let ended = runner.run(index, &instruction.common, attempt).await;
            let succeeded = ended.exit_code == 0;
            if instruction.save_output && !instruction.common.name.is_empty() {
                // Planners read what succeeded, people what failed.
                let output = if succeeded { ended.stdout } else { ended.combined };
                outputs.insert(instruction.common.name.clone(), output);
            }
            if !succeeded {
                tracing::error!(
                    index,
                    name = instruction.common.name,
                    code = ended.exit_code,
                    "instruction failed"
                );
                return (false, outputs);
            }
        }
        (true, outputs)
    }

    /// Runs periodic instructions in order, up to the first that fails. `before` is what they last gave.
    pub async fn periodic(
        &self,
        document: &Document,
        due: &[usize],
        before: &PeriodicOutputs,
    ) -> Result<Vec<PeriodicRun>, Postponed> {
        let _turn = self.turn.lock().await;
        let _active = self
            .interlocks
            .as_ref()
            .map(|interlocks| interlocks.enter(self.machine.clock.now()))
            .transpose()?;
        self.clear_work().map_err(|error| later(&error))?;
        let runner = Runner::new(&self.machine, &self.work, document.checksum(), self.machine.clock.now());
        let mut runs = Vec::new();
        for &index in due {
            let Some(instruction) = document.plan().periodic_instructions.get(index) else { continue };
            let started = self.machine.clock.now();
            let attempt = periodic::attempt(before.get(&instruction.common.name));
            let ended = runner.run(index, &instruction.common, attempt).await;
            let code = ended.exit_code;
            runs.push((index, Run { stdout: ended.stdout, stderr: ended.stderr, exit_code: code }, started));
            if code != 0 {
                tracing::warn!(index, name = instruction.common.name, code, "periodic instruction failed");
                break;
            }
        }
        self.tidy();
        Ok(fit(document, before, runs))
    }

    /// Nothing that another pass left is in the way.
    fn clear_work(&self) -> Result<(), disk::Error> {
        if self.preserve_work { Ok(()) } else { disk::remove_all(&self.work) }
    }

    /// What a pass leaves may be large: an image.
    fn tidy(&self) {
        if let Err(error) = self.clear_work() {
            tracing::warn!(error = %crate::chain(&error), "the work directory stays");
        }
    }
}

fn later(error: &dyn std::error::Error) -> Postponed {
    Postponed { until: None, why: crate::chain(error) }
}

/// Cuts what runs gave so that all that is reported of periodic instructions fits into the Secret.
fn fit(document: &Document, before: &PeriodicOutputs, mut runs: Vec<PeriodicRun>) -> Vec<PeriodicRun> {
    let instructions = &document.plan().periodic_instructions;
    let name = |index: usize| instructions.get(index).map(|instruction| instruction.common.name.clone());
    let mut all = before.clone();
    for (index, run, started) in &runs {
        if let Some(instruction) = instructions.get(*index) {
            let output =
                periodic::record(instruction, before.get(&instruction.common.name), run.clone(), *started);
            all.insert(instruction.common.name.clone(), output);
        }
    }
    let mut fitted = capture::fit_periodic(all, capture::budget(document.bytes().len()));
    for (index, run, _) in &mut runs {
        if let Some(output) = name(*index).and_then(|name| fitted.remove(&name)) {
            (run.stdout, run.stderr) = (output.stdout, output.stderr);
        }
    }
    runs
}

/// A directory below the work directory for one instruction.
fn place(work: &Path, now: Timestamp, checksum: plan::Checksum, index: usize) -> PathBuf {
    work.join(history::stamp(now)).join(format!("{checksum}_{index}"))
}
