//! What test programs print, read.

use std::time::Duration;

/// What a test program says of its tests.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    /// What could not run, and why: `<suite>: <reason>`.
    pub(crate) skips: Vec<String>,
    /// How long tests took, where that was measured.
    pub(crate) times: Vec<(Duration, String)>,
}

impl Tally {
    pub(crate) fn of(output: &str) -> Self {
        let mut tally = Tally::default();
        for line in output.lines() {
            if let Some(result) = line.strip_prefix("test result: ") {
                tally.passed += number_before(result, " passed");
                tally.failed += number_before(result, " failed");
            }
            if let Some(skip) = skip_in(line).filter(|skip| !tally.skips.contains(skip)) {
                tally.skips.push(skip);
            }
            tally.times.extend(time_in(line));
        }
        tally
    }
}

/// `<suite>: <reason>`, from anywhere in a line: the harness may have begun it with the test's name.
fn skip_in(line: &str) -> Option<String> {
    let (_, skip) = line.split_once("skip ")?;
    let (suite, _) = skip.split_once(": ")?;
    (!suite.contains(' ')).then(|| skip.to_owned())
}

/// `test a::b ... ok <1.234s>`.
fn time_in(line: &str) -> Option<(Duration, String)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (_, time) = rest.rsplit_once('<')?;
    let seconds: f64 = time.strip_suffix("s>")?.parse().ok()?;
    Some((Duration::from_secs_f64(seconds), name.to_owned()))
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
        let output = "test a ... ok <1.500s>\n\
                      test src/a.rs - a::skip (line 3): compile ... ok\n\
                      skip conformance: go is not installed\n\
                      test b ... skip conformance: go is not installed\n\
                      test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
                      test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let tally = Tally::of(output);
        assert_eq!((tally.passed, tally.failed), (17, 1));
        assert_eq!(tally.skips, ["conformance: go is not installed"]);
        assert_eq!(tally.times, [(Duration::from_millis(1500), "a".to_owned())]);
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(Tally::of(""), Tally::default());
    }
}
