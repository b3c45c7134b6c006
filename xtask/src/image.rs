//! `cargo xtask image`: container images of the product, as archives that `docker load` and containerd take.
//!
//! Each has one static program and the authorities that the system trusts, and nothing else.

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
    let mut all = Vec::new();
    if which != Which::Herdsman {
        all.push(write("cluster-agent", &dist::build()?, "herdsman-agent", &["tunnel"])?);
    }
    if which != Which::ClusterAgent {
        all.push(write("herdsman", &dist::build_product()?, "herdsman", &[])?);
    }
    Ok(all)
}

/// `herdsman/<name>:v<version>` in `target/dist/<name>.tar`.
fn write(name: &str, from: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let archive = dist::directory()?.join(format!("{name}.tar"));
    let path = format!("/{program}");
    let entrypoint: Vec<&str> = std::iter::once(path.as_str()).chain(arguments.iter().copied()).collect();
    let mut files = vec![Entry { path: program, from, mode: 0o755 }];
    let authorities = Path::new(AUTHORITIES);
    if authorities.is_file() {
        files.push(Entry { path: AUTHORITIES.trim_start_matches('/'), from: authorities, mode: 0o644 });
    }
    let tag = format!("herdsman/{name}:v{VERSION}");
    Image { name: &tag, entrypoint: &entrypoint, files: &files }.write(&archive)?;
    Ok(archive)
}
