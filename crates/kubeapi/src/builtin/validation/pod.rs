//! Pods, on their own and in templates.

use std::collections::BTreeSet;

use serde_json::Value;

use super::container;
use super::findings::{Findings, items, number, text, texts};
use crate::{FieldError, Path, name};

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn create(pod: &Value, found: &mut Findings) {
    let (spec, path) = (&pod["spec"], Path::new("spec"));
    pod_spec(spec, &path, found);
    if spec["ephemeralContainers"].as_array().is_some_and(|list| !list.is_empty()) {
        found.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
    }
    let gated = spec["schedulingGates"].as_array().is_some_and(|list| !list.is_empty());
    if gated && !text(spec, "nodeName").is_empty() {
        found.forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

/// A template of pods.
pub(super) fn template(template: &Value, path: &Path, found: &mut Findings) {
    found.labels(&template["metadata"]["labels"], &path.child("labels"));
    pod_spec(&template["spec"], &path.child("spec"), found);
    if template["spec"]["ephemeralContainers"].as_array().is_some_and(|list| !list.is_empty()) {
        let why = "ephemeral containers not allowed in pod template";
        found.forbidden(&path.child("spec").child("ephemeralContainers"), why);
    }
}

fn pod_spec(spec: &Value, path: &Path, found: &mut Findings) {
    let volumes = volumes(spec, path, found);
    container::containers(spec, &volumes, path, found);
    container::init_containers(spec, &volumes, path, found);
    host_ports(spec, path, found);
    let restart = ["Always", "OnFailure", "Never"];
    found.required_one_of(&path.child("restartPolicy"), text(spec, "restartPolicy"), &restart);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    found.required_one_of(&path.child("dnsPolicy"), text(spec, "dnsPolicy"), &dns);
    found.labels(&spec["nodeSelector"], &path.child("nodeSelector"));
    security(&spec["securityContext"], &path.child("securityContext"), found);
    affinity(&spec["affinity"], &path.child("affinity"), found);
    spread(spec, path, found);
    for field in ["serviceAccountName", "nodeName"] {
        let value = text(spec, field);
        if !value.is_empty() {
            found.each(&path.child(field), value, name::dns_subdomain(value));
        }
    }
    let deadline = number(spec, "activeDeadlineSeconds");
    if let Some(value) = deadline.filter(|value| !(1..=i64::from(i32::MAX)).contains(value)) {
        found.invalid(
            &path.child("activeDeadlineSeconds"),
            value,
            "must be between 1 and 2147483647, inclusive",
        );
    }
    for field in ["hostname", "subdomain"] {
        let value = text(spec, field);
        if !value.is_empty() {
            found.each(&path.child(field), value, name::dns_label(value));
        }
    }
    tolerations(spec, path, found);
    for field in ["priorityClassName", "runtimeClassName"] {
        let value = text(spec, field);
        if !value.is_empty() {
            found.each(&path.child(field), value, name::dns_subdomain(value));
        }
    }
    found.optional_one_of(spec, "preemptionPolicy", path, &["PreemptLowerPriority", "Never"]);
}

/// The ports of a pod in its node's network are the node's.
fn host_ports(spec: &Value, path: &Path, found: &mut Findings) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (path, one) in items(spec, "containers", path) {
        for (path, port) in items(one, "ports", &path) {
            // In a template it may be left out: the pod gets it.
            let number = number(port, "hostPort").unwrap_or(0);
            if number != 0 && port["containerPort"] != number {
                let why = "must match `containerPort` when `hostNetwork` is true";
                found.invalid(&path.child("hostPort"), number, why);
            }
        }
    }
}

fn security(context: &Value, path: &Path, found: &mut Findings) {
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        found.identity(&context[field], &path.child(field));
    }
    for (path, group) in items(context, "supplementalGroups", path) {
        found.identity(group, &path);
    }
}

/// The order in which sources are looked for: the first is checked, others are too many.
const SOURCES: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Checks volumes; gives the names of the good ones, which may be mounted.
fn volumes(spec: &Value, path: &Path, found: &mut Findings) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (path, volume) in items(spec, "volumes", path) {
        let before = found.0.len();
        source(volume, &path, found);
        let (name, place) = (text(volume, "name"), path.child("name"));
        match name {
            "" => found.required(&place, ""),
            name => found.each(&place, name, name::dns_label(name)),
        }
        if names.contains(name) {
            found.0.push(FieldError::duplicate(&place, name));
        }
        if found.0.len() == before {
            names.insert(name.to_owned());
        }
    }
    names
}

fn source(volume: &Value, path: &Path, found: &mut Findings) {
    let given: Vec<&str> = SOURCES.into_iter().filter(|kind| !volume[*kind].is_null()).collect();
    let Some((first, others)) = given.split_first() else {
        return found.required(path, "must specify a volume type");
    };
    let (one, inside) = (&volume[*first], path.child(first));
    let required = match *first {
        "hostPath" => "path",
        "secret" => "secretName",
        "configMap" => "name",
        "persistentVolumeClaim" => "claimName",
        "csi" => "driver",
        _ => "",
    };
    if !required.is_empty() && text(one, required).is_empty() {
        found.required(&inside.child(required), "");
    }
    if let Some(mode) = number(one, "defaultMode").filter(|mode| !(0..=0o777).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        found.invalid(&inside.child("defaultMode"), mode, why);
    }
    if matches!(*first, "secret" | "configMap") {
        for (path, item) in items(one, "items", &inside) {
            for field in ["key", "path"] {
                if text(item, field).is_empty() {
                    found.required(&path.child(field), "");
                }
            }
        }
    }
    for kind in others {
        found.forbidden(&path.child(kind), "may not specify more than 1 volume type");
    }
}

fn affinity(affinity: &Value, path: &Path, found: &mut Findings) {
    let (node, at) = (&affinity["nodeAffinity"], path.child("nodeAffinity"));
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    if !node[required].is_null() {
        node_selector(&node[required], &at.child(required), found);
    }
    for (path, term) in items(node, preferred, &at) {
        weight(term, &path, found);
        node_term(&term["preference"], &path.child("preference"), found);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (pods, at) = (&affinity[kind], path.child(kind));
        for (path, term) in items(pods, required, &at) {
            pod_term(term, &path, found);
        }
        for (path, term) in items(pods, preferred, &at) {
            weight(term, &path, found);
            pod_term(&term["podAffinityTerm"], &path.child("podAffinityTerm"), found);
        }
    }
}

fn weight(term: &Value, path: &Path, found: &mut Findings) {
    let weight = number(term, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        found.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

/// Which nodes.
pub(super) fn node_selector(selector: &Value, path: &Path, found: &mut Findings) {
    if selector["nodeSelectorTerms"].as_array().is_none_or(Vec::is_empty) {
        let why = "must have at least one node selector term";
        return found.required(&path.child("nodeSelectorTerms"), why);
    }
    for (path, term) in items(selector, "nodeSelectorTerms", path) {
        node_term(term, &path, found);
    }
}

fn node_term(term: &Value, path: &Path, found: &mut Findings) {
    for (path, one) in items(term, "matchExpressions", path) {
        if matches!(text(one, "operator"), "Gt" | "Lt") {
            if texts(one, "values").count() != 1 {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                found.required(&path.child("values"), why);
            }
            found.label_key(text(one, "key"), &path.child("key"));
        } else {
            found.requirement(one, &path, &["In", "NotIn"], &["Exists", "DoesNotExist"]);
        }
    }
}

fn pod_term(term: &Value, path: &Path, found: &mut Findings) {
    found.selector(&term["labelSelector"], &path.child("labelSelector"));
    let key = text(term, "topologyKey");
    if key.is_empty() {
        found.required(&path.child("topologyKey"), "can not be empty");
    }
    found.label_key(key, &path.child("topologyKey"));
}

fn spread(spec: &Value, path: &Path, found: &mut Findings) {
    for (path, one) in items(spec, "topologySpreadConstraints", path) {
        let skew = number(one, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            found.invalid(&path.child("maxSkew"), skew, "must be greater than zero");
        }
        if text(one, "topologyKey").is_empty() {
            found.required(&path.child("topologyKey"), "can not be empty");
        }
        let known = ["DoNotSchedule", "ScheduleAnyway"];
        found.one_of(&path.child("whenUnsatisfiable"), text(one, "whenUnsatisfiable"), &known);
        found.selector(&one["labelSelector"], &path.child("labelSelector"));
    }
}

pub(super) fn taint_effect(value: &str, may_be_empty: bool, path: &Path, found: &mut Findings) {
    match value {
        "" if may_be_empty => {}
        "" => found.required(path, ""),
        value => found.one_of(path, value, &EFFECTS),
    }
}

fn tolerations(spec: &Value, path: &Path, found: &mut Findings) {
    for (path, one) in items(spec, "tolerations", path) {
        let field = |field: &str| text(one, field);
        let (key, operator, value, effect) =
            (field("key"), field("operator"), field("value"), field("effect"));
        let at = path.child("operator");
        if !key.is_empty() {
            found.label_key(key, &path.child("key"));
        } else if operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            found.invalid(&at, operator, why);
        }
        if !one["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            found.invalid(&path.child("effect"), effect, why);
        }
        match operator {
            "Equal" | "" => {
                let broken = name::label_value(value);
                if !broken.is_empty() {
                    found.invalid(&at, value, broken.join(";"));
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => found.invalid(&at, value, "value must be empty when `operator` is 'Exists'"),
            other => found.one_of(&at, other, &["Equal", "Exists"]),
        }
        taint_effect(effect, true, &path.child("effect"), found);
    }
}

pub(super) fn update(new: &Value, old: &Value, found: &mut Findings) {
    let path = Path::new("spec");
    pod_spec(&new["spec"], &path, found);
    for list in ["containers", "initContainers"] {
        let count = |pod: &Value| pod["spec"][list].as_array().map_or(0, Vec::len);
        if count(new) != count(old) {
            return found.forbidden(&path.child(list), "pod updates may not add or remove containers");
        }
        for (path, one) in items(&new["spec"], list, &path) {
            let image = text(one, "image");
            if image.is_empty() {
                found.required(&path.child("image"), "");
            }
            if image.trim() != image {
                let why = "must not have leading or trailing whitespace";
                found.invalid(&path.child("image"), image, why);
            }
        }
    }
    let deadline = path.child("activeDeadlineSeconds");
    let of = |pod: &Value| number(&pod["spec"], "activeDeadlineSeconds");
    match (of(new), of(old)) {
        (Some(new), Some(old)) if new > old => {
            return found.invalid(&deadline, new, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            found.invalid(&deadline, Value::Null, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    added_tolerations(&new["spec"], &old["spec"], &path, found);
    removed_gates(&new["spec"], &old["spec"], &path, found);
    if unchangeable(&new["spec"], &old["spec"]) != old["spec"] {
        found.forbidden(&path, CHANGEABLE);
    }
}

fn added_tolerations(new: &Value, old: &Value, path: &Path, found: &mut Findings) {
    let without_seconds = |one: &Value| {
        let mut one = one.clone();
        if let Some(fields) = one.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        one
    };
    let now: Vec<Value> = new["tolerations"].as_array().into_iter().flatten().map(without_seconds).collect();
    let mut before = old["tolerations"].as_array().into_iter().flatten();
    if !before.all(|one| now.contains(&without_seconds(one))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        found.forbidden(&path.child("tolerations"), why);
    }
}

fn removed_gates(new: &Value, old: &Value, path: &Path, found: &mut Findings) {
    let before: Vec<&Value> = old["schedulingGates"].as_array().into_iter().flatten().collect();
    for (path, gate) in items(new, "schedulingGates", path) {
        if !before.contains(&gate) {
            let why = "only deletion is allowed, but found new scheduling gate '";
            found.forbidden(&path, format!("{why}{}'", text(gate, "name")));
        }
    }
}

/// The new spec with everything that may change as it was.
fn unchangeable(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    for list in ["containers", "initContainers"] {
        for (index, one) in spec[list].as_array_mut().into_iter().flatten().enumerate() {
            one["image"] = old[list][index]["image"].clone();
        }
    }
    let mut kept = vec!["activeDeadlineSeconds", "schedulingGates", "tolerations"];
    if number(old, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        && new["terminationGracePeriodSeconds"] == 1
    {
        kept.push("terminationGracePeriodSeconds");
    }
    if old["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        kept.extend(["nodeSelector", "affinity"]);
    }
    for field in kept {
        spec[field] = old[field].clone();
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    spec
}

pub(super) fn update_status(new: &Value, old: &Value, found: &mut Findings) {
    let path = Path::new("status").child("qosClass");
    found.unchanged(&new["status"]["qosClass"], &old["status"]["qosClass"], &path);
}
