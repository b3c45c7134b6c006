//! When each dear suite was last green: a file beside the peers, which outlives a checkout.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use peers::cache::Cache;
use serde::{Deserialize, Serialize};

use crate::test::Tier;

/// How long a suite is thought to take that never ran here: much, so that one that takes its whole time still ends before the
/// hard limit.
const UNKNOWN: [(Tier, Duration); 2] =
    [(Tier::Peers, Duration::from_secs(6 * 60)), (Tier::Real, Duration::from_secs(20 * 60))];

/// When each suite was last green.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ledger {
    /// Runs of CI on this machine, this one included.
    runs: u64,
    suites: BTreeMap<String, Entry>,
}

/// The last time that a suite was green.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    run: u64,
    commit: String,
    seconds: u64,
}

impl Ledger {
    /// The one of this machine; empty if there is none, or none that can be read.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let text = fs::read_to_string(Self::path()?).unwrap_or_default();
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    pub(crate) fn save(&self) -> anyhow::Result<()> {
        let path = Self::path()?;
        fs::write(&path, serde_json::to_string_pretty(self)?).with_context(|| path.display().to_string())
    }

    fn path() -> anyhow::Result<PathBuf> {
        Ok(Cache::from_env()?.directory("ci")?.join("suites.json"))
    }

    pub(crate) fn begin_run(&mut self) {
        self.runs += 1;
    }

    pub(crate) fn record(&mut self, suite: &str, commit: &str, took: Duration) {
        let entry = Entry { run: self.runs, commit: commit.to_owned(), seconds: took.as_secs() };
        self.suites.insert(suite.to_owned(), entry);
    }

    /// Runs since it was last green, this one included. One that never was has been out since the first run.
    pub(crate) fn runs_out(&self, suite: &str) -> u64 {
        self.runs - self.suites.get(suite).map_or(0, |entry| entry.run)
    }

    /// How long it will take: a quarter more than the last time, as machines are noisy.
    pub(crate) fn estimate(&self, suite: &str, tier: Tier) -> Duration {
        let unknown =
            UNKNOWN.iter().find(|(known, _)| *known == tier).map_or(Duration::ZERO, |(_, time)| *time);
        let known = self.suites.get(suite).map(|entry| Duration::from_secs(entry.seconds).mul_f64(1.25));
        known.unwrap_or(unknown)
    }

    /// When it was last green, for people.
    pub(crate) fn describe(&self, suite: &str) -> String {
        match self.suites.get(suite) {
            Some(entry) => format!("last green at {}, {} runs ago", entry.commit, self.runs_out(suite)),
            None => "never green on this machine".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_green_run_is_remembered() {
        let mut ledger = Ledger::default();
        ledger.begin_run();
        assert_eq!(
            (ledger.runs_out("peers:a"), ledger.describe("peers:a").as_str()),
            (1, "never green on this machine")
        );
        assert_eq!(ledger.estimate("peers:a", Tier::Peers), Duration::from_secs(360));
        ledger.record("peers:a", "1234abc", Duration::from_secs(100));
        ledger.begin_run();
        ledger.begin_run();
        assert_eq!(ledger.describe("peers:a"), "last green at 1234abc, 2 runs ago");
        assert_eq!(ledger.estimate("peers:a", Tier::Peers), Duration::from_secs(125));
        let read: Ledger = serde_json::from_str(&serde_json::to_string(&ledger).unwrap()).unwrap();
        assert_eq!(read.runs_out("peers:a"), 2);
    }
}
