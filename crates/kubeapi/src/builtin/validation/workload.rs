//! What runs pods: Deployments, DaemonSets, Jobs; and the budgets of their pods.

use serde_json::{Map, Value, json};

use super::findings::{Findings, is_nothing, number, text};
use super::pod;
use crate::selector::label;
use crate::{FieldError, Path, name};

const MISMATCH: &str = "`selector` does not match template `labels`";
/// More pods at once than this would not fit into an indexed Job's status.
const MOST_PARALLEL_INDEXED: i64 = 100_000;

/// Whether a selector selects labels; `None` if it cannot be understood.
fn selects(selector: &Value, labels: &Value) -> Option<bool> {
    let nothing = Map::new();
    let selector = label::from_object(Some(selector).filter(|selector| !selector.is_null())).ok()?;
    Some(selector.matches(labels.as_object().unwrap_or(&nothing)))
}

fn is_empty(selector: &Value) -> bool {
    selector["matchLabels"].as_object().is_none_or(Map::is_empty)
        && selector["matchExpressions"].as_array().is_none_or(Vec::is_empty)
}

/// Pods that always run.
fn lasting(template: &Value, kind: &str, path: &Path, found: &mut Findings) {
    pod::template(template, path, found);
    let path = path.child("spec");
    found.one_of(&path.child("restartPolicy"), text(&template["spec"], "restartPolicy"), &["Always"]);
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        found.forbidden(&path.child("activeDeadlineSeconds"), why);
    }
}

pub(super) fn deployment(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    found.not_negative(spec, "replicas", &path);
    let (selector, at) = (&spec["selector"], path.child("selector"));
    if selector.is_null() {
        found.required(&at, "");
    } else {
        found.selector(selector, &at);
        if is_empty(selector) {
            found.invalid(&at, selector.clone(), "empty selector is invalid for deployment");
        }
    }
    let (template, place) = (&spec["template"], path.child("template"));
    match selects(selector, &template["metadata"]["labels"]) {
        None => found.invalid(&at, selector.clone(), "invalid label selector"),
        Some(selected) => {
            if !selected {
                let labels = place.child("metadata").child("labels");
                found.invalid(&labels, template["metadata"]["labels"].clone(), MISMATCH);
            }
            lasting(template, "ReplicaSet", &place, found);
        }
    }
    strategy(&spec["strategy"], &path.child("strategy"), found);
    found.not_negative(spec, "minReadySeconds", &path);
    found.not_negative(spec, "revisionHistoryLimit", &path);
    if let Some(deadline) = number(spec, "progressDeadlineSeconds") {
        found.not_negative(spec, "progressDeadlineSeconds", &path);
        if deadline <= number(spec, "minReadySeconds").unwrap_or(0) {
            let why = "must be greater than minReadySeconds";
            found.invalid(&path.child("progressDeadlineSeconds"), deadline, why);
        }
    }
}

fn strategy(strategy: &Value, path: &Path, found: &mut Findings) {
    let (numbers, inside) = (&strategy["rollingUpdate"], path.child("rollingUpdate"));
    match text(strategy, "type") {
        "Recreate" if !numbers.is_null() => {
            found.forbidden(&inside, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" => {
            found.amount(numbers, "maxUnavailable", &inside);
            found.amount(numbers, "maxSurge", &inside);
            if is_nothing(&numbers["maxUnavailable"]) && is_nothing(&numbers["maxSurge"]) {
                let why = "may not be 0 when `maxSurge` is 0";
                found.invalid(&inside.child("maxUnavailable"), numbers["maxUnavailable"].clone(), why);
            }
            found.at_most_all(numbers, "maxUnavailable", &inside);
        }
        _ => {
            let known = ["Recreate", "RollingUpdate"];
            found.0.push(FieldError::not_supported(path, internal(strategy), known));
        }
    }
}

/// A strategy as upstream's messages show it.
fn internal(strategy: &Value) -> Value {
    json!({"Type": strategy["type"], "RollingUpdate": strategy["rollingUpdate"]})
}

pub(super) fn deployment_status(object: &Value, found: &mut Findings) {
    let (status, path) = (&object["status"], Path::new("status"));
    for field in [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ] {
        found.not_negative(status, field, &path);
    }
    let of = |field: &str| number(status, field).unwrap_or(0);
    for field in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        if of(field) > of("replicas") {
            found.invalid(&path.child(field), of(field), "cannot be greater than status.replicas");
        }
    }
    if of("availableReplicas") > of("readyReplicas") {
        let why = "cannot be greater than readyReplicas";
        found.invalid(&path.child("availableReplicas"), of("availableReplicas"), why);
    }
}

pub(super) fn daemon_set(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let (selector, at) = (&spec["selector"], path.child("selector"));
    found.selector(selector, &at);
    let (template, place) = (&spec["template"], path.child("template"));
    if selects(selector, &template["metadata"]["labels"]) == Some(false) {
        let labels = place.child("metadata").child("labels");
        found.invalid(&labels, template["metadata"]["labels"].clone(), MISMATCH);
    }
    if !selector.is_null() && is_empty(selector) {
        found.invalid(&at, selector.clone(), "empty selector is invalid for daemonset");
    }
    lasting(template, "DaemonSet", &place, found);
    found.not_negative(spec, "minReadySeconds", &path);
    let (strategy, at) = (&spec["updateStrategy"], path.child("updateStrategy"));
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => rolling(&strategy["rollingUpdate"], &at.child("rollingUpdate"), found),
        _ => {
            let known = ["RollingUpdate", "OnDelete"];
            found.0.push(FieldError::not_supported(&at, internal(strategy), known));
        }
    }
    found.not_negative(spec, "revisionHistoryLimit", &path);
}

fn rolling(numbers: &Value, path: &Path, found: &mut Findings) {
    for field in ["maxUnavailable", "maxSurge"] {
        found.amount(numbers, field, path);
    }
    for field in ["maxUnavailable", "maxSurge"] {
        found.at_most_all(numbers, field, path);
    }
    match (is_nothing(&numbers["maxUnavailable"]), is_nothing(&numbers["maxSurge"])) {
        (false, false) => {
            let why = "may not be set when maxUnavailable is non-zero";
            found.invalid(&path.child("maxSurge"), numbers["maxSurge"].clone(), why);
        }
        (true, true) => found.required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

pub(super) fn job(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    generated_selector(object, found);
    job_spec(spec, &path, found);
    let completions = number(spec, "completions").unwrap_or(0);
    if text(spec, "completionMode") == "Indexed" && completions > 0 {
        let job = text(&object["metadata"], "name");
        let longest = format!("{job}-{}", completions - 1);
        if !name::dns_label(&longest).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {longest}");
            found.invalid(&Path::new("metadata").child("name"), job, why);
        }
    }
}

/// A selector that the server makes selects nothing but what has the Job's own labels.
fn generated_selector(job: &Value, found: &mut Findings) {
    let spec = &job["spec"];
    if spec["manualSelector"] == true || spec["selector"].is_null() {
        return;
    }
    let (uid, name) = (&job["metadata"]["uid"], &job["metadata"]["name"]);
    let own = json!({
        "controller-uid": uid, "job-name": name,
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
    });
    let labels = Path::new("spec").child("template").child("metadata").child("labels");
    for key in
        ["controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"]
    {
        let given = &spec["template"]["metadata"]["labels"][key];
        if given.is_null() {
            found.required(&labels.key(key), &format!("must be '{}'", text(&own, key)));
        } else if *given != own[key] {
            found.invalid(&labels.key(key), given.clone(), format!("must be '{}'", text(&own, key)));
        }
    }
    if selects(&spec["selector"], &own) == Some(false) {
        let path = Path::new("spec").child("selector");
        found.invalid(&path, spec["selector"].clone(), "`selector` not auto-generated");
    }
}

fn job_spec(spec: &Value, path: &Path, found: &mut Findings) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        found.not_negative(spec, field, path);
    }
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        found.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    completion(spec, path, found);
    let known = ["Failed", "TerminatingOrFailed"];
    found.optional_one_of(spec, "podReplacementPolicy", path, &known);
    let (template, place) = (&spec["template"], path.child("template"));
    pod::template(template, &place, found);
    let at = place.child("spec").child("restartPolicy");
    match text(&template["spec"], "restartPolicy") {
        "" | "Always" => found.required(&at, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if !spec["podFailurePolicy"].is_null() => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            found.invalid(&at, "OnFailure", why);
        }
        other => found.one_of(&at, other, &["OnFailure", "Never"]),
    }
    let (selector, at) = (&spec["selector"], path.child("selector"));
    match selector.is_null() {
        true => found.required(&at, ""),
        false => found.selector(selector, &at),
    }
    if selects(selector, &template["metadata"]["labels"]) == Some(false) {
        let labels = place.child("metadata").child("labels");
        found.invalid(&labels, template["metadata"]["labels"].clone(), MISMATCH);
    }
}

fn completion(spec: &Value, path: &Path, found: &mut Findings) {
    let mode = text(spec, "completionMode");
    found.optional_one_of(spec, "completionMode", path, &["NonIndexed", "Indexed"]);
    match mode {
        "Indexed" => {
            if spec["completions"].is_null() {
                found.required(&path.child("completions"), "when completion mode is Indexed");
            }
            let parallel = number(spec, "parallelism").unwrap_or(0);
            if parallel > MOST_PARALLEL_INDEXED {
                let why = format!(
                    "must be less than or equal to {MOST_PARALLEL_INDEXED} when completion mode is Indexed"
                );
                found.invalid(&path.child("parallelism"), parallel, why);
            }
        }
        "NonIndexed" | "" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if !spec[field].is_null() {
                    found.invalid(
                        &path.child(field),
                        spec[field].clone(),
                        "requires indexed completion mode",
                    );
                }
            }
        }
        _ => {}
    }
}

pub(super) fn job_update(new: &Value, old: &Value, found: &mut Findings) {
    let (spec, before, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    job_spec(spec, &path, found);
    let completions = path.child("completions");
    if text(spec, "completionMode") != "Indexed" {
        found.unchanged(&spec["completions"], &before["completions"], &completions);
    } else if spec["completions"] != before["completions"] && spec["completions"] != spec["parallelism"] {
        let why = "can only be modified in tandem with spec.parallelism";
        found.invalid(&completions, spec["completions"].clone(), why);
    }
    found.unchanged(&spec["selector"], &before["selector"], &path.child("selector"));
    let not_started = before["suspend"] == true && old["status"]["startTime"].is_null();
    let mut template = before["template"].clone();
    if not_started {
        schedulable(&mut template, &spec["template"]);
    }
    found.unchanged(&spec["template"], &template, &path.child("template"));
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        found.unchanged(&spec[field], &before[field], &path.child(field));
    }
}

/// Where the pods of a Job that has not started are to run may still change.
fn schedulable(template: &mut Value, new: &Value) {
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        template["spec"][field] = new["spec"][field].clone();
    }
    for field in ["annotations", "labels"] {
        template["metadata"][field] = new["metadata"][field].clone();
    }
    if !new["spec"]["affinity"].is_null() || !template["spec"]["affinity"].is_null() {
        template["spec"]["affinity"]["nodeAffinity"] = new["spec"]["affinity"]["nodeAffinity"].clone();
    }
    drop_nulls(template);
}

fn drop_nulls(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.values_mut().for_each(drop_nulls);
        fields.retain(|_, field| !field.is_null());
    }
}

pub(super) fn budget(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let shown = json!({
            "MinAvailable": spec["minAvailable"], "Selector": spec["selector"],
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec["unhealthyPodEvictionPolicy"],
        });
        found.invalid(&path, shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        found.amount(spec, field, &path);
        found.at_most_all(spec, field, &path);
    }
    found.selector(&spec["selector"], &path.child("selector"));
    let known = ["AlwaysAllow", "IfHealthyBudget"];
    found.optional_one_of(spec, "unhealthyPodEvictionPolicy", &path, &known);
}

pub(super) fn budget_status(object: &Value, found: &mut Findings) {
    let path = Path::new("status");
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        found.not_negative(&object["status"], field, &path);
    }
}
