//! What several kinds of the group share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as meta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A condition type: a name, optionally with a DNS prefix.
pub(super) const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

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
