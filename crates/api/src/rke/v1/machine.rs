use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GenericCondition;
use crate::wire::{is_default, null_default};

kind! {
    /// A machine that somebody else made and that registered itself with a token.
    pub struct CustomMachine: "rke.cattle.io" / "v1" custommachines Namespaced {
        /// What is asked for.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub spec: CustomMachineSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<CustomMachineStatus>,
    }
}

/// What a [`CustomMachine`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomMachineSpec {
    /// The provider id of its node; known once the node has joined.
    #[serde(
        rename = "providerID",
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub provider_id: String,
}

/// What a [`CustomMachine`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomMachineStatus {
    /// What is observed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<GenericCondition>,
    /// Deprecated: [`initialization`](Self::initialization) replaces it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub ready: bool,
    /// What Cluster API's contract asks of an infrastructure machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<MachineInitialization>,
    /// Addresses of the node.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
}

/// First provisioning of an infrastructure machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineInitialization {
    /// Set once the machine is there and its node has joined; never unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// One address of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["address", "type"]))]
pub struct MachineAddress {
    /// What kind of address.
    #[serde(rename = "type")]
    pub type_: MachineAddressType,
    /// The address or name.
    #[serde(deserialize_with = "null_default")]
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

open_enum! {
    /// Kinds of addresses.
    pub enum MachineAddressType {
        /// The machine's own name.
        Hostname,
        /// Reached from outside.
        ExternalIP,
        /// Reached from the machines around it.
        InternalIP,
        /// A name for the outside.
        ExternalDNS,
        /// A name for the machines around it.
        InternalDNS,
    }
}

/// What a pool says of its nodes whatever the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommonNodeConfig {
    /// Labels of the nodes, and of their machines.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// The credential that the driver uses: `cattle-global-data:name`, or a Secret in the cluster's namespace.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 317))]
    pub cloud_credential_secret_name: String,
}

/// What a driver's machine is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RKEMachineStatus {
    /// What is observed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<GenericCondition>,
    /// The Job that creates or deletes the server.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub job_name: String,
    /// Deprecated: [`initialization`](Self::initialization) replaces it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub ready: bool,
    /// Checksum of the driver that made the server.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub driver_hash: String,
    /// Where that driver came from.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub driver_url: String,
    /// The credential that made the server; used to delete it if the spec no longer names one.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub cloud_credential_secret_name: String,
    /// Why the server could not be made or deleted: `CreateError` or `DeleteError`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub failure_reason: String,
    /// The driver's last words.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub failure_message: String,
    /// Addresses of the node.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// What Cluster API's contract asks of an infrastructure machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<MachineInitialization>,
}
