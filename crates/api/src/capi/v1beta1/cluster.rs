use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, Topology};
use crate::capi::v1beta2::{ConditionGate, ReplicaOverview};
use crate::wire::is_default;

kind! {
    /// A Kubernetes cluster and the objects that provide its infrastructure and its control plane.
    pub struct Cluster: "cluster.x-k8s.io" / "v1beta1" clusters Namespaced {
        /// What is asked for.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: ClusterSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<ClusterStatus>,
    }
}

/// What a [`Cluster`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// Stops every controller from working on the cluster and on what belongs to it.
    #[serde(skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Address ranges and the service domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_network: Option<ClusterNetwork>,
    /// Where the cluster's API is reached. Taken from the infrastructure or the control plane if not given.
    #[serde(skip_serializing_if = "is_default")]
    pub control_plane_endpoint: ApiEndpoint,
    /// The object that provides the control plane. Without one, control plane machines are made one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<ObjectReference>,
    /// The object that provides the infrastructure of the cluster as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ObjectReference>,
    /// The cluster as an instance of a ClusterClass; the references are then filled in from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Further conditions that must hold for the cluster to be `Available`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub availability_gates: Vec<ConditionGate>,
}

/// The network inside a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetwork {
    /// Port on which the API servers listen. 6443 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server_port: Option<i32>,
    /// Where addresses of services are taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<NetworkRanges>,
    /// Where addresses of pods are taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<NetworkRanges>,
    /// DNS domain of services.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub service_domain: String,
}

/// Ranges of addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["cidrBlocks"]))]
pub struct NetworkRanges {
    /// Ranges in CIDR notation, such as `10.42.0.0/16`.
    #[schemars(length(max = 100), inner(length(min = 1, max = 43)))]
    pub cidr_blocks: Vec<String>,
}

/// A host and a port; both zero until known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiEndpoint {
    /// DNS name or address.
    #[schemars(length(max = 512))]
    pub host: String,
    /// TCP port.
    pub port: i32,
}

/// What a [`Cluster`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Failure domains that the infrastructure has, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failure_domains: BTreeMap<String, FailureDomain>,
    /// Deprecated: the word for a failure that needs a person. Conditions replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Deprecated: the text for a failure that needs a person. Conditions replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    /// Where the cluster is in its life, in one word for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"]))]
    pub phase: String,
    /// Whether the infrastructure has been provisioned.
    pub infrastructure_ready: bool,
    /// Whether the control plane has answered for the first time.
    pub control_plane_ready: bool,
    /// State of the cluster by aspect, with severities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// The fields that v1beta2 brought to the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<ClusterV1Beta2Status>,
}

/// A part of the infrastructure that fails on its own, such as a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureDomain {
    /// Whether control plane machines may be placed there.
    #[serde(skip_serializing_if = "is_default")]
    pub control_plane: bool,
    /// What else the infrastructure tells of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// The fields that v1beta2 brought to a cluster's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterV1Beta2Status {
    /// The conditions that v1beta2 has at `status.conditions`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<meta::Condition>,
    /// The control plane's machines, counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ReplicaOverview>,
    /// The workers' machines, counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<ReplicaOverview>,
}
