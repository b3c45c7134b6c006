//! What runs pods: Deployments, DaemonSets, Jobs.

use serde_json::{Value, json};

use super::{items, part, pod, present, set};

const REVISIONS_KEPT: i64 = 10;

pub(super) fn deployment(object: &mut Value) {
    let spec = part(object, "spec");
    set(spec, "replicas", 1);
    rolling(part(spec, "strategy"), &json!("25%"), &json!("25%"));
    set(spec, "revisionHistoryLimit", REVISIONS_KEPT);
    set(spec, "progressDeadlineSeconds", 600);
    pod::template(part(spec, "template"));
    part(object, "status");
}

pub(super) fn daemon_set(object: &mut Value) {
    let spec = part(object, "spec");
    rolling(part(spec, "updateStrategy"), &json!(1), &json!(0));
    set(spec, "revisionHistoryLimit", REVISIONS_KEPT);
    pod::template(part(spec, "template"));
    let status = part(object, "status");
    for field in ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"] {
        set(status, field, 0);
    }
}

fn rolling(strategy: &mut Value, unavailable: &Value, surge: &Value) {
    set(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let numbers = part(strategy, "rollingUpdate");
        set(numbers, "maxUnavailable", unavailable.clone());
        set(numbers, "maxSurge", surge.clone());
    }
}

pub(super) fn job(object: &mut Value) {
    let spec = part(object, "spec");
    if present(spec, "completions").is_none() && present(spec, "parallelism").is_none() {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let per_index = present(spec, "backoffLimitPerIndex").is_some();
    set(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    let replaced = match present(spec, "podFailurePolicy") {
        Some(policy) => {
            for rule in items(policy, "rules") {
                items(rule, "onPodConditions").for_each(|one| set(one, "status", "True"));
            }
            "Failed"
        }
        None => "TerminatingOrFailed",
    };
    set(spec, "podReplacementPolicy", replaced);
    set(spec, "manualSelector", false);
    pod::template(part(spec, "template"));
    let labels = spec["template"]["metadata"]["labels"].clone();
    let unlabelled = |labels: &Value| labels.as_object().is_none_or(serde_json::Map::is_empty);
    if !unlabelled(&labels) && unlabelled(&object["metadata"]["labels"]) {
        part(object, "metadata")["labels"] = labels;
    }
    part(object, "status");
}
