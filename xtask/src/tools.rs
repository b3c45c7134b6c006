//! Cargo tools of exact versions, installed once beside the peers.

use std::path::{Path, PathBuf};

use peers::cache::{Cache, Key};

use crate::peers::took;
use crate::run::{cargo, succeed};

/// A cargo tool, installed by version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
}

/// Checks licences, sources, duplicates and advisories of dependencies.
pub(crate) const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
/// Finds dependencies that nothing uses.
pub(crate) const CARGO_MACHETE: Tool = Tool { name: "cargo-machete", version: "0.9.2" };
/// Builds programs that a fuzzer drives.
pub(crate) const CARGO_FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2" };

impl Tool {
    /// Its program, installed if it is not there.
    pub(crate) fn provide(self) -> anyhow::Result<PathBuf> {
        let cache = Cache::from_env()?.inside("tools");
        let entry = cache.provide(&self.key(), |into| self.install(into))?;
        println!("tool {} {} ({})", self.name, self.version, took(entry.took));
        Ok(entry.path.join("bin").join(self.name))
    }

    /// Builds of another sort have another name.
    fn key(self) -> Key {
        Key::new(self.name, format!("{}-debug", self.version))
    }

    fn install(self, into: &Path) -> anyhow::Result<()> {
        let mut install = cargo();
        // Not optimised: that takes four times as long to build, and each runs for seconds.
        install.args(["install", "--locked", "--quiet", "--debug", "--version", self.version, "--root"]);
        succeed(install.arg(into).arg(self.name))
    }
}
