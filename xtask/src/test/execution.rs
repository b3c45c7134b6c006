//! Running suites, several at a time, each within its time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use clock::{Clock as _, Deadline, SystemClock};

use super::suite::Suite;
use super::tally::Tally;

/// How often a running program is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);

/// How a suite went.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) suite: Suite,
    /// Whether all of its tests passed within its time.
    pub(crate) green: bool,
    pub(crate) took: Duration,
    pub(crate) tally: Tally,
}

/// What all suites of a run have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Execution {
    /// Suites at a time.
    pub(crate) side_by_side: usize,
    /// Variables for their programs.
    pub(crate) environment: Vec<(&'static str, PathBuf)>,
    /// Whether the time of each test is measured.
    pub(crate) times: bool,
    /// How long a suite may take, if that is less than its own limit.
    pub(crate) at_most: Option<Duration>,
}

impl Execution {
    /// Runs all of them, prints how each went, and everything that a failed one printed.
    pub(crate) fn run(&self, suites: Vec<Suite>) -> Vec<Outcome> {
        let waiting = Mutex::new(VecDeque::from(suites));
        let next = || waiting.lock().ok().and_then(|mut waiting| waiting.pop_front());
        thread::scope(|scope| {
            let work = || {
                let mut outcomes = Vec::new();
                while let Some(suite) = next() {
                    outcomes.push(self.suite(suite));
                }
                outcomes
            };
            let workers: Vec<_> = (0..self.side_by_side.max(1)).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
        })
    }

    fn suite(&self, suite: Suite) -> Outcome {
        let started = SystemClock.monotonic();
        let (ended, output) = match self.program(&suite) {
            Ok(done) => done,
            Err(error) => (End::Failed, format!("{error:#}")),
        };
        let took = SystemClock.monotonic().since(started);
        let tally = Tally::of(&output);
        print!("{}", told(&suite, &ended, took, &tally, &output));
        Outcome { suite, green: ended == End::Succeeded, took, tally }
    }

    fn program(&self, suite: &Suite) -> anyhow::Result<(End, String)> {
        let mut arguments = suite.arguments();
        let mut output = tempfile::tempfile()?;
        if self.times {
            arguments.extend(["-Zunstable-options", "--report-time"].map(str::to_owned));
        }
        let mut command = suite.program.command(&arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.times {
            // The test harness takes this for a compiler that knows unstable options.
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        let limit = self.at_most.map_or(suite.limit(), |most| most.min(suite.limit()));
        let end = finish(&mut command, &output, limit)
            .with_context(|| format!("cannot run {}", suite.program.executable.display()))?;
        let mut bytes = Vec::new();
        output.rewind()?;
        output.read_to_end(&mut bytes)?;
        Ok((end, String::from_utf8_lossy(&bytes).into_owned()))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Succeeded,
    Failed,
    /// Ended by us, as its time was over.
    TimedOut,
}

/// Runs a program in a process group of its own, which is killed when its time is over.
fn finish(command: &mut Command, output: &File, limit: Duration) -> anyhow::Result<End> {
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?).process_group(0);
    let mut child = command.spawn()?;
    let deadline = Deadline::after(&SystemClock, limit);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { End::Succeeded } else { End::Failed });
        }
        if deadline.passed(&SystemClock) {
            kill_group(&child)?;
            child.wait()?;
            return Ok(End::TimedOut);
        }
        thread::sleep(POLL);
    }
}

fn kill_group(child: &Child) -> anyhow::Result<()> {
    peers::process::kill_group(child.id()).context("cannot end its processes")
}

/// A line for a suite that passed; everything that it printed for one that did not.
fn told(suite: &Suite, end: &End, took: Duration, tally: &Tally, output: &str) -> String {
    let seconds = took.as_secs_f64();
    let (tier, name) = (suite.tier, suite.name());
    let counts = format!("{} passed, {} failed", tally.passed, tally.failed);
    let skips: String = tally.skips.iter().map(|skip| format!("skip {skip}\n")).collect();
    match end {
        End::Succeeded if tally.passed == 0 => skips,
        End::Succeeded => format!("{skips}ok      {seconds:6.1} s  {tier:7}  {name}: {counts}\n"),
        End::Failed => format!("{output}\nFAILED  {seconds:6.1} s  {tier:7}  {name}: {counts}\n"),
        End::TimedOut => {
            format!("{output}\nFAILED  {seconds:6.1} s  {tier:7}  {name}: not done within its time\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_too_long_is_ended_with_its_children() {
        let output = tempfile::tempfile().unwrap();
        let limit = Duration::from_millis(200);
        let mut slow = Command::new("sh");
        let end = finish(slow.args(["-c", "sleep 60 & sleep 60"]), &output, limit).unwrap();
        assert_eq!(end, End::TimedOut);
    }

    #[test]
    fn output_of_both_kinds_is_kept_and_the_exit_code_counts() {
        let mut output = tempfile::tempfile().unwrap();
        let limit = Duration::from_secs(10);
        let mut command = Command::new("sh");
        let end = finish(command.args(["-c", "echo one; echo two >&2; exit 1"]), &output, limit).unwrap();
        assert_eq!(end, End::Failed);
        let mut text = String::new();
        output.rewind().unwrap();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }
}
