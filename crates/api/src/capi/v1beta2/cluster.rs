use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::cluster_phase;
use super::{
    ConditionGate, ContractVersionedObjectReference, Deprecated, StatusVersion, Topology, V1Beta1Failure,
};
use crate::wire::is_default;

kind! {
    /// A Kubernetes cluster: what ties its infrastructure, its control plane and its machines together.
    #[schemars(extend("required" = ["spec"]))]
    pub struct Cluster: "cluster.x-k8s.io" / "v1beta2" clusters Namespaced {
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
#[schemars(extend("minProperties" = 1))]
pub struct ClusterSpec {
    /// Stops every controller's work on the cluster and all that belongs to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Addresses inside the cluster.
    #[serde(skip_serializing_if = "is_default")]
    pub cluster_network: ClusterNetwork,
    /// Where the cluster's API is reached. Filled in from the infrastructure or the control plane if left out.
    #[serde(skip_serializing_if = "is_default")]
    pub control_plane_endpoint: APIEndpoint,
    /// The object of the control plane provider. Without one, control plane machines are made by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<ContractVersionedObjectReference>,
    /// The object of the infrastructure provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ContractVersionedObjectReference>,
    /// The cluster's shape, for clusters that are made from a ClusterClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Further conditions of the Cluster that have to be fulfilled before it is Available.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub availability_gates: Vec<ConditionGate>,
}

/// Addresses inside a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterNetwork {
    /// Port of the API server on the control plane machines; 6443 if left out.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1, max = 65535))]
    pub api_server_port: i32,
    /// Where Services get their addresses.
    #[serde(skip_serializing_if = "is_default")]
    pub services: NetworkRanges,
    /// Where pods get their addresses.
    #[serde(skip_serializing_if = "is_default")]
    pub pods: NetworkRanges,
    /// DNS domain of Services.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub service_domain: String,
}

/// Ranges of addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["cidrBlocks"]))]
pub struct NetworkRanges {
    /// Ranges in CIDR notation.
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 43)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub cidr_blocks: Vec<String>,
}

/// Where an API server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct APIEndpoint {
    /// DNS name or address.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub host: String,
    /// TCP port.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

impl APIEndpoint {
    /// Whether both halves are there.
    pub fn is_valid(&self) -> bool {
        !self.host.is_empty() && self.port != 0
    }
}

impl fmt::Display for APIEndpoint {
    /// `host:port`, with brackets around an IPv6 address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// What a [`Cluster`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterStatus {
    /// Findings, one per type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// First provisioning.
    #[serde(skip_serializing_if = "is_default")]
    pub initialization: ClusterInitialization,
    /// Machines of the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ReplicaOverview>,
    /// Machines of all workers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<ReplicaOverview>,
    /// Failure domains that the infrastructure offers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub failure_domains: Vec<FailureDomain>,
    /// The whole state in one word, for people; decisions belong on conditions.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = cluster_phase::ALL))]
    pub phase: String,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1))]
    pub observed_generation: i64,
    /// Status for readers of older API versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated<V1Beta1Failure>>,
}

/// First provisioning of a [`Cluster`]; says nothing of its health later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterInitialization {
    /// Set once the infrastructure is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// Set once the control plane answers requests; from then on workers may join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

/// Machines of one part of a cluster, counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaOverview {
    /// How many there should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// How many there are, in whatever state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How many are as the spec asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
    /// How many are Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// How many have been Ready for long enough to count on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Kubernetes versions in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub versions: Vec<StatusVersion>,
    /// Versions still to be gone through on the way to the one that the topology asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub upgrade_plan: Vec<UpgradeStep>,
}

/// One version on the way of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["version"]))]
pub struct UpgradeStep {
    /// Kubernetes version.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
}

/// A part of the infrastructure that fails on its own, such as a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct FailureDomain {
    /// Name, as machines refer to it.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Whether control plane machines may be placed in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// What the provider says of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_need_both_halves() {
        let cases = [
            ("", 0, false, ":0"),
            ("host", 0, false, "host:0"),
            ("", 6443, false, ":6443"),
            ("host", 6443, true, "host:6443"),
            ("fd00::1", 6443, true, "[fd00::1]:6443"),
        ];
        for (host, port, valid, text) in cases {
            let endpoint = APIEndpoint { host: host.into(), port };
            assert_eq!((endpoint.is_valid(), endpoint.to_string().as_str()), (valid, text));
        }
    }
}
