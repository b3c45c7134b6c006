use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::drain_behavior;
use crate::wire::is_default;

kind! {
    /// How pods are treated when nodes are drained. Of several rules that fit a pod, the first by name counts.
    #[schemars(extend("required" = ["metadata", "spec"]))]
    pub struct MachineDrainRule: "cluster.x-k8s.io" / "v1beta2" machinedrainrules Namespaced {
        /// Which pods on which machines, and what happens to them.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: MachineDrainRuleSpec,
    }
}

/// What a [`MachineDrainRule`] says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["drain"]))]
pub struct MachineDrainRuleSpec {
    /// What happens to the pods.
    pub drain: DrainConfig,
    /// Which machines: those that fit any entry; all machines of the namespace if left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = [{
                "rule": "self.all(x, self.exists_one(y, x == y))",
                "message": "an entry of machines is given twice",
            }]
        )
    )]
    pub machines: Vec<MachineSelector>,
    /// Which pods: those that fit any entry; all pods if left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = [{
                "rule": "self.all(x, self.exists_one(y, x == y))",
                "message": "an entry of pods is given twice",
            }]
        )
    )]
    pub pods: Vec<PodSelector>,
}

/// What happens to pods on a node that is drained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["behavior"]))]
pub struct DrainConfig {
    /// `Drain` evicts them, `Skip` ignores them, `WaitCompleted` waits until they have finished.
    #[schemars(extend("enum" = drain_behavior::ALL))]
    pub behavior: String,
    /// When they are evicted: lower numbers first, each number once the ones before it are gone; 0 if left out.
    /// Only with `Drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<i32>,
}

/// Machines, by their labels and their cluster's: both have to fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineSelector {
    /// Labels of the Machine; any if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Labels of its Cluster; any if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<LabelSelector>,
}

/// Pods, by their labels and their namespace's: both have to fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct PodSelector {
    /// Labels of the Pod; any if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Labels of its Namespace; any if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}
