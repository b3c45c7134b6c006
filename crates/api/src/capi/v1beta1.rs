//! `cluster.x-k8s.io/v1beta1`: served for clients and providers that have not moved on, never stored.

mod cluster;
mod common;
mod machine;
mod machine_deployment;
mod machine_drain_rule;
mod machine_health_check;
mod machine_set;
#[cfg(test)]
mod tests;
mod topology;

pub use cluster::{
    ApiEndpoint, Cluster, ClusterNetwork, ClusterSpec, ClusterStatus, ClusterV1Beta2Status, FailureDomain,
    NetworkRanges,
};
pub use common::{Condition, ConditionsV1Beta2Status, ReplicasV1Beta2Status, TemplateMetadata};
pub use machine::{Bootstrap, Machine, MachineSpec, MachineStatus, MachineTemplateSpec};
pub use machine_deployment::{
    MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus, MachineDeploymentStrategy,
    MachineRollingUpdate, RemediationStrategy,
};
pub use machine_drain_rule::MachineDrainRule;
pub use machine_health_check::{
    HealthCheckRules, MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus,
    UnhealthyMachineCondition, UnhealthyNodeCondition,
};
pub use machine_set::{MachineNamingStrategy, MachineSet, MachineSetSpec, MachineSetStatus};
pub use topology::{
    ClusterVariable, ControlPlaneTopology, HealthCheckTopology, MachineDeploymentTopology,
    MachinePoolTopology, RolloutTopology, Topology, VariableOverrides, WorkersTopology,
};

use crate::crd::{Column, Version};

const CLUSTER: Column = Column::string("Cluster", ".spec.clusterName");
const PHASE: Column = Column::string("Phase", ".status.phase");
const DESIRED: Column = Column::integer("Desired", ".spec.replicas").wide();
const REPLICAS: Column = Column::integer("Replicas", ".status.replicas");
const READY: Column = Column::integer("Ready", ".status.readyReplicas");
const TEMPLATE_VERSION: Column = Column::string("Version", ".spec.template.spec.version");

/// How [`Cluster`] is served in this version.
pub fn cluster() -> Version {
    Version::of::<Cluster>().deprecated().columns([
        Column::string("ClusterClass", ".spec.topology.class"),
        PHASE,
        Column::age(),
        Column::string("Version", ".spec.topology.version"),
    ])
}

/// How [`Machine`] is served in this version.
pub fn machine() -> Version {
    Version::of::<Machine>().deprecated().columns([
        CLUSTER,
        Column::string("NodeName", ".status.nodeRef.name"),
        Column::string("ProviderID", ".spec.providerID"),
        PHASE,
        Column::age(),
        Column::string("Version", ".spec.version"),
    ])
}

/// How [`MachineSet`] is served in this version.
pub fn machine_set() -> Version {
    Version::of::<MachineSet>().deprecated().with_scale().columns([
        CLUSTER,
        DESIRED,
        REPLICAS,
        READY,
        Column::integer("Available", ".status.availableReplicas"),
        Column::age(),
        TEMPLATE_VERSION,
    ])
}

/// How [`MachineDeployment`] is served in this version.
pub fn machine_deployment() -> Version {
    Version::of::<MachineDeployment>().deprecated().with_scale().columns([
        CLUSTER,
        DESIRED,
        REPLICAS,
        READY,
        Column::integer("Updated", ".status.updatedReplicas"),
        Column::integer("Unavailable", ".status.unavailableReplicas"),
        PHASE,
        Column::age(),
        TEMPLATE_VERSION,
    ])
}

/// How [`MachineHealthCheck`] is served in this version.
pub fn machine_health_check() -> Version {
    Version::of::<MachineHealthCheck>().deprecated().columns([
        CLUSTER,
        Column::integer("ExpectedMachines", ".status.expectedMachines"),
        Column::string("MaxUnhealthy", ".spec.maxUnhealthy"),
        Column::integer("CurrentHealthy", ".status.currentHealthy"),
        Column::age(),
    ])
}

/// How [`MachineDrainRule`] is served in this version.
pub fn machine_drain_rule() -> Version {
    Version::of::<MachineDrainRule>().deprecated().without_status().columns([
        Column::string("Behavior", ".spec.drain.behavior"),
        Column::string("Order", ".spec.drain.order"),
        Column::age(),
    ])
}
