//! Which kubectls this machine has.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use peers::Peer;

/// Older ones are not looked for.
const OLDEST: u32 = 29;

/// A kubectl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubectl {
    /// 1.NN.
    pub minor: u32,
    /// The program.
    pub program: PathBuf,
}

/// The one of a stable Debian, whose answers are recorded.
pub fn recorded() -> Result<Kubectl> {
    provided(Peer::Kubectl, "usr/bin/kubectl")
}

/// The oldest that this machine has, that of a stable Debian, the real Kubernetes' own, and the newest of Debian; oldest first.
pub fn chosen() -> Result<Vec<Kubectl>> {
    let mut chosen = ours()?;
    chosen.extend(found()?.into_iter().next());
    Ok(sorted(chosen))
}

/// All of them: also those that lie beside the kubectl on the path as `kubectl.1.NN`; oldest first.
pub fn found() -> Result<Vec<Kubectl>> {
    let mut found = ours()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    for directory in std::env::split_paths(&path) {
        let Ok(program) = directory.join("kubectl").canonicalize() else { continue };
        found.extend(program.parent().map(beside).unwrap_or_default());
    }
    Ok(sorted(found))
}

/// Those that come with the peers.
fn ours() -> Result<Vec<Kubectl>> {
    Ok(vec![
        recorded()?,
        provided(Peer::Kubernetes, "kubectl")?,
        provided(Peer::NewestKubectl, "usr/bin/kubectl")?,
    ])
}

/// One of each minor version.
fn sorted(mut all: Vec<Kubectl>) -> Vec<Kubectl> {
    all.sort_by_key(|kubectl| kubectl.minor);
    all.dedup_by_key(|kubectl| kubectl.minor);
    all
}

fn provided(peer: Peer, program: &str) -> Result<Kubectl> {
    let provided = peer.provide()?;
    let minor = provided.version.split('.').nth(1).and_then(|minor| minor.parse().ok());
    Ok(Kubectl { minor: minor.context("no version")?, program: provided.path.join(program) })
}

fn beside(directory: &Path) -> Vec<Kubectl> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let minor =
        |name: &str| name.strip_prefix("kubectl.1.")?.parse::<u32>().ok().filter(|&minor| minor >= OLDEST);
    entries
        .filter_map(|entry| {
            Some(Kubectl { minor: minor(entry.file_name().to_str()?)?, program: entry.path() })
        })
        .collect()
}
