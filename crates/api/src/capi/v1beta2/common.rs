use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{pattern, values};
use crate::capi::v1beta1;

/// An object in the same namespace, without its version: that is found by the contract labels on its CRD.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiGroup", "kind", "name"]))]
pub struct ContractVersionedObjectReference {
    /// Kind of the object.
    #[schemars(length(min = 1, max = 63), regex(pattern = pattern::KIND))]
    pub kind: String,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253), regex(pattern = pattern::SUBDOMAIN))]
    pub name: String,
    /// API group of the object, without a version.
    #[schemars(length(min = 1, max = 253), regex(pattern = pattern::SUBDOMAIN))]
    pub api_group: String,
}

impl ContractVersionedObjectReference {
    /// Kind and group in one word, as `RKECluster.rke.cattle.io`.
    pub fn group_kind(&self) -> String {
        format!("{}.{}", self.kind, self.api_group)
    }
}

/// The metadata that a template gives to what is made from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ObjectMeta {
    /// Labels to set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A further condition that takes part in readiness or availability.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["conditionType"]))]
pub struct ConditionGate {
    /// Type of the condition. If it is missing, it counts as unknown.
    #[schemars(length(min = 1, max = 316), regex(pattern = pattern::CONDITION_TYPE))]
    pub condition_type: String,
    /// `Positive` (the default) if True is good, `Negative` if False is.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = values::polarity::ALL))]
    pub polarity: String,
}

/// How many machines run a Kubernetes version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["version"]))]
pub struct StatusVersion {
    /// Kubernetes version.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// Machines with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub replicas: Option<i32>,
}

/// Status in the shape of an API version that goes away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Deprecated<T: Default> {
    /// What readers of v1beta1 see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta1: Option<T>,
}

/// v1beta1's conditions, where nothing else is left of v1beta1's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct V1Beta1Conditions {
    /// Conditions with v1beta1's types and reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<v1beta1::Condition>,
}

/// v1beta1's conditions and terminal failures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct V1Beta1Failure {
    /// Conditions with v1beta1's types and reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<v1beta1::Condition>,
    /// Failure that a provider reported, in one word. Shown only: nothing stops because of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Failure that a provider reported, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
}
