//! Periodic instructions: when one is due, and what a run leaves behind.
//!
//! An instruction is due a period after its last success, after failures not before a cooldown of 30 s for each of
//! them (at most six), and in any case once after each apply. Whoever runs them stops at the first that fails.
//!
//! Differences from Rancher's agent: "once after each apply" holds also if the agent was restarted in between, because
//! it is read off the recorded times; a time in the future (a clock that was set back, a zone that could not be read)
//! never holds an instruction back.

use jiff::{SignedDuration, Timestamp};

use crate::document::PeriodicInstruction;
use crate::gotime;
use crate::output::PeriodicOutput;

const DEFAULT_PERIOD_SECONDS: i64 = 600;
const COOLDOWN_SECONDS: i64 = 30;
const MAX_COOLDOWNS: i64 = 6;

/// What one run of an instruction gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// -1 if it did not start or a signal ended it.
    pub exit_code: i64,
}

/// The number of the next run in a row of failures, from 1.
pub fn attempt(previous: Option<&PeriodicOutput>) -> i64 {
    failures(previous).saturating_add(1)
}

/// When the instruction is next due; none if it never is, for lack of a name. `applied` is when the plan was last
/// applied, if ever.
pub fn next_run(
    instruction: &PeriodicInstruction,
    previous: Option<&PeriodicOutput>,
    applied: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    if instruction.common.name.is_empty() {
        return None;
    }
    let past = |text: &str| gotime::parse(text).filter(|time| *time <= now);
    let success = previous.and_then(|output| past(&output.last_successful_run_time));
    let failure = previous.and_then(|output| past(&output.last_failed_run_time));
    let last = success.max(failure);
    if last.is_none() || last < applied.filter(|applied| *applied <= now) {
        return Some(now);
    }
    let period = match instruction.period_seconds {
        seconds if seconds > 0 => seconds,
        _ => DEFAULT_PERIOD_SECONDS,
    };
    let cooldown = COOLDOWN_SECONDS * failures(previous).clamp(1, MAX_COOLDOWNS);
    let later = |time: Option<Timestamp>, seconds| {
        time.map(|time| time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX))
    };
    later(success, period).max(later(failure, cooldown))
}

/// What to report after a run that started at `now`.
pub fn record(
    instruction: &PeriodicInstruction,
    previous: Option<&PeriodicOutput>,
    run: Run,
    now: Timestamp,
) -> PeriodicOutput {
    let success = run.exit_code == 0;
    let last_success = previous.map(|output| output.last_successful_run_time.clone()).unwrap_or_default();
    PeriodicOutput {
        name: instruction.common.name.clone(),
        stdout: run.stdout,
        stderr: if instruction.save_stderr_output { run.stderr } else { Vec::new() },
        exit_code: run.exit_code,
        last_successful_run_time: if success { gotime::format(now) } else { last_success },
        failures: if success { 0 } else { attempt(previous) },
        last_failed_run_time: if success { String::new() } else { gotime::format(now) },
        extra: previous.map(|output| output.extra.clone()).unwrap_or_default(),
    }
}

/// Failures in a row; they count only with the time of the last.
fn failures(previous: Option<&PeriodicOutput>) -> i64 {
    let failed = previous.filter(|output| gotime::parse(&output.last_failed_run_time).is_some());
    failed.map_or(0, |output| output.failures.max(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Instruction;

    fn instruction(period_seconds: i64) -> PeriodicInstruction {
        let common = Instruction { name: "i".into(), ..Instruction::default() };
        PeriodicInstruction { common, period_seconds, ..PeriodicInstruction::default() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn output(success: Option<i64>, failure: Option<i64>, failures: i64) -> PeriodicOutput {
        let text = |second: Option<i64>| second.map(|second| gotime::format(at(second))).unwrap_or_default();
        let (last_successful_run_time, last_failed_run_time) = (text(success), text(failure));
        PeriodicOutput {
            last_successful_run_time,
            last_failed_run_time,
            failures,
            ..PeriodicOutput::default()
        }
    }

    #[test]
    fn when_due() {
        // period, previous (success, failure, failures), applied, now, next
        let table = [
            (0, None, None, 5, 5, "never ran"),
            (0, Some((Some(0), None, 0)), None, 5, 600, "the default period"),
            (60, Some((Some(0), None, 0)), None, 5, 60, "its own period"),
            (-1, Some((Some(0), None, 0)), None, 5, 600, "nonsense means the default"),
            (60, Some((None, Some(0), 1)), None, 5, 30, "one failure"),
            (60, Some((None, Some(0), 3)), None, 5, 90, "three failures"),
            (60, Some((None, Some(0), 99)), None, 5, 180, "no more than six"),
            (60, Some((None, Some(0), 0)), None, 5, 30, "a failure that was not counted"),
            (60, Some((Some(0), Some(100), 1)), None, 105, 130, "period and cooldown"),
            (600, Some((Some(0), Some(100), 1)), None, 105, 600, "cooldown and period"),
            (60, Some((Some(0), None, 0)), Some(2), 5, 5, "a plan was applied since"),
            (60, Some((Some(2), None, 0)), Some(2), 5, 62, "ran with the plan"),
            (60, Some((Some(0), None, 0)), Some(900), 5, 60, "applied in the future"),
            (60, Some((Some(900), None, 0)), None, 5, 5, "ran in the future"),
        ];
        for (period, previous, applied, now, next, why) in table {
            let previous = previous.map(|(success, failure, failures)| output(success, failure, failures));
            let answer = next_run(&instruction(period), previous.as_ref(), applied.map(at), at(now));
            assert_eq!(answer, Some(at(next)), "{why}");
        }
        assert_eq!(next_run(&PeriodicInstruction::default(), None, None, at(0)), None, "no name");
    }

    #[test]
    fn records() {
        let failed = Run { stdout: b"o".into(), stderr: b"e".into(), exit_code: 3 };
        let first = record(&instruction(0), None, failed.clone(), at(0));
        assert_eq!((first.failures, first.exit_code, first.stdout.as_slice()), (1, 3, b"o".as_slice()));
        assert!(first.stderr.is_empty() && first.last_successful_run_time.is_empty());
        assert_eq!(attempt(Some(&first)), 2);

        let saved = PeriodicInstruction { save_stderr_output: true, ..instruction(0) };
        let second = record(&saved, Some(&first), failed, at(40));
        assert_eq!((second.failures, second.stderr.as_slice()), (2, b"e".as_slice()));

        let third = record(&saved, Some(&second), Run::default(), at(100));
        assert_eq!((third.failures, third.last_failed_run_time.as_str()), (0, ""));
        assert_eq!(third.last_successful_run_time, gotime::format(at(100)));
    }
}
