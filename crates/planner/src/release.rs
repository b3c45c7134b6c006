//! Release data: which arguments a version of a distribution takes.
//!
//! A built-in table by minor version, or a file in the format of Rancher's release metadata (`data.json`), which counts
//! by exact version. What neither knows passes to the distribution, with a warning.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::version::Version;

/// What kind of value an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentType {
    /// True or false.
    Boolean,
    /// A list, or one value.
    Array,
    /// Text, or one of several words.
    Text,
}

/// Who takes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// What it takes.
    pub type_: ArgumentType,
    /// Every node takes it; otherwise servers alone.
    pub on_agents: bool,
}

/// What is known of releases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Releases {
    /// From a file, by exact version.
    exact: BTreeMap<String, Arguments>,
}

/// Arguments by name.
type Arguments = BTreeMap<String, Argument>;

/// Why a file of release data was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not JSON of the right shape.
    #[error("release data is not JSON in the format of Rancher's data.json")]
    Shape(#[from] serde_json::Error),
    /// It has no releases at all.
    #[error("release data has neither k3s.releases nor rke2.releases")]
    Empty,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct File {
    k3s: Channel,
    rke2: Channel,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Channel {
    releases: Vec<Release>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Release {
    version: String,
    server_args: Option<BTreeMap<String, Option<Field>>>,
    agent_args: Option<BTreeMap<String, Option<Field>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Field {
    #[serde(rename = "type")]
    type_: String,
}

impl Releases {
    /// Reads a file in the format of Rancher's release metadata.
    ///
    /// # Errors
    /// If it is something else, or has no releases.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let file: File = serde_json::from_slice(bytes)?;
        let mut exact = BTreeMap::new();
        for release in file.k3s.releases.into_iter().chain(file.rke2.releases) {
            let mut arguments = Arguments::new();
            let sides = [(release.server_args, false), (release.agent_args, true)];
            for (fields, on_agents) in sides {
                for (name, field) in fields.into_iter().flatten() {
                    let type_ = argument_type(&field.unwrap_or_default().type_);
                    arguments.insert(name, Argument { type_, on_agents });
                }
            }
            if !arguments.is_empty() {
                exact.insert(release.version, arguments);
            }
        }
        if exact.is_empty() { Err(Error::Empty) } else { Ok(Releases { exact }) }
    }

    /// The versions that a file told of; none without a file.
    pub fn versions(&self) -> Option<BTreeSet<String>> {
        (!self.exact.is_empty()).then(|| self.exact.keys().cloned().collect())
    }

    /// Names of all arguments that are known of a version.
    pub fn arguments(&self, version: &Version) -> BTreeSet<String> {
        match self.exact.get(version.as_str()) {
            Some(arguments) => arguments.keys().cloned().collect(),
            None => table(version).flat_map(|(_, names)| names.map(str::to_owned)).collect(),
        }
    }

    /// What is known of an argument in a version.
    pub fn argument(&self, version: &Version, name: &str) -> Option<Argument> {
        match self.exact.get(version.as_str()) {
            Some(arguments) => arguments.get(name).copied(),
            None => built_in(version, name),
        }
    }
}

fn argument_type(word: &str) -> ArgumentType {
    match word {
        "boolean" | "bool" => ArgumentType::Boolean,
        "array" => ArgumentType::Array,
        _ => ArgumentType::Text,
    }
}

/// `runtime side type since name...`: `*` is both runtimes; `since` is the first minor version that has them.
const TABLE: &str = include_str!("release/arguments.txt");

fn built_in(version: &Version, name: &str) -> Option<Argument> {
    table(version).find_map(|(argument, mut names)| names.any(|found| found == name).then_some(argument))
}

/// The lines of the table that hold for a version: what they say, and of which arguments.
fn table(version: &Version) -> impl Iterator<Item = (Argument, impl Iterator<Item = &'static str>)> {
    let (runtime, minor) = (version.runtime().as_str(), version.minor());
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(move |line| {
        let mut words = line.split_ascii_whitespace();
        let (of, side, type_, since) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let fits = (of == "*" || of == runtime) && since.parse::<u32>().is_ok_and(|since| since <= minor);
        fits.then(|| (Argument { type_: argument_type(type_), on_agents: side == "agent" }, words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(version: &str, name: &str) -> Option<(ArgumentType, bool)> {
        let argument = Releases::default().argument(&version.parse().unwrap(), name)?;
        Some((argument.type_, argument.on_agents))
    }

    #[test]
    fn the_built_in_table_goes_by_minor_version() {
        use ArgumentType::{Array, Boolean, Text};
        assert_eq!(find("v1.30.5+rke2r1", "tls-san"), Some((Array, false)));
        assert_eq!(find("v1.30.5+rke2r1", "kubelet-arg"), Some((Array, true)));
        assert_eq!(find("v1.30.5+k3s1", "flannel-backend"), Some((Text, false)));
        assert_eq!(find("v1.30.5+rke2r1", "flannel-backend"), None, "another runtime's");
        assert_eq!(find("v1.27.1+k3s1", "embedded-registry"), None, "a later version's");
        assert_eq!(find("v1.30.5+k3s1", "embedded-registry"), Some((Boolean, false)));
        assert_eq!(find("v1.30.5+k3s1", "garbage"), None);
    }

    #[test]
    fn every_line_of_the_table_is_whole() {
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<_> = line.split_ascii_whitespace().collect();
            let whole = words.len() > 4
                && ["*", "k3s", "rke2"].contains(&words[0])
                && ["agent", "server"].contains(&words[1])
                && ["boolean", "array", "text"].contains(&words[2])
                && words[3].parse::<u32>().is_ok();
            assert!(whole, "{line}");
        }
    }

    #[test]
    fn a_file_counts_by_exact_version() {
        let file =
            br#"{"k3s":{"releases":[{"version":"v1.30.5+k3s1","serverArgs":{"new-one":{"type":"boolean"}},
            "agentArgs":{"debug":null}}]},"rke2":{"releases":[{"version":"v1.30.5+rke2r1"}]}}"#;
        let releases = Releases::parse(file).unwrap();
        let listed = "v1.30.5+k3s1".parse().unwrap();
        let boolean = Some(Argument { type_: ArgumentType::Boolean, on_agents: false });
        assert_eq!(releases.argument(&listed, "new-one"), boolean);
        assert!(releases.argument(&listed, "debug").unwrap().on_agents);
        assert_eq!(releases.argument(&listed, "tls-san"), None, "the file replaces the table");
        assert!(releases.argument(&"v1.31.0+k3s1".parse().unwrap(), "tls-san").is_some(), "not listed");
        assert!(Releases::parse(b"{}").is_err() && Releases::parse(b"[").is_err());
        assert_eq!(releases.arguments(&listed), ["debug", "new-one"].map(String::from).into());
        assert_eq!(releases.versions(), Some(["v1.30.5+k3s1".to_owned()].into()));
        let table = Releases::default();
        assert!(table.versions().is_none() && table.arguments(&listed).contains("flannel-backend"));
    }
}
