use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OperationSpec, OperationStatus, SnapshotArgs};
use crate::wire::{is_default, null_default};

kind! {
    /// A snapshot of a cluster's etcd, to be saved once.
    #[schemars(extend("required" = ["spec"]))]
    pub struct ETCDSnapshotSave: "operation.cattle.io" / "v1alpha1" etcdsnapshotsaves Namespaced {
        /// What is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: ETCDSnapshotSaveSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<ETCDSnapshotSaveStatus>,
    }
}

/// What an [`ETCDSnapshotSave`] should do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ETCDSnapshotSaveSpec {
    /// Cluster, pause and lifetime.
    #[serde(flatten)]
    pub operation: OperationSpec,
    /// Name of the snapshot; made up if empty.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub args: SnapshotArgs,
}

/// How far an [`ETCDSnapshotSave`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ETCDSnapshotSaveStatus {
    /// Phase and conditions.
    #[serde(flatten)]
    pub operation: OperationStatus,
    /// The step within the phase.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub step: ETCDSnapshotSaveStep,
}

open_enum! {
    /// Steps of saving a snapshot.
    pub enum ETCDSnapshotSaveStep {
        /// Can it be done?
        Preflight,
        /// Every etcd node saves.
        Save,
        /// Nodes return to their usual plans.
        Restart,
    }
}
