//! `cargo xtask bench`: measurements with a bar that they must clear.

mod agent;
mod apiserver;
mod capi;
mod figure;
mod fleet;
mod kubernetes;
mod load;
mod measured;
mod planner;
mod provisioning;
mod start;
mod tunnel;

use anyhow::bail;

use figure::Figure;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this benchmark.
    name: Option<String>,
    /// Fewer rounds, where a benchmark has rounds.
    #[arg(long)]
    quick: bool,
}

/// How often things are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    Quick,
    Whole,
}

/// Something that can be measured.
struct Benchmark {
    name: &'static str,
    run: fn(Effort) -> anyhow::Result<Vec<Figure>>,
}

/// Every benchmark there is.
const BENCHMARKS: [Benchmark; 11] = [
    Benchmark { name: "peer-kubernetes", run: kubernetes::run },
    Benchmark { name: "apiserver", run: apiserver::run },
    Benchmark { name: "agent", run: agent::run },
    Benchmark { name: "load", run: load::run },
    Benchmark { name: "tunnel", run: tunnel::run },
    Benchmark { name: "planner", run: planner::run },
    Benchmark { name: "capi", run: capi::run },
    Benchmark { name: "provisioning", run: provisioning::run },
    Benchmark { name: "start", run: start::run },
    Benchmark { name: "fleet", run: fleet::converge },
    Benchmark { name: "idle", run: fleet::idle },
];

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let effort = if arguments.quick { Effort::Quick } else { Effort::Whole };
    let mut short = 0;
    for benchmark in select(&BENCHMARKS, arguments.name.as_deref())? {
        for figure in (benchmark.run)(effort)? {
            println!("{figure}");
            short += u32::from(!figure.is_ok());
        }
    }
    if short > 0 {
        bail!("{short} figures are short of their bar");
    }
    Ok(())
}

fn select<'a>(all: &'a [Benchmark], name: Option<&str>) -> anyhow::Result<Vec<&'a Benchmark>> {
    let chosen: Vec<_> =
        all.iter().filter(|benchmark| name.is_none_or(|name| name == benchmark.name)).collect();
    if let (Some(name), true) = (name, chosen.is_empty()) {
        let names: Vec<_> = all.iter().map(|benchmark| benchmark.name).collect();
        bail!("no benchmark {name:?}; there are: {}", names.join(", "));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_chosen_by_name() {
        let none = |_| Ok(Vec::new());
        let all = [Benchmark { name: "a", run: none }, Benchmark { name: "b", run: none }];
        let names =
            |name| -> Vec<_> { select(&all, name).unwrap().iter().map(|benchmark| benchmark.name).collect() };
        assert_eq!(names(None), ["a", "b"]);
        assert_eq!(names(Some("b")), ["b"]);
        let error = select(&all, Some("c")).map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, "no benchmark \"c\"; there are: a, b");
    }
}
