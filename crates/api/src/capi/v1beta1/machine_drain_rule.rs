use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

kind! {
    /// Says how the pods it selects are treated when the machines it selects are drained.
    #[schemars(extend("required" = ["metadata", "spec"]))]
    pub struct MachineDrainRule: "cluster.x-k8s.io" / "v1beta1" machinedrainrules Namespaced {
        /// The rule.
        pub spec: MachineDrainRuleSpec,
    }
}

/// What a [`MachineDrainRule`] says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["drain"]))]
pub struct MachineDrainRuleSpec {
    /// What is done with the pods.
    pub drain: DrainConfig,
    /// On which machines; any one entry suffices. All machines of the namespace if not given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = [{
            "rule": "self.all(x, self.exists_one(y, x == y))",
            "message": "entries in machines must be unique",
        }])
    )]
    pub machines: Vec<DrainRuleMachineSelector>,
    /// Which pods; any one entry suffices. All pods if not given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = [{
            "rule": "self.all(x, self.exists_one(y, x == y))",
            "message": "entries in pods must be unique",
        }])
    )]
    pub pods: Vec<DrainRulePodSelector>,
}

/// What is done with pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["behavior"]))]
pub struct DrainConfig {
    /// `Drain` evicts them, `Skip` leaves them, `WaitCompleted` waits until they have finished by themselves.
    #[schemars(extend("enum" = ["Drain", "Skip", "WaitCompleted"]))]
    pub behavior: String,
    /// Pods of a lower order are evicted first, and gone before the next ones. 0 if not given; only for `Drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<i32>,
}

/// Machines, by their labels and their cluster's; both must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct DrainRuleMachineSelector {
    /// Labels of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Labels of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<LabelSelector>,
}

/// Pods, by their labels and their namespace's; both must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct DrainRulePodSelector {
    /// Labels of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Labels of the pod's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}
