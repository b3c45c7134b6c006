//! `ipam.cluster.x-k8s.io/v1alpha1`.

use k8s_openapi::api::core::v1::{LocalObjectReference, TypedLocalObjectReference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::v1beta1::IPAddressSpec;
use crate::capi::v1beta1::Condition;
use crate::wire::is_default;

kind! {
    /// An address that a pool has given out.
    pub struct IPAddress: "ipam.cluster.x-k8s.io" / "v1alpha1" ipaddresses Namespaced {
        /// The address, and whom it was given to.
        #[serde(skip_serializing_if = "is_default")]
        pub spec: IPAddressSpec,
    }
}

kind! {
    /// Asks a pool for an address.
    pub struct IPAddressClaim: "ipam.cluster.x-k8s.io" / "v1alpha1" ipaddressclaims Namespaced {
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
}
