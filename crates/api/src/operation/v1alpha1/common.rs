use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GenericCondition;
use crate::wire::{is_default, null_default};

/// What every operation is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterRef"]))]
pub struct OperationSpec {
    /// The cluster to operate on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ObjectReference>,
    /// The operation waits.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Seconds that this object stays after the operation has ended: negative for ever, zero not at all.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub ttl: i64,
}

/// What every operation reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationStatus {
    /// What is observed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<GenericCondition>,
    /// When phase or step last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// How far the operation is.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub phase: OperationPhase,
    /// The generation that this status speaks of.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    #[schemars(range(min = 1))]
    pub observed_generation: i64,
}

open_enum! {
    /// How far an operation is.
    pub enum OperationPhase {
        /// It has not begun.
        Pending,
        /// It runs.
        InProgress,
        /// It ended well.
        Succeeded,
        /// It ended badly.
        Failed,
        /// It was called off.
        Canceled,
    }
}

/// Which snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotArgs {
    /// Name of the snapshot.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
}
