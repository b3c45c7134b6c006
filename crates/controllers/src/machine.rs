//! Servers of node drivers: looks after every `<Driver>Machine`, of whatever driver, also of those that come later.
//!
//! [`provisioning::machine`] decides; here is what it decides on (`gather`) and what is done about it (`act`).

mod act;
mod context;
mod gather;
mod installation;
pub(crate) mod rendering;
mod view;
mod wiring;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::catalogue::finalizers::MACHINE_PROVISION_REMOVE;
use kit::{Controller, Ended, Key, Turn};
use provisioning::Wait;
use provisioning::machine::{Create, Policy, Remove, create, remove};
use tokio::task::JoinSet;

use crate::Parts;
pub use context::Error;
use context::{Context, Watched};
use gather::Facts;

/// Under which name waits are counted.
const GROUP: &str = "machine";

/// What is asked for beside what settings in the API say.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What is done about failures; the setting `delete-machine-on-failure-after` wins over its part of it.
    pub policy: Policy,
    /// Our own environment: what the setting `whitelist-envvars` names of it, drivers get.
    pub environment: BTreeMap<String, String>,
    /// Which Jobs are marked as ours, so that Kubernetes' own controller leaves them to us.
    pub marked: Marked,
}

/// Jobs that are marked with [`jobs::MANAGED_BY`](crate::jobs::MANAGED_BY).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Marked {
    /// None: nobody but us runs Jobs here, or we run none.
    #[default]
    Nothing,
    /// Those of these drivers.
    Of(BTreeSet<String>),
    /// All.
    All,
}

impl Marked {
    /// Whether Jobs of a driver are marked.
    pub fn marks(&self, driver: &str) -> bool {
        match self {
            Marked::Nothing => false,
            Marked::Of(drivers) => drivers.contains(driver),
            Marked::All => true,
        }
    }
}

/// Looks after the machines of all drivers until the future is dropped.
pub async fn run(parts: Parts, settings: Settings) {
    let (context, mut kinds) = Context::new(parts, settings);
    context.ready().await;
    wiring::connect(&context);
    let mut running = JoinSet::new();
    while let Some(kind) = kinds.recv().await {
        let queue = kind.queue.clone();
        let machines = Machines { context: context.clone(), kind };
        running.spawn(kit::runner::run(Arc::new(machines), queue, kit::runner::WRITERS_AT_A_TIME));
    }
}

/// The controller of one kind.
struct Machines {
    context: Arc<Context>,
    kind: Arc<Watched>,
}

impl Controller for Machines {
    type Error = Error;

    fn name(&self) -> &'static str {
        "machine"
    }

    fn object(&self, key: &Key) -> Option<Arc<kit::Object>> {
        self.kind.cache.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let Some(object) = self.kind.cache.get(key) else {
            self.context.waits.set(GROUP, key, Vec::new());
            return Ok(Ended::Gone);
        };
        let facts = gather::facts(&self.context, &self.kind, object)?;
        let finalized = facts.has_finalizer();
        match facts.object.deleting() {
            true if finalized => self.remove(&facts, turn).await,
            true => Ok(Ended::Well),
            false if finalized => self.create(&facts, turn).await,
            // Before anything is made: nothing may be lost with the object.
            false => self.finalize(&facts, turn).await,
        }
    }
}

impl Machines {
    async fn create(&self, facts: &Facts, turn: &Turn) -> Result<Ended, Error> {
        let step = create(&facts.to_create());
        tracing::debug!(machine = %facts.object.key(), ?step, "a server");
        self.count(facts, step.wait());
        match step {
            Create::Wait(wait) => {
                self.write_status(facts, turn, facts.waiting(&wait)).await?;
                self.tell(facts, &wait).await;
            }
            Create::Label(name) => self.label(facts, turn, &name).await?,
            Create::Status { status, failures, wait } => {
                if let Some(failures) = failures {
                    self.count_failures(facts, turn, &failures).await?;
                }
                self.write_status(facts, turn, *status).await?;
                if let Some(wait) = wait {
                    self.tell(facts, &wait).await;
                }
            }
            Create::Run { cleans_up } => self.run_job(facts, turn, cleans_up).await?,
            Create::Pause { wait, until } => {
                self.tell(facts, &wait).await;
                return Ok(until.map_or(Ended::Well, |until| self.again_at(until)));
            }
            Create::DeleteMachine => self.delete_machine(facts, turn).await?,
            Create::Settled(status) => {
                self.prune(facts, turn, act::Keep::State).await?;
                self.note_host_key(facts, turn).await?;
                self.write_status(facts, turn, *status).await?;
            }
        }
        Ok(Ended::Well)
    }

    async fn remove(&self, facts: &Facts, turn: &Turn) -> Result<Ended, Error> {
        let step = remove(&facts.to_remove());
        tracing::debug!(machine = %facts.object.key(), ?step, "a server goes");
        self.count(facts, step.wait());
        match step {
            Remove::Release => self.release(facts, turn).await?,
            Remove::Prune => {
                self.prune(facts, turn, act::Keep::Nothing).await?;
                self.release(facts, turn).await?;
            }
            Remove::Status { status, wait } => {
                self.write_status(facts, turn, *status).await?;
                if let Some(wait) = wait {
                    self.tell(facts, &wait).await;
                }
            }
            // What was made for a machine that is gone, nobody would ever delete.
            Remove::Run if self.is_released(facts).await? => return Ok(Ended::Gone),
            Remove::Run => self.run_job(facts, turn, true).await?,
            Remove::Pause { wait, until } => {
                self.tell(facts, &wait).await;
                return Ok(self.again_at(until));
            }
        }
        Ok(Ended::Well)
    }

    /// What the machine waits for now, for the metric.
    fn count(&self, facts: &Facts, wait: Option<&Wait>) {
        let codes = wait.map(|wait| wait.code.as_str());
        self.context.waits.set(GROUP, &facts.object.key(), codes.into_iter().collect());
    }

    fn again_at(&self, until: jiff::Timestamp) -> Ended {
        let wait = until.duration_since(self.context.clock.now()).unsigned_abs();
        // Not a moment too early: the decision would be the same again.
        Ended::Again(wait + Duration::from_millis(1))
    }
}

/// Whether a list of finalizers has ours.
fn is_ours(finalizers: Option<&Vec<String>>) -> bool {
    finalizers.is_some_and(|all| all.iter().any(|one| one == MACHINE_PROVISION_REMOVE))
}
