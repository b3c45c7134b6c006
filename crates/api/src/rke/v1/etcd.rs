use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::{is_default, null_default};

/// Snapshots of a cluster's etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ETCD {
    /// No scheduled snapshots.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub disable_snapshots: bool,
    /// When snapshots are taken, as a cron expression.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub snapshot_schedule_cron: String,
    /// Snapshots kept on each etcd node.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub snapshot_retention: i64,
    /// A bucket that gets a copy of each snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<ETCDSnapshotS3>,
}

/// An S3 bucket. What is empty here comes from the credential.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ETCDSnapshotS3 {
    /// Host of the service.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Certificate to trust: PEM, base64 of PEM, or the path of a `.crt` file on the nodes.
    #[serde(
        rename = "endpointCA",
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub endpoint_ca: String,
    /// Do not check the service's certificate.
    #[serde(rename = "skipSSLVerify", deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub skip_ssl_verify: bool,
    /// Name of the bucket.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub bucket: String,
    /// Region of the bucket.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Secret with the keys, as `namespace:name` or a name in the cluster's namespace.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub cloud_credential_name: String,
    /// Snapshots kept in the bucket.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    #[schemars(range(min = 0))]
    pub retention: i64,
    /// Folder in the bucket.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub folder: String,
}

/// A request to save a snapshot now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotCreate {
    /// Each new value is a new request.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub generation: i64,
}

/// A request to go back to a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotRestore {
    /// Name of an ETCDSnapshot, or of a snapshot file on the node that will start the cluster.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Each new value is a new request.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub generation: i64,
    /// What of the cluster's own settings goes back too: `none`, `kubernetesVersion` or `all`; empty is `none`.
    #[serde(
        rename = "restoreRKEConfig",
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub restore_rke_config: String,
}

/// Values of [`SnapshotRestore::restore_rke_config`].
pub mod restore_mode {
    /// Data only.
    pub const NONE: &str = "none";
    /// Data and Kubernetes version.
    pub const KUBERNETES_VERSION: &str = "kubernetesVersion";
    /// Data, Kubernetes version and cluster settings.
    pub const ALL: &str = "all";
}

/// A request to renew certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RotateCertificates {
    /// Each new value is a new request.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub generation: i64,
    /// Whose certificates; empty means all.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
}

/// A request to encrypt the cluster's Secrets with a new key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RotateEncryptionKeys {
    /// Each new value is a new request.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub generation: i64,
}

open_enum! {
    /// How far a snapshot or a restore is.
    pub enum ETCDSnapshotPhase {
        /// Asked for.
        Started,
        /// The distribution stops on every node.
        Shutdown,
        /// One node goes back to the snapshot.
        Restore,
        /// Pods that hold on to the old state are deleted.
        PostRestorePodCleanup,
        /// The other nodes join again.
        InitialRestartCluster,
        /// Nodes without a machine are deleted.
        PostRestoreNodeCleanup,
        /// Every node applies its plan once more.
        RestartCluster,
        /// Done.
        Finished,
        /// Given up.
        Failed,
    }
}

open_enum! {
    /// How far a rotation of encryption keys is.
    pub enum RotateEncryptionKeysPhase {
        /// The leader adds the new key.
        Prepare,
        /// Servers restart to know it.
        PostPrepareRestart,
        /// The leader makes it the key to write with.
        Rotate,
        /// Servers restart to use it.
        PostRotateRestart,
        /// Every Secret is written again.
        Reencrypt,
        /// Servers restart without the old key.
        PostReencryptRestart,
        /// Done.
        Done,
        /// Given up; an etcd restore is the way back.
        Failed,
    }
}
