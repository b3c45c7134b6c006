//! What a fleet costs the whole product: until it is ready, and at rest.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};

use super::Effort;
use super::figure::{Bar, Figure};
use crate::run::{listen, program, release};

/// Measurements by name.
type Measured = BTreeMap<String, f64>;

/// Says how many clusters there are, for more or fewer than usual.
const CLUSTERS: &str = "HERDSMAN_BENCH_CLUSTERS";
/// Machines of each cluster.
const MACHINES: u32 = 10;

/// Clusters of simulated machines, from nothing until all are ready; machines are in the process.
pub(crate) fn converge(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let clusters = clusters(effort, 50, 200)?;
    let measured = measure("converge", clusters)?;
    let machines = f64::from(clusters * MACHINES);
    let get = |name: &str| measured.get(name).copied().with_context(|| format!("{name} was not measured"));
    let figure = |name: &str, value, unit, most| Figure {
        name: format!("fleet_{name}"),
        value,
        unit,
        bar: Bar::AtMost(most),
    };
    Ok(vec![
        figure("ready_each", get("wall")? * 1000.0 / machines, "ms/machine", 250.0),
        figure("processor_each", get("processor")? * 1000.0 / machines, "ms/machine", 250.0),
        figure("memory_each", get("memory")? / machines, "MB/machine", 1.0),
        figure("writes_each", get("writes")?, "writes/machine", 60.0),
    ])
}

/// The server at rest, machines in a process of their own.
pub(crate) fn idle(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let measured = measure("idle", clusters(effort, 20, 100)?)?;
    let get = |name: &str| measured.get(name).copied().with_context(|| format!("{name} was not measured"));
    let figure = |name: &str, value, unit, most| Figure {
        name: format!("idle_{name}"),
        value,
        unit,
        bar: Bar::AtMost(most),
    };
    Ok(vec![
        figure("processor", get("processor")?, "%-of-a-core", 2.0),
        figure("memory", get("memory")?, "MB", 200.0),
    ])
}

fn clusters(effort: Effort, quick: u32, whole: u32) -> anyhow::Result<u32> {
    match std::env::var(CLUSTERS) {
        Ok(number) => number.parse().with_context(|| format!("{CLUSTERS}={number:?} is no number")),
        Err(_) => Ok(if effort == Effort::Quick { quick } else { whole }),
    }
}

fn measure(what: &str, clusters: u32) -> anyhow::Result<Measured> {
    let built = release()?;
    let mut fleet = program(built.join("examples/fleet"));
    let numbers = [clusters.to_string(), MACHINES.to_string()];
    let transcript = listen(fleet.arg(what).arg(built.join("herdsman")).args(numbers))?;
    ensure!(transcript.success, "the measurement failed");
    Ok(transcript.lines.iter().filter_map(|line| measurement(line)).collect())
}

/// `measured <name> <value> <unit>`.
fn measurement(line: &str) -> Option<(String, f64)> {
    let mut words = line.strip_prefix("measured ")?.split(' ');
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_read_off_the_lines() {
        assert_eq!(measurement("measured memory 4.25 MB"), Some(("memory".to_owned(), 4.25)));
        assert_eq!(measurement("writes secrets 3.1 per machine"), None);
    }
}
