//! Services and where they lead to.

use serde_json::{Value, json};

use super::{fields, items, part, present, set};

/// How long a client stays with an endpoint: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) fn service(object: &mut Value) {
    let spec = part(object, "spec");
    set(spec, "sessionAffinity", "None");
    match spec["sessionAffinity"].as_str() {
        Some("None") => drop(fields(spec).remove("sessionAffinityConfig")),
        Some("ClientIP") => {
            set(part(part(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", AFFINITY_SECONDS);
        }
        _ => {}
    }
    set(spec, "type", "ClusterIP");
    for port in items(spec, "ports") {
        set(port, "protocol", "TCP");
        let number = port["port"].clone();
        if port["targetPort"] == 0 {
            port["targetPort"] = Value::Null;
        }
        set(port, "targetPort", if number.is_null() { json!(0) } else { number });
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let outside = spec["externalIPs"].as_array().is_some_and(|list| !list.is_empty());
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && outside) {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
    let balancer = part(part(object, "status"), "loadBalancer");
    if kind == "LoadBalancer" {
        for ingress in items(balancer, "ingress").filter(|one| one["ip"].is_string()) {
            set(ingress, "ipMode", "VIP");
        }
    }
}

pub(super) fn endpoints(object: &mut Value) {
    for port in items(object, "subsets").flat_map(|subset| items(subset, "ports")) {
        set(port, "protocol", "TCP");
    }
}

pub(super) fn endpoint_slice(object: &mut Value) {
    for endpoint in items(object, "endpoints") {
        part(endpoint, "conditions");
    }
    for port in items(object, "ports") {
        if present(port, "name").is_none() {
            port["name"] = json!("");
        }
        set(port, "protocol", "TCP");
    }
}
