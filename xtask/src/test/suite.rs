//! Suites: the tests of one program in one tier.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use peers::Peer;

use super::programs::{Built, Program, relative};
use super::tier::{Reason, Tier};

/// How long a suite may take before it is ended.
const LIMITS: [(Tier, Duration); 4] = [
    (Tier::Quick, Duration::from_secs(10 * 60)),
    (Tier::Default, Duration::from_secs(15 * 60)),
    (Tier::Peers, Duration::from_secs(25 * 60)),
    (Tier::Real, Duration::from_secs(40 * 60)),
];

/// The tests of one program in one tier.
#[derive(Clone, Debug)]
pub(crate) struct Suite {
    /// Its program.
    pub(crate) program: Program,
    /// Its tier.
    pub(crate) tier: Tier,
    /// The full names of its tests; empty for the quick ones, which are all that is not ignored.
    pub(crate) tests: Vec<String>,
    /// The peers that they need.
    pub(crate) peers: Vec<Peer>,
}

impl Suite {
    /// Its name, which says where its tests are.
    pub(crate) fn name(&self) -> &str {
        &self.program.name
    }

    /// Its name among the suites of all tiers.
    pub(crate) fn key(&self) -> String {
        format!("{}:{}", self.tier, self.name())
    }

    /// How long it may take.
    pub(crate) fn limit(&self) -> Duration {
        LIMITS.iter().find(|(tier, _)| *tier == self.tier).map_or(Duration::MAX, |(_, limit)| *limit)
    }

    /// What its program is called with.
    pub(crate) fn arguments(&self) -> Vec<String> {
        if self.tests.is_empty() {
            return Vec::new();
        }
        let flags = ["--ignored", "--exact"].map(str::to_owned);
        flags.into_iter().chain(self.tests.iter().cloned()).collect()
    }
}

/// All suites of what was built.
pub(crate) fn all(built: &Built) -> anyhow::Result<Vec<Suite>> {
    let reasons = built.reasons()?;
    let mut all = Vec::new();
    for program in &built.tests {
        all.push(Suite { program: program.clone(), tier: Tier::Quick, tests: Vec::new(), peers: Vec::new() });
        let known = reasons.get(&program.directory).context("a program without sources")?;
        all.extend(of(program, &program.ignored()?, known)?);
    }
    Ok(all)
}

/// The suites of a program's ignored tests.
fn of(program: &Program, ignored: &[String], known: &BTreeMap<String, Reason>) -> anyhow::Result<Vec<Suite>> {
    let mut tiers: BTreeMap<Tier, (Vec<String>, Vec<Peer>)> = BTreeMap::new();
    for test in ignored {
        let function = test.rsplit("::").next().unwrap_or(test);
        match known.get(function) {
            Some(Reason::ChildProcess) => {}
            Some(Reason::Test(tier, needed)) => {
                let (tests, peers) = tiers.entry(*tier).or_default();
                tests.push(test.clone());
                peers.extend(needed.iter().filter(|peer| !peers.contains(peer)).copied().collect::<Vec<_>>());
            }
            None => bail!("{}: no source says in which tier {test} is", relative(&program.directory)),
        }
    }
    let suite = |(tier, (tests, peers))| Suite { program: program.clone(), tier, tests, peers };
    Ok(tiers.into_iter().map(suite).collect())
}

/// The peers of some suites, each once, in the catalog's order.
pub(crate) fn peers_of<'a>(suites: impl IntoIterator<Item = &'a Suite>) -> Vec<Peer> {
    let needed: BTreeSet<&str> =
        suites.into_iter().flat_map(|suite| &suite.peers).map(|peer| peer.name()).collect();
    Peer::ALL.into_iter().filter(|peer| needed.contains(peer.name())).collect()
}

/// The variables that tell tests where the product's programs are, so that they do not build them again.
pub(crate) fn environment(built: &Built) -> Vec<(&'static str, PathBuf)> {
    let herdsman = built.binaries.get("herdsman");
    herdsman.map(|path| ("HERDSMAN_BIN", path.clone())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        Program { name: "suites/x".into(), directory: "/r/tests".into(), executable: "/x".into() }
    }

    #[test]
    fn ignored_tests_are_grouped_by_tier() {
        let known = BTreeMap::from([
            ("one".to_owned(), Reason::Test(Tier::Peers, vec![Peer::Kubernetes, Peer::Etcd])),
            ("two".to_owned(), Reason::Test(Tier::Peers, vec![Peer::Etcd, Peer::Helm])),
            ("three".to_owned(), Reason::Test(Tier::Default, vec![])),
            ("victim".to_owned(), Reason::ChildProcess),
        ]);
        let ignored = ["a::one", "b::two", "three", "a::victim"].map(str::to_owned);
        let suites = of(&program(), &ignored, &known).unwrap();
        let keys: Vec<String> = suites.iter().map(Suite::key).collect();
        assert_eq!(keys, ["default:suites/x", "peers:suites/x"]);
        assert_eq!(suites[1].arguments(), ["--ignored", "--exact", "a::one", "b::two"]);
        assert_eq!(peers_of(&suites), [Peer::Etcd, Peer::Kubernetes, Peer::Helm]);
    }

    #[test]
    fn an_ignored_test_without_a_tier_is_an_error() {
        let error = of(&program(), &["a::one".to_owned()], &BTreeMap::new()).unwrap_err().to_string();
        assert_eq!(error, "/r/tests: no source says in which tier a::one is");
    }
}
