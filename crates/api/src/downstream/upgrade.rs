use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, LocalObjectReference, SecurityContext, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GenericCondition;
use crate::wire::{is_default, null_default};

kind! {
    /// A Job that the system-upgrade-controller runs once on each node.
    pub struct Plan: "upgrade.cattle.io" / "v1" plans Namespaced {
        /// What is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: PlanSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<PlanStatus>,
    }
}

/// What a [`Plan`] should do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanSpec {
    /// Nodes at a time.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub concurrency: i64,
    /// Which nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// ServiceAccount of the Jobs.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub service_account_name: String,
    /// Tag of the image, and what a node is labelled with when it is done.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Secrets that the Jobs see; a change runs them again.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretSpec>,
    /// Taints that the Jobs bear.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Whether its Jobs run beside those of no other such plan.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub exclusive: bool,
    /// What runs first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<ContainerSpec>,
    /// Whether the node takes no new pods meanwhile.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub cordon: bool,
    /// What runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<ContainerSpec>,
    /// Pull secrets.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
}

/// A Secret that the Jobs of a [`Plan`] see as files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretSpec {
    /// Name of the Secret.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Directory in the container.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Whether a change of the Secret runs nothing again.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub ignore_updates: bool,
    /// Mode of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<i32>,
}

/// A container of a [`Plan`]'s Jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerSpec {
    /// Image; without a tag the plan's version is it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Command instead of the image's.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments instead of the image's.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment, from Secrets and ConfigMaps. The kind spells it `envFrom`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<EnvFromSource>,
    /// Environment. The kind spells it `envs`.
    #[serde(rename = "envs", deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Directories of the host.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeSpec>,
    /// Rights of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
}

/// A directory of the host that a container sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// Name of the volume.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// Path on the host.
    #[serde(deserialize_with = "null_default")]
    pub source: String,
    /// Path in the container.
    #[serde(deserialize_with = "null_default")]
    pub destination: String,
}

/// What a [`Plan`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanStatus {
    /// What is observed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<GenericCondition>,
    /// The version in force.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub latest_version: String,
    /// Hash of what the Jobs are made from.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub latest_hash: String,
    /// Nodes whose Jobs run.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub applying: Vec<String>,
}
