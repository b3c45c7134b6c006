//! The `herdsman` command.

mod apiserver;
mod audit;
mod backup;
mod cli;
mod converter;
mod crds;
mod log;
mod rotate;

use clap::Parser;

fn main() -> std::process::ExitCode {
    cli::Cli::parse().run()
}
