//! `rke.cattle.io/v1`.

mod cluster;

pub use cluster::{Endpoint, RKECluster, RKEClusterInitialization, RKEClusterSpec, RKEClusterStatus};

use crate::crd::{Definition, Version};

pub(crate) fn definitions() -> Vec<Definition> {
    vec![provider(Definition::of::<RKECluster>(Version::taking_nulls::<RKECluster>()))]
}

/// Cluster API finds a provider's version for a contract by these labels.
fn provider(definition: Definition) -> Definition {
    definition.label("cluster.x-k8s.io/v1beta1", "v1").label("cluster.x-k8s.io/v1beta2", "v1")
}
