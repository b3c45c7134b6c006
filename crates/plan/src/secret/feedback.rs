//! What the agent says about itself, and which keys that takes.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    APPLIED_CHECKSUM, APPLIED_OUTPUT, APPLIED_PERIODIC_OUTPUT, Data, FAILED_CHECKSUM, FAILED_OUTPUT,
    FAILURE_COUNT, Key, LAST_APPLY_TIME, PLAN_REVISION, PLAN_STATE, PROBE_STATUSES, PlanSecret, PlanState,
    SUCCESS_COUNT,
};
use crate::document::Checksum;
use crate::gotime;
use crate::output::{self, Outputs, PeriodicOutputs};
use crate::probe::{self, ProbeStatuses};

/// What to write: a value, or none to remove the key. Keys that are not in it stay as they are.
pub type Changes = BTreeMap<&'static str, Option<Vec<u8>>>;

/// Carries changes onto a Secret's data.
pub fn apply_changes(data: &mut Data, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => data.insert((*key).to_owned(), value.clone()),
            None => data.remove(*key),
        };
    }
}

/// What the agent wants to stand under its own keys; none: it does not care.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Feedback {
    /// See [`PLAN_STATE`].
    pub state: Option<PlanState>,
    /// See [`PLAN_REVISION`].
    pub revision: Option<i64>,
    /// See [`APPLIED_CHECKSUM`]; the inner none empties it.
    pub applied_checksum: Option<Option<Checksum>>,
    /// See [`APPLIED_OUTPUT`].
    pub applied_output: Option<Outputs>,
    /// See [`APPLIED_PERIODIC_OUTPUT`].
    pub periodic_output: Option<PeriodicOutputs>,
    /// See [`FAILED_CHECKSUM`]; the inner none empties it.
    pub failed_checksum: Option<Option<Checksum>>,
    /// See [`FAILED_OUTPUT`]; no output empties it.
    pub failed_output: Option<Outputs>,
    /// See [`FAILURE_COUNT`].
    pub failure_count: Option<i64>,
    /// See [`SUCCESS_COUNT`].
    pub success_count: Option<i64>,
    /// See [`LAST_APPLY_TIME`].
    pub last_apply_time: Option<Timestamp>,
    /// See [`PROBE_STATUSES`].
    pub probe_statuses: Option<ProbeStatuses>,
}

impl Feedback {
    /// What to write so that the Secret says it. What it says already, in whatever bytes, is not written again.
    pub fn changes(&self, secret: &PlanSecret) -> Changes {
        let mut changes = Changes::new();
        let mut set = |key, value: Option<Vec<u8>>| value.map(|value| changes.insert(key, Some(value)));
        let count = |value: Option<i64>, now: &Key<i64>| {
            value.filter(|value| now.get() != Some(value)).map(|value| value.to_string().into_bytes())
        };
        let state = self.state.as_ref().filter(|state| secret.state.as_ref() != Some(state));
        set(PLAN_STATE, state.map(|state| state.as_str().as_bytes().to_vec()));
        set(PLAN_REVISION, count(self.revision, &secret.revision));
        set(APPLIED_CHECKSUM, checksum(self.applied_checksum, &secret.applied_checksum));
        set(APPLIED_OUTPUT, outputs(self.applied_output.as_ref(), &secret.applied_output));
        let periodic = self.periodic_output.as_ref();
        let periodic = periodic.filter(|wanted| !same_map(wanted, &secret.periodic_output));
        set(APPLIED_PERIODIC_OUTPUT, periodic.map(output::encode_periodic));
        set(FAILED_CHECKSUM, checksum(self.failed_checksum, &secret.failed_checksum));
        set(FAILED_OUTPUT, outputs(self.failed_output.as_ref(), &secret.failed_output));
        set(FAILURE_COUNT, count(self.failure_count, &secret.failure_count));
        set(SUCCESS_COUNT, count(self.success_count, &secret.success_count));
        let time = self.last_apply_time.map(gotime::format);
        let time = time.filter(|time| secret.last_apply_time.get().copied() != gotime::parse(time));
        set(LAST_APPLY_TIME, time.map(String::into_bytes));
        let probes = self.probe_statuses.as_ref();
        let probes = probes.filter(|wanted| secret.probe_statuses.get() != Some(wanted));
        set(PROBE_STATUSES, probes.map(probe::encode));
        changes
    }
}

/// Whether a key says what is wanted; for maps in gzip, nothing is as good as none.
fn same_map<V: PartialEq>(wanted: &BTreeMap<String, V>, now: &Key<BTreeMap<String, V>>) -> bool {
    match now {
        Key::Missing => wanted.is_empty(),
        Key::Is(now) => now == wanted,
        Key::Unreadable => false,
    }
}

fn outputs(wanted: Option<&Outputs>, now: &Key<Outputs>) -> Option<Vec<u8>> {
    let wanted = wanted.filter(|wanted| !same_map(wanted, now))?;
    Some(if wanted.is_empty() { Vec::new() } else { output::encode(wanted) })
}

fn checksum(wanted: Option<Option<Checksum>>, now: &Key<Checksum>) -> Option<Vec<u8>> {
    match (wanted?, now) {
        (None, Key::Missing) => None,
        (Some(wanted), Key::Is(now)) if wanted == *now => None,
        (wanted, _) => Some(wanted.map(|sum| sum.to_string().into_bytes()).unwrap_or_default()),
    }
}
