//! `cluster.x-k8s.io/v1beta2`: the version that is stored and that the controllers work with.
//!
//! How the types read Go's: a reference, a topology or a pointer to a struct is an `Option`; every other struct is a
//! plain field that is left out while it is empty, because the API refuses `{}` for almost all of them. Fields that
//! the API requires are always written. Texts from a closed set stay texts, so that a value of a later release does
//! not make an object unreadable; [`values`] names those we know.

mod cluster;
mod common;
mod definitions;
mod drain_rule;
mod health_check;
mod machine;
mod machine_deployment;
mod machine_pool;
mod machine_set;
mod pattern;
#[cfg(test)]
mod tests;
mod topology;
pub mod values;

pub use cluster::{
    APIEndpoint, Cluster, ClusterInitialization, ClusterNetwork, ClusterSpec, ClusterStatus, FailureDomain,
    NetworkRanges, ReplicaOverview, UpgradeStep,
};
pub use common::{
    ConditionGate, ContractVersionedObjectReference, Deprecated, ObjectMeta, StatusVersion,
    V1Beta1Conditions, V1Beta1Failure,
};
pub(crate) use definitions::definitions;
pub use drain_rule::{DrainConfig, MachineDrainRule, MachineDrainRuleSpec, MachineSelector, PodSelector};
pub use health_check::{
    HealthChecks, MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus, Remediation,
    RemediationTemplateReference, RemediationTrigger, UnhealthyMachineCondition, UnhealthyNodeCondition,
};
pub use machine::{
    Bootstrap, Machine, MachineAddress, MachineDeletion, MachineDeletionProgress, MachineInitialization,
    MachineNodeReference, MachineSpec, MachineStatus, MachineTaint,
};
pub use machine_deployment::{
    MachineDeployment, MachineDeploymentCounts, MachineDeploymentRemediation, MachineDeploymentSpec,
    MachineDeploymentStatus, RollingUpdate, Rollout, RolloutStrategy,
};
pub use machine_pool::{MachinePool, MachinePoolCounts, MachinePoolSpec, MachinePoolStatus};
pub use machine_set::{
    DeletionOrder, MachineNaming, MachineSet, MachineSetCounts, MachineSetSpec, MachineSetStatus,
    MachineTemplate,
};
pub use topology::{
    ClusterClassReference, ClusterVariable, ControlPlaneHealthCheck, ControlPlaneRollout,
    ControlPlaneTopology, MachineDeploymentHealthCheck, MachineDeploymentTopology,
    MachineDeploymentTopologyDeletion, MachineDeploymentTopologyRemediation, MachinePoolTopology, Topology,
    VariableOverrides, WorkersTopology,
};
