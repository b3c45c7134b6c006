//! Disruption budgets: what their status says, as Kubernetes' own controller has it. The API server refuses evictions by it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, Patch, PatchParams};
use kubeapi::builtin::eviction::guards;
use serde_json::{Map, Value, json};

use super::pods::{Objects, is_ready, owner};

/// An eviction whose pod is still there after so long did not happen.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(2);

/// Brings every budget's status up to date. What could not be written is tried at the next call.
pub(super) async fn settle(
    client: &kube::Client,
    budgets: &mut Objects,
    pods: &Objects,
    deployments: &Objects,
    now: Timestamp,
) {
    for ((namespace, name), budget) in budgets.iter_mut() {
        let status = judge(budget, pods, deployments, now);
        if same(&status, &budget["status"]) {
            continue;
        }
        let api: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), namespace);
        // An eviction counts the status down: it must not be overwritten unseen.
        let version = &budget["metadata"]["resourceVersion"];
        let mut patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        for gone in budget["status"]["disruptedPods"].as_object().into_iter().flat_map(Map::keys) {
            if status["disruptedPods"][gone].is_null() {
                patch["status"]["disruptedPods"][gone] = Value::Null;
            }
        }
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(written) => *budget = json!(written),
            Err(error) => tracing::debug!(name, error = %agent::chain(&error), "a budget is left for later"),
        }
    }
}

fn same(wanted: &Value, found: &Value) -> bool {
    let fields = wanted.as_object().into_iter().flatten();
    fields.into_iter().all(|(field, value)| {
        let empty = value.as_object().is_some_and(Map::is_empty) && found[field].is_null();
        empty || found[field] == *value
    })
}

/// What the status of a budget should say.
fn judge(budget: &Value, pods: &Objects, deployments: &Objects, now: Timestamp) -> Value {
    let namespace = budget["metadata"]["namespace"].as_str().unwrap_or_default();
    let mine = || {
        pods.iter()
            .filter(|((space, _), pod)| space == namespace && guards(budget, pod))
            .map(|((_, name), pod)| (name.as_str(), pod))
    };
    let disrupted: BTreeMap<&str, &Value> = budget["status"]["disruptedPods"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, since)| {
            let at = since.as_str().and_then(|since| since.parse::<Timestamp>().ok());
            let fresh = at.is_some_and(|at| now.duration_since(at) < FORGOTTEN);
            fresh && mine().any(|(pod, found)| pod == *name && !is_going(found))
        })
        .map(|(name, since)| (name.as_str(), since))
        .collect();
    let is_healthy =
        |name: &str, pod: &Value| is_ready(pod) && !is_going(pod) && !disrupted.contains_key(name);
    let healthy = mine().filter(|(name, pod)| is_healthy(name, pod)).count() as i64;
    let expected = expected(mine().map(|(_, pod)| pod), deployments);
    let desired = desired(&budget["spec"], expected);
    let allowed = if expected == 0 { 0 } else { (healthy - desired).max(0) };
    json!({
        "observedGeneration": budget["metadata"]["generation"],
        "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected,
        "disruptionsAllowed": allowed, "disruptedPods": disrupted,
    })
}

fn is_going(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// How many pods there should be: as many as their Deployments ask for, and those of nobody.
fn expected<'a>(pods: impl Iterator<Item = &'a Value>, deployments: &Objects) -> i64 {
    let mut owners = BTreeMap::new();
    let mut alone = 0;
    for pod in pods {
        match owner(pod) {
            None => alone += 1,
            Some(uid) => {
                let found = deployments.values().find(|one| one["metadata"]["uid"] == *uid);
                let replicas = found.map_or(0, |one| one["spec"]["replicas"].as_i64().unwrap_or(1));
                owners.insert(uid, replicas);
            }
        }
    }
    alone + owners.values().sum::<i64>()
}

/// How many pods must be healthy.
fn desired(spec: &Value, expected: i64) -> i64 {
    let number = |value: &Value| match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            (expected * percent + 99) / 100
        }
        other => other.as_i64().unwrap_or(0),
    };
    match (&spec["minAvailable"], &spec["maxUnavailable"]) {
        (Value::Null, Value::Null) => 0,
        (Value::Null, most) => (expected - number(most)).max(0),
        (least, _) => number(least),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(budget: Value) -> Value {
        let key = |name: &str| ("default".to_owned(), name.to_owned());
        let pod = |name: &str, ready: bool, going: bool| {
            let mut pod = json!({
                "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": [{"kind": "Deployment", "uid": "d"}]},
                "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
            });
            if going {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            (key(name), pod)
        };
        let pods = Objects::from([
            pod("a", true, false),
            pod("b", true, false),
            pod("c", true, true),
            pod("d", false, false),
        ]);
        let deployment = json!({"metadata": {"uid": "d"}, "spec": {"replicas": 4}});
        let deployments = Objects::from([(key("web"), deployment)]);
        judge(&budget, &pods, &deployments, "2026-01-01T00:00:10Z".parse().unwrap())
    }

    fn budget(spec: Value, disrupted: Value) -> Value {
        let mut spec = spec;
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        json!({
            "metadata": {"namespace": "default", "name": "web", "generation": 2},
            "spec": spec, "status": {"disruptedPods": disrupted},
        })
    }

    #[test]
    fn what_may_be_evicted() {
        for (spec, desired, allowed) in [
            (json!({"minAvailable": 1}), 1, 1),
            (json!({"minAvailable": 2}), 2, 0),
            (json!({"minAvailable": "30%"}), 2, 0),
            (json!({"maxUnavailable": 3}), 1, 1),
            (json!({"maxUnavailable": "50%"}), 2, 0),
            (json!({"maxUnavailable": 9}), 0, 2),
        ] {
            let status = world(budget(spec.clone(), Value::Null));
            assert_eq!(
                (&status["desiredHealthy"], &status["disruptionsAllowed"]),
                (&json!(desired), &json!(allowed)),
                "{spec}"
            );
            assert_eq!(status["currentHealthy"], 2);
            assert_eq!(status["expectedPods"], 4);
        }
    }

    #[test]
    fn an_eviction_counts_until_its_pod_goes() {
        let before =
            json!({"a": "2026-01-01T00:00:00Z", "b": "2025-12-31T23:00:00Z", "c": "2026-01-01T00:00:00Z"});
        let status = world(budget(json!({"minAvailable": 0}), before));
        assert_eq!(status["disruptedPods"], json!({"a": "2026-01-01T00:00:00Z"}));
        assert_eq!(status["disruptionsAllowed"], 1);
    }
}
