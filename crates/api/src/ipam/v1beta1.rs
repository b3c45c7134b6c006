//! `ipam.cluster.x-k8s.io/v1beta1`.

use k8s_openapi::api::core::v1::{LocalObjectReference, TypedLocalObjectReference};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::capi::v1beta1::{Condition, ConditionsV1Beta2Status};
use crate::wire::is_default;

kind! {
    /// An address that a pool has given out.
    pub struct IPAddress: "ipam.cluster.x-k8s.io" / "v1beta1" ipaddresses Namespaced {
        /// The address, and whom it was given to.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: IPAddressSpec,
    }
}

/// An address, and whom it was given to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["address", "claimRef", "poolRef", "prefix"]))]
pub struct IPAddressSpec {
    /// The claim that asked for it.
    pub claim_ref: LocalObjectReference,
    /// The pool it comes from.
    pub pool_ref: TypedLocalObjectReference,
    /// The address, IPv4 or IPv6.
    #[schemars(length(min = 1, max = 39))]
    pub address: String,
    /// Length of the network's prefix, in bits.
    #[schemars(schema_with = "any_integer")]
    pub prefix: i64,
    /// The network's gateway.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 39))]
    pub gateway: String,
}

/// Go's `int` has no format.
fn any_integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

kind! {
    /// Asks a pool for an address.
    pub struct IPAddressClaim: "ipam.cluster.x-k8s.io" / "v1beta1" ipaddressclaims Namespaced {
        /// What is asked for.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: IPAddressClaimSpec,
        /// What was given.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<IPAddressClaimStatus>,
    }
}

/// What an [`IPAddressClaim`] asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["poolRef"]))]
pub struct IPAddressClaimSpec {
    /// Name of the cluster that the address is for; while that is paused, so is the claim.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// The pool that is to give an address.
    pub pool_ref: TypedLocalObjectReference,
}

/// What an [`IPAddressClaim`] got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IPAddressClaimStatus {
    /// The IPAddress that was given.
    #[serde(skip_serializing_if = "is_default")]
    pub address_ref: LocalObjectReference,
    /// State of the claim by aspect, with severities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The fields that v1beta2 brought to the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<ConditionsV1Beta2Status>,
}
