//! `herdsman completion`: what a shell needs to complete our words.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::output;

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::cli::Cli::command(), "herdsman", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
