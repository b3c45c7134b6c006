//! `Cluster.spec.topology`: a cluster described by a ClusterClass and what this cluster makes of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::values::deletion_order;
use super::{
    ConditionGate, HealthChecks, MachineDeletion, MachineTaint, ObjectMeta, Remediation,
    RemediationTemplateReference, RemediationTrigger, Rollout, pattern,
};
use crate::wire::is_default;

/// A cluster's shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["classRef", "version"]))]
pub struct Topology {
    /// The ClusterClass that it is made from.
    pub class_ref: ClusterClassReference,
    /// Kubernetes version of the whole cluster.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// The control plane.
    #[serde(skip_serializing_if = "is_default")]
    pub control_plane: ControlPlaneTopology,
    /// The workers.
    #[serde(skip_serializing_if = "is_default")]
    pub workers: WorkersTopology,
    /// Values for the class's variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub variables: Vec<ClusterVariable>,
}

/// A ClusterClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct ClusterClassReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = pattern::SUBDOMAIN))]
    pub name: String,
    /// Its namespace; the Cluster's own if left out.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = pattern::LABEL))]
    pub namespace: String,
}

/// The control plane of a topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneTopology {
    /// Labels and annotations of the control plane and its machines, on top of the class's.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    /// How many machines. Left out, the control plane provider decides, and later changes are left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How machines are replaced.
    #[serde(skip_serializing_if = "is_default")]
    pub rollout: ControlPlaneRollout,
    /// Health check of its machines, instead of the class's.
    #[serde(skip_serializing_if = "is_default")]
    pub health_check: ControlPlaneHealthCheck,
    /// How long the steps of a machine's removal may take.
    #[serde(skip_serializing_if = "is_default")]
    pub deletion: MachineDeletion,
    /// Taints of the nodes, instead of the class's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
    /// Further conditions that make a machine Ready, instead of the class's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,
    /// Values of variables that hold here only.
    #[serde(skip_serializing_if = "is_default")]
    pub variables: VariableOverrides,
}

/// How a topology's control plane machines are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneRollout {
    /// Once this time has come, machines made before it are replaced, even if nothing has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Time>,
}

/// Health check of a topology's control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneHealthCheck {
    /// Whether there is a health check. Left out, there is one if either the class or this topology defines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When a machine is unhealthy.
    #[serde(skip_serializing_if = "is_default")]
    pub checks: HealthChecks,
    /// What is done about unhealthy machines.
    #[serde(skip_serializing_if = "is_default")]
    pub remediation: Remediation,
}

/// The workers of a topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct WorkersTopology {
    /// Pools of Machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 2000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub machine_deployments: Vec<MachineDeploymentTopology>,
    /// Pools that the infrastructure scales by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 2000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub machine_pools: Vec<MachinePoolTopology>,
}

/// One pool of Machines of a topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["class", "name"]))]
pub struct MachineDeploymentTopology {
    /// Labels and annotations of the MachineDeployment and its machines, on top of the class's.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    /// Which of the ClusterClass's machine deployment classes it is made from.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,
    /// Name of the pool within the cluster; part of the MachineDeployment's name.
    #[schemars(length(min = 1, max = 63), regex(pattern = pattern::SUBDOMAIN))]
    pub name: String,
    /// Failure domain of its machines, instead of the class's.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: String,
    /// How many machines. Left out, an autoscaler or the MachineDeployment's default decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Health check of its machines, instead of the class's.
    #[serde(skip_serializing_if = "is_default")]
    pub health_check: MachineDeploymentHealthCheck,
    /// Which machines go first, and how long the steps may take.
    #[serde(skip_serializing_if = "is_default")]
    pub deletion: MachineDeploymentTopologyDeletion,
    /// Taints of the nodes, instead of the class's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
    /// How long a machine has to be Ready before it counts as Available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
    /// Further conditions that make a machine Ready, instead of the class's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,
    /// How machines are replaced.
    #[serde(skip_serializing_if = "is_default")]
    pub rollout: Rollout,
    /// Values of variables that hold here only.
    #[serde(skip_serializing_if = "is_default")]
    pub variables: VariableOverrides,
}

/// Health check of a topology's pool of Machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentHealthCheck {
    /// Whether there is a health check. Left out, there is one if either the class or this topology defines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When a machine is unhealthy.
    #[serde(skip_serializing_if = "is_default")]
    pub checks: HealthChecks,
    /// What is done about unhealthy machines.
    #[serde(skip_serializing_if = "is_default")]
    pub remediation: MachineDeploymentTopologyRemediation,
}

/// What is done about unhealthy machines of a topology's pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentTopologyRemediation {
    /// How many may be replaced at a time: a number, or a percentage of the replicas, rounded up. No limit if left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<IntOrString>,
    /// When anything is done at all. Always, if left out.
    #[serde(skip_serializing_if = "is_default")]
    pub trigger_if: RemediationTrigger,
    /// What a request for somebody else's remediation is made from. Left out, the machine's owner replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<RemediationTemplateReference>,
}

/// Removal of a topology's machines: which go first, and how long the steps may take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentTopologyDeletion {
    /// `Random` (the default), `Newest` or `Oldest`.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = deletion_order::ALL))]
    pub order: String,
    /// Limit for draining the node; 0 or left out is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub node_drain_timeout_seconds: Option<i32>,
    /// Limit for its volumes to be detached; 0 or left out is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub node_volume_detach_timeout_seconds: Option<i32>,
    /// How long deletion of the Node object is tried; 0 is for ever, 10 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub node_deletion_timeout_seconds: Option<i32>,
}

/// One pool of a topology that the infrastructure scales by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["class", "name"]))]
pub struct MachinePoolTopology {
    /// Labels and annotations of the MachinePool, on top of the class's.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    /// Which of the ClusterClass's machine pool classes it is made from.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,
    /// Name of the pool within the cluster; part of the MachinePool's name.
    #[schemars(length(min = 1, max = 63), regex(pattern = pattern::SUBDOMAIN))]
    pub name: String,
    /// Failure domains that its machines are spread over, instead of the class's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub failure_domains: Vec<String>,
    /// How long the steps of a machine's removal may take.
    #[serde(skip_serializing_if = "is_default")]
    pub deletion: MachineDeletion,
    /// Taints of the nodes, instead of the class's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
    /// How long a machine has to be Ready before it counts as Available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
    /// How many machines. Left out, an autoscaler or the MachinePool's default decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Values of variables that hold here only.
    #[serde(skip_serializing_if = "is_default")]
    pub variables: VariableOverrides,
}

/// Values of variables that hold for one part of a topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct VariableOverrides {
    /// The values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub overrides: Vec<ClusterVariable>,
}

/// The value of a variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "value"]))]
pub struct ClusterVariable {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Its value; the class says of what shape.
    pub value: Value,
}
