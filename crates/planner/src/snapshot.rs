//! What a decision is made of: everything that was seen, and the time.
//!
//! The shell keeps what did not change behind the same [`Arc`]s from one snapshot to the next; [`crate::Memo`] then
//! renders only what did.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use api::catalogue::{annotations, labels};
use api::provisioning::v1::AgentDeploymentCustomization;
use api::rke::v1::RKEControlPlaneSpec;
use jiff::Timestamp;

use crate::epoch::Epoch;
use crate::plan_view::PlanView;
use crate::release::Releases;

/// Labels or annotations.
pub type Words = BTreeMap<String, String>;

/// Name of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineName(Arc<str>);

impl MachineName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MachineName {
    fn from(name: &str) -> Self {
        MachineName(name.into())
    }
}

impl Borrow<str> for MachineName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MachineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything that was seen, and when.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time.
    pub now: Timestamp,
    /// What plans are rendered from, beside the machine.
    pub cluster: Arc<Cluster>,
    /// Where the control plane stands.
    pub state: State,
    /// Every Machine of the cluster whose bootstrap object is ours.
    pub machines: BTreeMap<MachineName, Arc<Machine>>,
}

/// What plans are rendered from, beside the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Namespace of the control plane.
    pub namespace: String,
    /// Name of the control plane.
    pub name: String,
    /// What is asked for.
    pub spec: RKEControlPlaneSpec,
    /// The annotation `rke.cattle.io/cluster-spec`, which snapshots carry along.
    pub cluster_spec: String,
    /// `status.configGeneration`.
    pub config_generation: i64,
    /// RKE2 Prime is asked for.
    pub prime: bool,
    /// The join tokens, once there are any.
    pub tokens: Option<Tokens>,
    /// Settings of the server.
    pub settings: Settings,
    /// What goes into the cluster to dial back; none leaves it out.
    pub agent: Option<ClusterAgent>,
    /// Secrets have to reach the cluster before all else: until then only what dials back goes into it.
    pub pre_bootstrap: bool,
    /// Secrets that the spec refers to, under the names that it uses (`namespace:name` for other namespaces), and the
    /// user's own certificate authorities.
    pub secrets: BTreeMap<String, Object>,
    /// ConfigMaps in the control plane's namespace that the spec refers to, by name.
    pub config_maps: BTreeMap<String, Object>,
    /// Which arguments the distribution takes.
    pub releases: Arc<Releases>,
}

/// The tokens with which nodes join.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    /// For servers.
    pub server: String,
    /// For workers.
    pub agent: String,
}

/// A token opens the cluster: it is never printed.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(..)")
    }
}

/// Settings of the server that reach the nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Image of the installer, up to the runtime's name.
    pub installer_image: String,
    /// Registry for all images, or empty.
    pub system_default_registry: String,
    /// Secret (among [`Cluster::secrets`]) with that registry's credentials, or empty.
    pub system_default_registry_auth: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            installer_image: "rancher/system-agent-installer-".into(),
            system_default_registry: String::new(),
            system_default_registry_auth: String::new(),
        }
    }
}

/// What goes into the cluster to dial back.
#[derive(Clone, Default, PartialEq)]
pub struct ClusterAgent {
    /// Image of the agent, without the registry that all images come from.
    pub image: String,
    /// Where it dials.
    pub server_url: String,
    /// SHA-256 of the CA certificates that it trusts, in hex; empty for the system's.
    pub ca_checksum: String,
    /// Those certificates, PEM.
    pub ca_certificates: String,
    /// The registration token.
    pub token: String,
    /// The user's changes to the Deployment.
    pub customization: Option<AgentDeploymentCustomization>,
}

impl fmt::Debug for ClusterAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAgent").field("image", &self.image).finish_non_exhaustive()
    }
}

/// A Secret or ConfigMap that the spec refers to.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// Type of a Secret.
    pub type_: String,
    /// Its annotations.
    pub annotations: Words,
    /// Its content, base64 taken off.
    pub data: BTreeMap<String, Vec<u8>>,
}

impl Object {
    /// Whether the object lets this cluster's nodes have its content.
    pub fn is_authorized_for(&self, annotation: &str, cluster: &str) -> bool {
        let names = self.annotations.get(annotation).map(String::as_str).unwrap_or_default();
        names.split(',').any(|name| name.trim() == cluster)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("keys", &self.data.keys()).finish_non_exhaustive()
    }
}

/// Where the control plane stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The Cluster API Cluster; none if it is not there.
    pub capi: Option<CapiCluster>,
    /// The control plane is being deleted.
    pub deleting: bool,
    /// The control plane bears the annotation that pauses it.
    pub paused: bool,
    /// Who may write plans at the moment, by the cluster's Beacon.
    pub beacon: Beacon,
    /// The label `rke.cattle.io/init-node-machine-id`, or empty.
    pub designated_init: String,
    /// `status.initialization.controlPlaneInitialized`.
    pub initialized: bool,
    /// Condition `Bootstrapped` is true.
    pub bootstrapped: bool,
    /// The cluster's agent is connected.
    pub agent_connected: bool,
    /// The spec is the one that every node last reached.
    pub spec_is_applied: bool,
    /// The epoch that plans are rendered in; none before the first.
    pub epoch: Option<Epoch>,
    /// The newest epoch is asked for although the spec did not change.
    pub epoch_requested: bool,
    /// Etcd machines that MachineDeployments ask for; none if machines register by hand.
    pub etcd_wanted: Option<u32>,
    /// The kubeconfig of the downstream cluster is there, so that its Nodes can be reached.
    pub has_kubeconfig: bool,
    /// Requests in the spec that an operation would have to answer and that are not answered.
    pub operations: BTreeSet<Operation>,
}

/// The lock on a cluster's plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Beacon {
    /// There is none: nobody else asks for it.
    #[default]
    Absent,
    /// Nobody has it.
    Free,
    /// It is ours.
    Ours,
    /// Somebody else has it, under this name.
    Held(String),
}

/// What the control plane's owner says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapiCluster {
    /// `status.initialization.infrastructureProvisioned`.
    pub infrastructure_provisioned: bool,
    /// `spec.paused`.
    pub paused: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// Its condition `ControlPlaneInitialized` is true.
    pub control_plane_initialized: bool,
}

/// Operations, in the order in which they have their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Save a snapshot.
    SnapshotCreate,
    /// Go back to a snapshot.
    SnapshotRestore,
    /// Renew certificates.
    RotateCertificates,
    /// Encrypt with a new key.
    RotateEncryptionKeys,
}

impl Operation {
    /// Its field in the spec.
    pub fn field(self) -> &'static str {
        match self {
            Operation::SnapshotCreate => "spec.etcdSnapshotCreate",
            Operation::SnapshotRestore => "spec.etcdSnapshotRestore",
            Operation::RotateCertificates => "spec.rotateCertificates",
            Operation::RotateEncryptionKeys => "spec.rotateEncryptionKeys",
        }
    }
}

/// One machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// What its node bears as `rke.cattle.io/machine`: the annotation `herdsman.io/machine-uid`, written once.
    pub id: String,
    /// Labels of the Machine; selectors of the spec match them.
    pub labels: Words,
    /// When its deletion began.
    pub deleting_since: Option<Timestamp>,
    /// `status.phase` is `Failed`.
    pub phase_failed: bool,
    /// Condition `InfrastructureReady` is true.
    pub infrastructure_ready: bool,
    /// What Cluster API's conditions say is wrong with it.
    pub trouble: Option<Trouble>,
    /// It bears the hook that keeps its server until the planner lets it go.
    pub has_hook: bool,
    /// Its RKEBootstrap bears `rke.cattle.io/etcd-force-remove`.
    pub force_remove: bool,
    /// Its server.
    pub infra: Infra,
    /// Its node, once it has one.
    pub node: Option<Node>,
    /// What its RKEBootstrap says: roles, addresses, where it joins.
    pub bootstrap: Bootstrap,
    /// Its plan Secret.
    pub plan: PlanView,
}

/// Labels and annotations of a machine's RKEBootstrap. The machine's own agent cannot write them, unlike those of its plan
/// Secret: what a machine is, and where others join it, is decided by these alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bootstrap {
    /// Labels, with the back-references that a plan Secret bears.
    pub labels: Words,
    /// Annotations.
    pub annotations: Words,
}

/// What is wrong with a machine beside its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Known to be wrong, or not known to be right.
    pub failing: bool,
    /// The conditions' words.
    pub message: String,
}

/// The server behind a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Infra {
    /// It comes from a native Cluster API provider.
    pub native: bool,
    /// `spec.providerID` of the infrastructure machine.
    pub provider_id: String,
    /// `status.addresses` of the infrastructure machine; only native ones have them before the node joins.
    pub addresses: Vec<Address>,
    /// The driver that made it; none for machines that registered by hand and native ones.
    pub driver: Option<Driver>,
}

/// What rancher-machine saved of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Its name, such as `amazonec2`.
    pub name: String,
    /// What it saved; none before it saved anything.
    pub saved: Option<DriverAddresses>,
}

/// Addresses that a driver saved; empty where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverAddresses {
    /// `Driver.IPAddress`.
    pub external: String,
    /// `Driver.PrivateIPAddress`.
    pub internal: String,
    /// `Driver.IPv6Address`.
    pub ipv6: String,
}

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `InternalIP`, `ExternalIP`, `Hostname`, ...
    pub kind: String,
    /// The address.
    pub address: String,
}

/// A machine's node in the downstream cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `spec.providerID`.
    pub provider_id: String,
    /// `status.nodeInfo.kubeletVersion`; empty while not known.
    pub kubelet_version: String,
    /// `status.addresses` of the Machine.
    pub addresses: Vec<Address>,
    /// What the node's condition `Ready` says; none while not known.
    pub ready: Option<bool>,
    /// Nobody hears of its kubelet any more: the condition is `Unknown`.
    pub lost: bool,
    /// How far the removal of its etcd member is.
    pub removal: MemberRemoval,
}

/// How far the removal of an etcd member is, by the annotations of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberRemoval {
    /// Not asked for.
    #[default]
    None,
    /// Asked for.
    Asked,
    /// Done, or the Node object is gone.
    Done,
}

/// What a machine is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// It runs etcd.
    pub etcd: bool,
    /// It runs the control plane.
    pub control_plane: bool,
    /// It takes pods.
    pub worker: bool,
}

impl Roles {
    /// It runs a server of the distribution.
    pub fn is_server(self) -> bool {
        self.etcd || self.control_plane
    }

    /// It runs an agent of the distribution and nothing else.
    pub fn is_only_worker(self) -> bool {
        self.worker && !self.is_server()
    }

    /// It runs etcd and no control plane.
    pub fn is_only_etcd(self) -> bool {
        self.etcd && !self.control_plane
    }

    /// It runs the control plane and no etcd.
    pub fn is_only_control_plane(self) -> bool {
        self.control_plane && !self.etcd
    }
}

impl Machine {
    /// What it is for.
    pub fn roles(&self) -> Roles {
        let has = |label: &str| self.bootstrap.labels.get(label).is_some_and(|value| value == "true");
        Roles {
            etcd: has(labels::ETCD_ROLE),
            control_plane: has(labels::CONTROL_PLANE_ROLE),
            worker: has(labels::WORKER_ROLE),
        }
    }

    /// It runs Windows.
    pub fn is_windows(&self) -> bool {
        self.bootstrap.labels.get(labels::OS).is_some_and(|os| os == "windows")
    }

    /// It is going.
    pub fn is_deleting(&self) -> bool {
        self.deleting_since.is_some()
    }

    /// It bears the mark of the node that starts the cluster.
    pub fn is_marked_init(&self) -> bool {
        self.bootstrap.labels.get(labels::INIT_NODE).is_some_and(|value| value == "true")
    }

    /// The id that its agent made for itself.
    pub fn agent_id(&self) -> &str {
        self.labels
            .get(labels::MACHINE_ID)
            .or_else(|| self.bootstrap.labels.get(labels::MACHINE_ID))
            .map_or("", String::as_str)
    }

    /// An annotation of its RKEBootstrap; empty counts as none.
    pub fn note(&self, annotation: &str) -> Option<&str> {
        self.bootstrap.annotations.get(annotation).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// An annotation of its plan Secret, by which its node is drained and uncordoned; empty counts as none.
    pub fn handshake(&self, annotation: &str) -> Option<&str> {
        self.plan.handshake.get(annotation).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Where it joined, as far as it was written down.
    pub fn joined_to(&self) -> Option<&str> {
        self.note(annotations::JOINED_TO)
    }
}
