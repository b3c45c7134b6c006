//! The Machine controller: one server, from the request for it to its removal.

mod claim;
mod node;
mod observe;
mod removal;
mod status;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta2::values::machine_phase;
use api::capi::v1beta2::{Cluster, Machine, MachineDeployment, MachineSet};
use api::catalogue::labels;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kit::access::Connection;
use kit::index;
use kit::runner::Controller;
use kit::{Ended, Key, KindId, Object, Turn, owners};

use crate::context::{Context, Error, Found};
use crate::start::{self, Ours as _, Start};

/// The conditions that this controller alone writes.
const OWNED: [&str; 10] = [
    "Available",
    "Ready",
    "UpToDate",
    "BootstrapConfigReady",
    "InfrastructureReady",
    "NodeHealthy",
    "NodeReady",
    "Updating",
    "Paused",
    "Deleting",
];

/// The node of a machine, as far as it can be seen.
#[derive(Clone, Debug)]
pub(crate) enum SeenNode {
    /// It is not looked for yet, for this reason.
    NotLooked(&'static str),
    /// The cluster is not reached.
    NotReached(String),
    /// There is none.
    Missing,
    /// Here it is.
    There(Arc<Object>, Arc<Node>),
    /// Several nodes say that they are this machine.
    Several(Vec<String>),
}

/// Everything that is known of a machine.
pub(crate) struct Seen {
    pub(crate) object: Arc<Object>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) cluster_object: Arc<Object>,
    pub(crate) infrastructure: Found,
    pub(crate) bootstrap: Found,
    pub(crate) control_plane: Found,
    pub(crate) set: Option<(Arc<Object>, Arc<MachineSet>)>,
    pub(crate) deployment: Option<(Arc<Object>, Arc<MachineDeployment>)>,
    pub(crate) connection: Option<Connection>,
    pub(crate) node: SeenNode,
    pub(crate) health: kit::access::Health,
    /// How long what was last known of the node stands when its cluster is not reached.
    pub(crate) node_grace: jiff::SignedDuration,
}

impl Seen {
    pub(crate) fn is_control_plane(&self) -> bool {
        self.object.label(labels::CAPI_CONTROL_PLANE).is_some()
    }
}

/// Looks after Machines.
pub(crate) struct Machines(pub(crate) Arc<Context>);

impl Controller for Machines {
    type Error = Error;

    fn name(&self) -> &'static str {
        "machine"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.machines.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let start = start::begin(context, turn, &context.machines, key, claim::stands_alone).await?;
        let Start { object, mut edit, cluster, now, generation } = match start {
            Ok(start) => start,
            Err(ended) => return Ok(ended),
        };
        let mut seen = self.gather(object.clone(), cluster, &edit).await?;
        claim::own(context, turn, &seen).await?;
        let observed = observe::providers(&mut edit, &seen, now);
        // The provider may just have told the id by which the node is found.
        seen.node = self.look_for_node(&seen, &edit);
        let joined = observe::node(&mut edit, &seen);
        if joined {
            claim::tell_node(context, &seen, &edit).await;
        }
        let marked = node::mark(context, &seen, &edit).await;
        let again = match object.deleting() {
            true => removal::advance(context, turn, &mut edit, &seen).await?,
            false => None,
        };
        let wait = status::write(&mut edit, &seen, now);
        if observed.is_ok() && marked.is_ok() {
            edit.observed(generation);
        }
        let smooth = !object.deleting() && observed.is_ok() && marked.is_ok();
        if smooth && context.writer.apply_without_status(turn, &mut edit).await? {
            return Ok(Ended::Again(Duration::ZERO));
        }
        if let Some(wait) = settling(&object, &edit, now).filter(|_| smooth) {
            return Ok(Ended::Again(wait));
        }
        context.writer.apply(turn, edit, &OWNED).await?;
        observed?;
        marked?;
        for found in [&seen.infrastructure, &seen.bootstrap] {
            if let Some(why) = found.trouble() {
                return Err(why.into());
            }
        }
        Ok(again.into_iter().chain(wait).min().map_or(Ended::Well, Ended::Again))
    }
}

impl Machines {
    async fn gather(
        &self,
        object: Arc<Object>,
        cluster_object: Arc<Object>,
        machine: &Machine,
    ) -> Result<Seen, Error> {
        let context = &self.0;
        let namespace = object.namespace();
        let cluster = cluster_object.view::<Cluster>()?;
        let set = owners::of_kind(object.owners(), &KindId::of::<MachineSet>());
        let set = set.and_then(|owner| context.sets.get(&Key::new(namespace, &owner.name)));
        let deployment = set.as_ref().and_then(|set| {
            let owner = owners::of_kind(set.owners(), &KindId::of::<MachineDeployment>())?;
            context.deployments.get(&Key::new(namespace, &owner.name))
        });
        let reached = context.access.connection(&cluster_object.key());
        Ok(Seen {
            infrastructure: context.find(namespace, Some(&machine.spec.infrastructure_ref)).await,
            bootstrap: context.find(namespace, machine.spec.bootstrap.config_ref.as_ref()).await,
            control_plane: context.find(namespace, cluster.spec.control_plane_ref.as_ref()).await,
            set: set.map(|set| set.view().map(|view| (set, view))).transpose()?,
            deployment: deployment.map(|one| one.view().map(|view| (one, view))).transpose()?,
            node: match &reached {
                Ok(_) => SeenNode::Missing,
                Err(why) => SeenNode::NotReached(why.why.clone()),
            },
            connection: reached.ok(),
            health: context.access.health(&cluster_object.key()),
            node_grace: context.node_grace,
            object,
            cluster,
            cluster_object,
        })
    }

    fn look_for_node(&self, seen: &Seen, machine: &Machine) -> SeenNode {
        let started = seen.cluster.status.as_ref().map(|status| &status.initialization);
        if started.is_none_or(|done| done.infrastructure_provisioned != Some(true)) {
            return SeenNode::NotLooked(
                "Waiting for Cluster status.initialization.infrastructureProvisioned to be true",
            );
        }
        if started.is_none_or(|done| done.control_plane_initialized != Some(true)) && !seen.is_control_plane()
        {
            return SeenNode::NotLooked("Waiting for Cluster control plane to be initialized");
        }
        let Some(connection) = &seen.connection else { return seen.node.clone() };
        if machine.spec.provider_id.is_empty() {
            return SeenNode::NotLooked("Waiting for the infrastructure provider to report spec.providerID");
        }
        let nodes = connection.caches.of_cluster(&crate::clusters::nodes(), crate::clusters::trim_node);
        let found = nodes.filed(&index::provider_id(&machine.spec.provider_id));
        match &found[..] {
            [] => SeenNode::Missing,
            [node] => match node.view::<Node>() {
                Ok(view) => SeenNode::There(node.clone(), view),
                Err(error) => SeenNode::NotReached(error.to_string()),
            },
            several => SeenNode::Several(several.iter().map(|node| node.name().to_owned()).collect()),
        }
    }
}

/// How long the first status of a new machine is put off: within a second more will be known, and told at once.
fn settling(object: &Object, machine: &Machine, now: Timestamp) -> Option<Duration> {
    let told = object.document()["status"]["conditions"].is_array();
    let running = machine.status.as_ref().is_some_and(|status| status.phase == machine_phase::RUNNING);
    let age = now.duration_since(object.meta().creation_timestamp.as_ref()?.0);
    let left = Duration::from_secs(1).checked_sub(Duration::try_from(age).ok()?)?;
    (!told && !running && !left.is_zero()).then_some(left)
}
