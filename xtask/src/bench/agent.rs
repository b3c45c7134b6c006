//! The node agent: how large it is, what it takes, how fast it is, beside a bare watcher; and a thousand of them.

use super::Effort;
use super::figure::{Bar, Figure};
use super::measured::{Measured, measure, value};
use crate::dist::{self, megabytes};
use crate::run::{DIST, cargo, program, succeed, target};

pub(crate) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let agent = dist::build()?;
    // One after the other: together they would not be built with the features that each has alone.
    for arguments in [
        &["--package", "herdsman", "--bin", "herdsman"][..],
        &["--package", "suites", "--bin", "agent-load"],
        &["--package", "agent", "--example", "watcher", "--example", "agents"],
    ] {
        succeed(cargo().args(["build", "--profile", DIST, "--quiet"]).args(arguments))?;
    }
    let release = target().join(DIST);
    let mut load = program(release.join("agent-load"));
    load.env("HERDSMAN_BIN", release.join("herdsman")).arg(&agent).arg(release.join("examples/watcher"));
    if effort == Effort::Quick {
        load.arg("--quick");
    }
    let mut measured = measure(&mut load)?;
    let agents = if effort == Effort::Quick { "100" } else { "1000" };
    measured.extend(measure(program(release.join("examples/agents")).arg(agents))?);
    measured.insert("binary".into(), megabytes(std::fs::metadata(&agent)?.len()));
    figures(&measured)
}

fn figures(measured: &Measured) -> anyhow::Result<Vec<Figure>> {
    let get = |name: &str| value(measured, name);
    let ratio = |of: &str, to: &str| -> anyhow::Result<f64> { Ok(get(of)? / get(to)?) };
    let figure = |name: &str, value, unit, most| Figure {
        name: format!("agent_{name}"),
        value,
        unit,
        bar: Bar::AtMost(most),
    };
    Ok(vec![
        figure("binary", get("binary")?, "MB", 8.0),
        figure("rss", get("rss")?, "MB", 10.0),
        figure("rss_to_watcher", ratio("rss", "watcher_rss")?, "x", 1.0),
        figure("first_instruction_median", get("first_instruction_median")?, "ms", 50.0),
        figure("first_instruction_p99", get("first_instruction_p99")?, "ms", 200.0),
        figure(
            "first_instruction_to_watcher_event",
            ratio("first_instruction_median", "watcher_event_median")?,
            "x",
            10.0,
        ),
        figure("fleet_applied", get("fleet_applied")?, "s", 30.0),
        figure("fleet_memory", get("fleet_memory")?, "KiB/agent", 500.0),
        figure("fleet_writes_per_hour", get("fleet_writes")?, "writes", 0.0),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_becomes_figures() {
        let names = ["binary", "rss", "watcher_rss", "first_instruction_median", "first_instruction_p99"];
        let fleet = ["watcher_event_median", "fleet_applied", "fleet_memory", "fleet_writes"];
        let mut measured: Measured =
            names.into_iter().chain(fleet).map(|name| (name.to_owned(), 2.0)).collect();
        let all = figures(&measured).unwrap();
        let line = |name: &str| all.iter().find(|figure| figure.name == name).unwrap().to_string();
        assert!(
            line("agent_rss_to_watcher").ends_with("value=1 x bar=<=1 ok"),
            "{}",
            line("agent_rss_to_watcher")
        );
        assert!(line("agent_fleet_writes_per_hour").ends_with("short"));
        measured.remove("binary");
        assert!(figures(&measured).is_err());
    }
}
