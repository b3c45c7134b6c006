//! What measuring programs print: lines of `measured <name> <value> <unit>`.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::run::listen;

/// Measurements by name.
pub(crate) type Measured = BTreeMap<String, f64>;

/// A measurement, or an error that names the one that is missing.
pub(crate) fn value(measured: &Measured, name: &str) -> anyhow::Result<f64> {
    measured.get(name).copied().with_context(|| format!("{name} was not measured"))
}

/// Runs a measuring program to its end and reads what it measured.
pub(crate) fn measure(command: &mut Command) -> anyhow::Result<Measured> {
    let transcript = listen(command)?;
    ensure!(transcript.success, "the measurement failed");
    let lines = transcript.lines.iter().filter_map(|line| line.strip_prefix("measured "));
    lines.map(measurement).collect()
}

/// `<name> <value> <unit>`.
fn measurement(line: &str) -> anyhow::Result<(String, f64)> {
    let mut words = line.split(' ');
    let (name, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    Ok((name.to_owned(), value.parse().with_context(|| line.to_owned())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_read_from_the_output() {
        let script = "echo measured memory 4.25 MB; echo writes secrets 3.1 per machine";
        let measured = measure(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(value(&measured, "memory").unwrap(), 4.25);
        assert_eq!(value(&measured, "writes").unwrap_err().to_string(), "writes was not measured");
        assert!(measurement("memory much").is_err());
    }
}
