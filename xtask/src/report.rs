//! What ran, how it went, how long it took.

use std::time::Duration;

use anyhow::bail;
use clock::{Clock, SystemClock};

/// How a suite that did not fail went.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It ran; a word on what.
    Ran(String),
    /// It could not run, and why.
    Skipped(String),
}

#[derive(Debug)]
enum Outcome {
    Ok(String),
    Failed(String),
    Skipped(String),
}

#[derive(Debug)]
struct Suite {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Whether what cannot run may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skips {
    Allowed,
    Forbidden,
}

/// The suites of one run.
#[derive(Debug)]
pub(crate) struct Report {
    skips: Skips,
    suites: Vec<Suite>,
}

impl Report {
    pub(crate) fn new(skips: Skips) -> Self {
        Report { skips, suites: Vec::new() }
    }

    /// Runs a suite. A failed one does not keep the others from running.
    pub(crate) fn suite(&mut self, name: &'static str, run: impl FnOnce() -> anyhow::Result<Verdict>) {
        println!("== {name}");
        let started = SystemClock.monotonic();
        let outcome = self.judge(name, run());
        self.suites.push(Suite { name, outcome, took: SystemClock.monotonic().since(started) });
    }

    fn judge(&self, name: &str, verdict: anyhow::Result<Verdict>) -> Outcome {
        match verdict {
            Ok(Verdict::Ran(what)) => Outcome::Ok(what),
            Ok(Verdict::Skipped(reason)) => {
                println!("skip {name}: {reason}");
                match self.skips {
                    Skips::Allowed => Outcome::Skipped(reason),
                    Skips::Forbidden => Outcome::Failed(format!("must not be skipped here: {reason}")),
                }
            }
            Err(error) => Outcome::Failed(format!("{error:#}")),
        }
    }

    /// Prints the summary; an error if a suite failed.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        print!("{}", self.summary());
        let failed = self.failed();
        if failed > 0 {
            bail!("{failed} of {} failed", self.suites.len());
        }
        Ok(())
    }

    fn failed(&self) -> usize {
        self.suites.iter().filter(|suite| matches!(suite.outcome, Outcome::Failed(_))).count()
    }

    fn summary(&self) -> String {
        let width = self.suites.iter().map(|suite| suite.name.len()).max().unwrap_or_default();
        let mut text = String::from("== summary\n");
        for Suite { name, outcome, took } in &self.suites {
            let (word, detail) = match outcome {
                Outcome::Ok(detail) => ("ok", detail),
                Outcome::Failed(detail) => ("failed", detail),
                Outcome::Skipped(detail) => ("skip", detail),
            };
            let line = format!("{name:width$}  {word:6}  {:7.1} s  {detail}", took.as_secs_f64());
            text += line.trim_end();
            text += "\n";
        }
        let passed = self.suites.iter().filter(|suite| matches!(suite.outcome, Outcome::Ok(_))).count();
        text + &format!("{passed} passed, {} failed\n", self.failed())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn report(skips: Skips) -> Report {
        let mut report = Report::new(skips);
        report.suite("workspace", || Ok(Verdict::Ran("12 tests".into())));
        report.suite("peers", || Ok(Verdict::Skipped("go is not installed".into())));
        for suite in &mut report.suites {
            suite.took = Duration::from_millis(1500);
        }
        report
    }

    #[test]
    fn the_summary_says_what_ran_and_what_did_not() {
        let expected = "== summary\n\
                        workspace  ok          1.5 s  12 tests\n\
                        peers      skip        1.5 s  go is not installed\n\
                        1 passed, 0 failed\n";
        let report = report(Skips::Allowed);
        assert_eq!(report.summary(), expected);
        assert!(report.close().is_ok());
    }

    #[test]
    fn a_skip_fails_where_it_is_forbidden() {
        let report = report(Skips::Forbidden);
        assert!(report.summary().ends_with("1 passed, 1 failed\n"), "{}", report.summary());
        assert!(report.close().is_err());
    }

    #[test]
    fn one_failure_does_not_stop_the_rest() {
        let mut report = Report::new(Skips::Allowed);
        report.suite("first", || Err(anyhow!("broken")));
        report.suite("second", || Ok(Verdict::Ran(String::new())));
        assert!(report.summary().contains("broken") && report.summary().ends_with("1 passed, 1 failed\n"));
        assert!(report.close().is_err());
    }
}
