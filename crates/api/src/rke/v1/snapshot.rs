use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ETCDSnapshotS3;
use crate::wire::{is_default, null_default};

kind! {
    /// A snapshot of a downstream cluster's etcd that can be restored.
    pub struct ETCDSnapshot: "rke.cattle.io" / "v1" etcdsnapshots Namespaced {
        /// Whose snapshot it is.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub spec: ETCDSnapshotSpec,
        /// The snapshot itself.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub snapshot_file: SnapshotFile,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<ETCDSnapshotStatus>,
    }
}

/// Whose an [`ETCDSnapshot`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ETCDSnapshotSpec {
    /// Name of the provisioning cluster.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
}

/// A snapshot on a node's disk or in a bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotFile {
    /// Name of the file.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Node that saved it; `s3` for one found in a bucket.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// URL of the file: `file://` or `s3://`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub location: String,
    /// Base64 of a JSON map; its key `provisioning-cluster-spec` holds the cluster's spec of that time.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub metadata: String,
    /// When it was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// Bytes.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub size: i64,
    /// The bucket, for a snapshot in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<ETCDSnapshotS3>,
    /// `successful` or `failed`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Why it failed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Key in [`SnapshotFile::metadata`] that holds base64 of gzip of the JSON of the cluster's spec.
pub const SNAPSHOT_METADATA_CLUSTER_SPEC: &str = "provisioning-cluster-spec";

/// What an [`ETCDSnapshot`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["missing"]))]
pub struct ETCDSnapshotStatus {
    /// Not maintained.
    #[serde(deserialize_with = "null_default")]
    pub missing: bool,
}
