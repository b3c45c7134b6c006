//! What comes out: everything the shell has to do, and what it has to say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use plan::Document;
use plan::orchestrator::Terms;

use crate::epoch::Epoch;
use crate::impact::Impact;
use crate::lint::Violation;
use crate::snapshot::MachineName;
use crate::wait::Wait;

/// What to do next. The shell does all of it, in this order, and asks again when anything changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The Secret with the join tokens has to be made.
    pub make_tokens: bool,
    /// Labels and annotations of RKEBootstraps and plan Secrets.
    pub marks: BTreeMap<MachineName, Marks>,
    /// Plans to deliver. Marks of the same machine's RKEBootstrap are written before, its handshake in the same write.
    pub writes: BTreeMap<MachineName, PlanWrite>,
    /// Plans to call off: `plan-state` becomes `cancelled`, if the Secret is still as it was seen.
    pub cancels: BTreeSet<MachineName>,
    /// Etcd members and machines to let go.
    pub releases: Vec<Release>,
    /// The condition `Reconciled` of machines.
    pub machines: BTreeMap<MachineName, Condition>,
    /// The control plane's status.
    pub status: Status,
    /// What is waited for; what the control plane as a whole waits for, if anything, comes first.
    pub waits: Vec<Wait>,
    /// When to ask again although nothing changed.
    pub wake_at: Option<Timestamp>,
    /// How it came about.
    pub report: Report,
    /// Not empty: the decision broke a rule and was emptied. A defect, to be reported.
    pub refused: Vec<Violation>,
}

/// Labels and annotations to set, or (none) to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Labels of the RKEBootstrap.
    pub labels: BTreeMap<&'static str, Option<String>>,
    /// Annotations of the RKEBootstrap.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// Annotations of the plan Secret.
    pub handshake: BTreeMap<&'static str, Option<String>>,
}

/// A plan to deliver with [`plan::orchestrator::deliver`].
#[derive(Clone, Debug, PartialEq)]
pub struct PlanWrite {
    /// The plan.
    pub plan: Arc<Document>,
    /// On what terms.
    pub terms: Terms,
    /// Why.
    pub why: Why,
    /// What it does to the node.
    pub impact: Impact,
}

/// Why a plan is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The machine has none.
    Initial,
    /// Only files changed that disturb nobody.
    Minor,
    /// The desired plan changed.
    Change,
    /// The same plan failed before.
    Retry,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Initial => "initial",
            Why::Minor => "minor",
            Why::Change => "change",
            Why::Retry => "retry",
        })
    }
}

/// A step of letting an etcd machine go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// Ask the distribution, by an annotation of the Node, to remove the etcd member.
    RemoveMember {
        /// The machine.
        machine: MachineName,
        /// Its node.
        node: String,
    },
    /// Take the hook off the Machine.
    DropHook {
        /// The machine.
        machine: MachineName,
        /// Why it may go.
        reason: &'static str,
    },
}

impl Release {
    /// Whom it is about.
    pub fn machine(&self) -> &MachineName {
        match self {
            Release::RemoveMember { machine, .. } | Release::DropHook { machine, .. } => machine,
        }
    }
}

/// A condition to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// One word.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl Condition {
    /// Waiting, with words.
    pub(crate) fn waiting(message: impl Into<String>) -> Self {
        Condition { status: "Unknown", reason: api::catalogue::reasons::WAITING, message: message.into() }
    }

    /// True, without words.
    pub(crate) fn met(reason: &'static str) -> Self {
        Condition { status: "True", reason, message: String::new() }
    }
}

/// The control plane's status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Conditions to set, by type; others stay.
    pub conditions: BTreeMap<&'static str, Condition>,
    /// `status.initialization.controlPlaneInitialized`, if it changes.
    pub initialized: Option<bool>,
    /// `status.appliedSpec` becomes the spec.
    pub spec_applied: bool,
    /// The epoch to store, if it changes.
    pub epoch: Option<Epoch>,
    /// The Beacon is to be taken before plans are written (true), or given back (false).
    pub beacon: Option<bool>,
    /// The Cluster API Cluster has to be unpaused, so that it can go.
    pub unpause: bool,
    /// The Cluster API Cluster's condition `ControlPlaneInitialized` becomes false.
    pub uninitialize_capi: bool,
}

/// How a decision came about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The epoch of rendering.
    pub epoch: Option<Epoch>,
    /// The node that started the cluster.
    pub init: Option<MachineName>,
    /// What the user should know, each once.
    pub warnings: BTreeSet<String>,
}
