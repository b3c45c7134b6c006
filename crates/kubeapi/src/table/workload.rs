//! The rows of kinds that run Pods or lead to them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::Row;
use super::age::{age, between};
use super::builtin::{created, has_condition, is_going, items, name, number, text, text_or};
use crate::selector::label;

/// Names and images of a template's containers.
fn containers(object: &Value) -> [Value; 2] {
    let containers = items(object, "/spec/template/spec/containers");
    ["/name", "/image"].map(|pointer| {
        containers.iter().map(|container| text(container, pointer)).collect::<Vec<_>>().join(",").into()
    })
}

fn selector(object: &Value) -> Option<String> {
    label::from_object(object.pointer("/spec/selector")).ok().map(|selector| selector.to_string())
}

/// A LabelSelector, or `<none>`.
fn selector_or_none(object: &Value) -> Value {
    match selector(object) {
        None => "<error>".into(),
        Some(empty) if empty.is_empty() => "<none>".into(),
        Some(selector) => selector.into(),
    }
}

/// Labels as `a=b,c=d`, or `<none>`.
fn labels(labels: &Value) -> Value {
    let pairs = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",").into() }
}

pub(super) fn budget(object: &Value, now: Timestamp) -> Row {
    let bound = |field: &str| match &object["spec"][field] {
        Value::Null => "N/A".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    vec![
        name(object),
        bound("minAvailable").into(),
        bound("maxUnavailable").into(),
        number(object, "/status/disruptionsAllowed").into(),
        created(object, now),
    ]
    .into()
}

pub(super) fn job(object: &Value, now: Timestamp) -> Row {
    let succeeded = number(object, "/status/succeeded");
    let parallelism = number(object, "/spec/parallelism");
    let completions = match object["spec"]["completions"].as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let time = |field: &str| object["status"][field].as_str()?.parse::<Timestamp>().ok();
    let duration = time("startTime").map(|start| between(start, time("completionTime").unwrap_or(now)));
    let status = [
        ("Complete", has_condition(object, "Complete")),
        ("Failed", has_condition(object, "Failed")),
        ("Terminating", is_going(object)),
        ("Suspended", has_condition(object, "Suspended")),
        ("FailureTarget", has_condition(object, "FailureTarget")),
        ("SuccessCriteriaMet", has_condition(object, "SuccessCriteriaMet")),
    ];
    let status = status.into_iter().find(|(_, holds)| *holds).map_or("Running", |(status, _)| status);
    let [names, images] = containers(object);
    vec![
        name(object),
        status.into(),
        completions.into(),
        duration.unwrap_or_default().into(),
        created(object, now),
        names,
        images,
        selector_or_none(object),
    ]
    .into()
}

pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Row {
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    let mut cells = vec![name(object)];
    cells.extend(counts.map(|field| number(object, &format!("/status/{field}")).into()));
    cells.extend([labels(&object["spec"]["template"]["spec"]["nodeSelector"]), created(object, now)]);
    cells.extend(containers(object));
    cells.push(selector_or_none(object));
    cells.into()
}

pub(super) fn deployment(object: &Value, now: Timestamp) -> Row {
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let [names, images] = containers(object);
    vec![
        name(object),
        format!("{}/{wanted}", number(object, "/status/readyReplicas")).into(),
        number(object, "/status/updatedReplicas").into(),
        number(object, "/status/availableReplicas").into(),
        created(object, now),
        names,
        images,
        selector(object).unwrap_or_else(|| "<invalid>".into()).into(),
    ]
    .into()
}

pub(super) fn service(object: &Value, now: Timestamp) -> Row {
    let kind = text_or(object, "/spec/type", "ClusterIP");
    let cluster_ip = text_or(object, "/spec/clusterIPs/0", text_or(object, "/spec/clusterIP", "<none>"));
    let ports: Vec<String> = items(object, "/spec/ports").iter().map(port).collect();
    let ports = if ports.is_empty() { "<none>".into() } else { ports.join(",") };
    vec![
        name(object),
        kind.into(),
        cluster_ip.into(),
        external_ip(object, kind).into(),
        ports.into(),
        created(object, now),
        labels(&object["spec"]["selector"]),
    ]
    .into()
}

fn port(port: &Value) -> String {
    let (number, protocol) = (number(port, "/port"), text_or(port, "/protocol", "TCP"));
    match port["nodePort"].as_i64().filter(|node_port| *node_port > 0) {
        Some(node_port) => format!("{number}:{node_port}/{protocol}"),
        None => format!("{number}/{protocol}"),
    }
}

fn external_ip(service: &Value, kind: &str) -> String {
    let given = items(service, "/spec/externalIPs").iter().filter_map(Value::as_str);
    let balanced: BTreeSet<&str> = match kind {
        "LoadBalancer" => items(service, "/status/loadBalancer/ingress")
            .iter()
            .map(|ingress| text_or(ingress, "/ip", text(ingress, "/hostname")))
            .filter(|address| !address.is_empty())
            .collect(),
        _ => BTreeSet::new(),
    };
    let all = balanced.into_iter().chain(given).collect::<Vec<_>>().join(",");
    match kind {
        "ClusterIP" | "NodePort" if all.is_empty() => "<none>".into(),
        "LoadBalancer" if all.is_empty() => "<pending>".into(),
        "ClusterIP" | "NodePort" | "LoadBalancer" => all,
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        _ => "<unknown>".into(),
    }
}

/// The first three of a list, and how many there are beyond.
fn some(list: &[String], none: &str) -> Value {
    match list.len() {
        0 => none.into(),
        1..=3 => list.join(",").into(),
        all => format!("{} + {} more...", list[..3].join(","), all - 3).into(),
    }
}

pub(super) fn endpoints(object: &Value, now: Timestamp) -> Row {
    let subsets = items(object, "/subsets");
    let mut shown = Vec::new();
    for subset in subsets {
        let addresses: Vec<&str> = items(subset, "/addresses").iter().map(|one| text(one, "/ip")).collect();
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            shown.extend(addresses.iter().map(|address| (*address).to_owned()));
        }
        for port in ports.iter().map(|port| number(port, "/port")) {
            shown.extend(addresses.iter().map(|address| match address.contains(':') {
                true => format!("[{address}]:{port}"),
                false => format!("{address}:{port}"),
            }));
        }
    }
    let none = if subsets.is_empty() { "<none>" } else { "" };
    vec![name(object), some(&shown, none), created(object, now)].into()
}

pub(super) fn endpoint_slice(object: &Value, now: Timestamp) -> Row {
    let ports = items(object, "/ports").iter().map(|port| match port["port"].as_i64() {
        Some(number) => number.to_string(),
        None => port["name"].as_str().unwrap_or("*").to_owned(),
    });
    let addresses = items(object, "/endpoints").iter().flat_map(|endpoint| items(endpoint, "/addresses"));
    let addresses = addresses.filter_map(Value::as_str).map(str::to_owned);
    vec![
        name(object),
        text(object, "/addressType").into(),
        some(&ports.collect::<Vec<_>>(), "<unset>"),
        some(&addresses.collect::<Vec<_>>(), "<unset>"),
        age(&object["metadata"]["creationTimestamp"], now).into(),
    ]
    .into()
}
