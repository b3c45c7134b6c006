//! `herdsman move`: every cluster from one server to another, while they run. Machines do not notice but for their agents,
//! which follow.
//!
//! 1. Nothing may be on its way: no machine that is not a node yet, no plan that is not applied, nothing being deleted.
//! 2. Controllers of the old server are paused.
//! 3. Objects are copied, owners first, with their status; they are paused there too.
//! 4. Agents are told on the old server, and come to the new one with the tokens that they have.
//! 5. The old server forgets what has been moved; tunnels end there and come to the new one.
//! 6. Controllers of the new server go on.
//!
//! Every step can be done again: whoever is interrupted runs the same command once more.

mod inventory;
mod item;
mod side;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clock::{Deadline, SystemClock};

use crate::verbs::target::{Target, block_on};
use item::{Fate, Item};
use side::{Address, Side};

/// How often it is looked how far it is.
const POLL: Duration = Duration::from_secs(1);
/// How long controllers may take to notice that they are paused.
const SETTLE: Duration = Duration::from_secs(2);
/// More problems than these are counted, not told.
const TOLD: usize = 10;

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server that has the clusters
    #[arg(long, value_name = "FILE")]
    from_kubeconfig: PathBuf,
    /// The server that shall have them; `herdsman up` or `herdsman server` runs there
    #[arg(long, value_name = "FILE")]
    to_kubeconfig: PathBuf,
    /// Only say what would be moved
    #[arg(long)]
    dry_run: bool,
    /// How many seconds agents and tunnels have to come to the new server
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

/// Moves everything.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    block_on(Move::carry(arguments))
}

struct Move {
    from: Side,
    to: Side,
    there: Address,
    patience: Duration,
}

impl Move {
    async fn carry(arguments: &Arguments) -> anyhow::Result<()> {
        let from = open(&arguments.from_kubeconfig).await?;
        let to = open(&arguments.to_kubeconfig).await?;
        if from.identity().await? == to.identity().await? {
            bail!("--from-kubeconfig and --to-kubeconfig are the same server: there is nothing to move");
        }
        let there = to.address().await?;
        let this = Move { from, to, there, patience: Duration::from_secs(arguments.timeout) };
        let found = inventory::take(&this.from.client).await?;
        this.check(&found).await?;
        if arguments.dry_run {
            tell(&found);
            return Ok(());
        }
        let clusters = this.from.pause(&found).await?;
        println!("paused {clusters} clusters at {}", this.from.name);
        this.hand_over().await?;
        println!("moved: {} has {clusters} clusters more", this.there.url);
        println!(
            "next: `herdsman kubeconfig CLUSTER` for ways to clusters by the new server; the old one can be stopped"
        );
        Ok(())
    }

    /// Refuses what cannot be done well, before anything is done.
    async fn check(&self, items: &[Item]) -> anyhow::Result<()> {
        let unknown = inventory::unknown(items, &inventory::kinds(&self.to.client).await?);
        if !unknown.is_empty() {
            let kinds = unknown.into_iter().collect::<Vec<_>>().join(", ");
            bail!(
                "{} does not know these kinds: {kinds}; install their drivers or providers there",
                self.to.name
            );
        }
        refuse("they cannot be moved now", inventory::obstacles(items))?;
        let strangers = self.to.strangers(items).await?;
        refuse(&format!("{} has others of the same name", self.to.name), strangers)
    }

    async fn hand_over(&self) -> anyhow::Result<()> {
        // What was begun before the pause is finished and seen.
        tokio::time::sleep(SETTLE).await;
        let mut uids = BTreeMap::new();
        let items = inventory::take(&self.from.client).await?;
        let count = self.to.receive(&items, &mut uids).await?;
        println!("copied {count} objects to {}", self.to.name);
        let plans: Vec<Item> = items.iter().filter(|item| item.is_plan()).cloned().collect();
        self.from.tell(&plans, &self.there).await?;
        self.wait_for_agents(&plans).await?;
        // What has come into being meanwhile: a token of an agent, a report.
        let items = inventory::take(&self.from.client).await?;
        self.to.receive(&items, &mut uids).await?;
        let count = self.from.forget(&items).await?;
        println!("removed {count} objects from {}", self.from.name);
        self.to.resume(&items).await?;
        self.wait_for_tunnels(&items).await
    }

    async fn wait_for_agents(&self, plans: &[Item]) -> anyhow::Result<()> {
        let deadline = Deadline::after(&SystemClock, self.patience);
        let mut said = usize::MAX;
        loop {
            let missing = self.to.awaited(plans).await?;
            if missing.len() != said {
                said = missing.len();
                println!("{} of {} agents have followed", plans.len() - said, plans.len());
            }
            if missing.is_empty() {
                return Ok(());
            }
            if deadline.passed(&SystemClock) {
                let names: Vec<String> = missing.iter().map(|plan| plan.title()).collect();
                refuse(
                    &format!(
                        "these agents have not come to {} (can their machines reach it?); nothing was removed: \
                         run the same command again to go on",
                        self.there.url
                    ),
                    names,
                )?;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// All that is left to say is whether clusters are reached.
    async fn wait_for_tunnels(&self, items: &[Item]) -> anyhow::Result<()> {
        let deadline = Deadline::after(&SystemClock, self.patience);
        loop {
            let missing = self.to.unconnected(items).await?;
            if missing.is_empty() {
                println!("all clusters are connected");
                return Ok(());
            }
            if deadline.passed(&SystemClock) {
                let names: Vec<&str> = missing.iter().map(|item| item.name()).collect();
                println!("warning: moved, but not connected yet: {}", names.join(", "));
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

async fn open(path: &Path) -> anyhow::Result<Side> {
    let target = Target { kubeconfig: Some(path.to_owned()), namespace: String::new() };
    Ok(Side { client: target.client().await?, name: path.display().to_string() })
}

fn refuse(why: &str, problems: Vec<String>) -> anyhow::Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let more = problems.len().saturating_sub(TOLD);
    let mut text: String = problems.iter().take(TOLD).map(|problem| format!("\n  {problem}")).collect();
    if more > 0 {
        text += &format!("\n  and {more} more");
    }
    bail!("{why}:{text}")
}

/// What would be moved, by kind.
fn tell(items: &[Item]) {
    let mut counts: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for item in items {
        *counts.entry((item.resource.kind.as_str(), item.fate == Fate::Moves)).or_default() += 1;
    }
    for ((kind, moves), count) in counts {
        println!("{count:>5} {kind}{}", if moves { "" } else { " (copied if missing)" });
    }
}
