//! K3s, built from the pinned module.
//!
//! The module is copied out and built as a main module, since it embeds files that its own build puts in place. The same
//! program is linked twice, each time under another version: upgrades are from one to the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::availability::{self, Unavailable};
use crate::cache::{self, Recipe};
use crate::catalog::Provided;
use crate::command::{self, find_program};
use crate::go::{self, Pin};

/// The release that the pinned commit is, and the next one as far as anybody can tell.
pub const VERSIONS: [&str; 2] = ["v1.35.0+k3s3", "v1.35.1+k3s1"];

/// As K3s builds itself, but for the libraries that it links statically.
const TAGS: &str =
    "ctrd netcgo osusergo providerless urfave_cli_no_docs sqlite_omit_load_extension apparmor seccomp";

/// Its module replaces these by modules that no registry has. Nothing of them is built.
const UNUSED_REPLACEMENTS: [&str; 4] =
    ["go.etcd.io/etcd/client/v2 ", "k8s.io/code-generator ", "k8s.io/node-api ", "k8s.io/sample-"];

/// containerd's helper, which stays with each container.
pub const SHIM: &str = "containerd-shim-runc-v2";
/// Who makes a service of the program.
pub const INSTALLER: &str = "install.sh";

/// Why there is no K3s.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The module cannot be had.
    #[error(transparent)]
    Go(#[from] go::Error),
    /// A program failed.
    #[error(transparent)]
    Command(#[from] command::Error),
    /// The file system refuses.
    #[error(transparent)]
    File(#[from] cache::Error),
}

/// Whether this machine can have it.
pub(crate) fn available() -> Result<(), Unavailable> {
    availability::available()?;
    match find_program("cc") {
        Some(_) => Ok(()),
        None => Err(Unavailable::Missing { program: "cc", purpose: "builds K3s" }),
    }
}

/// The program of a version, in what the catalog provides.
pub fn program(provided: &Provided, version: &str) -> PathBuf {
    provided.path.join(version).join("k3s")
}

/// Everything that decides what [`build`] makes.
pub(crate) fn recipe(pin: &Pin) -> Result<Recipe, go::Error> {
    let recipe = pin.source_recipe()?.part("tags", TAGS);
    Ok(VERSIONS.iter().fold(recipe, |recipe, version| recipe.part("version", version)))
}

/// Builds the program in each version and containerd's helper into a directory, with K3s's own installer.
pub(crate) fn build(pin: &Pin, into: &Path) -> Result<(), Error> {
    let source = into.join("source");
    command::run(
        Command::new("cp").args(["--recursive", "--no-preserve=mode"]).arg(pin.download()?).arg(&source),
    )?;
    prepare(&source)?;
    let go_version = command::run(Command::new("go").args(["env", "GOVERSION"]).current_dir(&source))?;
    for version in VERSIONS {
        let link = variables(version, &pin.version, go_version.trim());
        compile(&source, &link, "./cmd/server", &into.join(version).join("k3s"))?;
    }
    compile(
        &source,
        "",
        "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        &into.join(SHIM),
    )?;
    copy(&source.join(INSTALLER), &into.join(INSTALLER))?;
    fs::remove_dir_all(&source).map_err(cache::at("remove", &source))?;
    Ok(())
}

/// Puts in place what the program embeds, and takes out what cannot be fetched.
fn prepare(source: &Path) -> Result<(), Error> {
    let manifests = source.join("manifests/.");
    command::run(Command::new("cp").arg("--recursive").arg(manifests).arg(source.join("pkg/deploy/embed")))?;
    let path = source.join("go.mod");
    let text = fs::read_to_string(&path).map_err(cache::at("read", &path))?;
    fs::write(&path, without_unused(&text)).map_err(cache::at("write", &path))?;
    Ok(())
}

fn without_unused(go_mod: &str) -> String {
    let unused = |line: &&str| {
        line.contains("=>") && UNUSED_REPLACEMENTS.iter().any(|module| line.trim_start().starts_with(module))
    };
    go_mod.lines().filter(|line| !unused(line)).map(|line| format!("{line}\n")).collect()
}

/// It does not start unless it knows which Go has built it.
fn variables(version: &str, module_version: &str, go_version: &str) -> String {
    let commit = module_version.rsplit('-').next().unwrap_or_default();
    let own = [("Version", version), ("GitCommit", commit), ("UpstreamGolang", go_version)];
    let own = own.map(|(name, value)| format!(" -X github.com/k3s-io/k3s/pkg/version.{name}={value}"));
    let kubernetes = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
    own.concat() + &kubernetes.map(|package| format!(" -X {package}.gitVersion={version}")).concat()
}

fn compile(source: &Path, link: &str, package: &str, output: &Path) -> Result<(), command::Error> {
    let mut go = Command::new("go");
    go.current_dir(source).env("GOWORK", "off").env("GOFLAGS", "-mod=readonly").env("CGO_ENABLED", "1");
    go.args(["build", "-trimpath", "-buildvcs=false", "-tags", TAGS]).arg(format!("-ldflags=-s -w{link}"));
    command::run_with_retries(go.arg("-o").arg(output).arg(package))?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to).map_err(cache::at("write", to))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_has_is_taken_out() {
        let go_mod = "replace (\n\tk8s.io/api => a v1\n\tk8s.io/sample-controller => b v1\n\tgo.etcd.io/etcd/client/v2 => c v2\n\
                      \tgo.etcd.io/etcd/client/v3 => d v3\n)\nrequire k8s.io/code-generator v1\n";
        let left = "replace (\n\tk8s.io/api => a v1\n\tgo.etcd.io/etcd/client/v3 => d v3\n)\nrequire k8s.io/code-generator v1\n";
        assert_eq!(without_unused(go_mod), left);
    }

    #[test]
    fn the_program_knows_its_version_and_its_compiler() {
        let link = variables("v1.2.3+k3s1", "v1.2.4-0.20260131041455-e69d18614fbf", "go1.26.8");
        for part in ["pkg/version.Version=v1.2.3+k3s1", "GitCommit=e69d18614fbf", "UpstreamGolang=go1.26.8"] {
            assert!(link.contains(part), "{link}");
        }
        assert!(link.contains("component-base/version.gitVersion=v1.2.3+k3s1"));
    }
}
