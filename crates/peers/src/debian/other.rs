//! apt for another release of Debian than the machine's: lists, cache and state of its own, in one directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Error;
use crate::command;

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
        let source = format!("deb [signed-by={KEYRING}] {} {release} main\n", mirror(package)?);
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
        command.args(["-o", "Dir::Etc::sourceparts=-"]);
        command
    }
}

/// Where the machine's own Debian comes from.
fn mirror(package: &str) -> Result<String, Error> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)", "Created-By: Packages"]);
    let listed =
        command::run(&mut targets).map_err(|source| Error::Tool { package: package.to_owned(), source })?;
    of_release(&listed, &super::release()).ok_or_else(|| Error::NoLists { package: package.to_owned() })
}

fn of_release(targets: &str, release: &str) -> Option<String> {
    let wanted = format!("Debian {release} ");
    targets.lines().find_map(|line| line.strip_prefix(&wanted)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_that_of_the_release_itself() {
        let targets =
            "Other bookworm a://b/\nDebian bookworm-security a://c/\nDebian bookworm a://d/debian/\n";
        assert_eq!(of_release(targets, "bookworm"), Some("a://d/debian/".into()));
        assert_eq!(of_release(targets, "trixie"), None);
    }
}
