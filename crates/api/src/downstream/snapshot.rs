use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::provisioning::v1::ResourceQuantity;
use crate::wire::{is_default, null_default};

kind! {
    /// A snapshot that RKE2 or K3s knows of, on a node's disk or in a bucket.
    pub struct ETCDSnapshotFile: "k3s.cattle.io" / "v1" etcdsnapshotfiles Cluster {
        /// The snapshot.
        #[serde(deserialize_with = "null_default")]
        pub spec: ETCDSnapshotFileSpec,
        /// How saving it went.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<ETCDSnapshotFileStatus>,
    }
}

/// Where an [`ETCDSnapshotFile`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ETCDSnapshotFileSpec {
    /// Name of the file.
    #[serde(deserialize_with = "null_default")]
    pub snapshot_name: String,
    /// Node that saved it.
    #[serde(deserialize_with = "null_default")]
    pub node_name: String,
    /// URL of the file: `file://` or `s3://`.
    #[serde(deserialize_with = "null_default")]
    pub location: String,
    /// What was in the extra-metadata ConfigMap when it was saved.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The bucket, for a snapshot in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<SnapshotS3>,
}

/// The bucket of an [`ETCDSnapshotFile`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotS3 {
    /// Host of the service.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Certificate that was trusted.
    #[serde(
        rename = "endpointCA",
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub endpoint_ca: String,
    /// Whether the service's certificate was not checked.
    #[serde(rename = "skipSSLVerify", deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub skip_ssl_verify: bool,
    /// Name of the bucket.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// How the bucket's host is named: `auto`, `dns` or `path`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub bucket_lookup: String,
    /// Region of the bucket.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Folder in the bucket.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Whether the service is talked to without TLS.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub insecure: bool,
}

/// How saving an [`ETCDSnapshotFile`] went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ETCDSnapshotFileStatus {
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<ResourceQuantity>,
    /// When it was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// Whether it can be restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<SnapshotError>,
}

/// Why a snapshot could not be saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotError {
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// What.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
