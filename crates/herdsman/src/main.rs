//! The `herdsman` command.

mod admission;
mod apiserver;
mod audit;
mod backup;
mod beside;
mod cli;
mod converter;
mod crds;
mod explain;
mod log;
mod plan;
mod rotate;
mod server;
mod webhooks;

use clap::Parser;

fn main() -> std::process::ExitCode {
    cli::Cli::parse().run()
}
