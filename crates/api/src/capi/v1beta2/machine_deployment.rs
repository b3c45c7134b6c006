use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{machine_deployment_phase, rollout_strategy};
use super::{DeletionOrder, Deprecated, MachineNaming, MachineTemplate, StatusVersion};
use crate::capi::v1beta1;
use crate::wire::is_default;

kind! {
    /// A number of like machines that follow their template: a change of it replaces them, step by step.
    #[schemars(extend("required" = ["spec"]))]
    pub struct MachineDeployment: "cluster.x-k8s.io" / "v1beta2" machinedeployments Namespaced {
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
    /// Name of the Cluster that it belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// How many machines. Left out, it is decided on creation: within the autoscaler's annotated bounds if there
    /// are any, else 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How machines are replaced.
    #[serde(skip_serializing_if = "is_default")]
    pub rollout: Rollout,
    /// Which machines are counted and adopted; has to match the template's labels.
    pub selector: LabelSelector,
    /// What new machines are made from.
    pub template: MachineTemplate,
    /// How new machines are named.
    #[serde(skip_serializing_if = "is_default")]
    pub machine_naming: MachineNaming,
    /// How unhealthy machines are replaced.
    #[serde(skip_serializing_if = "is_default")]
    pub remediation: MachineDeploymentRemediation,
    /// Which machines go first.
    #[serde(skip_serializing_if = "is_default")]
    pub deletion: DeletionOrder,
    /// Stops rollouts. Scaling goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// How machines are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct Rollout {
    /// Once this time has come, machines made before it are replaced, even if the template is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Time>,
    /// In which steps.
    #[serde(skip_serializing_if = "is_default")]
    pub strategy: RolloutStrategy,
}

/// In which steps machines are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1, "required" = ["type"]))]
pub struct RolloutStrategy {
    /// `RollingUpdate` (the default) or `OnDelete`.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = rollout_strategy::ALL))]
    pub type_: String,
    /// The size of the steps, for `RollingUpdate`.
    #[serde(skip_serializing_if = "is_default")]
    pub rolling_update: RollingUpdate,
}

/// The size of the steps of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct RollingUpdate {
    /// How many machines may be missing at a time: a number, or a percentage of the replicas, rounded down. 0 if
    /// left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How many machines there may be too many at a time: a number, or a percentage of the replicas, rounded up. 1
    /// if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
}

/// How unhealthy machines are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentRemediation {
    /// How many may be replaced at a time: a number, or a percentage of the replicas, rounded up. No limit if left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<IntOrString>,
}

/// What a [`MachineDeployment`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentStatus {
    /// Findings, one per type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1))]
    pub observed_generation: i64,
    /// The selector as text, for the scale subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 4096))]
    pub selector: String,
    /// How many machines there are, in whatever state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How many are Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// How many are Available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// How many are as the spec asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
    /// Kubernetes versions in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
    )]
    pub versions: Vec<StatusVersion>,
    /// The whole state in one word, for people; decisions belong on conditions.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = machine_deployment_phase::ALL))]
    pub phase: String,
    /// Status for readers of older API versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated<MachineDeploymentCounts>>,
}

/// v1beta1's status of a [`MachineDeployment`], as far as v1beta2 counts differently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeploymentCounts {
    /// Conditions with v1beta1's types and reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<v1beta1::Condition>,
    /// Machines made from the current template.
    pub updated_replicas: i32,
    /// Machines whose node is Ready.
    pub ready_replicas: i32,
    /// Machines whose node has been Ready for long enough.
    pub available_replicas: i32,
    /// Machines still missing until all are available.
    pub unavailable_replicas: i32,
}
