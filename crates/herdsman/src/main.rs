//! The `herdsman` command.

mod admin;
mod admission;
mod apiserver;
mod assembly;
mod audit;
mod authority;
mod backup;
mod beside;
mod certificates;
mod cli;
mod converter;
mod crds;
mod data_dir;
mod embedded;
mod explain;
mod leases;
mod log;
mod moving;
mod plan;
mod product;
mod quickstart;
#[cfg(test)]
mod reference;
mod rotate;
mod server;
mod serving;
mod simulate;
mod simulated;
mod up;
mod verbs;
mod webhooks;
mod work;

use clap::Parser;

fn main() -> std::process::ExitCode {
    cli::Cli::parse().run()
}
