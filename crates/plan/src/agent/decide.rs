//! The one question: what now?

use jiff::{SignedDuration, Timestamp};

use super::Seen;
use super::local::{Local, Outcome};
use super::report::{Delivery, Merge, Write, merge, revision};
use crate::document::{Document, Plan};
use crate::output::{Outputs, PeriodicOutputs};
use crate::periodic;
use crate::probe::{self, ProbeStatuses};
use crate::secret::{Changes, Key, PlanSecret, PlanState};

/// How long a failed plan rests in flow L.
const COOLDOWN: SignedDuration = SignedDuration::from_secs(30);

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// GET the Secret: what the watch says is older than what we know, or the first that we hear.
    Reread,
    /// PUT the Secret with these changes.
    Write(Write, Changes),
    /// Write the files of a plan and run its one-time instructions.
    Apply(Box<Job>),
    /// Run periodic instructions, ask probes.
    Tend(Box<Chores>),
    /// Nothing, until then or until the Secret changes.
    Wait {
        /// None: nothing will happen by time alone.
        until: Option<Timestamp>,
        /// For the log.
        why: Why,
    },
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The Secret has no plan.
    NoPlan,
    /// The plan cannot be read.
    Unreadable,
    /// The plan is applied.
    Applied,
    /// The plan failed; the orchestrator has the next word.
    Failed,
    /// The plan failed as often as it may.
    TooManyFailures,
    /// The plan failed, and is tried again.
    CoolingDown,
    /// The state is final although this plan was not run: called off, or written by an orchestrator that does not know
    /// `plan-state` over one that does.
    NotForUs,
    /// See [`Outcome::Postponed`].
    Postponed,
}

/// A plan to apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Which delivery of it.
    pub delivery: Delivery,
    /// The number to give to instructions: failures since the last success + 1.
    pub attempt: i64,
    /// The plan.
    pub document: Document,
    /// Output that earlier runs of the plan's instructions left; new output replaces it by name.
    pub outputs: Outputs,
    pub(super) failures: i64,
    pub(super) successes: i64,
}

/// What is due beside applying.
#[derive(Clone, Debug, PartialEq)]
pub struct Chores {
    /// Which delivery of the plan.
    pub delivery: Delivery,
    /// The plan.
    pub document: Document,
    /// Periodic instructions to run in this order, up to the first that fails, by their place in the plan.
    pub periodic: Vec<usize>,
    /// Probes to ask, all at once.
    pub probes: Vec<String>,
    /// What periodic instructions last gave.
    pub outputs: PeriodicOutputs,
    pub(super) statuses: ProbeStatuses,
}

/// Says what to do next. Calling it again without anything having happened says the same again.
pub fn decide(seen: &Seen, local: &Local, now: Timestamp) -> (Step, Local) {
    let Some(mut local) = local.adopt(seen) else { return (Step::Reread, local.clone()) };
    let step = unwritten(seen, &mut local).unwrap_or_else(|| settle(seen, &mut local, now));
    (step, local)
}

/// What the Secret has not been told yet comes first.
fn unwritten(seen: &Seen, local: &mut Local) -> Option<Step> {
    if let Some(report) = local.report.clone() {
        // A server that was restored to a time before the report gets it again. In flow L a missing checksum may as
        // well be the orchestrator's wish for another run.
        let again = report.delivery.revision.is_some() && seen.secret.state == Some(PlanState::InProgress);
        let due = again || !report.reported;
        let write = Write::Report(report);
        match merge(seen, &write) {
            Merge::Write(changes) if due => return Some(Step::Write(write, changes)),
            Merge::Write(_) => {}
            Merge::Done => local.report.iter_mut().for_each(|report| report.reported = true),
            // It may have its place again: a server that is restored, a plan that comes back before another ran.
            Merge::GiveUp(_) => {}
        }
    }
    let write = local.unwritten.take()?;
    let Merge::Write(changes) = merge(seen, &write) else { return None };
    local.unwritten = Some(write.clone());
    Some(Step::Write(write, changes))
}

fn settle(seen: &Seen, local: &mut Local, now: Timestamp) -> Step {
    let secret = &seen.secret;
    let Some(checksum) = secret.checksum else { return Step::Wait { until: None, why: Why::NoPlan } };
    let delivery = Delivery {
        uid: seen.uid.clone(),
        checksum,
        revision: secret.state.is_some().then(|| revision(secret)),
    };
    local.postponed = local.postponed.take().filter(|postponed| postponed.checksum == checksum);
    if let Some(postponed) = local.postponed.as_ref().filter(|p| p.at <= now && now < p.until) {
        return Step::Wait { until: Some(postponed.until), why: Why::Postponed };
    }
    let verdict = match &secret.state {
        Some(state) => with_state(secret, state),
        None => without_state(secret, local.started, now),
    };
    match (verdict, secret.plan.get()) {
        (Verdict::Claim, _) => {
            let delivery = Delivery { revision: Some(revision(secret).saturating_add(1)), ..delivery };
            // After a restore the same number may be given twice; what we know is about the first.
            local.report = local.report.take().filter(|report| report.delivery != delivery);
            let write = Write::Claim(delivery);
            match merge(seen, &write) {
                Merge::Write(changes) => Step::Write(write, changes),
                Merge::Done | Merge::GiveUp(_) => Step::Reread,
            }
        }
        (Verdict::Apply, Some(document)) => {
            // From here on the machine is no longer what the last result says.
            local.report = None;
            Step::Apply(Box::new(job(secret, delivery, document)))
        }
        (Verdict::Apply, None) if secret.state.is_some() => refuse(seen, local, delivery, now),
        (Verdict::Apply | Verdict::Rest { .. }, None) => Step::Wait { until: None, why: Why::Unreadable },
        (Verdict::Rest { until, why }, Some(document)) => {
            local.started = true;
            match tend(secret, local, &delivery, document, now) {
                Ok(chores) => Step::Tend(Box::new(chores)),
                Err(next) => care(seen, local, delivery)
                    .unwrap_or(Step::Wait { until: next.into_iter().chain(until).min(), why }),
            }
        }
    }
}

enum Verdict {
    Claim,
    Apply,
    Rest { until: Option<Timestamp>, why: Why },
}

/// Flow S.
fn with_state(secret: &PlanSecret, state: &PlanState) -> Verdict {
    let why = match state {
        PlanState::Pending => return Verdict::Claim,
        PlanState::InProgress => return Verdict::Apply,
        PlanState::Succeeded if secret.plan_applied() => Why::Applied,
        // Rancher's agent leaves the checksum of a failed plan under `applied-checksum`.
        PlanState::Failed if secret.plan_failed() || secret.plan_applied() => Why::Failed,
        _ => Why::NotForUs,
    };
    Verdict::Rest { until: None, why }
}

/// Flow L.
fn without_state(secret: &PlanSecret, started: bool, now: Timestamp) -> Verdict {
    let failures = secret.failures();
    let failed = failures > 0 && secret.plan_failed();
    let other_failed = failures > 0 && secret.failed_checksum.get().is_some() && !failed;
    if secret.plan_applied() && started && !failed && !other_failed {
        return Verdict::Rest { until: None, why: Why::Applied };
    }
    if !failed {
        return Verdict::Apply;
    }
    if secret.max_failures.is_some_and(|max| failures >= max) {
        return Verdict::Rest { until: None, why: Why::TooManyFailures };
    }
    let last = secret.last_apply_time.get().filter(|last| **last <= now);
    let until = last.map(|last| last.checked_add(COOLDOWN).unwrap_or(Timestamp::MAX));
    match until.filter(|until| now < *until) {
        Some(until) => Verdict::Rest { until: Some(until), why: Why::CoolingDown },
        None => Verdict::Apply,
    }
}

fn job(secret: &PlanSecret, delivery: Delivery, document: &Document) -> Job {
    let kept = if secret.plan_failed() { &secret.failed_output } else { &secret.applied_output };
    let mut outputs = kept.get().cloned().unwrap_or_default();
    outputs.retain(|name, _| document.plan().output_names().any(|known| known == name));
    Job {
        delivery,
        attempt: secret.failures().saturating_add(1),
        document: document.clone(),
        outputs,
        failures: secret.failures(),
        successes: secret.success_count.get().copied().unwrap_or(0).max(0),
    }
}

/// A plan that cannot be read has failed.
fn refuse(seen: &Seen, local: &mut Local, delivery: Delivery, now: Timestamp) -> Step {
    let job = job(&seen.secret, delivery, &Document::encode(Plan::default()));
    *local = local.applied(&job, Outcome::Failed(Outputs::new()), now);
    unwritten(seen, local).unwrap_or(Step::Wait { until: None, why: Why::Unreadable })
}

/// What is due now, or when something will be.
fn tend(
    secret: &PlanSecret,
    local: &Local,
    delivery: &Delivery,
    document: &Document,
    now: Timestamp,
) -> Result<Chores, Option<Timestamp>> {
    let plan = document.plan();
    let (outputs, statuses) = (secret.known_periodic_output(), secret.known_probe_statuses());
    let next_try = |probe, tried| probe::next_try(probe, local.applied_at, tried, secret.probe_period, now);
    let tries = plan.probes.iter().map(|(name, probe)| next_try(probe, local.probed.get(name).copied()));
    let (applied, rest) = (secret.last_apply_time.get().copied(), local.rest_until(secret.probe_period, now));
    let runs = plan.periodic_instructions.iter().enumerate().filter_map(|(index, instruction)| {
        let previous = outputs.get(&instruction.common.name);
        let next = periodic::next_run(instruction, previous, applied, now)?;
        Some((index, Some(next).max(rest)?))
    });
    // One round for all: who has a try behind it comes along, so that rounds do not drift apart.
    let round = tries.clone().any(|next| next <= now);
    let asked = plan.probes.iter().filter(|(_, probe)| round && next_try(probe, None) <= now);
    let probes: Vec<_> = asked.map(|(name, _)| name.clone()).collect();
    let periodic: Vec<_> = runs.clone().filter(|(_, next)| *next <= now).map(|(index, _)| index).collect();
    if probes.is_empty() && periodic.is_empty() {
        return Err(tries.chain(runs.map(|(_, next)| next)).min());
    }
    let (delivery, document) = (delivery.clone(), document.clone());
    Ok(Chores { delivery, document, periodic, probes, outputs, statuses })
}

/// What the Secret lacks and only we can give, although nothing is due. Rancher's planner waits for statuses even if
/// there are no probes, and stops at outputs that it cannot read.
fn care(seen: &Seen, local: &mut Local, delivery: Delivery) -> Option<Step> {
    let secret = &seen.secret;
    if secret.probe_statuses.get().is_some() && secret.periodic_output != Key::Unreadable {
        return None;
    }
    let (periodic, probes) = (PeriodicOutputs::new(), ProbeStatuses::new());
    local.unwritten = Some(Write::Tended { delivery, periodic, probes });
    unwritten(seen, local)
}
