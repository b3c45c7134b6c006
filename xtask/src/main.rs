//! The one task runner: `cargo xtask <task>`.

mod bench;
mod cli;
mod clusterctl;
mod crds;
mod dist;
mod fuzz;
mod lint;
mod peers;
mod report;
mod run;
mod test;
mod tools;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
