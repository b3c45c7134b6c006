//! The node agent as it is given out.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

/// The static agent: `HERDSMAN_AGENT_BIN`, else what `cargo xtask dist` builds now.
pub fn static_agent() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("HERDSMAN_AGENT_BIN") {
        return Ok(given.into());
    }
    made_by("dist", &["dist"])
}

/// The archive of the image that runs in every cluster, as `cargo xtask image` builds it now.
pub fn cluster_agent_image() -> Result<PathBuf> {
    made_by("image", &["image", "cluster-agent"])
}

/// What a task of `cargo xtask` says that it made.
fn made_by(word: &str, task: &[&str]) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut xtask = Command::new(cargo);
    xtask.args(["run", "--quiet", "--package", "xtask", "--"]).args(task);
    xtask.current_dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")));
    let said = peers::command::run(&mut xtask)?;
    let named = said.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    let line = named.with_context(|| format!("{word} names nothing"))?;
    let (path, _) = line.rsplit_once(" (").with_context(|| format!("{word} names no size"))?;
    Ok(path.into())
}
