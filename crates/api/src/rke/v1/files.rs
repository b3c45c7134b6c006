use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::{is_default, null_default};

/// Files for the nodes that a selector matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisioningFiles {
    /// Which machines, by their labels; not set matches all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_label_selector: Option<LabelSelector>,
    /// Where the files come from.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub file_sources: Vec<FileSource>,
}

/// A Secret or a ConfigMap, not both. It must name the cluster in its
/// `rke.cattle.io/object-authorized-for-clusters` annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSource {
    /// A Secret in the cluster's namespace.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub secret: ObjectFileSource,
    /// A ConfigMap in the cluster's namespace.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub config_map: ObjectFileSource,
}

/// The keys of an object that become files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct ObjectFileSource {
    /// Name of the object; empty means that there is none.
    #[serde(deserialize_with = "null_default")]
    #[schemars(length(max = 253), extend("nullable" = true))]
    pub name: String,
    /// Which keys go where.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<KeyToPath>,
    /// Mode of the files that do not say their own, in octal.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub default_permissions: String,
}

/// One key that becomes one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key", "path"]))]
pub struct KeyToPath {
    /// Key in the object's data.
    #[serde(deserialize_with = "null_default")]
    #[schemars(extend("nullable" = true))]
    pub key: String,
    /// Absolute path on the node.
    #[serde(deserialize_with = "null_default")]
    #[schemars(extend("nullable" = true))]
    pub path: String,
    /// A change of this file alone neither drains the node nor restarts the distribution.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub dynamic: bool,
    /// Mode of the file, in octal.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub permissions: String,
    /// Base64 of the SHA-256 that the content must have; empty is not checked.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub hash: String,
}
