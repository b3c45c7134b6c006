use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OperationSpec, OperationStatus, SnapshotArgs};
use crate::wire::{is_default, null_default};

kind! {
    /// A return of a cluster to a snapshot of its etcd.
    #[schemars(extend("required" = ["spec"]))]
    pub struct ETCDSnapshotRestore: "operation.cattle.io" / "v1alpha1" etcdsnapshotrestores Namespaced {
        /// What is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: ETCDSnapshotRestoreSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<ETCDSnapshotRestoreStatus>,
    }
}

/// What an [`ETCDSnapshotRestore`] should do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ETCDSnapshotRestoreSpec {
    /// Cluster, pause and lifetime.
    #[serde(flatten)]
    pub operation: OperationSpec,
    /// The snapshot to go back to.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub args: SnapshotArgs,
}

/// How far an [`ETCDSnapshotRestore`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ETCDSnapshotRestoreStatus {
    /// Phase and conditions.
    #[serde(flatten)]
    pub operation: OperationStatus,
    /// The step within the phase.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub step: ETCDSnapshotRestoreStep,
}

open_enum! {
    /// Steps of going back to a snapshot.
    pub enum ETCDSnapshotRestoreStep {
        /// Can it be done?
        Preflight,
        /// The distribution stops on every node.
        Shutdown,
        /// One node goes back to the snapshot.
        Restore,
        /// Pods that hold on to the old state are deleted.
        PostRestorePodCleanup,
        /// The other nodes join again.
        InitialRestartCluster,
        /// Nodes without a machine are deleted.
        PostRestoreNodeCleanup,
        /// Every node returns to its usual plan.
        RestartCluster,
    }
}
