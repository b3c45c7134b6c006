//! Direct access, and the agents' Deployments.

use api::provisioning::v1::{
    AgentDeploymentCustomization, Cluster, PodDisruptionBudgetSpec, PriorityClassSpec,
};
use k8s_openapi::api::core::v1::{Affinity, Toleration};
use kubeapi::selector::label::validate_object;
use kubeapi::{FieldError, Path};
use serde_json::Value;

use super::{Answers, Findings, Request};

/// The two agents: field, and its value.
fn both(cluster: &Cluster) -> [(&'static str, Option<&AgentDeploymentCustomization>); 2] {
    [
        ("clusterAgentDeploymentCustomization", cluster.spec.cluster_agent_deployment_customization.as_ref()),
        ("fleetAgentDeploymentCustomization", cluster.spec.fleet_agent_deployment_customization.as_ref()),
    ]
}

/// 5: certificates need a name to vouch for.
pub(super) fn direct_access(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let endpoint = &request.new.spec.local_cluster_auth_endpoint;
    let needs = endpoint.enabled && request.config().is_some() && !endpoint.ca_certs.is_empty();
    if needs && endpoint.fqdn.is_empty() {
        let path = Path::new("spec").child("localClusterAuthEndpoint").child("fqdn");
        findings
            .invalid([FieldError::required(&path, "caCerts vouch for a name: set fqdn, or remove caCerts")]);
    }
}

/// 6: tolerations and affinity of agents.
pub(super) fn agents(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    for (field, customization) in both(request.new) {
        let Some(one) = customization else { continue };
        let path = Path::new("spec").child(field);
        findings.invalid(tolerations(&one.append_tolerations, &path.child("appendTolerations")));
        findings.invalid(affinity(one.override_affinity.as_ref(), &path.child("overrideAffinity")));
    }
}

/// 7: the webhook's Deployment.
pub(super) fn webhook(request: &Request<'_>, _: &Answers<'_>, findings: &mut Findings) {
    let Some(one) = &request.new.spec.webhook_deployment_customization else { return };
    let path = Path::new("spec").child("webhookDeploymentCustomization");
    if let Some(count) = one.replica_count.filter(|count| *count < 1) {
        let path = path.child("replicaCount");
        findings.invalid([FieldError::invalid(&path, count, "must be greater than or equal to 1")]);
    }
    findings.invalid(tolerations(&one.append_tolerations, &path.child("appendTolerations")));
    findings.invalid(affinity(one.override_affinity.as_ref(), &path.child("overrideAffinity")));
    findings.invalid(budget(one.pod_disruption_budget.as_ref(), &path.child("podDisruptionBudget")));
}

/// 11: disruption budgets of agents.
pub(super) fn disruption_budgets(request: &Request<'_>, answers: &Answers<'_>, findings: &mut Findings) {
    for (index, (field, new)) in both(request.new).into_iter().enumerate() {
        let get = |one: Option<&AgentDeploymentCustomization>| {
            one.and_then(|one| one.scheduling_customization.as_ref()?.pod_disruption_budget.clone())
        };
        let old = request.old.and_then(|old| get(both(old)[index].1));
        let path =
            Path::new("spec").child(field).child("schedulingCustomization").child("podDisruptionBudget");
        let new = get(new);
        if new.is_some() && new != old && !answers.agent_scheduling {
            findings
                .bad([FieldError::forbidden(&path, "feature cluster-agent-scheduling-customization is off")]);
        }
        findings.bad(budget(new.as_ref(), &path));
    }
}

/// 12: priority classes of agents.
pub(super) fn priority_classes(request: &Request<'_>, answers: &Answers<'_>, findings: &mut Findings) {
    for (index, (field, new)) in both(request.new).into_iter().enumerate() {
        let get = |one: Option<&AgentDeploymentCustomization>| {
            one.and_then(|one| one.scheduling_customization.as_ref()?.priority_class.clone())
        };
        let old = request.old.and_then(|old| get(both(old)[index].1));
        let path = Path::new("spec").child(field).child("schedulingCustomization").child("priorityClass");
        let Some(new) = get(new) else { continue };
        if Some(&new) != old.as_ref() && !answers.agent_scheduling {
            findings
                .bad([FieldError::forbidden(&path, "feature cluster-agent-scheduling-customization is off")]);
        }
        findings.bad(priority(&new, &path));
    }
}

fn priority(one: &PriorityClassSpec, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !(-1_000_000_000..=1_000_000_000).contains(&one.value) {
        let why = "must be between -1000000000 and 1000000000";
        errors.push(FieldError::invalid(&path.child("value"), one.value, why));
    }
    let policies = ["PreemptLowerPriority", "Never"];
    let policy = one.preemption_policy.as_deref().unwrap_or_default();
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.push(FieldError::not_supported(&path.child("preemptionPolicy"), policy, policies));
    }
    errors
}

fn budget(one: Option<&PodDisruptionBudgetSpec>, path: &Path) -> Vec<FieldError> {
    let Some(one) = one else { return Vec::new() };
    let fields = [("minAvailable", &one.min_available), ("maxUnavailable", &one.max_unavailable)];
    let mut errors: Vec<FieldError> = fields
        .iter()
        .filter(|(_, text)| !text.is_empty() && !is_count_or_percentage(text))
        .map(|(field, text)| {
            let why = "must be a number from 0 up or a percentage from 0% to 100%";
            FieldError::invalid(&path.child(field), text.as_str(), why)
        })
        .collect();
    let set = |text: &str| !matches!(text, "" | "0" | "0%");
    if set(&one.min_available) && set(&one.max_unavailable) {
        errors.push(FieldError::forbidden(path, "only one of minAvailable and maxUnavailable may be set"));
    }
    errors
}

fn is_count_or_percentage(text: &str) -> bool {
    let digits = text.strip_suffix('%').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits == "0" || !digits.starts_with('0');
    let number: Option<u32> = digits.parse().ok();
    plain && canonical && number.is_some_and(|number| number <= 100 || !text.ends_with('%'))
}

fn tolerations(all: &[Toleration], path: &Path) -> Vec<FieldError> {
    let keyed = all.iter().enumerate().filter_map(|(index, one)| Some((index, one.key.as_deref()?)));
    keyed
        .filter(|(_, key)| !key.is_empty())
        .flat_map(|(index, key)| {
            let path = path.index(index).child("key");
            kubeapi::name::qualified(key).into_iter().map(move |why| FieldError::invalid(&path, key, why))
        })
        .collect()
}

/// Every selector in an affinity.
fn affinity(one: Option<&Affinity>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Ok(value) = serde_json::to_value(one) {
        walk(&value, path, &mut errors);
    }
    errors
}

fn walk(value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let path = path.child(field);
                match field.as_str() {
                    "labelSelector" | "namespaceSelector" => errors.extend(validate_object(value, &path)),
                    "matchExpressions" => node_expressions(value, &path, errors),
                    _ => walk(value, &path, errors),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

/// Requirements on nodes, which know two more operators than selectors do.
fn node_expressions(value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    for (index, one) in value.as_array().into_iter().flatten().enumerate() {
        let path = path.index(index);
        let (key, operator) =
            (one["key"].as_str().unwrap_or_default(), one["operator"].as_str().unwrap_or_default());
        let wrong = kubeapi::name::qualified(key).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(&path.child("key"), key, why)));
        if !OPERATORS.contains(&operator) {
            errors.push(FieldError::not_supported(&path.child("operator"), operator, OPERATORS));
        }
    }
}
