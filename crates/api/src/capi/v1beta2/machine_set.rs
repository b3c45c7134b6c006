use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::deletion_order;
use super::{Deprecated, MachineSpec, ObjectMeta, StatusVersion};
use crate::capi::v1beta1;
use crate::wire::is_default;

kind! {
    /// A number of like machines. What it makes is never changed by a new template: that is a MachineDeployment's
    /// work.
    #[schemars(extend("required" = ["spec"]))]
    pub struct MachineSet: "cluster.x-k8s.io" / "v1beta2" machinesets Namespaced {
        /// What is asked for.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: MachineSetSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<MachineSetStatus>,
    }
}

/// What a [`MachineSet`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterName", "selector", "template"]))]
pub struct MachineSetSpec {
    /// Name of the Cluster that it belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// How many machines. Left out, it is decided on creation: within the autoscaler's annotated bounds if there
    /// are any, else 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which machines are counted and adopted; has to match the template's labels.
    pub selector: LabelSelector,
    /// What new machines are made from.
    pub template: MachineTemplate,
    /// How new machines are named.
    #[serde(skip_serializing_if = "is_default")]
    pub machine_naming: MachineNaming,
    /// Which machines go first.
    #[serde(skip_serializing_if = "is_default")]
    pub deletion: DeletionOrder,
}

/// What machines are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["spec"]))]
pub struct MachineTemplate {
    /// Labels and annotations of the machines; they follow changes without a rollout.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    /// Spec of the machines.
    pub spec: MachineSpec,
}

/// How machines are named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineNaming {
    /// Go template of a name. It may use `.cluster.name`, `.machineSet.name` and `.random`, and has to use the last
    /// one. Names over 63 characters are shortened to 58 and get a random ending.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub template: String,
}

/// Which machines go first when there are too many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct DeletionOrder {
    /// `Random` (the default), `Newest` or `Oldest`, among those that nothing else puts first.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = deletion_order::ALL))]
    pub order: String,
}

/// What a [`MachineSet`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineSetStatus {
    /// Findings, one per type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The selector as text, for the scale subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 4096))]
    pub selector: String,
    /// How many machines there are, in whatever state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How many are Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// How many are Available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// How many are as the owner's spec asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
    /// Kubernetes versions in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
    )]
    pub versions: Vec<StatusVersion>,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1))]
    pub observed_generation: i64,
    /// Status for readers of older API versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated<MachineSetCounts>>,
}

/// v1beta1's status of a [`MachineSet`], as far as v1beta2 counts differently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSetCounts {
    /// Conditions with v1beta1's types and reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<v1beta1::Condition>,
    /// Failure in one word. Shown only: nothing stops because of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Failure for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    /// Machines that carry all of the template's labels.
    pub fully_labeled_replicas: i32,
    /// Machines whose node is Ready.
    pub ready_replicas: i32,
    /// Machines whose node has been Ready for long enough.
    pub available_replicas: i32,
}
