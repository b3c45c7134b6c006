use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GenericCondition;
use crate::wire::{is_default, null_default};

kind! {
    /// The infrastructure of a cluster whose machines come from node drivers or are registered by hand. There is no
    /// infrastructure beyond the machines, so it is provisioned as soon as it has an endpoint.
    #[schemars(extend("required" = ["spec"]))]
    pub struct RKECluster: "rke.cattle.io" / "v1" rkeclusters Namespaced {
        /// What is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: RKEClusterSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<RKEClusterStatus>,
    }
}

/// What an [`RKECluster`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RKEClusterSpec {
    /// Where the cluster's API is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<Endpoint>,
}

/// A host and a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct Endpoint {
    /// DNS name or address.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub host: String,
    /// TCP port.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

impl Endpoint {
    /// Whether both halves are known; Cluster API ignores an endpoint before that.
    pub fn is_complete(&self) -> bool {
        !self.host.is_empty() && self.port != 0
    }
}

/// What an [`RKECluster`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RKEClusterStatus {
    /// What is observed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<GenericCondition>,
    /// Deprecated: [`initialization`](Self::initialization) replaces it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub ready: bool,
    /// What Cluster API's contract asks of an infrastructure cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<RKEClusterInitialization>,
}

/// First provisioning of an [`RKECluster`]; says nothing of its health later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct RKEClusterInitialization {
    /// Set once the infrastructure is there; never unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}
