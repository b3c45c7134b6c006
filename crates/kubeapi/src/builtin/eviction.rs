//! Whether a pod may be evicted, by the budgets that guard it.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::selector::label;
use crate::status::Cause;
use crate::{GroupResource, Status, meta};

const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// How many evictions may wait for the budget's controller to see them.
const MOST_DISRUPTED: usize = 2000;

/// Whether budgets do not matter: the pod does no work (yet, or any more).
pub fn is_free(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"))
        || meta::is_being_deleted(pod)
}

/// Whether a budget is about this pod of its namespace.
pub fn guards(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    let selector = label::from_object(Some(selector).filter(|selector| !selector.is_null()));
    let nothing = serde_json::Map::new();
    selector.is_ok_and(|selector| selector.matches(pod["metadata"]["labels"].as_object().unwrap_or(&nothing)))
}

/// Whether the pod is not ready, and the budget lets such pods go without counting them.
pub fn is_spared(budget: &Value, pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let healthy = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
    !ready && (budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || healthy)
}

/// Takes one disruption from a budget.
///
/// # Errors
/// If there is none left, or the budget is not up to date: 429 with the budget named in its causes.
pub fn take(budget: &mut Value, pod: &str, now: Timestamp) -> Result<(), Status> {
    let name = meta::text(budget, "name").to_owned();
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    if number("observedGeneration") < meta::generation(budget) {
        return Err(not_up_to_date(&name));
    }
    let forbid =
        |why: &str| Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), &name, why);
    let left = number("disruptionsAllowed");
    if left < 0 {
        return Err(forbid("pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return Err(forbid("DisruptedPods map too big - too many evictions not confirmed by PDB controller"));
    }
    if left == 0 {
        let (desired, current) = (number("desiredHealthy"), number("currentHealthy"));
        let why =
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently");
        return Err(violated(why, 0));
    }
    let observed = number("observedGeneration");
    budget["status"]["disruptionsAllowed"] = (left - 1).into();
    budget["status"]["disruptedPods"][pod] = meta::seconds(now);
    if left == 1 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": observed,
        });
        set_condition(&mut budget["status"], condition, now);
    }
    Ok(())
}

/// The budget's controller has not seen its last change.
pub fn not_up_to_date(budget: &str) -> Status {
    violated(format!("The disruption budget {budget} is still being processed by the server."), 10)
}

fn violated(why: String, retry_after: u32) -> Status {
    let mut status = Status::too_many_requests(VIOLATION, retry_after);
    let cause = Cause { reason: "DisruptionBudget".into(), message: why, ..Cause::default() };
    status.details.get_or_insert_default().causes.push(cause);
    status
}

/// Notes in a pod's status that it is being evicted.
pub fn mark(pod: &mut Value, now: Timestamp) {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    });
    set_condition(&mut pod["status"], condition, now);
}

/// Sets a condition in a status; its time is that of its last change.
pub fn set_condition(status: &mut Value, mut condition: Value, now: Timestamp) {
    let conditions = &mut status["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let list = conditions.as_array_mut().into_iter().flatten();
    let found = list.into_iter().find(|one| one["type"] == condition["type"]);
    condition["lastTransitionTime"] = match &found {
        Some(before) if before["status"] == condition["status"] => before["lastTransitionTime"].clone(),
        _ => meta::seconds(now),
    };
    match found {
        Some(before) => *before = condition,
        None => {
            if let Some(list) = conditions.as_array_mut() {
                list.push(condition);
            }
        }
    }
}
