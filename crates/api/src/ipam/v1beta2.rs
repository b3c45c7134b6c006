//! `ipam.cluster.x-k8s.io/v1beta2`: the version that is stored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capi::v1beta1::Condition;
use crate::wire::is_default;

const DNS_NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const KIND: &str = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";

kind! {
    /// An address that a pool has given out.
    #[schemars(extend("required" = ["spec"]))]
    pub struct IPAddress: "ipam.cluster.x-k8s.io" / "v1beta2" ipaddresses Namespaced {
        /// The address, and whom it was given to.
        pub spec: IPAddressSpec,
    }
}

/// An address, and whom it was given to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["address", "claimRef", "poolRef", "prefix"]))]
pub struct IPAddressSpec {
    /// The claim that asked for it.
    #[serde(skip_serializing_if = "is_default")]
    pub claim_ref: NameReference,
    /// The pool it comes from.
    #[serde(skip_serializing_if = "is_default")]
    pub pool_ref: IPPoolReference,
    /// The address, IPv4 or IPv6.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 39))]
    pub address: String,
    /// Length of the network's prefix, in bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub prefix: Option<i32>,
    /// The network's gateway.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 39))]
    pub gateway: String,
}

/// An object of a known kind in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct NameReference {
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_NAME))]
    pub name: String,
}

/// A pool of addresses: of which kind is up to its provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiGroup", "kind", "name"]))]
pub struct IPPoolReference {
    /// The pool's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_NAME))]
    pub name: String,
    /// The pool's kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND))]
    pub kind: String,
    /// The pool's API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_NAME))]
    pub api_group: String,
}

kind! {
    /// Asks a pool for an address.
    #[schemars(extend("required" = ["spec"]))]
    pub struct IPAddressClaim: "ipam.cluster.x-k8s.io" / "v1beta2" ipaddressclaims Namespaced {
        /// What is asked for.
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
    #[serde(skip_serializing_if = "is_default")]
    pub pool_ref: IPPoolReference,
}

/// What an [`IPAddressClaim`] got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct IPAddressClaimStatus {
    /// State of the claim by aspect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<meta::Condition>,
    /// The IPAddress that was given.
    #[serde(skip_serializing_if = "is_default")]
    pub address_ref: NameReference,
    /// What goes when older versions are no longer served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<IPAddressClaimDeprecatedStatus>,
}

/// Status fields of older versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IPAddressClaimDeprecatedStatus {
    /// Status fields of v1beta1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta1: Option<IPAddressClaimV1Beta1DeprecatedStatus>,
}

/// Status fields of v1beta1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IPAddressClaimV1Beta1DeprecatedStatus {
    /// Conditions with severities, as v1beta1 has them at `status.conditions`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
