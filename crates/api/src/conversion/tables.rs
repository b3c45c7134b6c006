//! The differences between versions, kind by kind.

use super::Converter;
use super::rule::Rule::{
    self, Each, Filled, Label, Moved, NamedList, NodeReference, OnlyHub, OnlyOld, Reference, RequiredSeconds,
    Seconds, VersionedReference, Within, Word,
};
use crate::capi::{v1beta1, v1beta2};
use crate::catalogue::{annotations, labels};
use crate::ipam;

/// Conditions never change their family: v1beta1's go to the deprecated part, v1beta2's from their own sub-object to
/// the top.
const OLD_CONDITIONS: Rule = Moved("status.conditions", "status.deprecated.v1beta1.conditions");
const NEW_CONDITIONS: Rule = Moved("status.v1beta2.conditions", "status.conditions");
const FAILURE_REASON: Rule = Moved("status.failureReason", "status.deprecated.v1beta1.failureReason");
const FAILURE_MESSAGE: Rule = Moved("status.failureMessage", "status.deprecated.v1beta1.failureMessage");

const DELETION_TIMEOUTS: &[Rule] = &[
    Seconds("nodeDrainTimeout", "deletion.nodeDrainTimeoutSeconds"),
    Seconds("nodeVolumeDetachTimeout", "deletion.nodeVolumeDetachTimeoutSeconds"),
    Seconds("nodeDeletionTimeout", "deletion.nodeDeletionTimeoutSeconds"),
];

const HEALTH_CHECK: &[Rule] = &[
    Moved("enable", "enabled"),
    Each("unhealthyConditions", &[RequiredSeconds("timeout", "timeoutSeconds")]),
    Moved("unhealthyConditions", "checks.unhealthyNodeConditions"),
    Each("unhealthyMachineConditions", &[RequiredSeconds("timeout", "timeoutSeconds")]),
    Moved("unhealthyMachineConditions", "checks.unhealthyMachineConditions"),
    Seconds("nodeStartupTimeout", "checks.nodeStartupTimeoutSeconds"),
    Moved("maxUnhealthy", "remediation.triggerIf.unhealthyLessThanOrEqualTo"),
    Moved("unhealthyRange", "remediation.triggerIf.unhealthyInRange"),
    VersionedReference("remediationTemplate"),
    Moved("remediationTemplate", "remediation.templateRef"),
];

const ROLLOUT_STRATEGY: &[Rule] = &[
    Moved("strategy.type", "rollout.strategy.type"),
    Moved("strategy.rollingUpdate.maxUnavailable", "rollout.strategy.rollingUpdate.maxUnavailable"),
    Moved("strategy.rollingUpdate.maxSurge", "rollout.strategy.rollingUpdate.maxSurge"),
    Moved("strategy.rollingUpdate.deletePolicy", "deletion.order"),
];

const VARIABLES: Rule = Each("variables", &[OnlyOld("definitionFrom")]);
const OVERRIDES: Rule = Each("variables.overrides", &[OnlyOld("definitionFrom")]);

const TOPOLOGY: &[Rule] = &[
    Moved("class", "classRef.name"),
    Moved("classNamespace", "classRef.namespace"),
    OnlyOld("rolloutAfter"),
    VARIABLES,
    Within("controlPlane", DELETION_TIMEOUTS),
    Within(
        "controlPlane",
        &[OVERRIDES, Moved("machineHealthCheck", "healthCheck"), Within("healthCheck", HEALTH_CHECK)],
    ),
    Each("workers.machineDeployments", DELETION_TIMEOUTS),
    Each("workers.machineDeployments", ROLLOUT_STRATEGY),
    Each(
        "workers.machineDeployments",
        &[
            OVERRIDES,
            Moved("machineHealthCheck", "healthCheck"),
            Within("healthCheck", HEALTH_CHECK),
            // After the rules of the health check, which has no place for it in v1beta1.
            Moved("strategy.remediation.maxInFlight", "healthCheck.remediation.maxInFlight"),
        ],
    ),
    Each("workers.machinePools", DELETION_TIMEOUTS),
    Each("workers.machinePools", &[OVERRIDES]),
];

const CLUSTER: &[Rule] = &[
    Reference("spec.controlPlaneRef"),
    Reference("spec.infrastructureRef"),
    Within("spec.topology", TOPOLOGY),
    Filled("status.infrastructureReady", "status.initialization.infrastructureProvisioned"),
    Filled("status.controlPlaneReady", "status.initialization.controlPlaneInitialized"),
    NamedList("status.failureDomains"),
    FAILURE_REASON,
    FAILURE_MESSAGE,
    OLD_CONDITIONS,
    NEW_CONDITIONS,
    Moved("status.v1beta2.controlPlane", "status.controlPlane"),
    Moved("status.v1beta2.workers", "status.workers"),
];

const MACHINE_REFERENCES: &[Rule] = &[Reference("bootstrap.configRef"), Reference("infrastructureRef")];

const MACHINE: &[Rule] = &[
    Within("spec", MACHINE_REFERENCES),
    Within("spec", DELETION_TIMEOUTS),
    OnlyHub("spec.minReadySeconds"),
    NodeReference("status.nodeRef"),
    Filled("status.bootstrapReady", "status.initialization.bootstrapDataSecretCreated"),
    Filled("status.infrastructureReady", "status.initialization.infrastructureProvisioned"),
    Word { at: "status.phase", hub: "Updating", old: "Running" },
    OnlyHub("status.failureDomain"),
    FAILURE_REASON,
    FAILURE_MESSAGE,
    OLD_CONDITIONS,
    NEW_CONDITIONS,
];

/// v1beta1's counters are of another kind than v1beta2's: they move aside, and those of `status.v1beta2` up.
const COUNTERS: &[Rule] = &[
    Moved("readyReplicas", "deprecated.v1beta1.readyReplicas"),
    Moved("availableReplicas", "deprecated.v1beta1.availableReplicas"),
    Moved("v1beta2.readyReplicas", "readyReplicas"),
    Moved("v1beta2.availableReplicas", "availableReplicas"),
    Moved("v1beta2.upToDateReplicas", "upToDateReplicas"),
];

const MACHINE_SET: &[Rule] = &[
    Within("spec.template.spec", MACHINE_REFERENCES),
    Within("spec.template.spec", DELETION_TIMEOUTS),
    Moved("spec.minReadySeconds", "spec.template.spec.minReadySeconds"),
    Moved("spec.deletePolicy", "spec.deletion.order"),
    Moved("spec.machineNamingStrategy", "spec.machineNaming"),
    Within("status", COUNTERS),
    Moved("status.fullyLabeledReplicas", "status.deprecated.v1beta1.fullyLabeledReplicas"),
    FAILURE_REASON,
    FAILURE_MESSAGE,
    OLD_CONDITIONS,
    NEW_CONDITIONS,
];

const MACHINE_DEPLOYMENT: &[Rule] = &[
    Within("spec.template.spec", MACHINE_REFERENCES),
    Within("spec.template.spec", DELETION_TIMEOUTS),
    Moved("spec.minReadySeconds", "spec.template.spec.minReadySeconds"),
    Moved("spec.rolloutAfter", "spec.rollout.after"),
    Within("spec", ROLLOUT_STRATEGY),
    Moved("spec.strategy.remediation.maxInFlight", "spec.remediation.maxInFlight"),
    Moved("spec.machineNamingStrategy", "spec.machineNaming"),
    OnlyOld("spec.revisionHistoryLimit"),
    OnlyOld("spec.progressDeadlineSeconds"),
    Within("status", COUNTERS),
    Moved("status.updatedReplicas", "status.deprecated.v1beta1.updatedReplicas"),
    Moved("status.unavailableReplicas", "status.deprecated.v1beta1.unavailableReplicas"),
    OLD_CONDITIONS,
    NEW_CONDITIONS,
];

const MACHINE_HEALTH_CHECK: &[Rule] = &[
    Within("spec", HEALTH_CHECK),
    Filled("status.expectedMachines", "status.expectedMachines"),
    Filled("status.currentHealthy", "status.currentHealthy"),
    Filled("status.remediationsAllowed", "status.remediationsAllowed"),
    OLD_CONDITIONS,
    NEW_CONDITIONS,
];

const IP_ADDRESS_CLAIM: &[Rule] = &[OLD_CONDITIONS, NEW_CONDITIONS];

const IP_ADDRESS_CLAIM_V1ALPHA1: &[Rule] = &[
    OnlyHub("status.conditions"),
    OLD_CONDITIONS,
    Label {
        field: "spec.clusterName",
        label: labels::CAPI_CLUSTER_NAME,
        added: annotations::CONVERSION_CLUSTER_NAME_LABEL_SET,
    },
];

/// How `kind` of `group` is converted between `version` and the hub.
pub(super) fn find(group: &str, version: &str, kind: &str) -> Option<Converter> {
    all().into_iter().find(|one| (one.group, one.version, one.kind) == (group, version, kind))
}

fn all() -> [Converter; 10] {
    [
        Converter::between::<v1beta1::Cluster, v1beta2::Cluster>(CLUSTER),
        Converter::between::<v1beta1::Machine, v1beta2::Machine>(MACHINE),
        Converter::between::<v1beta1::MachineSet, v1beta2::MachineSet>(MACHINE_SET),
        Converter::between::<v1beta1::MachineDeployment, v1beta2::MachineDeployment>(MACHINE_DEPLOYMENT),
        Converter::between::<v1beta1::MachineHealthCheck, v1beta2::MachineHealthCheck>(MACHINE_HEALTH_CHECK),
        Converter::between::<v1beta1::MachineDrainRule, v1beta2::MachineDrainRule>(&[]),
        Converter::between::<ipam::v1beta1::IPAddress, ipam::v1beta2::IPAddress>(&[]),
        Converter::between::<ipam::v1beta1::IPAddressClaim, ipam::v1beta2::IPAddressClaim>(IP_ADDRESS_CLAIM),
        Converter::between::<ipam::v1alpha1::IPAddress, ipam::v1beta2::IPAddress>(&[]),
        Converter::between::<ipam::v1alpha1::IPAddressClaim, ipam::v1beta2::IPAddressClaim>(
            IP_ADDRESS_CLAIM_V1ALPHA1,
        ),
    ]
}
