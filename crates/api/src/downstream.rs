//! Kinds of downstream clusters: the distributions bring their definitions, Herdsman only reads and writes objects.

mod helm;
mod snapshot;
mod upgrade;

pub use helm::{HelmChartConfig, HelmChartConfigSpec};
pub use snapshot::{
    ETCDSnapshotFile, ETCDSnapshotFileSpec, ETCDSnapshotFileStatus, SnapshotError, SnapshotS3,
};
pub use upgrade::{ContainerSpec, Plan, PlanSpec, PlanStatus, SecretSpec, VolumeSpec};
