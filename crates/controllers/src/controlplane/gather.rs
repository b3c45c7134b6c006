//! From what is known to the planner's snapshot. No IO: the same for a process with caches and for a command with lists.
//!
//! What did not change stays behind the same `Arc`s, so that the planner renders only what did.

mod cluster;
mod machine;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::catalogue::secrets;
use api::names;
use api::rke::v1::RKEControlPlane;
use jiff::Timestamp;
use kit::object::Unreadable;
use kit::{Key, KindId, Object, index, lineage, machines};
use planner::{MachineName, Snapshot};

use super::Settings;
use super::known::{Known, Sighting, infrastructure_kind, kinds};
use super::legacy;
use crate::ServerInfo;

pub(crate) use machine::identity as machine_identity;

/// Where things are looked up.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// What is known.
    pub known: &'a dyn Known,
    /// What this process was told.
    pub settings: &'a Settings,
    /// Our own end.
    pub server: &'a ServerInfo,
    /// The time.
    pub now: Timestamp,
}

impl std::fmt::Debug for Ground<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground").field("now", &self.now).finish_non_exhaustive()
    }
}

/// What the last look made of a control plane's objects.
#[derive(Debug, Default)]
pub struct Kept {
    cluster: Option<Arc<planner::Cluster>>,
    machines: BTreeMap<MachineName, machine::Read>,
}

/// A control plane and everything that belongs to it.
#[derive(Debug)]
pub struct Seen {
    /// The control plane.
    pub control_plane: Arc<Object>,
    /// The same, as its type.
    pub view: Arc<RKEControlPlane>,
    /// The Cluster API Cluster.
    pub cluster: Option<Arc<Object>>,
    /// The management cluster, if it was made for this cluster.
    pub management: Option<Arc<Object>>,
    /// Its Machines with what belongs to them.
    pub machines: BTreeMap<MachineName, SeenMachine>,
    /// What the planner decides on.
    pub snapshot: Snapshot,
    /// Secrets and ConfigMaps that a change of would change the snapshot.
    pub(crate) watched: BTreeSet<(&'static str, Key)>,
}

/// A Machine and what belongs to it.
#[derive(Clone, Debug)]
pub struct SeenMachine {
    /// The Machine.
    pub object: Arc<Object>,
    /// The RKEBootstrap that it refers to and owns.
    pub bootstrap: Option<Arc<Object>>,
    /// Its plan Secret.
    pub secret: Option<Arc<Object>>,
    /// Its infrastructure machine.
    pub infra: Option<(KindId, Arc<Object>)>,
    /// The plan failed, and the agent does not try it again by itself.
    pub plan_failed: bool,
}

impl Seen {
    /// The key of the Cluster API Cluster.
    pub fn cluster_key(&self) -> Key {
        Key::new(self.control_plane.namespace(), &self.view.spec.cluster_name)
    }

    /// Whether nothing is to be done.
    pub fn is_paused(&self) -> bool {
        self.snapshot.state.paused || self.snapshot.state.capi.is_some_and(|cluster| cluster.paused)
    }

    /// Name of the management cluster; empty if it was not made for this cluster.
    pub fn management_name(&self) -> &str {
        self.management.as_ref().map(|found| found.name()).unwrap_or_default()
    }
}

/// The management cluster that a control plane names, if it was made for the control plane's cluster: users who write control planes
/// get nothing of another's by its id.
fn management(known: &dyn Known, control_plane: &Object, view: &RKEControlPlane) -> Option<Arc<Object>> {
    let found =
        known.get(&kinds::management_clusters(), &Key::new("", &view.spec.management_cluster_name))?;
    let owner = lineage::owner(&found)?;
    owner.is_at(control_plane.namespace(), &view.spec.cluster_name).then_some(found)
}

/// Everything that belongs to a control plane.
///
/// # Errors
/// If an object that everything depends on is not what its type says. A Machine that cannot be read is left out and told.
pub fn gather(ground: &Ground<'_>, control_plane: &Arc<Object>, kept: &mut Kept) -> Result<Seen, Unreadable> {
    let view = control_plane.view::<RKEControlPlane>()?;
    let cluster_key = Key::new(control_plane.namespace(), &view.spec.cluster_name);
    let cluster = ground.known.get(&kinds::clusters(), &cluster_key);
    let management = management(ground.known, control_plane, &view);
    let mut watched = BTreeSet::new();
    let rendered_from = cluster::gather(ground, control_plane, &view, management.as_deref(), &mut watched);
    let rendered_from = match kept.cluster.take().filter(|before| **before == rendered_from) {
        Some(before) => before,
        None => Arc::new(rendered_from),
    };
    kept.cluster = Some(rendered_from.clone());
    let moved = legacy::is_moved(control_plane);
    let (mut machines, mut planned) = (BTreeMap::new(), BTreeMap::new());
    let entry = index::cluster(&cluster_key.namespace, &cluster_key.name);
    for object in ground.known.filed(&kinds::machines(), &entry) {
        let Some(parts) = parts(ground, &cluster_key, &object, moved, &mut watched) else { continue };
        let name = MachineName::from(object.name());
        match machine::read(&parts, kept.machines.remove(&name)) {
            Ok(read) => {
                planned.insert(name.clone(), read.machine.clone());
                let plan_failed = read.plan_failed;
                kept.machines.insert(name.clone(), read);
                let Parts { bootstrap, secret, infra, .. } = parts;
                machines.insert(name, SeenMachine { object, bootstrap, secret, infra, plan_failed });
            }
            Err(error) => tracing::warn!(%error, "a Machine is left out"),
        }
    }
    kept.machines.retain(|name, _| planned.contains_key(name));
    let state = state::gather(ground, control_plane, &view, cluster.as_deref(), management.as_deref())?;
    let snapshot = Snapshot { now: ground.now, cluster: rendered_from, state, machines: planned };
    let control_plane = control_plane.clone();
    Ok(Seen { control_plane, view, cluster, management, machines, snapshot, watched })
}

/// What belongs to a Machine.
pub(crate) struct Parts {
    pub(crate) machine: Arc<Object>,
    /// The RKEBootstrap that the Machine owns.
    pub(crate) bootstrap: Option<Arc<Object>>,
    /// The plan Secret of that RKEBootstrap.
    pub(crate) secret: Option<Arc<Object>>,
    /// Marks are on RKEBootstraps, and not taken from Secrets.
    pub(crate) moved: bool,
    pub(crate) infra: Option<(KindId, Arc<Object>)>,
    pub(crate) driver_state: Option<Arc<Object>>,
    pub(crate) node: Sighting,
}

/// What belongs to a Machine; none if its bootstrap object is not ours.
fn parts(
    ground: &Ground<'_>,
    cluster: &Key,
    machine: &Arc<Object>,
    moved: bool,
    watched: &mut BTreeSet<(&'static str, Key)>,
) -> Option<Parts> {
    let namespace = machine.namespace();
    let document = machine.document();
    let text = |pointer: &str| document.pointer(pointer).and_then(|value| value.as_str()).unwrap_or_default();
    let secret = names::plan_secret(names::Bootstrap(machines::bootstrap_name(machine)?));
    let bootstrap = machines::bootstrap_of(machine, |key| ground.known.get(&kinds::bootstraps(), key));
    let secret = ground.known.get(&kinds::secrets(), &Key::new(namespace, &secret));
    let is_plan = |secret: &Arc<Object>| secret.document()["type"] == secrets::types::MACHINE_PLAN;
    let (group, kind) = (text("/spec/infrastructureRef/apiGroup"), text("/spec/infrastructureRef/kind"));
    let name = text("/spec/infrastructureRef/name");
    let infra = infrastructure_kind(ground.known, group, kind).and_then(|kind| {
        let found = ground.known.get(&kind, &Key::new(namespace, name))?;
        Some((kind, found))
    });
    let driver_state = (group == api::machine::GROUP).then(|| {
        let key = Key::new(namespace, &names::machine_state_secret(names::InfraMachine(name)));
        watched.insert(("Secret", key.clone()));
        ground.known.get(&kinds::secrets(), &key)
    });
    let node = match text("/status/nodeRef/name") {
        "" => Sighting::NotReached,
        node => ground.known.node(cluster, node),
    };
    Some(Parts {
        machine: machine.clone(),
        secret: secret.filter(|secret| bootstrap.is_some() && is_plan(secret)),
        bootstrap,
        moved,
        infra,
        driver_state: driver_state.flatten(),
        node,
    })
}
