//! `cargo xtask image`: container images of the product, as archives that `docker load` and containerd take.
//!
//! Each has one static program and the authorities that the system trusts; the product's also the agent that nodes download. Nothing else.

use std::path::{Path, PathBuf};

use peers::archive::{Entry, Image};

use crate::dist;

/// What every release is tagged with.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where Debian has the authorities that are trusted, and where programs look for them.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which
    #[arg(value_enum, default_value = "all")]
    which: Which,
}

/// Which images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    /// Both
    All,
    /// What runs in every cluster and dials back
    ClusterAgent,
    /// The product itself
    Herdsman,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    build(arguments.which)?.iter().try_for_each(|archive| dist::say("image", archive))
}

/// Builds the programs, and the images of them.
pub(crate) fn build(which: Which) -> anyhow::Result<Vec<PathBuf>> {
    let agent = dist::build()?;
    let mut all = Vec::new();
    if which != Which::Herdsman {
        let program = Entry { path: "herdsman-agent", from: &agent, mode: 0o755 };
        all.push(write("cluster-agent", &["tunnel"], vec![program])?);
    }
    if which != Which::ClusterAgent {
        let product = dist::build_product()?;
        // The server looks for what nodes download beside its own program.
        let name = agent.file_name().unwrap_or_default().to_string_lossy();
        let programs = vec![
            Entry { path: "herdsman", from: &product, mode: 0o755 },
            Entry { path: &name, from: &agent, mode: 0o755 },
        ];
        all.push(write("herdsman", &[], programs)?);
    }
    Ok(all)
}

/// `herdsman/<name>:v<version>` in `target/dist/<name>.tar`. The first file is the program that runs.
fn write(name: &str, arguments: &[&str], mut files: Vec<Entry<'_>>) -> anyhow::Result<PathBuf> {
    let archive = dist::directory()?.join(format!("{name}.tar"));
    let path = format!("/{}", files.first().map_or(name, |file| file.path));
    let entrypoint: Vec<&str> = std::iter::once(path.as_str()).chain(arguments.iter().copied()).collect();
    let authorities = Path::new(AUTHORITIES);
    if authorities.is_file() {
        files.push(Entry { path: AUTHORITIES.trim_start_matches('/'), from: authorities, mode: 0o644 });
    }
    let tag = format!("herdsman/{name}:v{VERSION}");
    Image { name: &tag, entrypoint: &entrypoint, files: &files }.write(&archive)?;
    Ok(archive)
}
