//! Good clients beside bad ones: what a flood, a client that does not read and huge bodies cost everybody else.

use anyhow::{Context, bail};

use super::Effort;
use super::figure::{Bar, Figure};
use crate::run::{listen, measured_programs, program};

/// How much slower the slowest requests of the good clients may become.
const MOST: f64 = 2.0;

/// `effort` says how long each phase lasts.
pub(crate) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let built = measured_programs()?;
    let mut load = program(built.join("examples/load"));
    let seconds = if effort == Effort::Quick { "5" } else { "10" };
    let transcript = listen(load.arg(built.join("herdsman")).arg(seconds))?;
    if !transcript.success {
        bail!("the load test failed");
    }
    let value = ratio(&transcript.lines).context("the load test gives no ratio")?;
    Ok(vec![Figure { name: "load_p99_ratio".into(), value, unit: "x", bar: Bar::AtMost(MOST) }])
}

fn ratio(lines: &[String]) -> Option<f64> {
    lines.iter().find_map(|line| line.strip_prefix("ratio "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_found_among_other_lines() {
        let lines = ["alone requests=3 p50=1 p99=2 ms", "ratio 1.250"].map(String::from);
        assert_eq!(ratio(&lines), Some(1.25));
        assert_eq!(ratio(&lines[..1]), None);
    }
}
