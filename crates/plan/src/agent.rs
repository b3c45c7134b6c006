//! What the agent does next, in both flows, without doing it.
//!
//! There is one question, [`decide`], asked after everything that happens: here is the Secret as last seen, here is
//! what this process remembers, here is the time; what now? The shell does the one [`Step`] it is told, tells
//! [`Local`] how it went, and asks again. Nothing else in the agent chooses.
//!
//! ```text
//! loop {
//!     let (step, next) = decide(&seen, &local, now);
//!     local = next;                     // here and below: make `local.report()` durable if it changed
//!     match step {
//!         Step::Reread        => seen = GET;
//!         Step::Write(w, c)   => PUT seen + c: on success seen = answer, local = local.written(&w, &seen);
//!                                on a conflict seen = GET (decide merges); on any other error wait and ask again
//!         Step::Apply(job)    => local = local.applied(&job, outcome, now)
//!         Step::Tend(chores)  => local = local.tended(&chores, runs, answers, now)
//!         Step::Wait { until, .. } => until then, or until the Secret changes
//!     }
//! }
//! ```
//!
//! While the Secret is deleted there is nothing to ask about; what is remembered is kept.
//!
//! # The two flows
//!
//! With `plan-state` (flow S): `pending` is claimed (`in-progress`, revision + 1) by a write of its own before anything
//! runs; `in-progress` is run, from the beginning; any other state is left alone. One attempt for each `pending`.
//!
//! Without it (flow L): a plan is run when `applied-checksum` is not its own, and once after each start of the agent.
//! A failed one is tried again 30 s after it failed, up to `max-failures`.
//!
//! # Differences from Rancher's agent, on purpose
//!
//! The wire is the same; where both leave a Secret in different states, Rancher's planner reads ours as what happened.
//!
//! - A failure stays. Rancher's agent, in flow S, erases `failed-*` and reports the failed plan's checksum as applied
//!   some seconds later. Idle passes here write nothing but probes and periodic output.
//! - A plan that fails is not reported applied: if its checksum stands in `applied-checksum` from an earlier run, that
//!   key is emptied.
//! - The attempt number is real: failures since the last success + 1, for `pending` too. Rancher's idempotent steps
//!   take an attempt number they have seen for "done".
//! - A result survives. It stays in [`Local`] (and, by [`Report::encode`], on disk) until the Secret has it: through
//!   conflicts, lost answers, a server that is away, a restart. It has no place only when its plan is gone: another
//!   plan, the same plan delivered again, another Secret. A server that was restored to `in-progress` of a plan whose result
//!   is known gets the result again, not another run.
//! - A resource version that went back is looked up with a GET and then believed. Rancher's agent gives up for minutes,
//!   and for good after a restore. So is the first state that a process, or a new Secret, shows: a list may be behind.
//! - The result of the one-time instructions is written at once, with `{}` for each probe of which nothing is known
//!   yet, so that "applied" never reads as "healthy"; Rancher's agent waits for periodic instructions and all initial
//!   delays first.
//! - Nothing is written when nothing changed: outputs are compared unpacked.
//! - In flow L a plan that was applied before is run again if another one failed in between. Rancher's agent calls it
//!   applied.
//! - In flow L the run that each start of the agent makes is still owed after it was postponed.
//! - Output of instructions that are not in the plan, and status of probes that are not, is not carried along for ever.
//! - A plan that cannot be read fails (flow S) instead of staying `pending`.
//! - `last-apply-time` is the end of the run, so that the cooldown is one.
//! - A `probe-period-seconds` that is removed is forgotten.
//!
//! Kept, although one may wonder: in flow L the failure count goes on over a change of plan, since the attempt number
//! comes from it; `in-progress` after a crash runs with the attempt number it had.

mod decide;
mod local;
mod report;

pub use decide::{Chores, Job, Step, Why, decide};
pub use local::{Local, Outcome, Tended};
pub use report::{Delivery, GiveUp, Merge, Report, Write, merge};

use crate::secret::PlanSecret;

/// How a state of the Secret came to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From a list or a watch, which may be behind.
    Watch,
    /// From a GET without a resource version, or as the answer to a write: as new as can be.
    Live,
}

/// The Secret as last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// How it came to us.
    pub source: Source,
    /// What it says.
    pub secret: PlanSecret,
}
