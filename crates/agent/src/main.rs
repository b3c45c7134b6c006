//! `herdsman-agent`: see [`agent::cli`].

use std::process::ExitCode;
use std::sync::Arc;

use agent::cli::Process;
use agent::registry::Registry;

fn main() -> ExitCode {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let environment: Vec<_> = std::env::vars_os().filter_map(text).collect();
    let of_images = environment.clone();
    Process {
        args: std::env::args().skip(1).collect(),
        environment,
        images: Box::new(move |config| Arc::new(Registry::new(config, &of_images))),
    }
    .main()
}
