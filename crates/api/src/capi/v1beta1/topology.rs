//! A cluster as an instance of a ClusterClass. Herdsman serves and keeps these fields; it does not act on them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HealthCheckRules, MachineDeploymentStrategy, TemplateMetadata};
use crate::GoDuration;
use crate::capi::v1beta2::{ConditionGate, MachineTaint};
use crate::wire::is_default;

const NAMESPACE: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Which class a cluster is an instance of, and with what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["class", "version"]))]
pub struct Topology {
    /// Name of the ClusterClass.
    #[schemars(length(min = 1, max = 253))]
    pub class: String,
    /// Namespace of the ClusterClass; the cluster's own if not given.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = NAMESPACE))]
    pub class_namespace: String,
    /// Kubernetes version of the cluster.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// Deprecated and without effect: `rollout.after` of the control plane and the deployments replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_after: Option<Time>,
    /// The control plane.
    #[serde(skip_serializing_if = "is_default")]
    pub control_plane: ControlPlaneTopology,
    /// The workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersTopology>,
    /// Values for the class's variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub variables: Vec<ClusterVariable>,
}

/// The control plane of a [`Topology`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControlPlaneTopology {
    /// Labels and annotations for the control plane and its machines.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: TemplateMetadata,
    /// How many machines. Not given: something else decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// When to replace machines that have not changed.
    #[serde(skip_serializing_if = "is_default")]
    pub rollout: RolloutTopology,
    /// Changes to the class's health check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_health_check: Option<HealthCheckTopology>,
    /// How long draining a node may take. Forever if zero or not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_timeout: Option<GoDuration>,
    /// How long to wait for volumes to be detached. Forever if zero or not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_volume_detach_timeout: Option<GoDuration>,
    /// How long to try to delete the node object. Forever if zero, 10 seconds if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_deletion_timeout: Option<GoDuration>,
    /// Taints for the nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
    /// Further conditions that must hold for a machine to be `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,
    /// Values of variables that differ for the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<VariableOverrides>,
}

/// When machines that have not changed are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct RolloutTopology {
    /// Machines made before this time are replaced once it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Time>,
}

/// The workers of a [`Topology`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkersTopology {
    /// Groups of machines that Cluster API manages one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 2000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub machine_deployments: Vec<MachineDeploymentTopology>,
    /// Groups of machines that the infrastructure manages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 2000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub machine_pools: Vec<MachinePoolTopology>,
}

/// One MachineDeployment of a [`Topology`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["class", "name"]))]
pub struct MachineDeploymentTopology {
    /// Labels and annotations for the deployment and its machines.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: TemplateMetadata,
    /// Which of the ClusterClass's worker classes it is made from.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,
    /// Name within the topology.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Failure domain for the machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// How many machines. Not given: something else, such as an autoscaler, decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Changes to the class's health check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_health_check: Option<HealthCheckTopology>,
    /// How long draining a node may take. Forever if zero or not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_timeout: Option<GoDuration>,
    /// How long to wait for volumes to be detached. Forever if zero or not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_volume_detach_timeout: Option<GoDuration>,
    /// How long to try to delete the node object. Forever if zero, 10 seconds if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_deletion_timeout: Option<GoDuration>,
    /// Taints for the nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
    /// How long a machine must have been ready to count as available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// Further conditions that must hold for a machine to be `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,
    /// When to replace machines that have not changed.
    #[serde(skip_serializing_if = "is_default")]
    pub rollout: RolloutTopology,
    /// How machines are replaced and remediated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<MachineDeploymentStrategy>,
    /// Values of variables that differ for this deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<VariableOverrides>,
}

/// One MachinePool of a [`Topology`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["class", "name"]))]
pub struct MachinePoolTopology {
    /// Labels and annotations for the pool.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: TemplateMetadata,
    /// Which of the ClusterClass's pool classes it is made from.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,
    /// Name within the topology.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Failure domains for the machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub failure_domains: Vec<String>,
    /// How long draining a node may take. Forever if zero or not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_timeout: Option<GoDuration>,
    /// How long to wait for volumes to be detached. Forever if zero or not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_volume_detach_timeout: Option<GoDuration>,
    /// How long to try to delete the node object. Forever if zero, 10 seconds if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_deletion_timeout: Option<GoDuration>,
    /// Taints for the nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
    /// How long a machine must have been ready to count as available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// How many machines. Not given: something else, such as an autoscaler, decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Values of variables that differ for this pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<VariableOverrides>,
}

/// A health check that the topology makes for a group of machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheckTopology {
    /// Whether there is one at all. Not given: as the class says, or yes if there are rules here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Rules that replace the class's.
    #[serde(flatten)]
    pub rules: HealthCheckRules,
}

/// A value for one of the class's variables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "value"]))]
pub struct ClusterVariable {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Deprecated and without effect: a class defines a variable only once.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub definition_from: String,
    /// The value, of the type that the class asks for.
    pub value: Value,
}

/// Values of variables for a part of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VariableOverrides {
    /// The values that differ from the topology's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub overrides: Vec<ClusterVariable>,
}
