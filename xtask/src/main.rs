//! The one task runner: `cargo xtask <task>`.

mod bench;
mod ci;
mod cli;
mod crds;
mod dist;
mod fleet;
mod fuzz;
mod image;
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
