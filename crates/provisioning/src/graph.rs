//! The objects that a cluster becomes.
//!
//! [`render`] says what should be there, [`difference()`](difference::difference) what is to be done about what is
//! there. Names and hashes are Rancher's, to the byte: a cluster that Rancher made is taken over, and no machine replaced.
//!
//! Where we do otherwise than Rancher: a native pool of a cluster whose infrastructure is ours keeps its user data (it
//! gets a bootstrap template of its own); a bootstrap template stays while a MachineSet still refers to it; a machine
//! config that a deleted cluster of the same name owned is taken over.

pub mod applied;
mod bootstrap_template;
mod cluster;
mod cluster_spec;
pub mod difference;
mod health_check;
pub mod impact;
mod ownership;
mod pool;
pub mod scale;
pub mod schema;
pub mod source;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use api::Kind as _;
use api::machine::MachineConfig;
use api::provisioning::v1::{Cluster, RKEConfig};

pub use cluster_spec::decode as decode_cluster_spec;
pub use ownership::Adoption;
pub(crate) use pool::{go_json, taints_json};
pub use source::{ConfigRef, Source};

use crate::object::Id;
use crate::{Code, Object, Wait};

/// What there is to render from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its id: the name of the management cluster that was made for it. Empty: it has none yet.
    pub id: &'a str,
    /// The machine configs that its pools refer to, as far as they exist.
    pub configs: &'a BTreeMap<ConfigRef, MachineConfig>,
    /// The cloud credentials that it refers to, spelt as it spells them, as far as they exist.
    pub credentials: &'a BTreeSet<String>,
    /// Annotation `rke.cattle.io/cluster-spec` of the control plane that exists.
    pub encoded_spec: Option<&'a str>,
}

/// What a cluster becomes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Every object, in the order in which they are made: what is referred to comes first.
    pub objects: Vec<Object>,
    /// Machine configs to take ownership of before anything is made from them.
    pub adoptions: Vec<Adoption>,
}

/// Why there is no graph. Nothing that exists is touched.
#[derive(Clone, Debug, PartialEq)]
pub enum Hold {
    /// There is nothing to be made: the cluster is somebody else's, or going.
    Nothing,
    /// Something is missing that will come.
    Waiting(Wait),
    /// The cluster asks for what cannot be.
    Refused(Refusal),
}

/// Why a cluster cannot be rendered. Admission refuses most of this at the door.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No version.
    #[error("kubernetesVersion not set on {0}: set spec.kubernetesVersion")]
    NoVersion(String),
    /// A pool lacks what every pool has.
    #[error("invalid machinePool [{0}] missing name or valid config")]
    IncompletePool(String),
    /// A pool has no role.
    #[error("at least one role of etcd, control-plane or worker must be assigned to machinePool [{0}]")]
    NoRole(String),
    /// Two pools have one name.
    #[error("duplicate machinePool name [{0}] used")]
    DuplicatePool(String),
    /// A reference leaves the cluster's namespace.
    #[error("{field}.namespace is {namespace}: only objects in the cluster's own namespace can be used")]
    OtherNamespace {
        /// Path of the reference.
        field: String,
        /// Where it leads.
        namespace: String,
    },
    /// A reference lacks what every reference has.
    #[error("{0} must have apiVersion (with a group), kind and name")]
    IncompleteReference(String),
    /// The frozen schema of a pool is not JSON.
    #[error(
        "machinePool [{0}]: dynamicSchemaSpec is not the JSON of a schema: clear it, and it is filled in again"
    )]
    UnreadableSchema(String),
    /// A pool's machine config belongs to somebody else.
    #[error("can not use {config} because it is already owned by {owner}: give the pool a config of its own")]
    ConfigTaken {
        /// The config.
        config: String,
        /// Who owns it.
        owner: String,
    },
    /// An object of a name that is needed belongs to another cluster.
    #[error(transparent)]
    Taken(difference::Conflict),
    /// The id that the cluster names is not its own.
    #[error(
        "the id {0} is another cluster's, or a namespace that was not made for this one: take the annotation \
         provisioning.cattle.io/management-cluster-name off and clear status.clusterName; the server then gives the cluster an id of its own"
    )]
    IdTaken(String),
    /// The namespace of the cluster's id was not made for it.
    #[error(
        "the namespace {0}, which holds the cluster's registration tokens, was not made for this cluster: if nobody needs it, delete it; \
         the server makes it again"
    )]
    NamespaceTaken(String),
    /// The API does not take an object.
    #[error("the API does not take {object}: {why}")]
    NotTaken {
        /// Which object.
        object: String,
        /// The API's words.
        why: String,
    },
}

impl From<Wait> for Hold {
    fn from(wait: Wait) -> Self {
        Hold::Waiting(wait)
    }
}

impl From<Refusal> for Hold {
    fn from(refusal: Refusal) -> Self {
        Hold::Refused(refusal)
    }
}

/// Every object that the cluster becomes.
///
/// # Errors
/// [`Hold`], and then nothing may be made, changed or deleted.
pub fn render(facts: &Facts<'_>) -> Result<Graph, Hold> {
    let (cluster, config) = (facts.cluster, startable(facts)?);
    let infrastructure = source::infrastructure(cluster, config)?;
    let mut graph = Graph::default();
    if config.infrastructure_ref.is_none() {
        graph.objects.push(Object::of(&cluster::infrastructure(cluster)));
    }
    graph.objects.push(Object::of(&cluster::control_plane(facts, config)));
    graph.objects.push(Object::of(&cluster::capi_cluster(cluster, config, &infrastructure)));
    let ours = infrastructure.api_group == api::rke::v1::RKECluster::GROUP;
    if ours && !config.machine_pools.is_empty() {
        graph.objects.push(Object::of(&bootstrap_template::shared(cluster)));
    }
    let mut names = BTreeSet::new();
    for (index, one) in config.machine_pools.iter().enumerate() {
        if !names.insert(&one.name) {
            return Err(Refusal::DuplicatePool(one.name.clone()).into());
        }
        pool::render(facts, config, index, ours, &mut graph)?;
    }
    graph.objects.push(Object::of(&cluster::beacon(cluster)));
    Ok(graph)
}

/// The cluster's nodes and their configuration, once everything is there that a graph needs.
fn startable<'a>(facts: &Facts<'a>) -> Result<&'a RKEConfig, Hold> {
    let cluster = facts.cluster;
    let Some(config) = &cluster.spec.rke_config else { return Err(Hold::Nothing) };
    if cluster.metadata.deletion_timestamp.is_some() {
        return Err(Hold::Nothing);
    }
    let id = identity(cluster);
    if facts.id.is_empty() {
        return Err(Wait::new(
            Code::WaitingForManagementCluster,
            id.to_string(),
            "waiting for the management cluster object to be made",
            "nothing to do: it follows within moments",
        )
        .into());
    }
    if cluster.spec.kubernetes_version.is_empty() {
        return Err(Refusal::NoVersion(format!("{}/{}", id.namespace, id.name)).into());
    }
    if cluster.metadata.finalizers.as_deref().unwrap_or_default().is_empty() {
        return Err(Wait::new(
            Code::WaitingForFinalizer,
            id.to_string(),
            "waiting for a finalizer on the cluster, without which nothing could be cleaned up",
            "nothing to do: it follows within moments",
        )
        .into());
    }
    Ok(config)
}

/// Which object the cluster is.
pub fn identity(cluster: &Cluster) -> Id {
    Id {
        api_version: format!("{}/{}", Cluster::GROUP, Cluster::VERSION),
        kind: Cluster::KIND.into(),
        namespace: cluster.metadata.namespace.clone().unwrap_or_default(),
        name: cluster.metadata.name.clone().unwrap_or_default(),
    }
}

/// Makings for tests of other modules.
#[cfg(test)]
pub(crate) mod tests_support {
    use api::provisioning::v1::ClusterSpec;
    use api::rke::v1::{ETCDSnapshot, SNAPSHOT_METADATA_CLUSTER_SPEC};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    /// A snapshot that remembers this spec.
    pub(crate) fn snapshot_of(spec: &ClusterSpec) -> ETCDSnapshot {
        let metadata =
            serde_json::json!({ SNAPSHOT_METADATA_CLUSTER_SPEC: super::cluster_spec::encode(spec, None) });
        let mut snapshot = ETCDSnapshot::default();
        snapshot.snapshot_file.metadata = STANDARD.encode(metadata.to_string());
        snapshot
    }
}
