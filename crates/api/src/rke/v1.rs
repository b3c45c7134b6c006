//! `rke.cattle.io/v1`.

mod bootstrap;
mod cluster;
mod configuration;
mod control_plane;
mod etcd;
mod files;
mod machine;
mod registries;
mod snapshot;
mod upgrade;

pub use bootstrap::{
    RKEBootstrap, RKEBootstrapInitialization, RKEBootstrapSpec, RKEBootstrapStatus, RKEBootstrapTemplate,
    RKEBootstrapTemplateResource, RKEBootstrapTemplateSpec, TemplateMetadata, Userdata,
};
pub use cluster::{Endpoint, RKECluster, RKEClusterInitialization, RKEClusterSpec, RKEClusterStatus};
pub use configuration::{ClusterConfiguration, DataDirectories, FreeMap, Networking, SystemConfig};
pub use control_plane::{
    EnvVar, LocalClusterAuthEndpoint, RKEControlPlane, RKEControlPlaneInitialization, RKEControlPlaneSpec,
    RKEControlPlaneStatus,
};
pub use etcd::{
    ETCD, ETCDSnapshotPhase, ETCDSnapshotS3, RotateCertificates, RotateEncryptionKeys,
    RotateEncryptionKeysPhase, SnapshotCreate, SnapshotRestore, restore_mode,
};
pub use files::{FileSource, KeyToPath, ObjectFileSource, ProvisioningFiles};
pub use machine::{
    CommonNodeConfig, CustomMachine, CustomMachineSpec, CustomMachineStatus, MachineAddress,
    MachineAddressType, MachineInitialization, RKEMachineStatus,
};
pub use registries::{Mirror, Registry, RegistryConfig};
pub use snapshot::{
    ETCDSnapshot, ETCDSnapshotSpec, ETCDSnapshotStatus, SNAPSHOT_METADATA_CLUSTER_SPEC, SnapshotFile,
};
pub use upgrade::{DrainHook, DrainOptions, UpgradeStrategy};

use crate::catalogue::labels;
use crate::crd::{Column, Definition, Version};

/// `kubectl get cluster-api` lists these kinds with Cluster API's own.
const CATEGORY: &str = "cluster-api";

pub(crate) fn definitions() -> Vec<Definition> {
    let control_plane_columns = [
        Column::string("Cluster", r".metadata.labels['cluster\.x-k8s\.io/cluster-name']"),
        Column::string("Initialized", ".status.initialized"),
        Column::boolean("API Server Available", ".status.initialization.controlPlaneInitialized"),
        Column::age(),
        Column::string("Version", ".spec.kubernetesVersion"),
    ];
    vec![
        provider(Definition::of::<RKECluster>(Version::taking_nulls::<RKECluster>())).categories([CATEGORY]),
        provider(Definition::of::<RKEControlPlane>(
            Version::taking_nulls::<RKEControlPlane>().columns(control_plane_columns),
        ))
        .categories([CATEGORY])
        .short_names(["rcp"]),
        provider(Definition::of::<RKEBootstrap>(Version::taking_nulls::<RKEBootstrap>()))
            .categories([CATEGORY]),
        provider(Definition::of::<RKEBootstrapTemplate>(
            Version::taking_nulls::<RKEBootstrapTemplate>().without_status(),
        ))
        .categories([CATEGORY]),
        provider(Definition::of::<CustomMachine>(Version::taking_nulls::<CustomMachine>())),
        Definition::of::<ETCDSnapshot>(Version::taking_nulls::<ETCDSnapshot>())
            .label(labels::CLUSTER_INDEXED, "true"),
    ]
}

/// Cluster API finds a provider's version for a contract by these labels, clusterctl the kinds that it moves; deletion
/// of a cluster waits for objects of indexed kinds.
fn provider(definition: Definition) -> Definition {
    definition
        .label(labels::CONTRACT_V1BETA1, "v1")
        .label(labels::CONTRACT_V1BETA2, "v1")
        .label(labels::CLUSTERCTL, "")
        .label(labels::CLUSTER_INDEXED, "true")
}
