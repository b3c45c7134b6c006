//! The planner's side of the Secret: delivering a plan, and reading how it went, from Go agents old and new and ours.
//!
//! Differences from Rancher's planner, on purpose:
//!
//! - A delivery is an order. What would let an agent skip it (the plan's own checksum under `applied-checksum` or
//!   `failed-checksum` from an earlier run) is removed, so that the same bytes can be delivered again to any agent, and
//!   `pending` together with `applied-checksum` means one thing: an agent that does not know `plan-state` applied it.
//! - No probe statuses means that nothing is known, never that the machine is healthy.
//! - `plan-state` counts before checksums: Rancher's agent v0.15 writes the checksum of a failed plan under
//!   `applied-checksum` some seconds after the failure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::tz::Offset;
use jiff::{Timestamp, Unit};

use crate::document::Document;
use crate::output::{self, Outputs, PeriodicOutputs};
use crate::secret::{
    APPLIED_CHECKSUM, APPLIED_PERIODIC_OUTPUT, APPLIED_PLAN, Changes, Data, FAILED_CHECKSUM,
    FAILURE_THRESHOLD, Key, LAST_UPDATED_ANNOTATION, MAX_FAILURES, PLAN, PLAN_STATE, PROBE_PERIOD,
    PROBE_STATUSES, PROBES_PASSED_ANNOTATION, PlanSecret, PlanState,
};

/// Annotations of the Secret.
pub type Annotations = BTreeMap<String, String>;

/// How often something may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The key is left out.
    #[default]
    Unset,
    /// -1.
    Unlimited,
    /// A number from 1.
    Times(u32),
}

impl Limit {
    fn value(self) -> Option<Vec<u8>> {
        match self {
            Limit::Unset | Limit::Times(0) => None,
            Limit::Unlimited => Some(b"-1".to_vec()),
            Limit::Times(times) => Some(times.to_string().into_bytes()),
        }
    }
}

/// On what terms a plan is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// How often an agent without `plan-state` may fail before it stops trying.
    pub max_failures: Limit,
    /// From how many failures on the plan counts as failed.
    pub failure_threshold: Limit,
    /// What is between two rounds of probes; none leaves it as it is.
    pub probe_period: Option<Duration>,
}

/// Why a plan was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It would never count as failed.
    #[error("failureThreshold ({threshold}) cannot be greater than maxFailures ({max})")]
    ThresholdAboveMaximum {
        /// Failures until it counts as failed.
        threshold: u32,
        /// Failures after which the agent stops trying.
        max: u32,
    },
}

/// What to write: keys of the data, and annotations to set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// Keys of the data.
    pub data: Changes,
    /// Annotations to set; none is ever removed.
    pub annotations: BTreeMap<&'static str, String>,
}

impl Update {
    /// Nothing to write.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty() && self.annotations.is_empty()
    }
}

/// Delivers a plan. `data` is the Secret as last read; the write has to carry its resource version.
pub fn deliver(data: &Data, plan: &Document, terms: Terms, now: Timestamp) -> Result<Update, Error> {
    let Terms { max_failures, failure_threshold, probe_period } = terms;
    // As upstream, an unset limit is 0 here: a threshold needs a maximum at least as large.
    let max = match max_failures {
        Limit::Unlimited => None,
        Limit::Unset => Some(0),
        Limit::Times(max) => Some(max),
    };
    if let (Some(max), Limit::Times(threshold)) = (max, failure_threshold)
        && max < threshold
    {
        return Err(Error::ThresholdAboveMaximum { threshold, max });
    }
    let mut update = Update::default();
    let mut set = |key, value: Option<Vec<u8>>| {
        if data.get(key) != value.as_ref() {
            update.data.insert(key, value);
        }
    };
    set(PLAN, Some(plan.bytes().to_vec()));
    set(PLAN_STATE, Some(PlanState::Pending.as_str().into()));
    set(MAX_FAILURES, max_failures.value());
    set(FAILURE_THRESHOLD, failure_threshold.value());
    if let Some(period) = probe_period {
        set(PROBE_PERIOD, Some(period.as_secs_f64().to_string().into_bytes()));
    }
    set(PROBE_STATUSES, None);
    let own = plan.checksum().to_string().into_bytes();
    for key in [APPLIED_CHECKSUM, FAILED_CHECKSUM] {
        if data.get(key) == Some(&own) {
            set(key, None);
        }
    }
    update.annotations.insert(LAST_UPDATED_ANNOTATION, rfc3339(now));
    update.annotations.insert(PROBES_PASSED_ANNOTATION, String::new());
    Ok(update)
}

/// Where a delivered plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The Secret has no plan.
    NoPlan,
    /// No agent has taken it, as far as one can tell: an agent without `plan-state` does not say.
    Pending,
    /// The agent is on it.
    InProgress,
    /// It failed, and is tried again by itself (flow L, below the threshold).
    Retrying,
    /// It is applied.
    Applied,
    /// It failed.
    Failed,
    /// It was called off, or is in a state that we do not know.
    Cancelled,
}

/// What is known about a machine's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The agent has not reported on the probes of this plan.
    Unknown,
    /// Every probe of the plan is healthy.
    Healthy,
    /// These are not.
    Unhealthy(Vec<String>),
}

/// How things are with a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Where the plan is.
    pub progress: Progress,
    /// Probes.
    pub health: Health,
    /// The probes of this plan were all healthy at least once.
    pub probes_usable: bool,
    /// Output of the plan that was applied last.
    pub output: Outputs,
    /// Output of the plan that failed last.
    pub failed_output: Outputs,
    /// Output of periodic instructions.
    pub periodic_output: PeriodicOutputs,
    /// Runs so far, by agents that count them.
    pub revision: Option<i64>,
}

/// Reads how things are with a machine.
pub fn status(secret: &PlanSecret, annotations: &Annotations) -> Status {
    Status {
        progress: progress(secret),
        health: health(secret),
        probes_usable: annotations.get(PROBES_PASSED_ANNOTATION).is_some_and(|time| !time.is_empty()),
        output: secret.applied_output.get().cloned().unwrap_or_default(),
        failed_output: secret.failed_output.get().cloned().unwrap_or_default(),
        periodic_output: secret.periodic_output.get().cloned().unwrap_or_default(),
        revision: secret.revision.get().copied(),
    }
}

fn progress(secret: &PlanSecret) -> Progress {
    if secret.checksum.is_none() {
        return Progress::NoPlan;
    }
    match &secret.state {
        Some(PlanState::Succeeded) if secret.plan_applied() => Progress::Applied,
        Some(PlanState::Failed) => Progress::Failed,
        Some(PlanState::InProgress) => Progress::InProgress,
        Some(PlanState::Cancelled | PlanState::Other(_)) => Progress::Cancelled,
        // The plan was replaced without a word about its state.
        Some(PlanState::Succeeded) => Progress::Pending,
        // An agent that does not know `plan-state` leaves the word that we wrote.
        Some(PlanState::Pending) | None => by_checksum(secret),
    }
}

fn by_checksum(secret: &PlanSecret) -> Progress {
    if secret.failures() > 0 && secret.plan_failed() {
        return match secret.failure_threshold {
            Some(threshold) if threshold == -1 || secret.failures() < threshold => Progress::Retrying,
            _ => Progress::Failed,
        };
    }
    if secret.plan_applied() { Progress::Applied } else { Progress::Pending }
}

fn health(secret: &PlanSecret) -> Health {
    if secret.probe_statuses.get().is_none() || secret.checksum.is_none() {
        return Health::Unknown;
    }
    let statuses = secret.known_probe_statuses().into_iter();
    let unhealthy: Vec<_> = statuses.filter(|(_, status)| !status.healthy).map(|(name, _)| name).collect();
    if unhealthy.is_empty() { Health::Healthy } else { Health::Unhealthy(unhealthy) }
}

/// Whether the Machine's condition `PlanApplied` has to be false, and with it what to tell the user. Not every failed
/// try counts: while the agent still tries, only if it would go on for ever.
pub fn plan_applied_is_false(secret: &PlanSecret) -> bool {
    let exhausted = match secret.max_failures {
        None => true,
        Some(max) => secret.failures() >= max,
    };
    match secret.state {
        Some(PlanState::Failed) => true,
        _ => secret.plan_failed() && exhausted,
    }
}

/// What follows from the agent's writes: the copy of the applied plan, the first time that all probes were healthy,
/// the end of outputs that belong to no instruction. Empty when there is nothing to do.
pub fn upkeep(data: &Data, annotations: &Annotations, now: Timestamp) -> Update {
    let secret = PlanSecret::read(data);
    let mut update = Update::default();
    if progress(&secret) == Progress::Applied && secret.applied_plan != secret.checksum {
        update.data.insert(APPLIED_PLAN, data.get(PLAN).cloned());
    }
    let passed = annotations.get(PROBES_PASSED_ANNOTATION).is_some_and(|time| !time.is_empty());
    if health(&secret) == Health::Healthy && !passed {
        update.annotations.insert(PROBES_PASSED_ANNOTATION, rfc3339(now));
    }
    if let (Key::Is(all), Key::Is(_)) = (&secret.periodic_output, &secret.plan) {
        let known = secret.known_periodic_output();
        if known.len() != all.len() {
            let value = if known.is_empty() { Vec::new() } else { output::encode_periodic(&known) };
            update.data.insert(APPLIED_PERIODIC_OUTPUT, Some(value));
        }
    }
    update
}

/// Go's RFC 3339 in UTC, to the second.
fn rfc3339(time: Timestamp) -> String {
    let second = time.round(Unit::Second).unwrap_or(time);
    let second = if second > time { second - jiff::SignedDuration::from_secs(1) } else { second };
    format!("{}Z", Offset::UTC.to_datetime(second))
}
