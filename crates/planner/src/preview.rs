//! What a change of a cluster would do, node by node, before anything happens.

use std::collections::BTreeSet;
use std::fmt;

use crate::election::{self, Election};
use crate::epoch::{self, Epoch, Occasion};
use crate::impact::{FileChange, Impact, files, impact};
use crate::join::Joins;
use crate::memo::Memo;
use crate::snapshot::{MachineName, Snapshot};
use crate::tier::Tier;
use crate::version::Version;
use crate::wait::{Code, Wait};

/// What would happen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Machines in the order in which they would change, then those that would not.
    pub nodes: Vec<NodePreview>,
    /// What the user should know.
    pub warnings: BTreeSet<String>,
    /// Why less is known than could be.
    pub waits: Vec<Wait>,
}

/// What would happen to one machine's node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePreview {
    /// The machine.
    pub machine: MachineName,
    /// Its tier.
    pub tier: Tier,
    /// How many of its tier change at a time; none is no limit.
    pub at_a_time: Option<usize>,
    /// What would happen.
    pub impact: Impact,
    /// It has no plan yet: it joins, whatever changes.
    pub joins: bool,
    /// Files that differ, with their paths.
    pub files: Vec<(String, FileChange)>,
}

impl Preview {
    /// The heaviest impact on any node.
    pub fn impact(&self) -> Impact {
        self.nodes.iter().map(|node| node.impact).max().unwrap_or_default()
    }
}

/// One line a node: order, name, tier, impact, files.
impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, node) in self.nodes.iter().enumerate() {
            let NodePreview { machine, tier, impact, joins, files, .. } = node;
            write!(f, "{} {machine} {} {impact}", index + 1, tier.as_str())?;
            if *joins {
                f.write_str(" joins")?;
            }
            files.iter().try_for_each(|(path, change)| write!(f, " {change}{path}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

/// What would happen if the cluster were as proposed, with these machines replaced by others. `current` says where
/// things stand; of `proposed` the spec and everything it refers to count.
pub fn preview(current: &Snapshot, proposed: &Snapshot, replaced: &BTreeSet<MachineName>) -> Preview {
    let mut preview = Preview::default();
    let version = match proposed.cluster.spec.kubernetes_version.parse::<Version>() {
        Ok(version) => version,
        Err(error) => {
            preview.waits.push(Wait::cluster(Code::VersionInvalid, error.to_string()));
            return preview;
        }
    };
    let joins = Joins::of(version.runtime(), current);
    let init = match election::elect(current, &joins) {
        Election::Stays(init) | Election::Changes { mark: init, .. } => init,
        Election::Wait(wait) => {
            preview.waits.push(wait);
            return preview;
        }
    };
    let joins = joins.around(current, &init, !election::is_bootstrapped(current));
    let epoch = proposed_epoch(current, proposed);
    let mut memo = Memo::default();
    for (name, machine) in current.machines.iter().filter(|(_, machine)| !machine.is_deleting()) {
        let Some(tier) = Tier::of(machine, *name == init) else { continue };
        let Some(placement) = joins.placement(name, machine) else { continue };
        let desired = memo.desired((epoch, &version), &proposed.cluster, name, machine, &placement);
        let rendered = match desired.rendered {
            Ok(rendered) => rendered,
            Err(error) => {
                preview.waits.push(error.wait(name));
                continue;
            }
        };
        preview.warnings.extend(rendered.warnings.iter().cloned());
        let in_place = impact(&proposed.cluster, current.machines.len(), machine, &rendered);
        let before = machine.plan.delivered.as_ref().map(|delivered| delivered.plan());
        preview.nodes.push(NodePreview {
            machine: name.clone(),
            tier,
            at_a_time: None,
            impact: if replaced.contains(name) { Impact::Replace } else { in_place },
            joins: !machine.plan.has_plan,
            files: if before.is_some() { files(before, rendered.document.plan()) } else { Vec::new() },
        });
    }
    order(proposed, &mut preview);
    preview
}

/// Changed nodes first, by tier and name; then the others, the same way.
fn order(proposed: &Snapshot, preview: &mut Preview) {
    let sizes: Vec<(Tier, usize)> = [Tier::Bootstrap, Tier::Etcd, Tier::ControlPlane, Tier::Worker]
        .map(|tier| (tier, preview.nodes.iter().filter(|node| node.tier == tier).count()))
        .into();
    for node in &mut preview.nodes {
        let size = sizes.iter().find(|(tier, _)| *tier == node.tier).map_or(0, |(_, size)| *size);
        node.at_a_time = node.tier.concurrency(proposed, size);
    }
    let idle = |node: &NodePreview| node.impact == Impact::None;
    preview.nodes.sort_by(|a, b| (idle(a), a.tier, &a.machine).cmp(&(idle(b), b.tier, &b.machine)));
}

fn proposed_epoch(current: &Snapshot, proposed: &Snapshot) -> Epoch {
    let occasion = Occasion {
        fresh: !current.machines.values().any(|machine| machine.plan.has_plan),
        changed: !current.state.spec_is_applied || current.cluster.spec != proposed.cluster.spec,
        requested: proposed.state.epoch_requested,
    };
    epoch::choose(current.state.epoch, Epoch::NEWEST, occasion)
}
