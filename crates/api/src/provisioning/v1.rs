//! `provisioning.cattle.io/v1`.

mod cluster;
mod customization;
mod pool;

pub use cluster::{Cluster, ClusterAPIConfig, ClusterSpec, ClusterStatus, RKEConfig};
pub use customization::{
    AgentDeploymentCustomization, AgentSchedulingCustomization, PodDisruptionBudgetSpec, PriorityClassSpec,
    ResourceQuantity, ResourceRequirements, WebhookDeploymentCustomization,
};
pub use pool::{MachinePool, MachinePoolDefaults, MachinePoolRollingUpdate};

use crate::catalogue::labels;
use crate::crd::{Column, Definition, Version};

pub(crate) fn definitions() -> Vec<Definition> {
    let columns = [
        Column::string("Version", ".spec.kubernetesVersion"),
        Column::string("Cluster Name", ".status.clusterName"),
        Column::age(),
        Column::string("Kubeconfig", ".status.clientSecretName"),
        Column::string("Ready", ".status.ready"),
    ];
    vec![
        Definition::of::<Cluster>(Version::taking_nulls::<Cluster>().columns(columns))
            .categories(["provisioning"])
            .label(labels::CLUSTER_INDEXED, "true"),
    ]
}
