//! `operation.cattle.io/v1alpha1`.

mod common;
mod encryption_key_rotation;
mod snapshot_restore;
mod snapshot_save;

pub use common::{OperationPhase, OperationSpec, OperationStatus, SnapshotArgs};
pub use encryption_key_rotation::{
    EncryptionKeyRotation, EncryptionKeyRotationStatus, EncryptionKeyRotationStep,
};
pub use snapshot_restore::{
    ETCDSnapshotRestore, ETCDSnapshotRestoreSpec, ETCDSnapshotRestoreStatus, ETCDSnapshotRestoreStep,
};
pub use snapshot_save::{
    ETCDSnapshotSave, ETCDSnapshotSaveSpec, ETCDSnapshotSaveStatus, ETCDSnapshotSaveStep,
};

use crate::Kind;
use crate::catalogue::labels;
use crate::crd::{Column, Definition, Version};

pub(crate) fn definitions() -> Vec<Definition> {
    let cluster = Column::string("Cluster", ".spec.clusterRef.name");
    let rest = [
        Column::string("Paused", ".spec.paused"),
        Column::string("Phase", ".status.phase"),
        Column::string("Step", ".status.step"),
        Column::age(),
    ];
    let plain: Vec<Column> = [cluster.clone()].into_iter().chain(rest.clone()).collect();
    let snapshot = Column::string("Snapshot", ".spec.args.name");
    let restore = [cluster, snapshot].into_iter().chain(rest).collect();
    vec![
        operation::<ETCDSnapshotSave>(plain.clone()),
        operation::<ETCDSnapshotRestore>(restore),
        operation::<EncryptionKeyRotation>(plain),
    ]
}

fn operation<K: Kind>(columns: Vec<Column>) -> Definition {
    Definition::of::<K>(Version::taking_nulls::<K>().columns(columns))
        .categories(["operations"])
        .label(labels::CLUSTER_INDEXED, "true")
}
