//! `cargo xtask test`: the tests, by what they cost.

mod execution;
mod programs;
mod suite;
mod tally;
mod tier;

use anyhow::{bail, ensure};
use peers::availability::on_ci;

use crate::peers::{Named, provide};
use crate::run::cargo;

pub(crate) use execution::{Execution, Outcome};
pub(crate) use programs::Built;
pub(crate) use suite::{Suite, all, environment, peers_of};
pub(crate) use tier::Tier;

/// How many of the slowest tests `--times` prints.
const SLOWEST: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only tests of this repository's own code: five minutes once it is built.
    #[arg(long, conflicts_with_all = ["peers", "real", "all"])]
    quick: bool,
    /// Only tests against other people's programs, built from source: Kubernetes, Rancher's agents, clusterctl, Helm.
    #[arg(long, conflicts_with_all = ["real", "all"])]
    peers: bool,
    /// Only tests on machines with systemd and with real distributions; of one suite, if it is named.
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(conflicts_with = "all")]
    real: Option<String>,
    /// Everything.
    #[arg(long)]
    all: bool,
    /// Measure every test and print the slowest.
    #[arg(long)]
    times: bool,
}

impl Arguments {
    fn tiers(&self) -> &'static [Tier] {
        match self {
            Arguments { quick: true, .. } => &[Tier::Quick],
            Arguments { peers: true, .. } => &[Tier::Peers],
            Arguments { real: Some(_), .. } => &[Tier::Real],
            Arguments { all: true, .. } => &Tier::ALL,
            _ => &[Tier::Quick, Tier::Default],
        }
    }

    fn wants(&self, suite: &Suite) -> bool {
        let named = self.real.as_deref().unwrap_or_default();
        self.tiers().contains(&suite.tier) && suite.name().contains(named)
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let built = Built::build()?;
    let (chosen, left): (Vec<Suite>, Vec<Suite>) =
        all(&built)?.into_iter().partition(|suite| arguments.wants(suite));
    ensure!(!chosen.is_empty(), "no suite has that name; there are: {}", names(&left, arguments.tiers()));
    let execution =
        Execution { environment: environment(&built), times: arguments.times, ..Execution::default() };
    let outcomes = run_all(&execution, chosen)?;
    let documented = arguments.tiers().contains(&Tier::Default).then(documentation).unwrap_or(Ok(()));
    if arguments.times {
        slowest(&outcomes);
    }
    for tier in Tier::ALL.into_iter().filter(|tier| left.iter().any(|suite| suite.tier == *tier)) {
        println!("left out: {tier}: {}", names(&left, &[tier]));
    }
    close(&outcomes)?;
    documented
}

/// Runs suites of any tiers: those without peers side by side, the others, which start servers and machines, one by one.
pub(crate) fn run_all(execution: &Execution, suites: Vec<Suite>) -> anyhow::Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for tier in Tier::ALL {
        let suites: Vec<Suite> = suites.iter().filter(|suite| suite.tier == tier).cloned().collect();
        provide(&peers_of(&suites), Named::New)?;
        let side_by_side = if tier == Tier::Quick { 2 } else { 1 };
        let execution = Execution { side_by_side, ..execution.clone() };
        outcomes.extend(execution.run(suites));
    }
    Ok(outcomes)
}

/// The examples in the documentation of crates.
pub(crate) fn documentation() -> anyhow::Result<()> {
    println!("documentation");
    let status = cargo().args(["test", "--quiet", "--workspace", "--doc"]).status()?;
    ensure!(status.success(), "an example in the documentation failed");
    Ok(())
}

/// Prints how many tests passed; fails if one failed, or was skipped where nothing may be.
pub(crate) fn close(outcomes: &[Outcome]) -> anyhow::Result<()> {
    let red: Vec<&str> =
        outcomes.iter().filter(|outcome| !outcome.green).map(|outcome| outcome.suite.name()).collect();
    let skips: Vec<&String> = outcomes.iter().flat_map(|outcome| &outcome.tally.skips).collect();
    let count = |number: fn(&Outcome) -> u32| outcomes.iter().map(number).sum::<u32>();
    println!("{} passed, {} failed", count(|one| one.tally.passed), count(|one| one.tally.failed));
    if !red.is_empty() {
        bail!("failed: {}", red.join(", "));
    }
    ensure!(skips.is_empty() || !on_ci(), "nothing may be skipped here: {skips:?}");
    Ok(())
}

fn slowest(outcomes: &[Outcome]) {
    let all = outcomes.iter().flat_map(|outcome| {
        outcome.tally.times.iter().map(move |(time, test)| (*time, outcome.suite.name(), test))
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    for (time, suite, test) in all.iter().rev().take(SLOWEST) {
        println!("{:7.1} s  {suite}: {test}", time.as_secs_f64());
    }
}

fn names(suites: &[Suite], tiers: &[Tier]) -> String {
    let names = suites.iter().filter(|suite| tiers.contains(&suite.tier)).map(Suite::name);
    names.collect::<Vec<_>>().join(", ")
}
