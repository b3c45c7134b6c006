//! How long the planner takes to decide, in large clusters.

use anyhow::{Context, ensure};

use super::Effort;
use super::figure::{Bar, Figure};
use crate::run::{listen, measured_programs, program};

/// A measurement, its unit, and what it may be at most.
const BARS: [(&str, &str, f64); 3] = [
    // From the bytes of 1,000 plan Secrets to a decision.
    ("cold_1000", "ms", 150.0),
    // The next decision after one of them changed.
    ("warm_1000", "ms", 5.0),
    // What a machine costs at 1,000 against at 10.
    ("growth", "x", 1.3),
];

/// It takes a second, whatever the effort.
pub(crate) fn run(_: Effort) -> anyhow::Result<Vec<Figure>> {
    let built = measured_programs()?;
    let transcript = listen(&mut program(built.join("examples/decisions")))?;
    ensure!(transcript.success, "the measurement failed");
    BARS.iter().map(|bar| figure(bar, &transcript.lines)).collect()
}

fn figure((name, unit, most): &(&str, &'static str, f64), lines: &[String]) -> anyhow::Result<Figure> {
    let found =
        lines.iter().find_map(|line| line.strip_prefix("measured ")?.strip_prefix(name)?.trim().parse().ok());
    let value = found.with_context(|| format!("no measurement of {name}"))?;
    Ok(Figure { name: format!("planner_{name}"), value, unit, bar: Bar::AtMost(*most) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_off_the_lines() {
        let lines = ["measured cold_1000 99.500", "measured growth 1.4"].map(String::from);
        assert_eq!(
            figure(&BARS[0], &lines).unwrap().to_string(),
            "figure planner_cold_1000 value=99.5 ms bar=<=150 ok"
        );
        assert_eq!(
            figure(&BARS[2], &lines).unwrap().to_string(),
            "figure planner_growth value=1.4 x bar=<=1.3 short"
        );
        assert!(figure(&BARS[1], &lines).is_err());
    }
}
