use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, ResourceClaim, Toleration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::wire::{is_default, null_default};

/// Count or percentage of pods, as the API takes it.
const COUNT_OR_PERCENTAGE: &str = r"^((([1-9]|[1-9][0-9]|100)%)|([1-9][0-9]*|0)|)$";

/// Changes to the Deployment of an agent in a downstream cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentDeploymentCustomization {
    /// Tolerations beside the agent's own.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub append_tolerations: Vec<Toleration>,
    /// Affinity instead of the agent's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_affinity: Option<Affinity>,
    /// Resources instead of the agent's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_resource_requirements: Option<ResourceRequirements>,
    /// Priority and disruption of the agent's pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_customization: Option<AgentSchedulingCustomization>,
}

/// Priority and disruption of an agent's pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSchedulingCustomization {
    /// A priority class made for the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<PriorityClassSpec>,
    /// A disruption budget made for the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudgetSpec>,
}

/// A priority class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClassSpec {
    /// Higher is scheduled first.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub value: i64,
    /// `PreemptLowerPriority` or `Never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<String>,
}

/// A disruption budget; one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    /// Pods that stay: a number or a percentage.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = COUNT_OR_PERCENTAGE), length(max = 10))]
    pub min_available: String,
    /// Pods that may go: a number or a percentage.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = COUNT_OR_PERCENTAGE), length(max = 10))]
    pub max_unavailable: String,
}

/// Changes to the Deployment of the webhook in a downstream cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookDeploymentCustomization {
    /// Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub replica_count: Option<i32>,
    /// Tolerations beside the webhook's own.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub append_tolerations: Vec<Toleration>,
    /// Affinity instead of the webhook's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_affinity: Option<Affinity>,
    /// Resources instead of the webhook's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_resource_requirements: Option<ResourceRequirements>,
    /// A disruption budget made for the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudgetSpec>,
}

/// What a container asks for and may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRequirements {
    /// Dynamic resources.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub claims: Vec<ResourceClaim>,
    /// The most it may use.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, ResourceQuantity>,
    /// What it asks for.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, ResourceQuantity>,
}

/// An amount of a resource as it was written: `cpu: 1` and `cpu: 500m` are both usual, and k8s-openapi's `Quantity`
/// reads only the second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResourceQuantity {
    /// A plain number.
    Number(serde_json::Number),
    /// A number with a unit.
    Text(String),
}

impl JsonSchema for ResourceQuantity {
    fn schema_name() -> Cow<'static, str> {
        "ResourceQuantity".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        })
    }
}
