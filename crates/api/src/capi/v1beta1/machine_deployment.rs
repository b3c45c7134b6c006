use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, MachineNamingStrategy, MachineTemplateSpec, ReplicasV1Beta2Status};
use crate::capi::v1beta2::StatusVersion;
use crate::wire::is_default;

kind! {
    /// Keeps a number of alike machines and replaces them, step by step, when their template changes.
    pub struct MachineDeployment: "cluster.x-k8s.io" / "v1beta1" machinedeployments Namespaced {
        /// What is asked for.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: MachineDeploymentSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<MachineDeploymentStatus>,
    }
}

/// What a [`MachineDeployment`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterName", "selector", "template"]))]
pub struct MachineDeploymentSpec {
    /// Name of the cluster that the machines belong to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// How many machines. Filled in when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Machines made before this time are replaced once it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_after: Option<Time>,
    /// Which machines are the deployment's; must match the template's labels.
    pub selector: LabelSelector,
    /// What machines are made from.
    pub template: MachineTemplateSpec,
    /// How machines are replaced and remediated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<MachineDeploymentStrategy>,
    /// How machines are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_naming_strategy: Option<MachineNamingStrategy>,
    /// How long a machine must have been ready to count as available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// Deprecated and without effect: how many old MachineSets to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// Stops the deployment from being acted on.
    #[serde(skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Deprecated and without effect: how long a rollout may go without progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
}

/// How machines are replaced and remediated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeploymentStrategy {
    /// `RollingUpdate` replaces machines by itself; `OnDelete` waits until each old machine is deleted.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["RollingUpdate", "OnDelete"]))]
    pub type_: String,
    /// The pace of a rolling update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<MachineRollingUpdate>,
    /// The pace of remediation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<RemediationStrategy>,
}

/// The pace of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineRollingUpdate {
    /// How many machines, or percent of them, may be missing meanwhile. 0 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How many machines, or percent of them, may be there in addition. 1 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// Which machines go first when there are too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Random", "Newest", "Oldest"]))]
    pub delete_policy: Option<String>,
}

/// The pace of remediation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemediationStrategy {
    /// How many machines, or percent of them, may be under remediation at a time. All of them if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<IntOrString>,
}

/// What a [`MachineDeployment`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeploymentStatus {
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// The selector as text, for the scale subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 4096))]
    pub selector: String,
    /// Machines there are.
    pub replicas: i32,
    /// Machines made from the present template.
    pub updated_replicas: i32,
    /// Machines whose node is ready.
    pub ready_replicas: i32,
    /// Machines whose node has been ready for long enough.
    pub available_replicas: i32,
    /// Machines asked for that are not available.
    pub unavailable_replicas: i32,
    /// Kubernetes versions that the machines run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
    )]
    pub versions: Vec<StatusVersion>,
    /// What the deployment is at, in one word for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["ScalingUp", "ScalingDown", "Running", "Failed", "Unknown"]))]
    pub phase: String,
    /// State of the deployment by aspect, with severities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The fields that v1beta2 brought to the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<ReplicasV1Beta2Status>,
}
