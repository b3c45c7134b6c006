//! Pods, on their own and in templates.

use serde_json::{Value, json};

use super::{fields, items, part, present, set, set_number};
use crate::quantity::Quantity;

/// Readable by everyone, writable by the owner: what files in volumes are unless said.
const FILE_MODE: i64 = 0o644;
const TOKEN_LIFETIME: i64 = 3600;
/// How long a pod stays on a node that does not answer.
const TOLERATED_SECONDS: i64 = 300;

/// The priorities that every cluster has.
const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

pub(super) fn pod(object: &mut Value) {
    let spec = part(object, "spec");
    pod_spec(spec);
    for list in ["containers", "initContainers"] {
        items(spec, list).for_each(requests_from_limits);
    }
    set(spec, "enableServiceLinks", true);
    if spec["hostNetwork"] == true {
        for list in ["containers", "initContainers"] {
            for port in items(spec, list).flat_map(|container| items(container, "ports")) {
                let number = port["containerPort"].as_i64().unwrap_or(0);
                set_number(port, "hostPort", number);
            }
        }
    }
    set(part(object, "status"), "phase", "Pending");
}

/// What a template's pods have, and pods too.
pub(super) fn template(template: &mut Value) {
    part(template, "metadata");
    pod_spec(part(template, "spec"));
}

fn pod_spec(spec: &mut Value) {
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "restartPolicy", "Always");
    part(spec, "securityContext");
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "schedulerName", "default-scheduler");
    // The old name of the field is kept in step with the new one, which wins.
    let name = match spec["serviceAccountName"].as_str().unwrap_or_default() {
        "" => spec["serviceAccount"].as_str().unwrap_or_default().to_owned(),
        name => name.to_owned(),
    };
    if !name.is_empty() {
        spec["serviceAccountName"] = json!(name);
        spec["serviceAccount"] = json!(name);
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items(spec, list).for_each(container);
    }
    items(spec, "volumes").for_each(volume);
}

fn container(container: &mut Value) {
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    part(container, "resources");
    items(container, "ports").for_each(|port| set(port, "protocol", "TCP"));
    for variable in items(container, "env") {
        if let Some(field) = present(variable, "valueFrom").and_then(|from| present(from, "fieldRef")) {
            set(field, "apiVersion", "v1");
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(one) = present(container, field) {
            probe(one);
        }
    }
    if let Some(lifecycle) = present(container, "lifecycle") {
        for field in ["postStart", "preStop"] {
            if let Some(get) = present(lifecycle, field).and_then(|handler| present(handler, "httpGet")) {
                http_get(get);
            }
        }
    }
}

/// An image without a tag or digest, or tagged `latest`, may change: it is always pulled.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or_default();
    let tag = match name.split_once('@') {
        Some((name, _)) => name.split_once(':').map_or("", |(_, tag)| tag),
        None => name.split_once(':').map_or("latest", |(_, tag)| tag),
    };
    // What is no image name has no tag.
    match tag == "latest" && !image.is_empty() && !image.bytes().any(|byte| byte.is_ascii_whitespace()) {
        true => "Always",
        false => "IfNotPresent",
    }
}

fn probe(probe: &mut Value) {
    for (field, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        set_number(probe, field, number);
    }
    if let Some(get) = present(probe, "httpGet") {
        http_get(get);
    }
    if let Some(grpc) = present(probe, "grpc") {
        set(grpc, "service", "");
    }
}

fn http_get(get: &mut Value) {
    set(get, "path", "/");
    set(get, "scheme", "HTTP");
}

fn volume(volume: &mut Value) {
    if fields(volume).iter().all(|(field, value)| field == "name" || value.is_null()) {
        volume["emptyDir"] = json!({});
    }
    for field in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = present(volume, field) {
            set(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(files) = present(volume, "downwardAPI") {
        downward(files);
    }
    if let Some(projected) = present(volume, "projected") {
        for source in items(projected, "sources") {
            if let Some(token) = present(source, "serviceAccountToken") {
                set(token, "expirationSeconds", TOKEN_LIFETIME);
            }
            if let Some(files) = present(source, "downwardAPI") {
                downward(files);
            }
        }
    }
    if let Some(path) = present(volume, "hostPath") {
        set(path, "type", "");
    }
    if let Some(claim) =
        present(volume, "ephemeral").and_then(|source| present(source, "volumeClaimTemplate"))
    {
        part(claim, "metadata");
        let spec = part(claim, "spec");
        part(spec, "resources");
        set(spec, "volumeMode", "Filesystem");
    }
    if let Some(image) = present(volume, "image") {
        let policy = pull_policy(image["reference"].as_str().unwrap_or_default());
        set(image, "pullPolicy", policy);
    }
}

fn downward(files: &mut Value) {
    for file in items(files, "items") {
        if let Some(field) = present(file, "fieldRef") {
            set(field, "apiVersion", "v1");
        }
    }
}

/// What is limited is asked for as much.
fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"]["limits"].as_object().cloned() else { return };
    let requests = fields(part(part(container, "resources"), "requests"));
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

/// What upstream's admission plugins give every pod: an account, a priority, patience with nodes that do not answer.
pub fn admit_pod(pod: &mut Value, is_new: bool) {
    let spec = part(pod, "spec");
    if is_new {
        set(spec, "serviceAccountName", "default");
        spec["serviceAccount"] = spec["serviceAccountName"].clone();
        let class = spec["priorityClassName"].as_str().unwrap_or_default();
        let known = SYSTEM_PRIORITIES.iter().find(|(name, _)| *name == class);
        set(spec, "priority", known.map_or(0, |(_, priority)| *priority));
        set(spec, "preemptionPolicy", "PreemptLowerPriority");
    }
    tolerate(spec, "node.kubernetes.io/not-ready");
    tolerate(spec, "node.kubernetes.io/unreachable");
}

fn tolerate(spec: &mut Value, taint: &str) {
    let given = spec["tolerations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let covered = given.iter().any(|one| {
        (text(one, "key") == taint || text(one, "key").is_empty())
            && matches!(text(one, "effect").as_str(), "NoExecute" | "")
    });
    if covered {
        return;
    }
    let toleration = json!({
        "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS,
    });
    match fields(spec).entry("tolerations").or_insert(Value::Null) {
        Value::Array(list) => list.push(toleration),
        place => *place = json!([toleration]),
    }
}

/// How a pod is treated when a node runs short of something.
pub fn quality_of_service(pod: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let amount = |container: &Value, kind: &str, name: &str| {
        let text = container["resources"][kind][name].as_str().unwrap_or_default().to_owned();
        Quantity::parse(&text).ok().filter(|amount| !amount.is_zero() && !amount.is_negative())
    };
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        for name in ["cpu", "memory"] {
            let (limit, request) = (amount(container, "limits", name), amount(container, "requests", name));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && limit == request;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_may_change_are_pulled_always() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1", "IfNotPresent"),
            ("r.example:5000/nginx", "Always"),
            ("r.example:5000/nginx:1", "IfNotPresent"),
            ("nginx@sha256:aa", "IfNotPresent"),
            ("nginx:latest@sha256:aa", "Always"),
            ("", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
