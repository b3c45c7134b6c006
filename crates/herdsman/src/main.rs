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
mod confined;
mod converter;
mod crds;
mod data_dir;
mod embedded;
mod explain;
mod leases;
mod log;
mod moving;
mod near;
mod open_files;
mod plan;
mod product;
mod quickstart;
#[cfg(test)]
mod reference;
mod releases;
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

/// A server of many clusters makes and forgets many small things, in many threads: the C library's allocator took two fifths of its time.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    cli::Cli::parse().run()
}
