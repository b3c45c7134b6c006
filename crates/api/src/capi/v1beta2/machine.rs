use k8s_openapi::api::core::v1::NodeSystemInfo;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{address_type, machine_phase, taint_effect, taint_propagation};
use super::{ConditionGate, ContractVersionedObjectReference, Deprecated, V1Beta1Failure, pattern};
use crate::wire::is_default;

kind! {
    /// One machine of a cluster, from the request for a server to its removal.
    #[schemars(extend("required" = ["spec"]))]
    pub struct Machine: "cluster.x-k8s.io" / "v1beta2" machines Namespaced {
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
    /// Name of the Cluster that it belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// How the server becomes a node.
    pub bootstrap: Bootstrap,
    /// The infrastructure provider's object for this machine; in templates, the template that it is made from.
    pub infrastructure_ref: ContractVersionedObjectReference,
    /// Kubernetes version, for bootstrap providers that go by it.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// The infrastructure's name for the server; the node carries the same. Set by the infrastructure provider.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: String,
    /// Failure domain to place it in, one of those in the Cluster's status.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: String,
    /// How long it has to be Ready before it counts as Available; 0 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
    /// Further conditions of the Machine that have to be fulfilled before it is Ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,
    /// How long the steps of its removal may take.
    #[serde(skip_serializing_if = "is_default")]
    pub deletion: MachineDeletion,
    /// Taints of its node; others that are on the node stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
}

/// How a server becomes a node: a bootstrap provider's object, or a Secret that is there already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Bootstrap {
    /// The bootstrap provider's object for this machine; in templates, the template that it is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<ContractVersionedObjectReference>,
    /// Name of the Secret with the script or cloud-config that the server runs first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 0, max = 253))]
    pub data_secret_name: Option<String>,
}

/// How long the steps of a machine's removal may take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeletion {
    /// Limit for draining the node; 0 or left out is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub node_drain_timeout_seconds: Option<i32>,
    /// Limit for its volumes to be detached; 0 or left out is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub node_volume_detach_timeout_seconds: Option<i32>,
    /// How long deletion of the Node object is tried; 0 is for ever, 10 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub node_deletion_timeout_seconds: Option<i32>,
}

/// A taint that a machine gives to its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["effect", "key", "propagation"]))]
pub struct MachineTaint {
    /// Key of the taint.
    #[schemars(length(min = 1, max = 317), regex(pattern = pattern::TAINT_KEY))]
    pub key: String,
    /// Value of the taint.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = pattern::TAINT_VALUE))]
    pub value: String,
    /// What the taint does to pods.
    #[schemars(extend("enum" = taint_effect::ALL))]
    pub effect: String,
    /// `Always` puts the taint back when somebody takes it off; `OnInitialization` sets it once.
    #[schemars(extend("enum" = taint_propagation::ALL))]
    pub propagation: String,
}

/// What a [`Machine`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineStatus {
    /// Findings, one per type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// First provisioning.
    #[serde(skip_serializing_if = "is_default")]
    pub initialization: MachineInitialization,
    /// The node that the machine has become.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<MachineNodeReference>,
    /// What the node says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeSystemInfo>,
    /// When the phase changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Addresses that the infrastructure provider reports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,
    /// Failure domain that it has been placed in.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: String,
    /// The whole state in one word, for people; decisions belong on conditions.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = machine_phase::ALL))]
    pub phase: String,
    /// When its certificates run out; only on control plane machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_expiry_date: Option<Time>,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1))]
    pub observed_generation: i64,
    /// How far its removal has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<MachineDeletionProgress>,
    /// Status for readers of older API versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated<V1Beta1Failure>>,
}

/// First provisioning of a [`Machine`]; says nothing of its health later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineInitialization {
    /// Set once there is a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// Set once the Secret with the bootstrap data is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_data_secret_created: Option<bool>,
}

/// A node of the machine's cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct MachineNodeReference {
    /// Name of the Node.
    #[schemars(length(min = 1, max = 253), regex(pattern = pattern::SUBDOMAIN))]
    pub name: String,
}

/// One address of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["address", "type"]))]
pub struct MachineAddress {
    /// What kind of address it is.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = address_type::ALL))]
    pub type_: String,
    /// The address or name.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// How far a machine's removal has come: when each step began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeletionProgress {
    /// When draining the node began; the limit on draining counts from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_start_time: Option<Time>,
    /// When waiting for volumes began; the limit on detaching counts from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_node_volume_detach_start_time: Option<Time>,
    /// When waiting for pre-drain hooks began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_pre_drain_hook_start_time: Option<Time>,
    /// When waiting for pre-terminate hooks began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_pre_terminate_hook_start_time: Option<Time>,
}
