use k8s_openapi::api::core::v1::{NodeSystemInfo, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, ConditionsV1Beta2Status, TemplateMetadata};
use crate::GoDuration;
use crate::capi::v1beta2::{ConditionGate, MachineAddress, MachineDeletionProgress, MachineTaint};
use crate::wire::is_default;

kind! {
    /// One machine of a cluster, from its making to its end. Its node is found by provider ID.
    pub struct Machine: "cluster.x-k8s.io" / "v1beta1" machines Namespaced {
        /// What is asked for.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: MachineSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<MachineStatus>,
    }
}

/// What a [`Machine`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["bootstrap", "clusterName", "infrastructureRef"]))]
pub struct MachineSpec {
    /// Name of the cluster that the machine belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// Where the script that makes a node of the machine comes from.
    pub bootstrap: Bootstrap,
    /// The object that provides the machine itself.
    pub infrastructure_ref: ObjectReference,
    /// Kubernetes version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub version: Option<String>,
    /// The provider's name for the machine; its node carries the same.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
    /// Failure domain to place the machine in: one of those in the cluster's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// Further conditions that must hold for the machine to be `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,
    /// How long draining the node may take. Forever if zero or not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_timeout: Option<GoDuration>,
    /// How long to wait for volumes to be detached. Forever if zero or not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_volume_detach_timeout: Option<GoDuration>,
    /// How long to try to delete the node object. Forever if zero, 10 seconds if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_deletion_timeout: Option<GoDuration>,
    /// Taints for the node. Taints that others set are left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
}

/// Where a machine's bootstrap data comes from: one of the two, a Secret in the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Bootstrap {
    /// The object that makes the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<ObjectReference>,
    /// Name of the Secret with the data. Filled in when a config is referred to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 0, max = 253))]
    pub data_secret_name: Option<String>,
}

/// What machines of a MachineSet or MachineDeployment are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTemplateSpec {
    /// Labels and annotations of the machines.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: TemplateMetadata,
    /// Spec of the machines; its references name templates.
    #[serde(skip_serializing_if = "is_default")]
    pub spec: MachineSpec,
}

/// What a [`Machine`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    /// The machine's node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<ObjectReference>,
    /// What the node says of its system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeSystemInfo>,
    /// When the phase last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Deprecated: the word for a failure that needs a person. Conditions replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Deprecated: the text for a failure that needs a person. Conditions replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    /// Addresses of the machine, as the infrastructure tells them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// Where the machine is in its life, in one word for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = [
        "Pending", "Provisioning", "Provisioned", "Running", "Deleting", "Deleted", "Failed", "Unknown",
    ]))]
    pub phase: String,
    /// When the machine's certificates expire; known of control plane machines only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_expiry_date: Option<Time>,
    /// Whether the bootstrap data is there.
    pub bootstrap_ready: bool,
    /// Whether the infrastructure has been provisioned.
    pub infrastructure_ready: bool,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// State of the machine by aspect, with severities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How far a deletion has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<MachineDeletionProgress>,
    /// The fields that v1beta2 brought to the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<ConditionsV1Beta2Status>,
}
