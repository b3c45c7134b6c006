use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Deprecated, MachineInitialization, MachineTemplate, StatusVersion};
use crate::capi::v1beta1;
use crate::wire::is_default;

kind! {
    /// Like machines that the infrastructure itself scales. Known so that clients which ask for it get an answer
    /// (`clusterctl describe` does); nothing here looks after it.
    #[schemars(extend("required" = ["spec"]))]
    pub struct MachinePool: "cluster.x-k8s.io" / "v1beta2" machinepools Namespaced {
        /// What is asked for.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: MachinePoolSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<MachinePoolStatus>,
    }
}

/// What a [`MachinePool`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterName", "template"]))]
pub struct MachinePoolSpec {
    /// Name of the Cluster that it belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// How many machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// What machines are made from.
    pub template: MachineTemplate,
    /// The machines, as their provider calls them.
    #[serde(rename = "providerIDList", skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 10000),
        inner(length(min = 1, max = 512)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub provider_id_list: Vec<String>,
    /// Where machines may be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
    pub failure_domains: Vec<String>,
}

/// What a [`MachinePool`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachinePoolStatus {
    /// Findings, one per type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// What was done for the first time.
    #[serde(skip_serializing_if = "is_default")]
    pub initialization: MachineInitialization,
    /// The nodes of its machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000), extend("x-kubernetes-list-type" = "atomic"))]
    pub node_refs: Vec<ObjectReference>,
    /// How many machines there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How many are Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// How many are Available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// How many are as the spec asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
    /// Kubernetes versions in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
    )]
    pub versions: Vec<StatusVersion>,
    /// What it is at, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = [
        "Pending", "Provisioning", "Provisioned", "Running", "ScalingUp", "ScalingDown", "Scaling", "Deleting", "Failed", "Unknown",
    ]))]
    pub phase: String,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1))]
    pub observed_generation: i64,
    /// Status for readers of older API versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated<MachinePoolCounts>>,
}

/// v1beta1's status of a [`MachinePool`], as far as v1beta2 counts differently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePoolCounts {
    /// Conditions with v1beta1's types and reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<v1beta1::Condition>,
    /// Failure in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Failure for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    /// Machines whose node is Ready.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_replicas: i32,
    /// Machines whose node has been Ready for long enough.
    #[serde(skip_serializing_if = "is_default")]
    pub available_replicas: i32,
    /// Machines that are not.
    #[serde(skip_serializing_if = "is_default")]
    pub unavailable_replicas: i32,
}
