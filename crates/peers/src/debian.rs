//! Debian packages as peers: downloaded and unpacked beside the system. Only what cannot run so is installed.

mod other;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Recipe;
use crate::command::{self, find_program};

/// Why a package could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This is no Debian, or one without its tools.
    #[error("package {package} cannot be had: {source}")]
    Tool {
        /// The package.
        package: String,
        /// What failed.
        source: command::Error,
    },
    /// The package lists are empty and only root may fetch them.
    #[error("package {package} is not in apt's lists; run `apt-get update` as root")]
    NoLists {
        /// The package.
        package: String,
    },
    /// `apt-get download` succeeded without leaving a package.
    #[error("apt-get left no {package}_*.deb in {}", directory.display())]
    NotDownloaded {
        /// The package.
        package: String,
        /// Where it should be.
        directory: PathBuf,
    },
    /// The file system refuses.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// On which path.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

/// Where an unpacked package notes its version.
const VERSION_FILE: &str = ".debian-version";
/// How often apt tries what the network failed.
const RETRIES: [&str; 2] = ["--option", "Acquire::Retries=3"];
/// If apt does not know this, it knows nothing.
const ON_EVERY_DEBIAN: &str = "hostname";

/// What decides which package a machine gets: the release that it comes from and the architecture.
pub fn recipe(package: &str, release: &str) -> Recipe {
    Recipe::new()
        .part("package", package)
        .part("release", release)
        .part("architecture", std::env::consts::ARCH)
}

/// The machine's Debian release, such as `bookworm`.
pub fn release() -> String {
    codename(&std::fs::read_to_string("/etc/os-release").unwrap_or_default()).to_owned()
}

/// Where this machine gets its own packages from, if it says so.
pub(crate) fn mirror() -> Option<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)", "Created-By: Packages"]);
    mirror_in(&command::run(&mut targets).ok()?, &release())
}

fn mirror_in(targets: &str, release: &str) -> Option<String> {
    let wanted = format!("Debian {release} ");
    targets.lines().find_map(|line| line.strip_prefix(&wanted)).map(str::to_owned)
}

/// Installs the packages of those programs that are not on this machine: `(program, package)`. Only for programs that
/// cannot run from where they are unpacked.
pub fn install(programs: &[(&str, &str)]) -> Result<(), Error> {
    for (_, package) in programs.iter().filter(|(program, _)| find_program(program).is_none()) {
        look_up(package)?;
        let mut install = Command::new("apt-get");
        install.env("DEBIAN_FRONTEND", "noninteractive");
        // Somebody else may be installing.
        install.args(RETRIES).args(["--option", "DPkg::Lock::Timeout=300", "install", "--yes"]);
        let installed = command::run(install.args(["--no-install-recommends", package]));
        installed.map_err(|source| Error::Tool { package: (*package).to_owned(), source })?;
    }
    Ok(())
}

/// Makes sure that apt's lists have a package.
fn look_up(package: &str) -> Result<(), Error> {
    let tool = |source| Error::Tool { package: package.to_owned(), source };
    if !known(package).map_err(tool)? {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NoLists { package: package.to_owned() });
        }
        command::run(Command::new("apt-get").args(RETRIES).arg("update")).map_err(tool)?;
    }
    Ok(())
}

/// Downloads a package and unpacks it into a directory.
pub fn fetch(package: &str, into: &Path) -> Result<(), Error> {
    let tool = |source| Error::Tool { package: package.to_owned(), source };
    look_up(package)?;
    let mut download = Command::new("apt-get");
    command::run(download.args(RETRIES).args(["download", package]).current_dir(into)).map_err(tool)?;
    unpack(package, into)
}

/// The same from another release of Debian, whose lists are fetched for this one package and then removed.
pub fn fetch_from(release: &str, package: &str, into: &Path) -> Result<(), Error> {
    let tool = |source| Error::Tool { package: package.to_owned(), source };
    look_up(ON_EVERY_DEBIAN)?;
    let apt = other::Apt::of(release, package, &into.join(".apt"))?;
    command::run(apt.get().arg("update")).map_err(tool)?;
    command::run(apt.get().args(["download", package]).current_dir(into)).map_err(tool)?;
    std::fs::remove_dir_all(&apt.directory)
        .map_err(|source| Error::File { path: apt.directory.clone(), source })?;
    unpack(package, into)
}

fn unpack(package: &str, into: &Path) -> Result<(), Error> {
    let tool = |source| Error::Tool { package: package.to_owned(), source };
    let archive = downloaded(package, into)?;
    command::run(Command::new("dpkg").arg("-x").arg(&archive).arg(into)).map_err(tool)?;
    let version =
        command::run(Command::new("dpkg-deb").arg("-f").arg(&archive).arg("Version")).map_err(tool)?;
    let note = into.join(VERSION_FILE);
    std::fs::write(&note, version.trim()).map_err(|source| Error::File { path: note, source })?;
    std::fs::remove_file(&archive).map_err(|source| Error::File { path: archive, source })
}

/// The version of a package unpacked by [`fetch`].
pub fn version(directory: &Path) -> Result<String, Error> {
    let path = directory.join(VERSION_FILE);
    std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })
}

/// Whether apt's lists have the package. `apt-cache` succeeds and says nothing about an unknown one.
fn known(package: &str) -> Result<bool, command::Error> {
    let policy = command::run(Command::new("apt-cache").args(["policy", package]))?;
    Ok(policy.contains("Candidate:") && !policy.contains("Candidate: (none)"))
}

fn downloaded(package: &str, directory: &Path) -> Result<PathBuf, Error> {
    let prefix = format!("{package}_");
    let entries =
        std::fs::read_dir(directory).map_err(|source| Error::File { path: directory.to_owned(), source })?;
    let found = entries.filter_map(Result::ok).map(|entry| entry.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&prefix) && name.ends_with(".deb")
    });
    found.ok_or_else(|| Error::NotDownloaded { package: package.to_owned(), directory: directory.to_owned() })
}

fn codename(os_release: &str) -> &str {
    let value = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    value.map(|value| value.trim_matches('"')).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read() {
        assert_eq!(codename("ID=debian\nVERSION_CODENAME=bookworm\n"), "bookworm");
        assert_eq!(codename("VERSION_CODENAME=\"sid\"\n"), "sid");
        assert_eq!(codename("ID=other\n"), "unknown");
    }

    #[test]
    fn the_mirror_is_that_of_the_release_itself() {
        let targets =
            "Other bookworm a://b/\nDebian bookworm-security a://c/\nDebian bookworm a://d/debian/\n";
        assert_eq!(mirror_in(targets, "bookworm"), Some("a://d/debian/".into()));
        assert_eq!(mirror_in(targets, "trixie"), None);
    }

    #[test]
    fn recipes_differ_by_package() {
        assert_eq!(recipe("etcd-server", "sid").digest(), recipe("etcd-server", "sid").digest());
        assert_ne!(recipe("etcd-server", "sid").digest(), recipe("etcd-client", "sid").digest());
    }
}
