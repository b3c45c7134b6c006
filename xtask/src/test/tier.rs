//! Which tests run when.
//!
//! A test without `#[ignore]` is quick. An ignored one names its tier in the reason, and the peers that it needs:
//! `#[ignore = "peers: kubernetes, etcd"]`. Processes that tests start from their own program are no tests:
//! `#[ignore = "child process"]`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use peers::Peer;

/// What a test may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// Nothing but this repository's code: `--quick`.
    Quick,
    /// Programs that are downloaded within seconds, root, or minutes of time: with the quick ones, `cargo xtask test`.
    Default,
    /// Other people's programs, built from source: `--peers`.
    Peers,
    /// Machines with systemd, real distributions: `--real`.
    Real,
}

impl Tier {
    /// All of them, the cheapest first.
    pub(crate) const ALL: [Tier; 4] = [Tier::Quick, Tier::Default, Tier::Peers, Tier::Real];

    fn parse(word: &str) -> Option<Self> {
        Tier::ALL.into_iter().skip(1).find(|tier| tier.to_string() == word)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tier::Quick => "quick",
            Tier::Default => "default",
            Tier::Peers => "peers",
            Tier::Real => "real",
        })
    }
}

/// What an ignored test's reason says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It runs in this tier, with these peers.
    Test(Tier, Vec<Peer>),
    /// It is no test, but a process that a test starts.
    ChildProcess,
}

/// The reasons of all ignored tests in the sources below a directory, by function name.
pub(crate) fn reasons_below(directory: &Path) -> anyhow::Result<BTreeMap<String, Reason>> {
    let mut all = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let found =
                    reasons_in(&fs::read_to_string(&path)?).with_context(|| path.display().to_string())?;
                for (name, reason) in found {
                    let other = all.insert(name.clone(), reason.clone());
                    let same = other.is_none_or(|other| other == reason);
                    ensure!(
                        same,
                        "{}: another ignored test is called {name}, with another reason",
                        path.display()
                    );
                }
            }
        }
    }
    Ok(all)
}

/// The ignored tests of one source file.
fn reasons_in(source: &str) -> anyhow::Result<Vec<(String, Reason)>> {
    let mut lines = source.lines().map(str::trim);
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(attribute) = line.strip_prefix("#[ignore") else { continue };
        let text = attribute.strip_prefix(" = \"").and_then(|rest| rest.strip_suffix("\"]"));
        let name = lines.by_ref().find_map(function_name).context("an ignored test without a function")?;
        let text = text.with_context(|| format!("{name} is ignored without a reason that names its tier"))?;
        found.push((name.to_owned(), parse(text).with_context(|| name.to_owned())?));
    }
    Ok(found)
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let plain = before.split_whitespace().all(|word| ["pub", "async", "pub(crate)"].contains(&word));
    plain.then(|| after.split(['(', '<']).next().unwrap_or_default())
}

fn parse(reason: &str) -> anyhow::Result<Reason> {
    let (tier, needed) = reason.split_once(": ").unwrap_or((reason, ""));
    if tier == "child process" {
        return Ok(Reason::ChildProcess);
    }
    let Some(tier) = Tier::parse(tier) else {
        bail!("{reason:?} names no tier: default, peers, real, or `child process`")
    };
    let names = needed.split(", ").filter(|name| !name.is_empty());
    let peer =
        |name: &str| Peer::by_name(name).with_context(|| format!("{reason:?}: there is no peer {name}"));
    Ok(Reason::Test(tier, names.map(peer).collect::<anyhow::Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_tiers_and_peers() {
        let source = [
            "#[test]",
            "#[ignore = \"peers: kubernetes, etcd\"]",
            "fn one() {",
            "#[tokio::test]",
            "    #[ignore = \"default\"]",
            "    #[other]",
            "    async fn two() -> Result<()> {",
            "#[ignore = \"child process: the test below kills it\"]",
            "fn three() {",
        ];
        let source = source.join("\n");
        let found = reasons_in(&source).unwrap();
        let expected = [
            ("one", Reason::Test(Tier::Peers, vec![Peer::Kubernetes, Peer::Etcd])),
            ("two", Reason::Test(Tier::Default, vec![])),
            ("three", Reason::ChildProcess),
        ];
        assert_eq!(found, expected.map(|(name, reason)| (name.to_owned(), reason)));
    }

    #[test]
    fn a_reason_that_says_nothing_is_an_error() {
        for (source, message) in [
            ("#[ignore]\nfn one() {", "one is ignored without a reason that names its tier"),
            ("#[ignore = \"slow\"]\nfn one() {", "\"slow\" names no tier"),
            ("#[ignore = \"peers: nobody\"]\nfn one() {", "there is no peer nobody"),
            ("#[ignore = \"peers\"]\n", "an ignored test without a function"),
        ] {
            let error = format!("{:#}", reasons_in(source).unwrap_err());
            assert!(error.contains(message), "{error}");
        }
    }
}
