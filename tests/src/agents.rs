//! The node agent as it is given out.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

/// The static agent: `HERDSMAN_AGENT_BIN`, else what `cargo xtask dist` builds now.
pub fn static_agent() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("HERDSMAN_AGENT_BIN") {
        return Ok(given.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut dist = Command::new(cargo);
    dist.args(["run", "--quiet", "--package", "xtask", "--", "dist"]);
    dist.current_dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")));
    let said = peers::command::run(&mut dist)?;
    let line = said.lines().find_map(|line| line.strip_prefix("dist ")).context("dist names no agent")?;
    let (path, _) = line.rsplit_once(" (").context("dist names no size")?;
    Ok(path.into())
}
