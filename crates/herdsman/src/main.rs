//! The `herdsman` command.

mod admission;
mod apiserver;
mod audit;
mod backup;
mod beside;
mod cli;
mod converter;
mod crds;
mod data_dir;
mod embedded;
mod log;
#[cfg(test)]
mod reference;
mod rotate;
mod server;
mod verbs;
mod webhooks;

use clap::Parser;

fn main() -> std::process::ExitCode {
    cli::Cli::parse().run()
}
