//! Nodes, Namespaces, Leases, Events.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::findings::{Findings, items, number, text, texts};
use super::pod::taint_effect;
use crate::{FieldError, Path, name};

const LONGEST_REPORTER: usize = 128;
const LONGEST_REASON: usize = 128;
const LONGEST_NOTE: usize = 1024;

pub(super) fn node(object: &Value, found: &mut Findings) {
    taints(object, found);
    for (path, network) in items(&object["spec"], "podCIDRs", &Path::new("spec")) {
        found.network(network.as_str().unwrap_or_default(), &path);
    }
}

/// Upstream looks for taints in the metadata, as its messages show.
fn taints(object: &Value, found: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (path, taint) in items(&object["spec"], "taints", &Path::new("metadata")) {
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        found.label_key(key, &path.child("key"));
        let broken = name::label_value(value);
        if !broken.is_empty() {
            found.invalid(&path.child("value"), value, broken.join(";"));
        }
        taint_effect(effect, false, &path.child("effect"), found);
        if !seen.insert((key, effect)) {
            let shown = json!({
                "Key": key, "Value": value, "Effect": effect, "TimeAdded": taint["timeAdded"],
            });
            let detail = "taints must be unique by key and effect pair".into();
            found.0.push(FieldError { detail, ..FieldError::duplicate(&path, shown) });
        }
    }
}

pub(super) fn node_update(new: &Value, old: &Value, found: &mut Findings) {
    addresses(new, found);
    let path = Path::new("spec");
    let networks = |node: &Value| node["spec"]["podCIDRs"].as_array().cloned().unwrap_or_default();
    if !networks(old).is_empty() && networks(new) != networks(old) {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        found.forbidden(&path.child("podCIDRs"), why);
    }
    let provider = text(&old["spec"], "providerID");
    if !provider.is_empty() && text(&new["spec"], "providerID") != provider {
        let why = "node updates may not change providerID except from \"\" to valid";
        found.forbidden(&path.child("providerID"), why);
    }
    taints(new, found);
}

fn addresses(node: &Value, found: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (path, one) in items(&node["status"], "addresses", &Path::new("status")) {
        if !seen.insert((text(one, "type"), text(one, "address"))) {
            let shown = json!({"Type": one["type"], "Address": one["address"]});
            found.0.push(FieldError::duplicate(&path, shown));
        }
    }
}

pub(super) fn namespace(object: &Value, found: &mut Findings) {
    let path = Path::new("spec").child("finalizers");
    for finalizer in texts(&object["spec"], "finalizers") {
        let broken = name::qualified(finalizer);
        let unqualified = broken.is_empty() && !finalizer.contains('/') && finalizer != "kubernetes";
        found.each(&path, finalizer, broken);
        if unqualified {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            found.invalid(&path, finalizer, why);
        }
    }
}

pub(super) fn lease(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    if let Some(seconds) = number(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        found.invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    found.not_negative(spec, "leaseTransitions", &path);
    if !text(spec, "preferredHolder").is_empty() && text(spec, "strategy").is_empty() {
        let why = "may only be specified if `strategy` is defined";
        found.forbidden(&path.child("preferredHolder"), why);
    }
}

/// Events of the newer group, which have to say all that newer clients know, and nothing that only older ones do.
/// Messages name the fields as the older group does.
pub(super) fn new_event(object: &Value, found: &mut Findings) {
    let as_old = json!({
        "metadata": object["metadata"], "involvedObject": object["regarding"], "eventTime": object["eventTime"],
        "reportingComponent": object["reportingController"], "reportingInstance": object["reportingInstance"],
        "action": object["action"], "reason": object["reason"], "message": object["note"],
    });
    event_by(&as_old, "reportingController", found);
}

/// What is asked of a new Event of the newer group beyond that.
pub(super) fn created_event(object: &Value, found: &mut Findings) {
    event_series(&object["series"], found);
    if object["eventTime"].is_null() {
        found.required(&Path::new("eventTime"), "");
    }
    let kind = text(object, "type");
    if !matches!(kind, "Normal" | "Warning") {
        found.invalid(&Path::new("type"), "", format!("has invalid value: {kind}"));
    }
    let set = |field: &str| !matches!(object[field].as_i64(), Some(0)) && !object[field].is_null();
    for (field, shown) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ] {
        if set(field) {
            found.invalid(&Path::new(shown), "", "needs to be unset");
        }
    }
    let source = &object["deprecatedSource"];
    if !text(source, "component").is_empty() || !text(source, "host").is_empty() {
        found.invalid(&Path::new("source"), "", "needs to be unset");
    }
}

fn event_series(series: &Value, found: &mut Findings) {
    if series.is_null() {
        return;
    }
    if series["count"].as_i64().unwrap_or(0) < 2 {
        found.invalid(&Path::new("series.count"), "", "should be at least 2");
    }
    if series["lastObservedTime"].is_null() {
        found.required(&Path::new("series.lastObservedTime"), "");
    }
}

/// Of an Event of the newer group only the series may change.
pub(super) fn changed_event(new: &Value, old: &Value, found: &mut Findings) {
    if new["series"] != old["series"] {
        event_series(&new["series"], found);
    }
    for (field, shown) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        found.unchanged(&new[field], &old[field], &Path::new(shown));
    }
}

/// Events of the core group. Those with an `eventTime` are written by newer clients, and have to say more.
pub(super) fn event(object: &Value, found: &mut Findings) {
    event_by(object, "reportingComponent", found);
}

fn event_by(object: &Value, reporter_field: &str, found: &mut Findings) {
    let (own, about) = (text(&object["metadata"], "namespace"), text(&object["involvedObject"], "namespace"));
    let new = !object["eventTime"].is_null();
    let foreign = match (about, new) {
        ("", true) => !matches!(own, "default" | "kube-system"),
        ("", false) => own != "default",
        (about, new) => !new && about != own,
    };
    if foreign {
        let path = Path::new("involvedObject").child("namespace");
        found.invalid(&path, about, "does not match event.namespace");
    }
    if !new {
        return;
    }
    let reporter = text(object, "reportingComponent");
    let at = Path::new(reporter_field);
    if reporter.is_empty() {
        found.required(&at, "");
    }
    found.label_key(reporter, &at);
    let limited =
        [("reportingInstance", LONGEST_REPORTER), ("action", LONGEST_REASON), ("reason", LONGEST_REASON)];
    for (field, most) in limited {
        if text(object, field).is_empty() {
            found.required(&Path::new(field), "");
        }
        too_long(object, field, most, found);
    }
    too_long(object, "message", LONGEST_NOTE, found);
}

fn too_long(object: &Value, field: &str, most: usize, found: &mut Findings) {
    if text(object, field).len() > most {
        found.invalid(&Path::new(field), "", format!("can have at most {most} characters"));
    }
}
