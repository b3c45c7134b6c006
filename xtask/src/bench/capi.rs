//! What clusters and machines cost the Cluster API controllers: time, memory, writes.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::Effort;
use super::figure::{Bar, Figure};
use crate::run::{listen, program, release};

/// Measurements by name.
type Measured = BTreeMap<String, f64>;

/// Machines that a rollout at the small end replaces in all, so that one tick of the clock does not decide.
const SMALL_TOTAL: usize = 200;

pub(crate) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let built = release()?;
    let herd = |arguments: &[&str]| measure(program(built.join("examples/herd")).args(arguments));
    let (clusters, large) = if effort == Effort::Quick { (100, 200) } else { (1000, 1000) };
    let small = 10;
    let fleet = herd(&["fleet", &clusters.to_string()])?;
    let few = herd(&["rollout", &small.to_string(), &(SMALL_TOTAL / small).to_string()])?;
    let many = herd(&["rollout", &large.to_string(), "1"])?;
    figures(clusters, &fleet, &few, &many)
}

fn measure(command: &mut Command) -> anyhow::Result<Measured> {
    let transcript = listen(command)?;
    ensure!(transcript.success, "the measurement failed");
    transcript.lines.iter().filter_map(|line| line.strip_prefix("measured ")).map(measurement).collect()
}

/// `<name> <value> <unit>`.
fn measurement(line: &str) -> anyhow::Result<(String, f64)> {
    let mut words = line.split(' ');
    let (name, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    Ok((name.to_owned(), value.parse().with_context(|| line.to_owned())?))
}

fn figures(clusters: u32, fleet: &Measured, few: &Measured, many: &Measured) -> anyhow::Result<Vec<Figure>> {
    let get = |from: &Measured, name: &str| {
        from.get(name).copied().with_context(|| format!("{name} was not measured"))
    };
    let figure = |name: &str, value, unit, most| Figure {
        name: format!("capi_{name}"),
        value,
        unit,
        bar: Bar::AtMost(most),
    };
    let each = f64::from(clusters);
    Ok(vec![
        figure("fleet_running_each", get(fleet, "running")? * 1000.0 / each, "ms/cluster", 600.0),
        figure("fleet_memory_each", get(fleet, "memory")? * 1024.0 / each, "KiB/cluster", 900.0),
        // One machine from its set's scale-up until it runs, beside the three objects that are made: all that we write, to its
        // cluster's node as well.
        figure("machine_alone_writes", get(few, "writes_alone")?, "writes", 4.0),
        // Nine more, and a great many, until all is told of them: what their owners tell included.
        figure("machine_writes", get(few, "writes_up_each")?, "writes", 4.0),
        figure("machine_writes_in_a_large_cluster", get(many, "writes_up_each")?, "writes", 4.0),
        figure("machine_cost_growth", get(many, "processor_each")? / get(few, "processor_each")?, "x", 1.3),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_becomes_figures() {
        assert_eq!(measurement("memory 4.25 MB").unwrap(), ("memory".to_owned(), 4.25));
        assert!(measurement("memory much").is_err());
        let measured = |value: f64| -> Measured {
            ["running", "memory", "writes_alone", "writes_up_each", "processor_each"]
                .map(|name| (name.to_owned(), value))
                .into()
        };
        let all = figures(10, &measured(2.0), &measured(2.0), &measured(3.0)).unwrap();
        let line = |name: &str| all.iter().find(|figure| figure.name == name).unwrap().to_string();
        assert!(line("capi_fleet_running_each").ends_with("value=200 ms/cluster bar=<=600 ok"));
        assert!(line("capi_machine_cost_growth").ends_with("value=1.5 x bar=<=1.3 short"));
        assert!(figures(10, &Measured::new(), &measured(1.0), &measured(1.0)).is_err());
    }
}
