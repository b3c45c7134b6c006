//! The `herdsman` command.

mod cli;
mod crds;

use clap::Parser;

fn main() -> std::process::ExitCode {
    cli::Cli::parse().run()
}
