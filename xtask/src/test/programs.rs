//! The programs that cargo makes of the workspace's tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::tier::{Reason, reasons_below};
use crate::run::{cargo, line, root};

/// A program with tests in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The package, and for tests outside of the library the target: `apiserver`, `suites/conformance`.
    pub(crate) name: String,
    /// The package's directory: tests run there.
    pub(crate) directory: PathBuf,
    /// The program.
    pub(crate) executable: PathBuf,
}

/// Everything that one build makes.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// Programs with tests, by name.
    pub(crate) tests: Vec<Program>,
    /// The product's own programs.
    pub(crate) binaries: BTreeMap<String, PathBuf>,
}

impl Built {
    /// Builds all tests, and the programs that they run. All at once: cargo chooses features by what it builds, and asked for
    /// one after the other it would build most crates twice.
    pub(crate) fn build() -> anyhow::Result<Self> {
        let mut build = cargo();
        build.args(["test", "--workspace", "--no-run", "--lib", "--bins", "--tests"]);
        build.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
        let output = build.output().with_context(|| format!("cannot start {}", line(&build)))?;
        ensure!(output.status.success(), "the tests do not build");
        Ok(Built::read(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Cargo's messages, a JSON document a line.
    fn read(messages: &str) -> Self {
        let mut built = Built::default();
        for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let Some(executable) = message["executable"].as_str().map(PathBuf::from) else { continue };
            let target = message["target"]["name"].as_str().unwrap_or_default().to_owned();
            if message["profile"]["test"] == true {
                built.tests.push(program(&message, &target, executable));
            } else {
                built.binaries.insert(target, executable);
            }
        }
        built.tests.sort_by(|one, other| one.name.cmp(&other.name));
        built
    }

    /// The reasons of ignored tests, by package directory and function name.
    pub(crate) fn reasons(&self) -> anyhow::Result<BTreeMap<PathBuf, BTreeMap<String, Reason>>> {
        let mut all = BTreeMap::new();
        for program in &self.tests {
            if !all.contains_key(&program.directory) {
                all.insert(program.directory.clone(), reasons_below(&program.directory)?);
            }
        }
        Ok(all)
    }
}

fn program(message: &Value, target: &str, executable: PathBuf) -> Program {
    let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
    let directory = manifest.parent().unwrap_or(manifest).to_owned();
    let package = message["package_id"].as_str().map(package_name).unwrap_or_default();
    let is_test = message["target"]["kind"][0] == "test";
    let name = if is_test { format!("{package}/{target}") } else { package };
    Program { name, directory, executable }
}

/// The name in `path+file:///repo/crates/api#0.1.0` or `path+file:///repo/tests#suites@0.1.0`.
fn package_name(id: &str) -> String {
    let (url, fragment) = id.split_once('#').unwrap_or((id, ""));
    let name = fragment.split_once('@').map(|(name, _)| name);
    name.or_else(|| url.rsplit('/').next()).unwrap_or_default().to_owned()
}

impl Program {
    /// A command that runs it.
    pub(crate) fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(arguments).current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }

    /// The full names of its ignored tests.
    pub(crate) fn ignored(&self) -> anyhow::Result<Vec<String>> {
        let arguments = ["--list", "--ignored", "--format", "terse"].map(str::to_owned);
        let listed = peers::command::run(&mut self.command(&arguments))?;
        Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }
}

/// Where a package's sources are, for people: relative to the root.
pub(crate) fn relative(directory: &Path) -> String {
    directory.strip_prefix(root()).unwrap_or(directory).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_cargo_name_programs() {
        let messages = r#"{"reason":"compiler-artifact","package_id":"path+file:///r/crates/api#0.1.0","manifest_path":"/r/crates/api/Cargo.toml","target":{"kind":["lib"],"name":"api"},"profile":{"test":true},"executable":"/r/target/debug/deps/api-1"}
{"reason":"compiler-artifact","package_id":"path+file:///r/tests#suites@0.1.0","manifest_path":"/r/tests/Cargo.toml","target":{"kind":["test"],"name":"helm"},"profile":{"test":true},"executable":"/r/target/debug/deps/helm-2"}
{"reason":"compiler-artifact","package_id":"path+file:///r/crates/herdsman#0.1.0","manifest_path":"/r/crates/herdsman/Cargo.toml","target":{"kind":["bin"],"name":"herdsman"},"profile":{"test":false},"executable":"/r/target/debug/herdsman"}
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"api"},"profile":{"test":false},"executable":null}
not JSON"#;
        let built = Built::read(messages);
        let names: Vec<&str> = built.tests.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["api", "suites/helm"]);
        assert_eq!(built.tests[1].directory, Path::new("/r/tests"));
        assert_eq!(built.binaries["herdsman"], Path::new("/r/target/debug/herdsman"));
    }
}
