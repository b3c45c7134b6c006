//! What a fleet costs the whole product: until it is ready, and at rest.

use anyhow::Context as _;

use super::Effort;
use super::figure::{Bar, Figure};
use super::measured::{Measured, measure, value};
use crate::run::{measured_programs, program};

/// Says how many clusters there are, for more or fewer than usual.
const CLUSTERS: &str = "HERDSMAN_BENCH_CLUSTERS";
/// Machines of each cluster.
const MACHINES: u32 = 10;

/// Clusters of simulated machines, from nothing until all are ready; machines are in the process.
pub(crate) fn converge(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let clusters = clusters(effort, 50, 200)?;
    let measured = measure_fleet("converge", clusters)?;
    let machines = f64::from(clusters * MACHINES);
    let get = |name: &str| value(&measured, name);
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
    let measured = measure_fleet("idle", clusters(effort, 20, 100)?)?;
    let get = |name: &str| value(&measured, name);
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

fn measure_fleet(what: &str, clusters: u32) -> anyhow::Result<Measured> {
    let built = measured_programs()?;
    let mut fleet = program(built.join("examples/fleet"));
    let numbers = [clusters.to_string(), MACHINES.to_string()];
    measure(fleet.arg(what).arg(built.join("herdsman")).args(numbers))
}
