//! Rendering only what changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::desired::{Error, Placement, Rendered, render};
use crate::epoch::Epoch;
use crate::impact::{Difference, difference};
use crate::snapshot::{Cluster, Machine, MachineName};
use crate::version::Version;

/// Desired plans of the last decision. A decision is the same with any memo; with the right one it is faster.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    entries: BTreeMap<MachineName, Entry>,
}

/// A plan is as before if what it was rendered from is: the same allocations, which the entry keeps alive.
#[derive(Clone, Debug)]
struct Entry {
    cluster: Arc<Cluster>,
    machine: Arc<Machine>,
    epoch: Epoch,
    placement: Placement,
    desired: Desired,
}

/// A desired plan and how it differs from the delivered one.
#[derive(Clone, Debug)]
pub(crate) struct Desired {
    pub(crate) rendered: Result<Arc<Rendered>, Error>,
    pub(crate) difference: Difference,
}

impl Memo {
    pub(crate) fn desired(
        &mut self,
        (epoch, version): (Epoch, &Version),
        cluster: &Arc<Cluster>,
        name: &MachineName,
        machine: &Arc<Machine>,
        placement: &Placement,
    ) -> Desired {
        if let Some(entry) = self.entries.get(name)
            && Arc::ptr_eq(&entry.cluster, cluster)
            && Arc::ptr_eq(&entry.machine, machine)
            && entry.epoch == epoch
            && entry.placement == *placement
        {
            return entry.desired.clone();
        }
        let rendered = render(epoch, cluster, version, name, machine, placement).map(Arc::new);
        let difference = match &rendered {
            Ok(rendered) => difference(machine, rendered),
            Err(_) => Difference::Equal,
        };
        let desired = Desired { rendered, difference };
        let (cluster, machine, placement) = (cluster.clone(), machine.clone(), placement.clone());
        let entry = Entry { cluster, machine, epoch, placement, desired: desired.clone() };
        self.entries.insert(name.clone(), entry);
        desired
    }

    /// Forgets machines that are gone.
    pub(crate) fn retain(&mut self, machines: &BTreeMap<MachineName, Arc<Machine>>) {
        if self.entries.len() > machines.len() {
            self.entries.retain(|name, _| machines.contains_key(name));
        }
    }
}
