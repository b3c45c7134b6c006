//! What the agent wants to write, and whether it may still.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Seen;
use crate::document::Checksum;
use crate::gojson::{self, Base64};
use crate::output::{Outputs, PeriodicOutputs};
use crate::probe::ProbeStatuses;
use crate::secret::{Changes, Feedback, PlanSecret, PlanState};

/// One delivery of one plan to one Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The Secret's.
    pub uid: String,
    /// The plan's.
    pub checksum: Checksum,
    /// `plan-revision` while it is in progress; none in the flow without `plan-state`.
    pub revision: Option<i64>,
}

/// How the one-time instructions of a delivery went. Its counters are values, not increments: writing it twice is
/// writing it once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was applied.
    pub delivery: Delivery,
    /// Whether all instructions succeeded.
    pub succeeded: bool,
    /// What they wrote.
    #[serde(with = "outputs")]
    pub outputs: Outputs,
    /// `failure-count` after it.
    pub failure_count: i64,
    /// `success-count` after it.
    pub success_count: i64,
    /// When it ended.
    #[serde(with = "time")]
    pub at: Timestamp,
    /// The Secret has had it.
    pub reported: bool,
}

mod outputs {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::{BTreeMap, Base64, Outputs};

    pub(super) fn serialize<S: Serializer>(outputs: &Outputs, serializer: S) -> Result<S::Ok, S::Error> {
        let map: BTreeMap<_, _> = outputs.iter().map(|(name, bytes)| (name, Base64(bytes.clone()))).collect();
        map.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Outputs, D::Error> {
        let map = BTreeMap::<String, Base64>::deserialize(deserializer)?;
        Ok(map.into_iter().map(|(name, bytes)| (name, bytes.0)).collect())
    }
}

mod time {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::Timestamp;

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Report {
    /// For the disk, so that a result survives the process.
    pub fn encode(&self) -> Vec<u8> {
        gojson::to_vec(self)
    }

    /// From the disk.
    pub fn decode(bytes: &[u8]) -> Result<Self, gojson::Error> {
        gojson::from_slice(bytes)
    }

    fn feedback(&self, secret: &PlanSecret, state: bool) -> Feedback {
        let checksum = self.delivery.checksum;
        let common = Feedback {
            failure_count: Some(self.failure_count),
            success_count: Some(self.success_count),
            last_apply_time: Some(self.at),
            probe_statuses: Some(secret.known_probe_statuses()),
            ..Feedback::default()
        };
        match self.succeeded {
            true => Feedback {
                state: state.then_some(PlanState::Succeeded),
                applied_checksum: Some(Some(checksum)),
                applied_output: Some(self.outputs.clone()),
                failed_checksum: Some(None),
                failed_output: Some(Outputs::new()),
                ..common
            },
            false => Feedback {
                state: state.then_some(PlanState::Failed),
                applied_checksum: secret.plan_applied().then_some(None),
                failed_checksum: Some(Some(checksum)),
                failed_output: Some(self.outputs.clone()),
                ..common
            },
        }
    }
}

/// Something to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Take a pending plan. The revision is the one it will have.
    Claim(Delivery),
    /// The result of an apply.
    Report(Report),
    /// Runs of periodic instructions, answers of probes.
    Tended {
        /// The plan they belong to.
        delivery: Delivery,
        /// Instructions that ran.
        periodic: PeriodicOutputs,
        /// Probes that were asked.
        probes: ProbeStatuses,
    },
}

/// What is to become of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Merge {
    /// Write these keys onto the Secret.
    Write(Changes),
    /// The Secret says it already.
    Done,
    /// It has no place any more.
    GiveUp(GiveUp),
}

/// Why a write has no place any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// The Secret is another one.
    Recreated,
    /// The plan is another one.
    PlanChanged,
    /// The same plan was delivered again, or (for a claim) is no longer pending.
    Redelivered,
}

/// What to write onto the latest state of the Secret, so that it says what we have to say: only keys of the agent,
/// only those that differ. The same function serves the first try and every one after a conflict.
pub fn merge(latest: &Seen, write: &Write) -> Merge {
    let secret = &latest.secret;
    let delivery = match write {
        Write::Claim(delivery) | Write::Tended { delivery, .. } => delivery,
        Write::Report(report) => &report.delivery,
    };
    if latest.uid != delivery.uid {
        return Merge::GiveUp(GiveUp::Recreated);
    }
    if secret.checksum != Some(delivery.checksum) {
        return Merge::GiveUp(GiveUp::PlanChanged);
    }
    let feedback = match write {
        Write::Claim(delivery) => claim(secret, delivery),
        Write::Report(report) => report_onto(secret, report),
        Write::Tended { periodic, probes, .. } => tended_onto(secret, periodic, probes),
    };
    match feedback.map(|feedback| feedback.changes(secret)) {
        None => Merge::GiveUp(GiveUp::Redelivered),
        Some(changes) if changes.is_empty() => Merge::Done,
        Some(changes) => Merge::Write(changes),
    }
}

fn claim(secret: &PlanSecret, delivery: &Delivery) -> Option<Feedback> {
    let next = revision(secret).saturating_add(1);
    let ours = match secret.state {
        Some(PlanState::Pending) => delivery.revision == Some(next),
        // The answer to our write got lost.
        Some(PlanState::InProgress) => delivery.revision == Some(revision(secret)),
        _ => false,
    };
    ours.then(|| Feedback {
        state: Some(PlanState::InProgress),
        revision: delivery.revision,
        ..Feedback::default()
    })
}

fn report_onto(secret: &PlanSecret, report: &Report) -> Option<Feedback> {
    let same_revision = report.delivery.revision == Some(revision(secret));
    let write_state = match (&secret.state, report.delivery.revision) {
        (Some(PlanState::Pending), _) => return None,
        (Some(PlanState::InProgress), None) => return None,
        (Some(_), Some(_)) if !same_revision => return None,
        (Some(PlanState::InProgress | PlanState::Succeeded | PlanState::Failed), Some(_)) => true,
        // Called off while it ran: the orchestrator keeps its word, and learns what happened.
        (Some(PlanState::Cancelled | PlanState::Other(_)), Some(_)) => false,
        (None, _) | (Some(_), None) => false,
    };
    Some(report.feedback(secret, write_state))
}

fn tended_onto(secret: &PlanSecret, periodic: &PeriodicOutputs, probes: &ProbeStatuses) -> Option<Feedback> {
    if secret.state == Some(PlanState::Pending) {
        return None;
    }
    let mut outputs = secret.known_periodic_output();
    outputs.extend(periodic.clone());
    let mut statuses = secret.known_probe_statuses();
    statuses.extend(probes.clone());
    Some(Feedback { periodic_output: Some(outputs), probe_statuses: Some(statuses), ..Feedback::default() })
}

/// `plan-revision`; what is not a number is 0.
pub(super) fn revision(secret: &PlanSecret) -> i64 {
    secret.revision.get().copied().unwrap_or(0).max(0)
}
