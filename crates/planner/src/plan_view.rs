//! A plan Secret as the planner sees it.

use std::sync::Arc;

use jiff::Timestamp;
use plan::orchestrator::{self, Health, Progress};
use plan::secret::{APPLIED_PLAN, Data, LAST_UPDATED_ANNOTATION, PlanSecret, PlanState};
use plan::{Checksum, Document};

use crate::snapshot::Words;

/// A plan Secret, read once.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanView {
    /// Its annotations: how far a drain is, and when the plan was delivered. Who the machine is stands in
    /// [`crate::Bootstrap`], never here: the machine's agent may write them.
    pub handshake: Words,
    /// The plan that was delivered.
    pub delivered: Option<Arc<Document>>,
    /// There are bytes of a plan, readable or not.
    pub has_plan: bool,
    /// The plan that was applied last.
    pub applied: Option<Arc<Document>>,
    /// Where the delivered plan is.
    pub progress: Progress,
    /// What the probes say.
    pub health: Health,
    /// The probes of the delivered plan were all healthy once.
    pub probes_passed: bool,
    /// The agent does not try by itself again: it waits for another delivery.
    pub waits_for_delivery: bool,
    /// Failures since the last success.
    pub failures: i64,
    /// When the agent last ended a run.
    pub last_apply: Option<Timestamp>,
    /// When the plan was last delivered.
    pub delivered_at: Option<Timestamp>,
    /// Standard output of periodic instructions that succeeded, by name.
    pub periodic: std::collections::BTreeMap<String, Vec<u8>>,
}

impl Default for PlanView {
    fn default() -> Self {
        PlanView::read(Words::new(), &Data::new())
    }
}

impl PlanView {
    /// Reads a Secret. Never fails: what cannot be read counts as absent, and is replaced.
    pub fn read(handshake: Words, data: &Data) -> Self {
        let secret = PlanSecret::read(data);
        let status = orchestrator::status(&secret, &handshake);
        let delivered = secret.plan.get().cloned().map(Arc::new);
        let applied = applied(&secret, delivered.as_ref(), data);
        // An agent has nothing to report where there is nothing to probe.
        let probes = delivered.as_ref().map(|document| document.plan().probes.len());
        let health = match status.health {
            Health::Unknown if probes == Some(0) => Health::Healthy,
            health => health,
        };
        let periodic = status.periodic_output.into_iter().filter(|(_, output)| output.exit_code == 0);
        PlanView {
            has_plan: secret.checksum.is_some(),
            applied,
            progress: status.progress,
            health,
            probes_passed: status.probes_usable,
            waits_for_delivery: secret.state == Some(PlanState::Failed),
            failures: secret.failures(),
            last_apply: secret.last_apply_time.get().copied(),
            delivered_at: handshake.get(LAST_UPDATED_ANNOTATION).and_then(|time| time.parse().ok()),
            periodic: periodic.map(|(name, output)| (name, output.stdout)).collect(),
            handshake,
            delivered,
        }
    }

    /// Checksum of the delivered plan.
    pub fn checksum(&self) -> Option<Checksum> {
        self.delivered.as_ref().map(|document| document.checksum())
    }
}

/// The applied plan is mostly the delivered one: then it is not read twice.
fn applied(secret: &PlanSecret, delivered: Option<&Arc<Document>>, data: &Data) -> Option<Arc<Document>> {
    if secret.plan_applied() && !secret.plan_failed() {
        return delivered.cloned();
    }
    match secret.applied_plan {
        None => None,
        Some(checksum) if secret.checksum == Some(checksum) => delivered.cloned(),
        Some(_) => Document::parse(data.get(APPLIED_PLAN)?.clone()).ok().map(Arc::new),
    }
}
