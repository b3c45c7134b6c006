//! The kinds with few defaults.

use serde_json::{Value, json};

use super::{items, part, present, set};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn volume(object: &mut Value) {
    let spec = part(object, "spec");
    set(spec, "persistentVolumeReclaimPolicy", "Retain");
    set(spec, "volumeMode", "Filesystem");
    if let Some(path) = present(spec, "hostPath") {
        set(path, "type", "");
    }
    set(part(object, "status"), "phase", "Pending");
}

pub(super) fn claim(object: &mut Value) {
    let spec = part(object, "spec");
    part(spec, "resources");
    set(spec, "volumeMode", "Filesystem");
    set(part(object, "status"), "phase", "Pending");
}

pub(super) fn namespace(object: &mut Value) {
    part(object, "spec");
    set(part(object, "status"), "phase", "Active");
}

/// A node whose part is not said to be taken can give all that it has.
pub(super) fn node(object: &mut Value) {
    part(object, "spec");
    let status = part(object, "status");
    if let Some(capacity) = present(status, "capacity").cloned() {
        set(status, "allocatable", capacity);
    }
    set(part(part(status, "daemonEndpoints"), "kubeletEndpoint"), "Port", 0);
    let info = part(status, "nodeInfo");
    for field in [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ] {
        set(info, field, "");
    }
}

/// Events show these even if they say nothing.
pub(super) fn event(object: &mut Value) {
    part(object, "source");
    set(object, "reportingComponent", "");
    set(object, "reportingInstance", "");
}

pub(super) fn budget(object: &mut Value) {
    part(object, "spec");
    let status = part(object, "status");
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        set(status, field, 0);
    }
}

pub(super) fn binding(object: &mut Value) {
    set(part(object, "roleRef"), "apiGroup", RBAC);
    for subject in items(object, "subjects") {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            set(subject, "apiGroup", RBAC);
        }
    }
}

pub(super) fn webhooks(object: &mut Value, mutating: bool) {
    for webhook in items(object, "webhooks") {
        set(webhook, "failurePolicy", "Fail");
        set(webhook, "matchPolicy", "Equivalent");
        set(webhook, "namespaceSelector", json!({}));
        set(webhook, "objectSelector", json!({}));
        set(webhook, "timeoutSeconds", 10);
        if mutating {
            set(webhook, "reinvocationPolicy", "Never");
        }
        items(webhook, "rules").for_each(|rule| set(rule, "scope", "*"));
        if let Some(service) = part(webhook, "clientConfig").get_mut("service").filter(|one| one.is_object())
        {
            set(service, "port", 443);
        }
    }
}

pub(super) fn policy(object: &mut Value) {
    let spec = part(object, "spec");
    set(spec, "failurePolicy", "Fail");
    if let Some(constraints) = present(spec, "matchConstraints") {
        match_resources(constraints);
    }
    part(object, "status");
}

pub(super) fn match_resources(resources: &mut Value) {
    set(resources, "matchPolicy", "Equivalent");
    set(resources, "namespaceSelector", json!({}));
    set(resources, "objectSelector", json!({}));
    for field in ["resourceRules", "excludeResourceRules"] {
        items(resources, field).for_each(|rule| set(rule, "scope", "*"));
    }
}
