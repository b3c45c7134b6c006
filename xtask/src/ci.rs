//! `cargo xtask ci`: lint, the README's tests, then as much of the dear suites as the time allows.
//!
//! Peers are got in the background meanwhile. Which of the dear suites ran at which commit is kept beside the peers, so
//! that those that were left out longest come first the next time.

mod background;
mod ledger;
mod rotation;

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clock::{Clock as _, Monotonic, SystemClock};

use crate::run::program;
use crate::test::{self, Built, Execution, Outcome, Suite, Tier, environment};
use background::Background;
use ledger::Ledger;
use rotation::{Candidate, choose};

/// How long all of it may take: no dear suite is begun that would not end by then.
const BUDGET: Duration = Duration::from_secs(60 * 60);
/// How long it may take where a suite has been left out for too long.
const HARD_LIMIT: Duration = Duration::from_secs(80 * 60);
/// How often it is looked whether a peer has come.
const POLL: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only the dear suites, those first that were left out longest.
    #[arg(long)]
    share_only: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let started = SystemClock.monotonic();
    let background = Background::start()?;
    if !arguments.share_only {
        phase("lint", crate::lint::run)?;
    }
    let built = phase("build", Built::build)?;
    let suites = test::all(&built)?;
    let execution = Execution { environment: environment(&built), ..Execution::default() };
    let (cheap, dear): (Vec<Suite>, Vec<Suite>) =
        suites.into_iter().partition(|suite| [Tier::Quick, Tier::Default].contains(&suite.tier));
    let mut outcomes = Vec::new();
    if !arguments.share_only {
        outcomes = phase("test", || test::run_all(&execution, cheap))?;
        phase("documentation", test::documentation)?;
    }
    let share = phase("share", || Share::new(started, background)?.run(&execution, dear))?;
    outcomes.extend(share);
    test::close(&outcomes)
}

fn phase<T>(name: &str, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    println!("=== {name}");
    let started = SystemClock.monotonic();
    let result = run();
    println!("=== {name} took {:.0} s", SystemClock.monotonic().since(started).as_secs_f64());
    result.with_context(|| name.to_owned())
}

/// The dear suites that fit into what is left of the time.
struct Share {
    started: Monotonic,
    background: Background,
    ledger: Ledger,
    commit: String,
}

impl Share {
    fn new(started: Monotonic, background: Background) -> anyhow::Result<Self> {
        let commit = peers::command::run(program("git").args(["rev-parse", "--short", "HEAD"]))?;
        let mut ledger = Ledger::load()?;
        ledger.begin_run();
        ledger.save()?;
        Ok(Share { started, background, ledger, commit: commit.trim().to_owned() })
    }

    fn run(mut self, execution: &Execution, mut waiting: Vec<Suite>) -> anyhow::Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        while let Some(suite) = self.next(&mut waiting)? {
            let at_most = HARD_LIMIT.saturating_sub(SystemClock.monotonic().since(self.started));
            let execution = Execution { at_most: Some(at_most), ..execution.clone() };
            let outcome = test::run_all(&execution, vec![suite])?;
            for outcome in outcome.iter().filter(|outcome| outcome.green) {
                self.ledger.record(&outcome.suite.key(), &self.commit, outcome.took);
            }
            outcomes.extend(outcome);
            // After each: a run may be cut off.
            self.ledger.save()?;
        }
        for suite in &waiting {
            println!("left out: {}, {}", suite.key(), self.ledger.describe(&suite.key()));
        }
        Ok(outcomes)
    }

    /// The next suite to run, once its peers are there; none when the time is over.
    fn next(&mut self, waiting: &mut Vec<Suite>) -> anyhow::Result<Option<Suite>> {
        loop {
            let arrived = self.background.arrived()?;
            let candidates: Vec<Candidate> = waiting
                .iter()
                .map(|suite| Candidate {
                    tier: suite.tier,
                    ready: suite.peers.iter().all(|peer| arrived.contains(peer.name())),
                    runs_out: self.ledger.runs_out(&suite.key()),
                    estimate: self.ledger.estimate(&suite.key(), suite.tier),
                })
                .collect();
            let elapsed = SystemClock.monotonic().since(self.started);
            let left = |limit: Duration| limit.saturating_sub(elapsed);
            if let Some(index) = choose(&candidates, left(BUDGET), left(HARD_LIMIT)) {
                return Ok(Some(waiting.remove(index)));
            }
            if waiting.is_empty() || left(BUDGET).is_zero() {
                return Ok(None);
            }
            if candidates.iter().all(|candidate| candidate.ready) {
                return Ok(None);
            }
            if let Some(failed) = self.background.failed()? {
                bail!("peers cannot be had:\n{failed}");
            }
            thread::sleep(POLL);
        }
    }
}
