//! The health check of a pool.

use std::collections::BTreeMap;

use api::capi::v1beta2::{
    HealthChecks, MachineDeployment, MachineHealthCheck, MachineHealthCheckSpec, Remediation,
    RemediationTrigger, UnhealthyNodeCondition,
};
use api::catalogue::{conditions, labels};
use api::provisioning::v1::MachinePool;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pool::whole_seconds;

/// The health check of a deployment, if the pool asks for one.
pub(super) fn render(deployment: &MachineDeployment, pool: &MachinePool) -> Option<MachineHealthCheck> {
    let patience = pool.unhealthy_node_timeout.as_ref().filter(|timeout| timeout.nanoseconds() > 0)?;
    let name = deployment.metadata.name.clone().unwrap_or_default();
    let bad = |status: &str| UnhealthyNodeCondition {
        type_: conditions::READY.into(),
        status: status.into(),
        timeout_seconds: whole_seconds(patience),
    };
    Some(MachineHealthCheck {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: deployment.metadata.namespace.clone(),
            ..Default::default()
        },
        spec: MachineHealthCheckSpec {
            cluster_name: deployment.spec.cluster_name.clone(),
            selector: LabelSelector {
                match_labels: Some(BTreeMap::from([(labels::CAPI_DEPLOYMENT_NAME.to_owned(), name)])),
                match_expressions: None,
            },
            checks: HealthChecks {
                node_startup_timeout_seconds: pool.node_startup_timeout.as_ref().map(whole_seconds),
                unhealthy_node_conditions: vec![bad("Unknown"), bad("False")],
                ..Default::default()
            },
            remediation: Remediation {
                trigger_if: RemediationTrigger {
                    unhealthy_less_than_or_equal_to: pool.max_unhealthy.as_deref().map(int_or_string),
                    unhealthy_in_range: pool.unhealthy_range.clone().unwrap_or_default(),
                },
                ..Default::default()
            },
        },
        ..Default::default()
    })
}

/// A number where the text is one.
fn int_or_string(text: &str) -> IntOrString {
    text.parse().map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int)
}
