use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::CONDITION_TYPE;
use super::{Condition, ConditionsV1Beta2Status};
use crate::GoDuration;
use crate::wire::is_default;

const RANGE: &str = r"^\[[0-9]+-[0-9]+\]$";

kind! {
    /// Watches over machines and has the unhealthy ones replaced.
    pub struct MachineHealthCheck: "cluster.x-k8s.io" / "v1beta1" machinehealthchecks Namespaced {
        /// What is asked for.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: MachineHealthCheckSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<MachineHealthCheckStatus>,
    }
}

/// What a [`MachineHealthCheck`] should do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterName", "selector"]))]
pub struct MachineHealthCheckSpec {
    /// Name of the cluster that the machines belong to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// Which machines are watched.
    pub selector: LabelSelector,
    /// When a machine is unhealthy and what is done about it.
    #[serde(flatten)]
    pub rules: HealthCheckRules,
}

/// When a machine is unhealthy and what is done about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheckRules {
    /// Conditions of a node that make its machine unhealthy when they last; any one suffices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub unhealthy_conditions: Vec<UnhealthyNodeCondition>,
    /// Conditions of a machine that make it unhealthy when they last; any one suffices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
    /// Nothing is remediated while more machines, or percent of them, than this are unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unhealthy: Option<IntOrString>,
    /// Remediate only while the number of unhealthy machines is within this range, written `[3-5]`. Takes precedence
    /// over the maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = RANGE))]
    pub unhealthy_range: Option<String>,
    /// How long a machine may take to get its node. 10 minutes if not given; zero switches the check off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_startup_timeout: Option<GoDuration>,
    /// Template of an object that another controller remediates by. Without one, the machine's owner replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation_template: Option<ObjectReference>,
}

/// A condition of a node that means unhealthy when it lasts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["status", "timeout", "type"]))]
pub struct UnhealthyNodeCondition {
    /// Type of the node's condition.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub type_: String,
    /// Status of the condition that is bad.
    #[schemars(length(min = 1))]
    pub status: String,
    /// How long it must have been so.
    pub timeout: GoDuration,
}

/// A condition of a machine that means unhealthy when it lasts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["status", "timeout", "type"]))]
pub struct UnhealthyMachineCondition {
    /// Type of the machine's condition; not one that Cluster API itself derives from others or from health checks.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    #[schemars(
        length(min = 1, max = 316),
        regex(pattern = CONDITION_TYPE),
        extend("x-kubernetes-validations" = [{
            "rule": "!(self in ['Ready','Available','HealthCheckSucceeded','OwnerRemediated','ExternallyRemediated'])",
            "message": "Ready, Available, HealthCheckSucceeded, OwnerRemediated and ExternallyRemediated follow from health checks and cannot be checked",
        }])
    )]
    pub type_: String,
    /// Status of the condition that is bad.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// How long it must have been so.
    pub timeout: GoDuration,
}

/// What a [`MachineHealthCheck`] sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineHealthCheckStatus {
    /// Machines watched.
    #[schemars(range(min = 0))]
    pub expected_machines: i32,
    /// Machines that are healthy.
    #[schemars(range(min = 0))]
    pub current_healthy: i32,
    /// How many more machines may be remediated before the maximum is reached.
    #[schemars(range(min = 0))]
    pub remediations_allowed: i32,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Names of the machines watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000), inner(length(min = 1, max = 253)))]
    pub targets: Vec<String>,
    /// State of the check by aspect, with severities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The fields that v1beta2 brought to the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<ConditionsV1Beta2Status>,
}
