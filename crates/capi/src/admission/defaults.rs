//! What is filled in.

use api::catalogue::{annotations, labels};
use serde_json::{Value, json};

use crate::health::NODE_STARTUP_SECONDS;
use crate::template::NODE_DELETION_SECONDS;

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Puts `value` where nothing is.
fn absent(parent: &mut Value, field: &str, value: Value) {
    if parent[field].is_null() {
        parent[field] = value;
    }
}

fn cluster_label(object: &mut Value) {
    let cluster = text(object, "/spec/clusterName").to_owned();
    if !cluster.is_empty() {
        object["metadata"]["labels"][labels::CAPI_CLUSTER_NAME] = cluster.into();
    }
}

/// A version as everybody writes it, with `v`.
fn version(spec: &mut Value) {
    if let Some(version) =
        spec["version"].as_str().filter(|version| !version.is_empty() && !version.starts_with('v'))
    {
        spec["version"] = format!("v{version}").into();
    }
}

pub(super) fn machine(object: &mut Value) {
    cluster_label(object);
    version(&mut object["spec"]);
    absent(&mut object["spec"]["deletion"], "nodeDeletionTimeoutSeconds", NODE_DELETION_SECONDS.into());
}

/// How many machines, where the object does not say: as many as there are, within the autoscaler's bounds; else one.
fn replicas(object: &mut Value, old: Option<&Value>) {
    if !object["spec"]["replicas"].is_null() {
        return;
    }
    let noted = |key: &str| -> Option<i64> { object["metadata"]["annotations"][key].as_str()?.parse().ok() };
    let bounds = noted(annotations::AUTOSCALER_MIN_SIZE).zip(noted(annotations::AUTOSCALER_MAX_SIZE));
    let before = old.and_then(|old| old["spec"]["replicas"].as_i64());
    let wanted = match (bounds, before) {
        (Some((low, high)), Some(before)) if low <= high => before.clamp(low, high),
        (Some((low, _)), _) => low,
        (None, _) => 1,
    };
    object["spec"]["replicas"] = wanted.into();
}

fn empty_selector(object: &Value) -> bool {
    let selector = &object["spec"]["selector"];
    let none = |part: &str| match &selector[part] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    none("matchLabels") && none("matchExpressions")
}

/// A selector that takes nothing in particular takes what carries the object's own name.
fn selector(object: &mut Value, label: &str) {
    if empty_selector(object) {
        let name = api::names::label_value(text(object, "/metadata/name"));
        object["spec"]["selector"]["matchLabels"][label] = name.clone().into();
        object["spec"]["template"]["metadata"]["labels"][label] = name.into();
    }
    let cluster = text(object, "/spec/clusterName").to_owned();
    if !cluster.is_empty() {
        object["spec"]["selector"]["matchLabels"][labels::CAPI_CLUSTER_NAME] = cluster.clone().into();
        object["spec"]["template"]["metadata"]["labels"][labels::CAPI_CLUSTER_NAME] = cluster.into();
    }
}

pub(super) fn machine_set(object: &mut Value, old: Option<&Value>) {
    cluster_label(object);
    replicas(object, old);
    selector(object, labels::CAPI_SET_NAME);
    absent(&mut object["spec"]["deletion"], "order", "Random".into());
    version(&mut object["spec"]["template"]["spec"]);
}

pub(super) fn machine_deployment(object: &mut Value, old: Option<&Value>) {
    cluster_label(object);
    replicas(object, old);
    let strategy = &mut object["spec"]["rollout"]["strategy"];
    absent(strategy, "type", "RollingUpdate".into());
    if strategy["type"] == "RollingUpdate" {
        absent(&mut strategy["rollingUpdate"], "maxSurge", json!(1));
        absent(&mut strategy["rollingUpdate"], "maxUnavailable", json!(0));
    }
    selector(object, labels::CAPI_DEPLOYMENT_NAME);
    version(&mut object["spec"]["template"]["spec"]);
}

pub(super) fn machine_health_check(object: &mut Value) {
    cluster_label(object);
    absent(&mut object["spec"]["checks"], "nodeStartupTimeoutSeconds", NODE_STARTUP_SECONDS.into());
}
