use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, MachineTemplateSpec, ReplicasV1Beta2Status};
use crate::capi::v1beta2::StatusVersion;
use crate::wire::is_default;

kind! {
    /// Keeps a number of alike machines.
    pub struct MachineSet: "cluster.x-k8s.io" / "v1beta1" machinesets Namespaced {
        /// What is asked for.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: MachineSetSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<MachineSetStatus>,
    }
}

/// What a [`MachineSet`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterName", "selector"]))]
pub struct MachineSetSpec {
    /// Name of the cluster that the machines belong to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// How many machines. Filled in when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How long a machine must have been ready to count as available.
    #[serde(skip_serializing_if = "is_default")]
    pub min_ready_seconds: i32,
    /// Which machines go first when there are too many. `Random` if not given.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["Random", "Newest", "Oldest"]))]
    pub delete_policy: String,
    /// Which machines are the set's; must match the template's labels.
    pub selector: LabelSelector,
    /// What machines are made from.
    #[serde(skip_serializing_if = "is_default")]
    pub template: MachineTemplateSpec,
    /// How machines are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_naming_strategy: Option<MachineNamingStrategy>,
}

/// How machines are named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineNamingStrategy {
    /// A Go template that must make use of `.random`; `.cluster.name` and `.machineSet.name` are there as well.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub template: String,
}

/// What a [`MachineSet`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSetStatus {
    /// The selector as text, for the scale subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 4096))]
    pub selector: String,
    /// Machines there are.
    pub replicas: i32,
    /// Machines that carry all of the template's labels.
    pub fully_labeled_replicas: i32,
    /// Machines whose node is ready.
    pub ready_replicas: i32,
    /// Machines whose node has been ready for long enough.
    pub available_replicas: i32,
    /// Kubernetes versions that the machines run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
    )]
    pub versions: Vec<StatusVersion>,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Deprecated: the word for a failure that needs a person. Conditions replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Deprecated: the text for a failure that needs a person. Conditions replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    /// State of the set by aspect, with severities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The fields that v1beta2 brought to the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<ReplicasV1Beta2Status>,
}
