//! What clusters and machines cost the Cluster API controllers: time, memory, writes.

use super::Effort;
use super::figure::{Bar, Figure};
use super::measured::{Measured, measure, value};
use crate::run::{measured_programs, program};

/// Machines that a rollout at the small end replaces in all, so that one tick of the clock does not decide.
const SMALL_TOTAL: usize = 200;

pub(crate) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let built = measured_programs()?;
    let herd = |arguments: &[&str]| measure(program(built.join("examples/herd")).args(arguments));
    let (clusters, large) = if effort == Effort::Quick { (100, 200) } else { (1000, 1000) };
    let small = 10;
    let fleet = herd(&["fleet", &clusters.to_string()])?;
    let few = herd(&["rollout", &small.to_string(), &(SMALL_TOTAL / small).to_string()])?;
    let many = herd(&["rollout", &large.to_string(), "1"])?;
    figures(clusters, &fleet, &few, &many)
}

fn figures(clusters: u32, fleet: &Measured, few: &Measured, many: &Measured) -> anyhow::Result<Vec<Figure>> {
    let figure = |name: &str, value, unit, most| Figure {
        name: format!("capi_{name}"),
        value,
        unit,
        bar: Bar::AtMost(most),
    };
    let each = f64::from(clusters);
    Ok(vec![
        figure("fleet_running_each", value(fleet, "running")? * 1000.0 / each, "ms/cluster", 600.0),
        figure("fleet_memory_each", value(fleet, "memory")? * 1024.0 / each, "KiB/cluster", 900.0),
        // One machine from its set's scale-up until it runs, beside the three objects that are made: all that we write, to its
        // cluster's node as well.
        figure("machine_alone_writes", value(few, "writes_alone")?, "writes", 4.0),
        // Nine more, and a great many, until all is told of them: what their owners tell included.
        figure("machine_writes", value(few, "writes_up_each")?, "writes", 4.0),
        figure("machine_writes_in_a_large_cluster", value(many, "writes_up_each")?, "writes", 4.0),
        figure(
            "machine_cost_growth",
            value(many, "processor_each")? / value(few, "processor_each")?,
            "x",
            1.3,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_becomes_figures() {
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
