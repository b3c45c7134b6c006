//! The command line.

use clap::{Parser, Subcommand};

use crate::{bench, ci, crds, dist, fleet, fuzz, image, lint, peers, test};

/// Everything a developer or CI does with this repository, beyond plain cargo.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run the tests: all that this machine can run.
    Test(test::Arguments),
    /// Run what CI runs: lint, tests, then dear suites as far as an hour goes.
    Ci(ci::Arguments),
    /// Check format, lints, documentation, dependencies and generated files.
    Lint,
    /// Get the real programs that tests run against.
    Peers(peers::Arguments),
    /// Write deploy/crds and deploy/clusterctl from the API types.
    Crds,
    /// Build what is put on machines: the agent, static, and its scripts; with --all everything that a release has.
    Dist(dist::Arguments),
    /// Build container images of the product, as archives.
    Image(image::Arguments),
    /// Build the image of machines that a real K3s runs on, and give it to Docker.
    Fleet(fleet::Arguments),
    /// Run benchmarks and print their figures.
    Bench(bench::Arguments),
    /// Give every decoder of outside bytes what a fuzzer finds.
    Fuzz(fuzz::Arguments),
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.task {
            Task::Test(arguments) => test::run(&arguments),
            Task::Ci(arguments) => ci::run(&arguments),
            Task::Lint => lint::run(),
            Task::Peers(arguments) => peers::run(&arguments),
            Task::Crds => crds::run(),
            Task::Dist(arguments) => dist::run(&arguments),
            Task::Image(arguments) => image::run(&arguments),
            Task::Fleet(arguments) => fleet::run(&arguments),
            Task::Bench(arguments) => bench::run(&arguments),
            Task::Fuzz(arguments) => fuzz::run(&arguments),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn tiers_exclude_each_other() {
        let parses = |flags: &[&str]| Cli::try_parse_from([&["xtask", "test"], flags].concat()).is_ok();
        for tier in ["--quick", "--peers", "--real", "--real=k3s", "--all"] {
            assert!(parses(&[tier]), "{tier}");
        }
        for both in [["--quick", "--real"], ["--peers", "--all"], ["--real", "--all"]] {
            assert!(!parses(&both), "{both:?}");
        }
    }
}
