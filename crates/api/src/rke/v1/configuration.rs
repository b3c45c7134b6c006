use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ETCD, ProvisioningFiles, Registry, UpgradeStrategy};
use crate::wire::{is_default, null_default};

/// Settings of a distribution, by name. Which names exist depends on the Kubernetes version.
pub type FreeMap = BTreeMap<String, Value>;

/// How the nodes of a cluster are configured. Part of both the provisioning cluster and the control plane made from
/// it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterConfiguration {
    /// How many nodes change at a time, and whether they are drained first.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub upgrade_strategy: UpgradeStrategy,
    /// Helm values for the charts that come with the distribution, by chart name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub chart_values: FreeMap,
    /// Settings of the distribution on every node, spelt as in its config file.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub machine_global_config: FreeMap,
    /// Settings of the distribution on some nodes. A key here replaces the same key of `machineGlobalConfig` and of
    /// earlier entries; values are not merged.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub machine_selector_config: Vec<SystemConfig>,
    /// Files that some nodes get from Secrets and ConfigMaps.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub machine_selector_files: Vec<ProvisioningFiles>,
    /// YAML documents that the distribution applies inside the cluster.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub additional_manifest: String,
    /// Where images come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registries: Option<Registry>,
    /// Snapshots of etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<ETCD>,
    /// Address families.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    /// Where data lives on the nodes. Cannot change once the cluster exists.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub data_directories: DataDirectories,
    /// Any change makes every node apply its plan again, with a restart of the distribution.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub provision_generation: i64,
}

/// Settings for the nodes that a selector matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemConfig {
    /// Which machines, by their labels; not set matches all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_label_selector: Option<LabelSelector>,
    /// The settings, spelt as in the distribution's config file.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub config: FreeMap,
}

/// Address families of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Networking {
    /// `ipv4`, `ipv6` or `dual` (the default): which loopback address the probes of a node use.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub stack_preference: String,
}

/// Directories on the nodes; each must be absolute, and none inside another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataDirectories {
    /// The node agent's state; `/var/lib/rancher/agent` if empty.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub system_agent: String,
    /// Scripts that plans bring along; `/var/lib/rancher/capr` if empty.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub provisioning: String,
    /// The distribution's data; `/var/lib/rancher/rke2` or `/var/lib/rancher/k3s` if empty.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub k8s_distro: String,
}
