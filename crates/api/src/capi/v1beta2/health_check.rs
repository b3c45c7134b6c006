use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::condition_status;
use super::{Deprecated, V1Beta1Conditions, pattern};
use crate::wire::is_default;

kind! {
    /// When machines count as unhealthy, and what is done about it.
    #[schemars(extend("required" = ["spec"]))]
    pub struct MachineHealthCheck: "cluster.x-k8s.io" / "v1beta2" machinehealthchecks Namespaced {
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
    /// Name of the Cluster that it belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// Which machines are checked.
    pub selector: LabelSelector,
    /// When a machine is unhealthy. Left out, only a node that never appears or goes away is.
    #[serde(skip_serializing_if = "is_default")]
    pub checks: HealthChecks,
    /// What is done about unhealthy machines. Left out, their owner replaces them.
    #[serde(skip_serializing_if = "is_default")]
    pub remediation: Remediation,
}

/// When a machine is unhealthy: any one of these is enough.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct HealthChecks {
    /// How long a machine may take to become a node, from the latest of: its creation, the infrastructure, the
    /// control plane being there. 600 if left out; 0 switches this check off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub node_startup_timeout_seconds: Option<i32>,
    /// Conditions of the Node that make it unhealthy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_node_conditions: Vec<UnhealthyNodeCondition>,
    /// Conditions of the Machine that make it unhealthy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
}

/// A condition of a Node that makes its machine unhealthy once it has lasted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["status", "timeoutSeconds", "type"]))]
pub struct UnhealthyNodeCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub type_: String,
    /// Status that is bad: `True`, `False` or `Unknown`.
    #[schemars(length(min = 1))]
    pub status: String,
    /// How long it has to last.
    #[schemars(range(min = 0))]
    pub timeout_seconds: i32,
}

/// A condition of a Machine that makes it unhealthy once it has lasted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["status", "timeoutSeconds", "type"]))]
pub struct UnhealthyMachineCondition {
    /// Type of the condition. Those that follow from health checks themselves are refused.
    #[serde(rename = "type")]
    #[schemars(
        length(min = 1, max = 316),
        regex(pattern = pattern::CONDITION_TYPE),
        extend("x-kubernetes-validations" = [{
            "rule": "!(self in ['Ready','Available','HealthCheckSucceeded','OwnerRemediated','ExternallyRemediated'])",
            "message": "Ready, Available, HealthCheckSucceeded, OwnerRemediated and ExternallyRemediated follow from health checks and cannot be checked",
        }])
    )]
    pub type_: String,
    /// Status that is bad.
    #[schemars(extend("enum" = condition_status::ALL))]
    pub status: String,
    /// How long it has to last.
    #[schemars(range(min = 0))]
    pub timeout_seconds: i32,
}

/// What is done about unhealthy machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct Remediation {
    /// When anything is done at all. Always, if left out.
    #[serde(skip_serializing_if = "is_default")]
    pub trigger_if: RemediationTrigger,
    /// What a request for somebody else's remediation is made from. Left out, the machine's owner replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<RemediationTemplateReference>,
}

/// When something is done about unhealthy machines: a guard against replacing everything at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct RemediationTrigger {
    /// At most so many are unhealthy: a number, or a percentage of the machines, rounded down. Not looked at if
    /// there is a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_less_than_or_equal_to: Option<IntOrString>,
    /// Between so many and so many are unhealthy, bounds included, as in `[3-5]`.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = pattern::RANGE))]
    pub unhealthy_in_range: String,
}

/// A template of remediation requests. The one reference that names its version: no contract covers it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiVersion", "kind", "name"]))]
pub struct RemediationTemplateReference {
    /// Kind of the template.
    #[schemars(length(min = 1, max = 63), regex(pattern = pattern::KIND))]
    pub kind: String,
    /// Name of the template.
    #[schemars(length(min = 1, max = 253), regex(pattern = pattern::SUBDOMAIN))]
    pub name: String,
    /// API group and version of the template.
    #[schemars(length(min = 1, max = 317), regex(pattern = pattern::API_VERSION))]
    pub api_version: String,
}

/// What a [`MachineHealthCheck`] has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineHealthCheckStatus {
    /// Findings, one per type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How many machines are checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub expected_machines: Option<i32>,
    /// How many of them are healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub current_healthy: Option<i32>,
    /// How many more may become unhealthy before nothing is done any longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub remediations_allowed: Option<i32>,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1))]
    pub observed_generation: i64,
    /// Names of the machines that are checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 10000),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub targets: Vec<String>,
    /// Status for readers of older API versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated<V1Beta1Conditions>>,
}
