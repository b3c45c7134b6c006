//! What a change does to a node.

use std::fmt;

use plan::document::{File, Plan};

use crate::desired::Rendered;
use crate::snapshot::{Cluster, Machine};

/// What a change does to a node, from nothing to everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Impact {
    /// Nothing is written.
    #[default]
    None,
    /// Files change; nothing restarts.
    Files,
    /// The distribution restarts.
    Restart,
    /// The node is drained, then the distribution restarts.
    DrainRestart,
    /// The machine is replaced by another.
    Replace,
}

impl fmt::Display for Impact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Impact::None => "none",
            Impact::Files => "files",
            Impact::Restart => "restart",
            Impact::DrainRestart => "drain+restart",
            Impact::Replace => "replace",
        })
    }
}

/// How a desired plan differs from the delivered one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// There is no delivered plan.
    Absent,
    /// Not at all.
    Equal,
    /// In minor files alone.
    Minor,
    /// In more.
    Change,
}

pub(crate) fn difference(machine: &Machine, desired: &Rendered) -> Difference {
    if !machine.plan.has_plan {
        return Difference::Absent;
    }
    let Some(delivered) = &machine.plan.delivered else { return Difference::Change };
    if delivered.checksum() == desired.document.checksum() || delivered.plan() == desired.document.plan() {
        return Difference::Equal;
    }
    if is_minor(delivered.plan(), desired.document.plan()) { Difference::Minor } else { Difference::Change }
}

/// Only files with the mark `minor` differ.
fn is_minor(before: &Plan, after: &Plan) -> bool {
    let rest = |plan: &Plan| Plan {
        files: plan.files.iter().filter(|file| !file.minor).cloned().collect(),
        ..plan.clone()
    };
    rest(before) == rest(after)
}

/// The value of a variable of the installer.
pub(crate) fn variable<'a>(plan: &'a Plan, names: &[&str]) -> Option<&'a str> {
    let all = plan.instructions.iter().flat_map(|instruction| &instruction.common.env);
    let pairs = all.filter_map(|entry| entry.split_once('='));
    pairs.filter(|(name, _)| names.contains(name)).map(|(_, value)| value).next()
}

/// Variables that carry the stamp, on Linux and on Windows.
const RESTART: [&str; 2] = ["RESTART_STAMP", "WINS_RESTART_STAMP"];
const DRAIN: [&str; 2] = ["DRAIN_HASH", "WINS_DRAIN_HASH"];

/// Whether the distribution restarts when a machine goes on to the desired plan.
pub(crate) fn restarts(machine: &Machine, desired: &Rendered) -> bool {
    // Nobody knows what a plan does that cannot be read.
    let Some(delivered) = machine.plan.delivered.as_ref() else { return machine.plan.has_plan };
    let stamp = |plan: &Plan| variable(plan, &RESTART).map(str::to_owned);
    // A plan that is delivered and not applied may have restarted, or may not: compare with both.
    let applied = machine.plan.applied.as_ref().map(|applied| stamp(applied.plan()));
    let desired = Some(desired.restart_stamp.clone());
    stamp(delivered.plan()) != desired || applied.is_some_and(|applied| applied != desired)
}

/// Whether a machine's applied plan differs in what asks for a drain.
pub(crate) fn drain_hash_differs(machine: &Machine, desired: &Rendered) -> bool {
    let applied = machine.plan.applied.as_ref().and_then(|applied| variable(applied.plan(), &DRAIN));
    applied.is_some_and(|applied| applied != desired.drain_hash)
}

/// What going on to the desired plan does to a machine's node.
pub(crate) fn impact(cluster: &Cluster, machines: usize, machine: &Machine, desired: &Rendered) -> Impact {
    match difference(machine, desired) {
        Difference::Absent | Difference::Equal => Impact::None,
        Difference::Minor => Impact::Files,
        Difference::Change if !restarts(machine, desired) => Impact::Files,
        Difference::Change if crate::drain::is_needed(cluster, machines, machine, desired) => {
            Impact::DrainRestart
        }
        Difference::Change => Impact::Restart,
    }
}

/// How a file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It is new.
    Added,
    /// It is other than before.
    Changed,
    /// It is no longer in the plan. It stays on the machine.
    Dropped,
}

impl fmt::Display for FileChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileChange::Added => "+",
            FileChange::Changed => "~",
            FileChange::Dropped => "-",
        })
    }
}

/// Paths of files that differ, in order.
pub(crate) fn files(before: Option<&Plan>, after: &Plan) -> Vec<(String, FileChange)> {
    let before: &[File] = before.map_or(&[], |plan| &plan.files);
    let find = |files: &'_ [File], path: &str| files.iter().position(|file| file.path == path);
    let mut changes = Vec::new();
    for file in &after.files {
        match find(before, &file.path) {
            None => changes.push((file.path.clone(), FileChange::Added)),
            Some(at) if before[at] != *file => changes.push((file.path.clone(), FileChange::Changed)),
            Some(_) => {}
        }
    }
    let dropped = before.iter().filter(|file| find(&after.files, &file.path).is_none());
    changes.extend(dropped.map(|file| (file.path.clone(), FileChange::Dropped)));
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    changes
}

/// The installer's image of a plan, which says the distribution's version.
pub(crate) fn installer_image(document: Option<&plan::Document>) -> Option<&str> {
    let instructions = &document?.plan().instructions;
    instructions.iter().map(|instruction| instruction.common.image.as_str()).find(|image| !image.is_empty())
}
