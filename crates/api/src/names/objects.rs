use super::hash::{BASE32, BASE32_HEX, base32, sha256, sha256_hex};
use super::{safe_concat, safe_concat_within};

/// Longest name of an object that may have dots.
const LONGEST_SUBDOMAIN: usize = 253;

/// Hex digits of hashes in template names.
const TEMPLATE_DIGITS: usize = 8;

/// Name of an RKEBootstrap; its Secrets and accounts are named after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap<'a>(pub &'a str);

/// Name of an infrastructure machine; the objects of its provisioning are named after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfraMachine<'a>(pub &'a str);

/// Name of a MachineDeployment; the templates of its pool are named after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineDeployment<'a>(pub &'a str);

/// The MachineDeployment of a pool, and its MachineHealthCheck.
pub fn machine_deployment(cluster: &str, pool: &str) -> String {
    safe_concat(&[cluster, pool])
}

/// The machine template of a pool, with the first 8 hex digits of its content's hash.
pub fn machine_template(deployment: MachineDeployment<'_>, hash: &str) -> String {
    safe_concat(&[deployment.0, first(hash, TEMPLATE_DIGITS)])
}

/// The one bootstrap template of a cluster whose machines come from node drivers.
pub fn bootstrap_template(cluster: &str) -> String {
    safe_concat(&[cluster, "bootstrap", "template"])
}

/// The bootstrap template of a pool whose machines come from a native Cluster API provider, with the first 8 hex
/// digits of its content's hash.
pub fn native_bootstrap_template(deployment: MachineDeployment<'_>, hash: &str) -> String {
    safe_concat(&[deployment.0, first(hash, TEMPLATE_DIGITS)])
}

/// The plan Secret of a machine, and the ServiceAccount, Role and RoleBinding that reach it.
pub fn plan_secret(bootstrap: Bootstrap<'_>) -> String {
    safe_concat(&[bootstrap.0, "machine", "plan"])
}

/// The Secret with a machine's install script, and the ServiceAccount whose token is in it.
pub fn bootstrap_secret(bootstrap: Bootstrap<'_>) -> String {
    safe_concat(&[bootstrap.0, "machine", "bootstrap"])
}

/// The Secret with what rancher-machine knows of a server.
pub fn machine_state_secret(machine: InfraMachine<'_>) -> String {
    safe_concat(&[machine.0, "machine", "state"])
}

/// The Secret with the environment of a driver.
pub fn machine_driver_secret(machine: InfraMachine<'_>) -> String {
    safe_concat(&[machine.0, "machine", "driver", "secret"])
}

/// The Job that makes or deletes a server, its ServiceAccount, Role, RoleBinding, and the Secret with its files.
pub fn machine_provision(machine: InfraMachine<'_>) -> String {
    safe_concat(&[machine.0, "machine", "provision"])
}

/// The RoleBinding that gives that Job what administrators add.
pub fn machine_provision_extension(machine: InfraMachine<'_>) -> String {
    safe_concat(&[machine.0, "machine", "provision", "extension"])
}

/// The Secret with the certificates that a driver trusts.
pub fn machine_certs_secret(machine: InfraMachine<'_>) -> String {
    safe_concat(&["machine", "certs", first(&sha256_hex(machine.0.as_bytes()), 32)])
}

/// What the server is called at its cloud. Clouds do not take dots.
pub fn instance(machine: InfraMachine<'_>) -> String {
    safe_concat(&[machine.0.replace('.', "-")])
}

/// What the server calls itself: the instance's name, within a limit.
pub fn hostname(machine: InfraMachine<'_>, longest: usize) -> String {
    safe_concat_within(longest, &[machine.0.replace('.', "-")])
}

/// The Secret with the tokens with which nodes join.
pub fn cluster_state_secret(control_plane: &str) -> String {
    safe_concat(&[control_plane, "rke", "state"])
}

/// The Secret with a cluster's kubeconfig; Cluster API looks for it under this name.
pub fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// The cluster whose kubeconfig a Secret of this name would be.
pub fn cluster_of_kubeconfig(secret: &str) -> Option<&str> {
    secret.strip_suffix("-kubeconfig").filter(|cluster| !cluster.is_empty())
}

/// The Secret with a cluster's pod security configuration.
pub fn pod_security_secret(cluster: &str) -> String {
    format!("{cluster}-admission-configuration-psact")
}

/// The binding that makes a cluster's own user its owner.
pub fn owner_binding(management_cluster: &str, namespace: &str) -> String {
    safe_concat(&[management_cluster, namespace, "owner"])
}

/// The principal of the user that stands for a provisioning cluster.
pub fn provisioning_principal(namespace: &str, cluster: &str) -> String {
    format!("system://provisioning/{namespace}/{cluster}")
}

/// The user of a principal: `u-` and ten letters that are taken from the principal's hash.
pub fn user(principal: &str) -> String {
    format!("u-{}", first(&base32(&sha256(principal.as_bytes()), BASE32).to_lowercase(), 10))
}

/// The label by which the user of a principal is found; its value is [`PRINCIPAL_LABEL_VALUE`].
pub fn principal_label(principal: &str) -> String {
    first(&base32(principal.as_bytes(), BASE32_HEX), 63).to_owned()
}

/// Value of the label that [`principal_label`] names.
pub const PRINCIPAL_LABEL_VALUE: &str = "hashed-principal-name";

/// The Secret with the autoscaler's kubeconfig.
pub fn autoscaler_kubeconfig_secret(namespace: &str, cluster: &str) -> String {
    safe_concat(&[namespace, cluster, "autoscaler", "kubeconfig"])
}

/// Fleet's HelmOp that installs the autoscaler.
pub fn autoscaler_helm_op(namespace: &str, cluster: &str) -> String {
    safe_concat(&["autoscaler", namespace, cluster])
}

/// Who registers a machine by its own hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registrant {
    /// A machine of a cluster that Herdsman makes.
    Custom,
    /// A machine of an imported cluster.
    Imported,
    /// A machine of a cluster of another Cluster API control plane.
    Capi,
}

/// The Machine, RKEBootstrap, CustomMachine and request Secret of a machine that registers by its own hand.
pub fn registered_machine(registrant: Registrant, machine_id: &str) -> String {
    let prefix = match registrant {
        Registrant::Custom => "custom",
        Registrant::Imported => "imported",
        Registrant::Capi => "capi",
    };
    format!("{prefix}-{}", first(&sha256_hex(machine_id.as_bytes()), 12))
}

/// Where a snapshot is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotStorage {
    /// On the node that saved it.
    Local,
    /// In a bucket.
    S3,
}

impl SnapshotStorage {
    /// `local` or `s3`, as names and annotations spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            SnapshotStorage::Local => "local",
            SnapshotStorage::S3 => "s3",
        }
    }
}

/// What a downstream snapshot's object is named after. Several nodes save under one name: node and location tell
/// them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// Where it is kept.
    pub storage: SnapshotStorage,
    /// Name of its file.
    pub name: &'a str,
    /// Node that saved it.
    pub node: &'a str,
    /// URL of the file.
    pub location: &'a str,
    /// When it was saved, in seconds since 1970.
    pub created_at: i64,
}

/// The ETCDSnapshot of a downstream snapshot.
pub fn etcd_snapshot(cluster: &str, snapshot: Snapshot<'_>) -> String {
    let storage = snapshot.storage.as_str();
    let hash = sha256_hex(format!("{}{}", snapshot.node, snapshot.location).as_bytes());
    let digits = first(&hash, 6);
    let mut name = snapshot.name.to_lowercase();
    // A name that no object can have gives way to one made of node and time.
    let around = "local--".len() + digits.len();
    if !is_subdomain(&name) || name.len() + around > LONGEST_SUBDOMAIN {
        let host = snapshot.node.split('.').next().unwrap_or_default();
        name = format!("etcd-snapshot-{host}-{}", snapshot.created_at);
    }
    safe_concat(&[cluster, &format!("{storage}-{name}-{digits}")])
}

/// The ClusterRegistrationToken that every management cluster has, in the namespace of the cluster's name.
pub const DEFAULT_REGISTRATION_TOKEN: &str = "default-token";

/// The ClusterRegistrationToken that is for tunnels alone, beside it. Where it is there, no other one opens a tunnel.
pub const SYSTEM_REGISTRATION_TOKEN: &str = "system";

/// The ConfigMap with a cluster's provisioning log, in the namespace of the management cluster's name.
pub const PROVISIONING_LOG: &str = "provisioning-log";

/// The Role that administrators fill to give provisioning Jobs more rights.
pub const MACHINE_PROVISIONER_ROLE: &str = "rke2-machine-provisioner";

/// The downstream Secret with which the node agents' upgrader and the aggregation tunnel reach the server.
pub const AGGREGATION_SECRET: &str = "stv-aggregation";

/// The Secret with more certificates that the server trusts.
pub const TLS_ADDITIONAL_SECRET: &str = "tls-additional";

/// The downstream Deployment that dials back.
pub const CLUSTER_AGENT: &str = "cattle-cluster-agent";
/// The same before a cluster has a network of its own.
pub const CLUSTER_AGENT_BOOTSTRAP: &str = "cattle-cluster-agent-bootstrap";

/// What a cluster's id has before it as a key of the aggregation tunnel, and a registration token as its credential.
pub const AGGREGATION_PREFIX: &str = "stv-cluster-";

/// The downstream ConfigMap in `kube-system` whose content the distribution keeps with each snapshot.
pub fn snapshot_metadata_config_map(runtime: &str) -> String {
    format!("{runtime}-etcd-snapshot-extra-metadata")
}

fn first(text: &str, length: usize) -> &str {
    text.get(..length).unwrap_or(text)
}

/// Whether an object can have this name: labels of lower-case letters, digits and inner dashes, joined by dots.
fn is_subdomain(text: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    text.len() <= LONGEST_SUBDOMAIN
        && text.split('.').all(|label| {
            let label = label.as_bytes();
            label.first().is_some_and(|&letter| plain(letter))
                && label.last().is_some_and(|&letter| plain(letter))
                && label.iter().all(|&letter| plain(letter) || letter == b'-')
        })
}
