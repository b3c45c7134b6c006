//! Go modules as peers: a pinned `go.mod` of ours names the module, Go's own tools fetch and build it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Recipe;
use crate::command;

/// Why a Go module is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the pin is missing.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The pin names no module.
    #[error("{}: no direct `require` line", .0.display())]
    NoRequire(PathBuf),
    /// Go failed.
    #[error(transparent)]
    Command(#[from] command::Error),
    /// Go's answer is not understood.
    #[error("`go mod download` names no directory for {0}")]
    NoDirectory(String),
}

/// A directory with a `go.mod` that pins one module.
#[derive(Clone, Debug)]
pub struct Pin {
    directory: PathBuf,
    go_mod: String,
    go_sum: String,
    /// Our own programs in that directory, all together.
    sources: String,
    /// The module's import path.
    pub module: String,
    /// Its version, as Go writes it: `v1.2.3`.
    pub version: String,
}

impl Pin {
    /// Reads the pin in this directory.
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let read = |name: &str| {
            let path = directory.join(name);
            std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
        };
        let (go_mod, go_sum) = (read("go.mod")?, read("go.sum")?);
        let (module, version) =
            first_require(&go_mod).ok_or_else(|| Error::NoRequire(directory.join("go.mod")))?;
        let sources = sources(directory).map_err(|source| Error::Read { path: directory.into(), source })?;
        Ok(Pin { directory: directory.to_owned(), module, version, go_mod, go_sum, sources })
    }

    /// The version without its `v`.
    pub fn plain_version(&self) -> &str {
        self.version.trim_start_matches('v')
    }

    /// Everything that decides what [`Pin::build`] makes.
    pub fn recipe(&self, build: &Build) -> Result<Recipe, Error> {
        Ok(build.recipe(&self.go_mod, &self.go_sum, &self.toolchain()?).part("sources", &self.sources))
    }

    /// What decides what is made of the module's own source.
    pub fn source_recipe(&self) -> Result<Recipe, Error> {
        Ok(Recipe::new()
            .part("go.mod", &self.go_mod)
            .part("go.sum", &self.go_sum)
            .part("go", self.toolchain()?))
    }

    /// Builds commands of the module, static and stripped, into a directory.
    pub fn build(&self, build: &Build, into: &Path) -> Result<(), Error> {
        let mut go = self.go();
        go.env("CGO_ENABLED", "0").arg("build").args(build.flags()).arg("-o");
        // Go takes an output path for a directory if it ends so.
        go.arg(into.join("")).args(&build.packages);
        command::run_with_retries(&mut go)?;
        Ok(())
    }

    /// The directory with the module's files, fetched if need be. Shared with all of Go and read-only.
    pub fn download(&self) -> Result<PathBuf, Error> {
        self.locate(self.go())
    }

    /// The same directory, if it is on this machine already.
    pub fn downloaded(&self) -> Option<PathBuf> {
        let mut offline = self.go();
        offline.env("GOPROXY", "off");
        self.locate(offline).ok()
    }

    fn locate(&self, mut go: Command) -> Result<PathBuf, Error> {
        let answer = command::run_with_retries(go.args(["mod", "download", "-json", &self.module]))?;
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
        let directory = answer["Dir"].as_str().ok_or_else(|| Error::NoDirectory(self.module.clone()))?;
        Ok(directory.into())
    }

    fn toolchain(&self) -> Result<String, Error> {
        Ok(command::run(self.go().args(["env", "GOVERSION", "GOOS", "GOARCH"]))?)
    }

    fn go(&self) -> Command {
        let mut go = Command::new("go");
        // The user's own settings for Go projects are not meant for ours.
        go.current_dir(&self.directory).env("GOWORK", "off").env("GOFLAGS", "-mod=readonly");
        go
    }
}

/// What is built from a module, and how.
#[derive(Clone, Debug)]
pub struct Build {
    /// Import paths of main packages.
    pub packages: Vec<String>,
    /// Strings set at link time: variable and value.
    pub variables: Vec<(String, String)>,
}

impl Build {
    fn flags(&self) -> Vec<String> {
        let variables = self.variables.iter().map(|(variable, value)| format!(" -X {variable}={value}"));
        let link = format!("-s -w{}", variables.collect::<String>());
        vec!["-trimpath".into(), "-buildvcs=false".into(), format!("-ldflags={link}")]
    }

    fn recipe(&self, go_mod: &str, go_sum: &str, toolchain: &str) -> Recipe {
        let described = self.flags().into_iter().chain(self.packages.iter().cloned());
        let recipe = Recipe::new().part("go.mod", go_mod).part("go.sum", go_sum).part("go", toolchain);
        described.fold(recipe, |recipe, word| recipe.part("build", word))
    }
}

/// Every Go file below a directory, in a fixed order.
fn sources(directory: &Path) -> io::Result<String> {
    let mut entries: Vec<PathBuf> =
        directory.read_dir()?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    let mut all = String::new();
    for path in entries {
        if path.is_dir() {
            all += &sources(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "go") {
            all += &std::fs::read_to_string(&path)?;
        }
    }
    Ok(all)
}

/// The module and version of the first `require` that is not `// indirect`.
fn first_require(go_mod: &str) -> Option<(String, String)> {
    let mut inside = false;
    for line in go_mod.lines().map(str::trim).filter(|line| !line.ends_with("// indirect")) {
        let entry = match line.strip_prefix("require ").map(str::trim) {
            Some("(") => {
                inside = true;
                continue;
            }
            Some(single) => single,
            None if line == ")" => {
                inside = false;
                continue;
            }
            None if inside => line,
            None => continue,
        };
        let mut words = entry.split_whitespace();
        if let (Some(module), Some(version)) = (words.next(), words.next()) {
            return Some((module.into(), version.into()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direct_requirement_is_found() {
        let single = "module x\n\ngo 1.24.0\n\nrequire a.io/b v1.2.3\n";
        assert_eq!(first_require(single), Some(("a.io/b".into(), "v1.2.3".into())));
        let block = "module x\nrequire (\n\tz.io/y v0.1.0 // indirect\n\ta.io/b v1.2.3\n)\n";
        assert_eq!(first_require(block), Some(("a.io/b".into(), "v1.2.3".into())));
        assert_eq!(first_require("module x\nreplace (\n\ta.io/b => a.io/c v1.0.0\n)\n"), None);
    }

    #[test]
    fn a_build_is_another_one_when_anything_changes() {
        let build = |package: &str, value: &str| Build {
            packages: vec![package.into()],
            variables: vec![("main.version".into(), value.into())],
        };
        let digest = |build: &Build, go_mod: &str, go: &str| build.recipe(go_mod, "sum", go).digest();
        let base = digest(&build("a", "1"), "mod", "go1");
        assert_eq!(base, digest(&build("a", "1"), "mod", "go1"));
        assert_ne!(base, digest(&build("b", "1"), "mod", "go1"));
        assert_ne!(base, digest(&build("a", "2"), "mod", "go1"));
        assert_ne!(base, digest(&build("a", "1"), "mod2", "go1"));
        assert_ne!(base, digest(&build("a", "1"), "mod", "go2"));
    }

    #[test]
    fn link_variables_are_passed() {
        let build = Build {
            packages: vec![],
            variables: vec![("p.v".into(), "1".into()), ("p.w".into(), "2".into())],
        };
        assert!(build.flags().contains(&"-ldflags=-s -w -X p.v=1 -X p.w=2".to_owned()));
    }
}
