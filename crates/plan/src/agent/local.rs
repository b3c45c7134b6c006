//! What the agent's process remembers, and how it changes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::decide::{Chores, Job};
use super::report::{Report, Write};
use super::{Seen, Source};
use crate::document::Checksum;
use crate::output::{Outputs, PeriodicOutputs};
use crate::periodic;
use crate::probe;
use crate::secret::DEFAULT_PROBE_PERIOD;

/// How the first postponement and the last one without an end of its own are.
const POSTPONEMENTS: (i64, i64) = (5, 300);

/// What the agent's process remembers. All of it may be lost at any time, but for the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Local {
    /// The Secret that all this is about.
    pub(super) uid: Option<String>,
    /// The newest state of it that we believed.
    pub(super) resource_version: Option<String>,
    /// This process has run a plan, or seen why not: the run that each start owes in flow L is paid.
    pub(super) started: bool,
    /// The last result.
    pub(super) report: Option<Report>,
    /// Periodic runs and probes that the Secret does not have yet.
    pub(super) unwritten: Option<Write>,
    /// An apply that could not be made now.
    pub(super) postponed: Option<Postponed>,
    /// When this process last ended an apply.
    pub(super) applied_at: Option<Timestamp>,
    /// When each probe was last asked, since the last apply.
    pub(super) probed: BTreeMap<String, Timestamp>,
    /// Periodic instructions rest, after one of them failed with others still to run: since when.
    pub(super) stopped_at: Option<Timestamp>,
}

/// An apply that could not be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Postponed {
    pub(super) checksum: Checksum,
    pub(super) at: Timestamp,
    pub(super) until: Timestamp,
    pub(super) times: u32,
}

/// How an apply went.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All one-time instructions succeeded; their saved output.
    Succeeded(Outputs),
    /// One failed; the saved output up to and with it.
    Failed(Outputs),
    /// Nothing was run, and it is not the plan's fault: an interlock, a full disk, a shutdown. Nothing is reported or
    /// counted; it is tried again then, or after a growing pause.
    Postponed(Option<Timestamp>),
}

/// What came of chores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tended {
    /// Instructions that ran, in their order, each with the time it started: the due ones up to the first that failed.
    pub runs: Vec<(usize, periodic::Run, Timestamp)>,
    /// Probes that were asked, and whether they succeeded.
    pub answers: BTreeMap<String, bool>,
}

impl Local {
    /// A process that starts, with the report that the last one left on disk.
    pub fn resume(report: Option<Report>) -> Self {
        Local { report, ..Local::default() }
    }

    /// The last result, to be kept on disk. Whenever it changes (also to none: an apply begins), that has to be durable
    /// before anything else is done.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// The Secret as seen becomes the one we work with; none if it must be read again first.
    pub(super) fn adopt(&self, seen: &Seen) -> Option<Self> {
        let other = self.uid.as_ref().is_some_and(|uid| *uid != seen.uid);
        let mut next = if other { Local::default() } else { self.clone() };
        // A list may be behind as well: a process that knows nothing yet looks for itself first.
        let doubtful =
            next.resource_version.as_deref().is_none_or(|known| older(&seen.resource_version, known));
        if doubtful && seen.source == Source::Watch {
            return None;
        }
        next.uid = Some(seen.uid.clone());
        next.resource_version = Some(seen.resource_version.clone());
        Some(next)
    }

    /// After an apply.
    pub fn applied(&self, job: &Job, outcome: Outcome, now: Timestamp) -> Self {
        let (succeeded, outputs) = match outcome {
            Outcome::Succeeded(outputs) => (true, outputs),
            Outcome::Failed(outputs) => (false, outputs),
            Outcome::Postponed(until) => return self.postponed(job.delivery.checksum, until, now),
        };
        let mut all = job.outputs.clone();
        all.extend(outputs);
        let report = Report {
            delivery: job.delivery.clone(),
            succeeded,
            outputs: all,
            failure_count: if succeeded { 0 } else { job.failures.saturating_add(1) },
            success_count: if succeeded { job.successes.saturating_add(1) } else { 0 },
            at: now,
            reported: false,
        };
        Local {
            started: true,
            report: Some(report),
            postponed: None,
            applied_at: Some(now),
            probed: BTreeMap::new(),
            stopped_at: None,
            ..self.clone()
        }
    }

    /// After chores that something kept us from (see [`Outcome::Postponed`]).
    pub fn postponed(&self, checksum: Checksum, until: Option<Timestamp>, now: Timestamp) -> Self {
        let before = self.postponed.as_ref().filter(|before| before.checksum == checksum);
        let times = before.map_or(0, |before| before.times);
        let (first, last) = POSTPONEMENTS;
        let pause = SignedDuration::from_secs(first.saturating_mul(1 << times.min(10)).min(last));
        let until = until.unwrap_or_else(|| now.checked_add(pause).unwrap_or(Timestamp::MAX));
        let postponed = Postponed { checksum, at: now, until, times: times.saturating_add(1) };
        Local { postponed: Some(postponed), ..self.clone() }
    }

    /// After chores.
    pub fn tended(&self, chores: &Chores, tended: Tended, now: Timestamp) -> Self {
        let plan = chores.document.plan();
        let mut probed = self.probed.clone();
        probed.extend(chores.probes.iter().map(|name| (name.clone(), now)));
        let ran = tended.runs.len();
        let mut outputs = PeriodicOutputs::new();
        for (index, run, started) in tended.runs {
            if let Some(instruction) = plan.periodic_instructions.get(index) {
                let name = &instruction.common.name;
                let output = periodic::record(instruction, chores.outputs.get(name), run, started);
                outputs.insert(name.clone(), output);
            }
        }
        let probes = tended.answers.into_iter().filter_map(|(name, success)| {
            let before = chores.statuses.get(&name).cloned().unwrap_or_default();
            Some((name.clone(), probe::count(plan.probes.get(&name)?, &before, success)))
        });
        let write =
            Write::Tended { delivery: chores.delivery.clone(), periodic: outputs, probes: probes.collect() };
        Local {
            unwritten: Some(write),
            postponed: None,
            probed,
            stopped_at: (ran < chores.periodic.len()).then_some(now),
            ..self.clone()
        }
    }

    /// After the API server took a write: with its answer, which is as live as can be. From here on nothing older than
    /// that is believed.
    pub fn written(&self, write: &Write, answer: &Seen) -> Self {
        let mut next = self.clone();
        next.uid = Some(answer.uid.clone());
        next.resource_version = Some(answer.resource_version.clone());
        match write {
            Write::Claim(_) => {}
            Write::Report(report) => {
                if let Some(kept) = next.report.as_mut().filter(|kept| kept.delivery == report.delivery) {
                    kept.reported = true;
                }
            }
            Write::Tended { .. } => next.unwritten = None,
        }
        next
    }

    /// When periodic instructions may run again after one of them failed with others still to run.
    pub(super) fn rest_until(&self, period: Duration, now: Timestamp) -> Option<Timestamp> {
        let since = self.stopped_at.filter(|since| *since <= now)?;
        let period =
            SignedDuration::try_from(period.max(DEFAULT_PROBE_PERIOD)).unwrap_or(SignedDuration::MAX);
        Some(since.checked_add(period).unwrap_or(Timestamp::MAX))
    }
}

/// Whether one resource version is before another, as far as both are numbers.
fn older(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}
