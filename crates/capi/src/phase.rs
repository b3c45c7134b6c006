//! The whole state of an object in one word, for people.

use api::capi::v1beta2::values::{cluster_phase, machine_deployment_phase, machine_phase};
use api::capi::v1beta2::{Cluster, Machine};

/// The phase of a cluster.
pub fn of_cluster(cluster: &Cluster) -> &'static str {
    let status = cluster.status.as_ref();
    let provisioned =
        status.is_some_and(|status| status.initialization.infrastructure_provisioned == Some(true));
    let spec = &cluster.spec;
    if cluster.metadata.deletion_timestamp.is_some() {
        cluster_phase::DELETING
    } else if provisioned && spec.control_plane_endpoint.is_valid() {
        cluster_phase::PROVISIONED
    } else if spec.infrastructure_ref.is_some() || spec.control_plane_ref.is_some() {
        cluster_phase::PROVISIONING
    } else {
        cluster_phase::PENDING
    }
}

/// The phase of a machine.
pub fn of_machine(machine: &Machine, updating: bool) -> &'static str {
    let Some(status) = &machine.status else { return machine_phase::PENDING };
    let provisioned = status.initialization.infrastructure_provisioned == Some(true);
    if machine.metadata.deletion_timestamp.is_some() {
        machine_phase::DELETING
    } else if updating && status.node_ref.is_some() {
        machine_phase::UPDATING
    } else if status.node_ref.is_some() && provisioned {
        machine_phase::RUNNING
    } else if !machine.spec.provider_id.is_empty() {
        machine_phase::PROVISIONED
    } else if status.initialization.bootstrap_data_secret_created == Some(true) && !provisioned {
        machine_phase::PROVISIONING
    } else {
        machine_phase::PENDING
    }
}

/// Machines of a deployment, counted, as far as its phase depends on them.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeploymentCounts {
    /// How many there should be.
    pub desired: i32,
    /// How many there are.
    pub current: i32,
    /// How many are available.
    pub available: i32,
    /// How many are as the spec says.
    pub up_to_date: i32,
}

/// The phase of a machine deployment.
pub fn of_deployment(counts: DeploymentCounts, deleting: bool) -> &'static str {
    let DeploymentCounts { desired, current, available, up_to_date } = counts;
    if deleting || current > desired {
        machine_deployment_phase::SCALING_DOWN
    } else if current < desired || available < desired || up_to_date < desired {
        machine_deployment_phase::SCALING_UP
    } else {
        machine_deployment_phase::RUNNING
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters() {
        let infra = json!({"apiGroup": "i", "kind": "F", "name": "x"});
        let cases = [
            (json!({}), "Pending"),
            (json!({"spec": {"infrastructureRef": infra}}), "Provisioning"),
            (
                json!({"spec": {"infrastructureRef": infra}, "status": {"initialization": {"infrastructureProvisioned": true}}}),
                "Provisioning",
            ),
            (
                json!({"spec": {"infrastructureRef": infra, "controlPlaneEndpoint": {"host": "h", "port": 1}},
                       "status": {"initialization": {"infrastructureProvisioned": true}}}),
                "Provisioned",
            ),
            (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "Deleting"),
        ];
        for (document, phase) in cases {
            assert_eq!(of_cluster(&serde_json::from_value(document.clone()).unwrap()), phase, "{document}");
        }
    }

    #[test]
    fn machines() {
        let cases = [
            (json!({}), "Pending"),
            (json!({"status": {"initialization": {"bootstrapDataSecretCreated": true}}}), "Provisioning"),
            (
                json!({"spec": {"providerID": "p"}, "status": {"initialization": {"infrastructureProvisioned": true}}}),
                "Provisioned",
            ),
            (
                json!({"spec": {"providerID": "p"}, "status": {"nodeRef": {"name": "n"}, "initialization": {"infrastructureProvisioned": true}}}),
                "Running",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"nodeRef": {"name": "n"}}}),
                "Deleting",
            ),
        ];
        for (document, phase) in cases {
            assert_eq!(
                of_machine(&serde_json::from_value(document.clone()).unwrap(), false),
                phase,
                "{document}"
            );
        }
        let running = json!({"status": {"nodeRef": {"name": "n"}, "initialization": {"infrastructureProvisioned": true}}});
        assert_eq!(of_machine(&serde_json::from_value(running).unwrap(), true), "Updating");
    }

    #[test]
    fn deployments() {
        let counts = |desired, current, available| DeploymentCounts {
            desired,
            current,
            available,
            up_to_date: current.min(desired),
        };
        for (counts, deleting, phase) in [
            (counts(3, 3, 3), false, "Running"),
            (counts(3, 2, 2), false, "ScalingUp"),
            (counts(3, 3, 2), false, "ScalingUp"),
            (counts(3, 4, 3), false, "ScalingDown"),
            (counts(3, 3, 3), true, "ScalingDown"),
        ] {
            assert_eq!(of_deployment(counts, deleting), phase, "{counts:?}");
        }
    }
}
