//! apt for another release of Debian than the machine's: lists, cache and state of its own, in one directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Error;

/// Debian's own key ring, on every Debian.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// An apt that knows one release and nothing that is installed.
pub(super) struct Apt {
    /// All that it writes is in here.
    pub(super) directory: PathBuf,
}

impl Apt {
    /// One that gets packages from where the machine gets its own.
    pub(super) fn of(release: &str, package: &str, directory: &Path) -> Result<Self, Error> {
        let apt = Self { directory: directory.to_owned() };
        for path in ["lists/partial", "cache/archives/partial"] {
            let path = directory.join(path);
            fs::create_dir_all(&path).map_err(|source| Error::File { path, source })?;
        }
        let mirror = super::mirror().ok_or_else(|| Error::NoLists { package: package.to_owned() })?;
        let source = format!("deb [signed-by={KEYRING}] {mirror} {release} main\n");
        for (name, content) in [("sources.list", source.as_str()), ("status", "")] {
            let path = directory.join(name);
            fs::write(&path, content).map_err(|source| Error::File { path, source })?;
        }
        Ok(apt)
    }

    /// `apt-get` with it.
    pub(super) fn get(&self) -> Command {
        let mut command = Command::new("apt-get");
        for (setting, name) in [
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::State::lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
        ] {
            command.arg("-o").arg(format!("{setting}={}", self.directory.join(name).display()));
        }
        command.args(["-o", "Dir::Etc::sourceparts=-"]).args(super::RETRIES);
        command
    }
}
