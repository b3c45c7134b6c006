//! The plan Secret: its keys as one typed value.
//!
//! Reading never fails: a key that cannot be read is [`Key::Unreadable`], which equals nothing and is therefore
//! replaced by the next write of its owner. Who owns which key:
//!
//! | key | owner |
//! |---|---|
//! | `plan`, `max-failures`, `failure-threshold`, `probe-period-seconds`, `appliedPlan` | orchestrator |
//! | `plan-state` | orchestrator writes `pending` (and `cancelled`), the agent all else |
//! | `plan-revision`, `applied-*`, `failed-*`, `failure-count`, `success-count`, `last-apply-time`, `probe-statuses` | agent |

mod feedback;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::document::{Checksum, Document};
use crate::gotime;
use crate::output::{self, Outputs, PeriodicOutputs};
use crate::probe::{self, ProbeStatuses};

pub use feedback::{Changes, Feedback, apply_changes};

/// `.data` of a Secret, base64 already taken off.
pub type Data = BTreeMap<String, Vec<u8>>;

/// The plan's exact bytes.
pub const PLAN: &str = "plan";
/// How often the agent tries a failing plan, without `plan-state`.
pub const MAX_FAILURES: &str = "max-failures";
/// From how many failures on the orchestrator takes the plan for failed.
pub const FAILURE_THRESHOLD: &str = "failure-threshold";
/// Seconds between probes.
pub const PROBE_PERIOD: &str = "probe-period-seconds";
/// See [`PlanState`].
pub const PLAN_STATE: &str = "plan-state";
/// Counts the times that the agent took a pending plan.
pub const PLAN_REVISION: &str = "plan-revision";
/// Checksum of the plan that was applied last.
pub const APPLIED_CHECKSUM: &str = "applied-checksum";
/// Output of its one-time instructions.
pub const APPLIED_OUTPUT: &str = "applied-output";
/// Output of the periodic instructions.
pub const APPLIED_PERIODIC_OUTPUT: &str = "applied-periodic-output";
/// Checksum of the plan that failed last; empty after a success.
pub const FAILED_CHECKSUM: &str = "failed-checksum";
/// Output of its one-time instructions.
pub const FAILED_OUTPUT: &str = "failed-output";
/// Failures since the last success.
pub const FAILURE_COUNT: &str = "failure-count";
/// Successes since the last failure.
pub const SUCCESS_COUNT: &str = "success-count";
/// When a plan was last run.
pub const LAST_APPLY_TIME: &str = "last-apply-time";
/// Health by probe.
pub const PROBE_STATUSES: &str = "probe-statuses";
/// The orchestrator's copy of the plan that was applied last.
pub const APPLIED_PLAN: &str = "appliedPlan";

/// The keys that agents write: their report.
pub const AGENT_KEYS: [&str; 11] = [
    PLAN_STATE,
    PLAN_REVISION,
    APPLIED_CHECKSUM,
    APPLIED_OUTPUT,
    APPLIED_PERIODIC_OUTPUT,
    FAILED_CHECKSUM,
    FAILED_OUTPUT,
    FAILURE_COUNT,
    SUCCESS_COUNT,
    LAST_APPLY_TIME,
    PROBE_STATUSES,
];
/// The annotations that agents write.
pub const AGENT_NOTES: [&str; 3] =
    [crate::authority::TRUSTED, crate::binary::RUNNING, crate::binary::REFUSED];

/// Annotation: when the plan was last written.
pub const LAST_UPDATED_ANNOTATION: &str = "rke.cattle.io/plan-last-updated";
/// Annotation: when all probes of this plan were first healthy; empty until then.
pub const PROBES_PASSED_ANNOTATION: &str = "rke.cattle.io/plan-probes-passed";

/// Annotation, while everything is moved to another server: where that is, as JSON. The agent goes there.
pub const MOVED_TO_ANNOTATION: &str = "herdsman.io/moved-to";
/// Annotation of the copy there: the agent has not come yet. It takes this off.
pub const AGENT_EXPECTED_ANNOTATION: &str = "herdsman.io/agent-expected";

/// What is between two rounds of probes unless the Secret says otherwise.
pub const DEFAULT_PROBE_PERIOD: Duration = Duration::from_secs(5);
/// The bounds of what it may say.
const PROBE_PERIODS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(86_400));

/// Where a plan is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanState {
    /// Delivered, not yet taken.
    Pending,
    /// Taken by the agent, which is on it, or was when it died.
    InProgress,
    /// All one-time instructions succeeded.
    Succeeded,
    /// One of them did not.
    Failed,
    /// Called off by the orchestrator.
    Cancelled,
    /// A word that we do not know: nothing is applied.
    Other(String),
}

impl PlanState {
    /// The word on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            PlanState::Pending => "pending",
            PlanState::InProgress => "in-progress",
            PlanState::Succeeded => "succeeded",
            PlanState::Failed => "failed",
            PlanState::Cancelled => "cancelled",
            PlanState::Other(word) => word,
        }
    }

    /// None for no word at all: the flow without `plan-state`.
    fn parse(value: &[u8]) -> Option<Self> {
        Some(match value {
            b"" => return None,
            b"pending" => PlanState::Pending,
            b"in-progress" => PlanState::InProgress,
            b"succeeded" => PlanState::Succeeded,
            b"failed" => PlanState::Failed,
            b"cancelled" => PlanState::Cancelled,
            other => PlanState::Other(String::from_utf8_lossy(other).into_owned()),
        })
    }
}

/// What stands under a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Key<T> {
    /// No such key, or an empty value.
    #[default]
    Missing,
    /// A value.
    Is(T),
    /// A value that is not what it should be.
    Unreadable,
}

impl<T> Key<T> {
    /// The value, if there is one that can be read.
    pub fn get(&self) -> Option<&T> {
        match self {
            Key::Is(value) => Some(value),
            Key::Missing | Key::Unreadable => None,
        }
    }

    fn read<E>(data: &Data, key: &str, parse: impl FnOnce(&[u8]) -> Result<T, E>) -> Self {
        match data.get(key).map(Vec::as_slice) {
            None | Some(b"") => Key::Missing,
            Some(value) => parse(value).map_or(Key::Unreadable, Key::Is),
        }
    }
}

/// The Secret's keys. Build it with [`PlanSecret::read`].
#[derive(Clone, Default, PartialEq)]
pub struct PlanSecret {
    /// The plan; unreadable if it is not JSON of the right shape.
    pub plan: Key<Document>,
    /// Checksum over the bytes under `plan`, readable or not.
    pub checksum: Option<Checksum>,
    /// Unlimited unless it is a number other than -1.
    pub max_failures: Option<i64>,
    /// As written; -1 is "never".
    pub failure_threshold: Option<i64>,
    /// Within sane bounds.
    pub probe_period: Duration,
    /// None: the flow without `plan-state`.
    pub state: Option<PlanState>,
    /// See [`PLAN_REVISION`].
    pub revision: Key<i64>,
    /// See [`APPLIED_CHECKSUM`].
    pub applied_checksum: Key<Checksum>,
    /// See [`APPLIED_OUTPUT`].
    pub applied_output: Key<Outputs>,
    /// See [`APPLIED_PERIODIC_OUTPUT`].
    pub periodic_output: Key<PeriodicOutputs>,
    /// See [`FAILED_CHECKSUM`].
    pub failed_checksum: Key<Checksum>,
    /// See [`FAILED_OUTPUT`].
    pub failed_output: Key<Outputs>,
    /// See [`FAILURE_COUNT`].
    pub failure_count: Key<i64>,
    /// See [`SUCCESS_COUNT`].
    pub success_count: Key<i64>,
    /// See [`LAST_APPLY_TIME`].
    pub last_apply_time: Key<Timestamp>,
    /// See [`PROBE_STATUSES`]. Missing: nothing is known, least of all that anything is healthy.
    pub probe_statuses: Key<ProbeStatuses>,
    /// Checksum of [`APPLIED_PLAN`].
    pub applied_plan: Option<Checksum>,
}

impl PlanSecret {
    /// Reads all keys.
    pub fn read(data: &Data) -> Self {
        let bytes = |key: &str| data.get(key).filter(|value| !value.is_empty());
        let limit = |key: &str| Key::read(data, key, number).get().copied();
        let checksum = |key: &str| Key::read(data, key, |value| text(value)?.parse().map_err(drop));
        PlanSecret {
            plan: Key::read(data, PLAN, |value| Document::parse(value)),
            checksum: bytes(PLAN).map(|value| Checksum::of(value)),
            max_failures: limit(MAX_FAILURES).filter(|max| *max != -1),
            failure_threshold: limit(FAILURE_THRESHOLD),
            probe_period: bytes(PROBE_PERIOD).and_then(|v| period(v)).unwrap_or(DEFAULT_PROBE_PERIOD),
            state: data.get(PLAN_STATE).and_then(|value| PlanState::parse(value)),
            revision: Key::read(data, PLAN_REVISION, number),
            applied_checksum: checksum(APPLIED_CHECKSUM),
            applied_output: Key::read(data, APPLIED_OUTPUT, output::decode),
            periodic_output: Key::read(data, APPLIED_PERIODIC_OUTPUT, output::decode_periodic),
            failed_checksum: checksum(FAILED_CHECKSUM),
            failed_output: Key::read(data, FAILED_OUTPUT, output::decode),
            failure_count: Key::read(data, FAILURE_COUNT, number),
            success_count: Key::read(data, SUCCESS_COUNT, number),
            last_apply_time: Key::read(data, LAST_APPLY_TIME, |v| {
                text(v).and_then(|t| gotime::parse(t).ok_or(()))
            }),
            probe_statuses: Key::read(data, PROBE_STATUSES, probe::decode),
            applied_plan: bytes(APPLIED_PLAN).map(|value| Checksum::of(value)),
        }
    }

    /// Failures since the last success; what is not a number is none.
    pub fn failures(&self) -> i64 {
        self.failure_count.get().copied().unwrap_or(0).max(0)
    }

    /// Whether the plan in the Secret is the one that failed last.
    pub fn plan_failed(&self) -> bool {
        self.checksum.is_some() && self.failed_checksum.get() == self.checksum.as_ref()
    }

    /// Whether the plan in the Secret is the one that was applied last.
    pub fn plan_applied(&self) -> bool {
        self.checksum.is_some() && self.applied_checksum.get() == self.checksum.as_ref()
    }

    /// The periodic outputs, those of instructions that are no longer in the plan left out.
    pub fn known_periodic_output(&self) -> PeriodicOutputs {
        let mut outputs = self.periodic_output.get().cloned().unwrap_or_default();
        if let Some(document) = self.plan.get() {
            let instructions = &document.plan().periodic_instructions;
            outputs.retain(|name, _| instructions.iter().any(|instruction| instruction.common.name == *name));
        }
        outputs
    }

    /// A status for each probe of the plan and for no other: `{}`, not healthy, where nothing is known.
    pub fn known_probe_statuses(&self) -> ProbeStatuses {
        let known = self.probe_statuses.get();
        let probes = self.plan.get().into_iter().flat_map(|document| document.plan().probes.keys());
        let status = |name: &String| known.and_then(|known| known.get(name)).cloned().unwrap_or_default();
        probes.map(|name| (name.clone(), status(name))).collect()
    }
}

/// States and checksums, not contents.
impl fmt::Debug for PlanSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanSecret")
            .field("checksum", &self.checksum)
            .field("state", &self.state)
            .field("revision", &self.revision)
            .field("applied_checksum", &self.applied_checksum)
            .field("failed_checksum", &self.failed_checksum)
            .field("failure_count", &self.failure_count)
            .field("success_count", &self.success_count)
            .field("last_apply_time", &self.last_apply_time)
            .field("probe_statuses", &self.probe_statuses)
            .finish_non_exhaustive()
    }
}

fn text(value: &[u8]) -> Result<&str, ()> {
    std::str::from_utf8(value).map_err(drop)
}

/// As Go's `Atoi`: a sign and digits.
fn number(value: &[u8]) -> Result<i64, ()> {
    text(value)?.parse().map_err(drop)
}

/// Decimal seconds.
fn period(value: &[u8]) -> Option<Duration> {
    let seconds: f64 = text(value).ok()?.parse().ok()?;
    let period = Duration::try_from_secs_f64(seconds).ok()?;
    Some(period.clamp(PROBE_PERIODS.0, PROBE_PERIODS.1))
}
