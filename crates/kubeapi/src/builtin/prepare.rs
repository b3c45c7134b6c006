//! What the server decides about a new or changed object of a built-in kind, whatever the client says.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{defaults, service};
use crate::meta;

/// The labels by which a Job finds its pods; the short ones are the older.
const JOB_NAME: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const JOB_UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Makes a new object ready. Its name and UID are there already.
pub fn create(group: &str, plural: &str, object: &mut Value, now: Timestamp) {
    match (group, plural) {
        ("", "pods") => create_pod(object, now),
        ("", "services") => service::prepare_create(object),
        ("", "namespaces") => create_namespace(object),
        ("", "persistentvolumes") => {
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": meta::seconds(now)});
        }
        ("", "persistentvolumeclaims") => object["status"] = json!({"phase": "Pending"}),
        ("apps", "deployments") => object["status"] = json!({}),
        ("apps", "daemonsets") => {
            object["status"] = Value::Null;
            object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!("1");
        }
        ("batch", "jobs") => {
            object["status"] = json!({});
            if object["spec"]["manualSelector"] != true {
                select_own_pods(object);
            }
        }
        ("policy", "poddisruptionbudgets") => object["status"] = Value::Null,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => object["status"] = json!({}),
        ("storage.k8s.io", "volumeattachments") => object["status"] = json!({"attached": false}),
        _ => {}
    }
    refill(group, plural, object);
}

/// Numbers that are always there.
fn refill(group: &str, plural: &str, object: &mut Value) {
    if matches!((group, plural), ("apps", "daemonsets") | ("policy", "poddisruptionbudgets")) {
        defaults::fill(group, plural, object);
    }
}

fn create_pod(pod: &mut Value, now: Timestamp) {
    defaults::admit_pod(pod, true);
    let mut status = json!({"phase": "Pending", "qosClass": defaults::quality_of_service(pod)});
    let gates = pod["spec"]["schedulingGates"].as_array();
    if gates.is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastTransitionTime": meta::seconds(now),
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod["status"] = status;
}

fn create_namespace(namespace: &mut Value) {
    namespace["status"] = json!({"phase": "Active"});
    let mut finalizers = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.contains(&json!("kubernetes")) {
        finalizers.push(json!("kubernetes"));
    }
    namespace["spec"]["finalizers"] = finalizers.into();
}

/// A Job selects pods that have its UID as a label.
fn select_own_pods(job: &mut Value) {
    let (name, uid) = (job["metadata"]["name"].clone(), job["metadata"]["uid"].clone());
    // A Job without labels of its own shares those of its template.
    let own = &job["metadata"]["labels"];
    let shared = own.is_null() || *own == job["spec"]["template"]["metadata"]["labels"];
    let labels = &mut job["spec"]["template"]["metadata"]["labels"];
    for (keys, value) in [(JOB_NAME, &name), (JOB_UID, &uid)] {
        for key in keys.into_iter().filter(|key| labels.get(key).is_none()).collect::<Vec<_>>() {
            labels[key] = value.clone();
        }
    }
    let labels = labels.clone();
    if shared {
        job["metadata"]["labels"] = labels;
    }
    let selector = &mut job["spec"]["selector"]["matchLabels"];
    if selector.get(JOB_UID[1]).is_none() {
        selector[JOB_UID[1]] = uid;
    }
}

/// Makes a changed object ready. Its status is the stored one already.
pub fn update(group: &str, plural: &str, object: &mut Value, old: &Value) {
    match (group, plural) {
        ("", "pods") => defaults::admit_pod(object, false),
        ("", "services") => service::prepare_update(object, old),
        ("apps", "daemonsets") => count_template(object, old),
        ("", "namespaces") => object["spec"] = old["spec"].clone(),
        _ => {}
    }
}

/// An old way to count changes of a DaemonSet's template.
fn count_template(object: &mut Value, old: &Value) {
    let before = old["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().unwrap_or_default();
    let count: i64 = before.parse().unwrap_or(0);
    let count = count + i64::from(object["spec"]["template"] != old["spec"]["template"]);
    object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(count.to_string());
}

/// For an update of the `status` subresource: what else of `new` stays as it is stored. Other than for custom
/// resources, most metadata may change with the status.
pub fn update_status(group: &str, plural: &str, new: &mut Value, old: &Value) {
    if (group, plural) == ("storage.k8s.io", "volumeattachments") {
        return meta::keep_all_but_status(new, old);
    }
    let fields =
        new.as_object_mut().into_iter().flat_map(|fields| fields.keys().cloned()).collect::<Vec<_>>();
    let stored = old.as_object().into_iter().flatten().map(|(field, _)| field.clone());
    for field in fields.into_iter().chain(stored) {
        if !matches!(field.as_str(), "metadata" | "status") {
            new[&field] = old[&field].clone();
        }
    }
    let kept: &[&str] = match (group, plural) {
        ("", "pods") => &["ownerReferences"],
        ("apps", "deployments") => &["labels"],
        _ => &[],
    };
    for field in kept {
        new["metadata"][*field] = old["metadata"][*field].clone();
    }
    if (group, plural) == ("", "pods") && new["status"]["qosClass"].as_str().unwrap_or_default().is_empty() {
        new["status"]["qosClass"] = old["status"]["qosClass"].clone();
    }
    drop_nulls(new);
}

fn drop_nulls(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    for part in ["metadata", "status"] {
        if let Some(fields) = object.get_mut(part).and_then(Value::as_object_mut) {
            fields.retain(|_, value| !value.is_null());
        }
    }
}
