//! `cargo xtask test`: all tests that this machine can run.

use std::io::IsTerminal;

use anyhow::bail;
use peers::Peer;
use peers::availability::{available, on_ci};

use crate::fuzz;
use crate::peers::provide_all;
use crate::report::{Report, Skips, Verdict};
use crate::run::{cargo, listen};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only what needs no peers: minutes, not more.
    #[arg(long, conflicts_with = "real")]
    quick: bool,
    /// Only the suites on machines: the agent's, and the one with a real K3s.
    #[arg(long)]
    real: bool,
    /// Also what takes long: a minute of fuzzing for every target.
    #[arg(long, conflicts_with_all = ["quick", "real"])]
    long: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut report = Report::new(if on_ci() { Skips::Forbidden } else { Skips::Allowed });
    if arguments.real {
        report.suite("real", on_machines);
        return report.close();
    }
    report.suite("workspace", || tests(&["--workspace"]));
    if !arguments.quick {
        report.suite("peers", with_peers);
    }
    if arguments.long {
        report.suite("fuzz", fuzz::shortly);
    }
    report.close()
}

/// The tests that are ignored unless the peers are there.
fn with_peers() -> anyhow::Result<Verdict> {
    if let Err(reason) = available() {
        return Ok(Verdict::Skipped(reason.to_string()));
    }
    provide_all()?;
    // Not the documentation's examples: an ignored one is not meant to run at all.
    tests(&["--workspace", "--lib", "--bins", "--tests", "--", "--ignored"])
}

/// The tests that boot machines.
fn on_machines() -> anyhow::Result<Verdict> {
    if let Err(reason) = Peer::Fleet.available() {
        return Ok(Verdict::Skipped(reason.to_string()));
    }
    Peer::Fleet.provide()?;
    tests(&["--package", "suites", "--test", "machines", "--test", "real_k3s", "--", "--ignored"])
}

fn tests(arguments: &[&str]) -> anyhow::Result<Verdict> {
    let mut command = cargo();
    command.args(["test", "--no-fail-fast"]).args(arguments);
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let transcript = listen(&mut command)?;
    let tally = Tally::of(&transcript.lines);
    if !transcript.success {
        bail!("{tally}");
    }
    Ok(Verdict::Ran(tally.to_string()))
}

/// What the test programs said, added up.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    passed: u32,
    failed: u32,
    skips: Vec<String>,
}

impl Tally {
    fn of(lines: &[String]) -> Self {
        let mut tally = Tally::default();
        for line in lines {
            if let Some(result) = line.strip_prefix("test result: ") {
                tally.passed += number_before(result, " passed");
                tally.failed += number_before(result, " failed");
            }
            if let Some(skip) = skip_in(line).filter(|skip| !tally.skips.contains(skip)) {
                tally.skips.push(skip);
            }
        }
        tally
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tests passed, {} failed", self.passed, self.failed)?;
        self.skips.iter().try_for_each(|skip| write!(f, "; skipped {skip}"))
    }
}

/// `<suite>: <reason>`, from anywhere in a line: the harness may have begun it with the test's name.
fn skip_in(line: &str) -> Option<String> {
    let (_, skip) = line.split_once("skip ")?;
    let (suite, _) = skip.split_once(": ")?;
    (!suite.contains(' ')).then(|| skip.to_owned())
}

fn number_before(text: &str, word: &str) -> u32 {
    let before = text.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_test_programs_add_up() {
        let lines = [
            "test a ... ok",
            "test src/a.rs - a::skip (line 3): compile ... ok",
            "skip conformance: go is not installed",
            "test b ... skip conformance: go is not installed",
            "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.1s",
            "test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        ]
        .map(String::from);
        let tally = Tally::of(&lines);
        assert_eq!((tally.passed, tally.failed), (17, 1));
        assert_eq!(tally.to_string(), "17 tests passed, 1 failed; skipped conformance: go is not installed");
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(Tally::of(&[]), Tally::default());
    }
}
