use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ClusterConfiguration, ETCDSnapshotPhase, RotateCertificates, RotateEncryptionKeys,
    RotateEncryptionKeysPhase, SnapshotCreate, SnapshotRestore,
};
use crate::GenericCondition;
use crate::wire::{is_default, null_default};

kind! {
    /// The control plane of a cluster, and with it the configuration of all its nodes: the planner turns it into one
    /// plan per machine.
    pub struct RKEControlPlane: "rke.cattle.io" / "v1" rkecontrolplanes Namespaced {
        /// What is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: RKEControlPlaneSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<RKEControlPlaneStatus>,
    }
}

/// What an [`RKEControlPlane`] should be. Made from a provisioning cluster; do not edit by hand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterName", "managementClusterName"]))]
pub struct RKEControlPlaneSpec {
    /// The configuration of the nodes.
    #[serde(flatten)]
    pub configuration: ClusterConfiguration,
    /// Environment of the agents on the nodes and of the distribution's installer.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub agent_env_vars: Vec<EnvVar>,
    /// Direct access to the cluster's API, without the tunnel.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub local_cluster_auth_endpoint: LocalClusterAuthEndpoint,
    /// Save a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_snapshot_create: Option<SnapshotCreate>,
    /// Go back to a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_snapshot_restore: Option<SnapshotRestore>,
    /// Renew certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_certificates: Option<RotateCertificates>,
    /// Encrypt Secrets with a new key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_encryption_keys: Option<RotateEncryptionKeys>,
    /// Version of the distribution, such as `v1.33.5+rke2r1`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub kubernetes_version: String,
    /// Name of the provisioning cluster and of the Cluster API cluster.
    #[serde(deserialize_with = "null_default")]
    #[schemars(length(max = 63))]
    pub cluster_name: String,
    /// Name of the management cluster object, such as `c-m-w2bfx9xq`.
    #[serde(deserialize_with = "null_default")]
    pub management_cluster_name: String,
    /// The nodes are configured by somebody else: no configuration is rendered and no token is made.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub unmanaged_config: bool,
}

/// A variable of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVar {
    /// Name of the variable.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its value; a variable without one is left out.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// Direct access to a downstream cluster's API with the management server's users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalClusterAuthEndpoint {
    /// Whether kubeconfigs get contexts for direct access.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub enabled: bool,
    /// Name of a load balancer before the control-plane nodes; empty means the nodes themselves.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub fqdn: String,
    /// Certificates to trust for that name, PEM; needs the name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub ca_certs: String,
}

/// What an [`RKEControlPlane`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["observedGeneration"]))]
pub struct RKEControlPlaneStatus {
    /// The spec that every node has reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_spec: Option<RKEControlPlaneSpec>,
    /// What is observed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<GenericCondition>,
    /// Deprecated: the condition `Ready` replaces it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub ready: bool,
    /// What Cluster API's contract asks of a control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<RKEControlPlaneInitialization>,
    /// The generation that this status speaks of.
    #[serde(deserialize_with = "null_default")]
    pub observed_generation: i64,
    /// The certificate rotation done last.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub certificate_rotation_generation: i64,
    /// The key rotation begun last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_encryption_keys: Option<RotateEncryptionKeys>,
    /// How far it is.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    #[schemars(with = "String")]
    pub rotate_encryption_keys_phase: RotateEncryptionKeysPhase,
    /// The machine that runs its commands.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub rotate_encryption_keys_leader: String,
    /// The restore begun last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_snapshot_restore: Option<SnapshotRestore>,
    /// How far it is.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub etcd_snapshot_restore_phase: ETCDSnapshotPhase,
    /// The snapshot begun last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_snapshot_create: Option<SnapshotCreate>,
    /// How far it is.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["Started", "RestartCluster", "Finished", "Failed"]))]
    pub etcd_snapshot_create_phase: ETCDSnapshotPhase,
    /// Goes up with each restore, so that every node restarts.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub config_generation: i64,
    /// Deprecated: [`initialization`](Self::initialization) replaces it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub initialized: bool,
    /// Whether the downstream cluster's agent is connected.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub agent_connected: bool,
}

/// First start of an [`RKEControlPlane`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct RKEControlPlaneInitialization {
    /// The control plane takes requests, so workers may join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}
