//! What several kinds of the group share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as meta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::is_default;

/// A condition type: a name, optionally with a DNS prefix.
pub(super) const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const TAINT_KEY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
const TAINT_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// A condition as Cluster API had it before it took over Kubernetes' own: with a severity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["lastTransitionTime", "status", "type"]))]
pub struct Condition {
    /// What the condition is about, such as `InfrastructureReady`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 256))]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// How bad it is that the status is `False`: `Error`, `Warning` or `Info`; empty in every other status.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub severity: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why the status is what it is: one word for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub reason: String,
    /// The same for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 10240))]
    pub message: String,
}

/// A further condition that has a say in an object's summary condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["conditionType"]))]
pub struct ConditionGate {
    /// Type of the condition on the same object; while it is missing it counts as unknown.
    #[schemars(length(min = 1, max = 316), regex(pattern = CONDITION_TYPE))]
    pub condition_type: String,
    /// `Positive` if the condition is good when true (the default), `Negative` if it is good when false.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["Positive", "Negative"]))]
    pub polarity: String,
}

/// Labels and annotations that objects made from a template get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMetadata {
    /// Labels to set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A taint that Cluster API keeps on a machine's node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["effect", "key", "propagation"]))]
pub struct MachineTaint {
    /// Key of the taint.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 317), regex(pattern = TAINT_KEY))]
    pub key: String,
    /// Value of the taint; a taint needs none.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = TAINT_VALUE))]
    pub value: String,
    /// What happens to pods that do not tolerate the taint.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["NoSchedule", "PreferNoSchedule", "NoExecute"]))]
    pub effect: String,
    /// `Always` puts the taint back whenever it is missing; `OnInitialization` sets it once, before the node is ready
    /// for use.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["Always", "OnInitialization"]))]
    pub propagation: String,
}

/// How many machines run a Kubernetes version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["version"]))]
pub struct StatusVersion {
    /// Kubernetes version.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// Number of machines at that version.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1))]
    pub replicas: i32,
}

/// The part of a status that v1beta2 brought, where that is nothing but conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionsV1Beta2Status {
    /// The conditions that v1beta2 has at `status.conditions`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<meta::Condition>,
}

/// The part of a status that v1beta2 brought, where machines are counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicasV1Beta2Status {
    /// The conditions that v1beta2 has at `status.conditions`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<meta::Condition>,
    /// Machines whose condition `Ready` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Machines whose condition `Available` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Machines whose condition `UpToDate` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
}
