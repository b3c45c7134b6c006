//! Containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::findings::{Findings, items, number, port_name, text};
use crate::quantity::Quantity;
use crate::{FieldError, Path, name};

const NATIVE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Regular containers.
pub(super) fn containers(spec: &Value, volumes: &BTreeSet<String>, path: &Path, found: &mut Findings) {
    let mut names = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        return found.required(&path.child("containers"), "");
    }
    for (path, one) in items(spec, "containers", path) {
        container(one, volumes, &path, found);
        if !names.insert(text(one, "name")) {
            found.0.push(FieldError::duplicate(&path.child("name"), text(one, "name")));
        }
        handlers(one, &path, found);
    }
    for (path, one) in items(spec, "containers", path) {
        unique_host_ports(one, &mut host_ports, &path, found);
    }
}

/// Containers that run before.
pub(super) fn init_containers(spec: &Value, volumes: &BTreeSet<String>, path: &Path, found: &mut Findings) {
    let regular = spec["containers"].as_array().into_iter().flatten();
    let mut names: BTreeSet<&str> = regular.map(|one| text(one, "name")).collect();
    for (path, one) in items(spec, "initContainers", path) {
        container(one, volumes, &path, found);
        if !names.insert(text(one, "name")) {
            found.0.push(FieldError::duplicate(&path.child("name"), text(one, "name")));
        }
        unique_host_ports(one, &mut BTreeSet::new(), &path, found);
        if text(one, "restartPolicy") == "Always" {
            handlers(one, &path, found);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !one[field].is_null() {
                let why = "may not be set for init containers without restartPolicy=Always";
                found.forbidden(&path.child(field), why);
            }
        }
    }
}

fn container(one: &Value, volumes: &BTreeSet<String>, path: &Path, found: &mut Findings) {
    match text(one, "name") {
        "" => found.required(&path.child("name"), ""),
        name => found.each(&path.child("name"), name, name::dns_label(name)),
    }
    if text(one, "image").is_empty() {
        found.required(&path.child("image"), "");
    }
    let policy = path.child("terminationMessagePolicy");
    found.one_of(&policy, text(one, "terminationMessagePolicy"), &["File", "FallbackToLogsOnError"]);
    ports(one, path, found);
    variables(one, path, found);
    mounts(one, volumes, path, found);
    let policy = path.child("imagePullPolicy");
    found.one_of(&policy, text(one, "imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    resources(&one["resources"], &path.child("resources"), found);
    let context = &one["securityContext"];
    let path = path.child("securityContext");
    for field in ["runAsUser", "runAsGroup"] {
        found.identity(&context[field], &path.child(field));
    }
    if context["privileged"] == true && context["allowPrivilegeEscalation"] == false {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        found.invalid(&path, context.clone(), why);
    }
}

fn ports(one: &Value, path: &Path, found: &mut Findings) {
    let mut names = BTreeSet::new();
    for (path, port) in items(one, "ports", path) {
        let name = text(port, "name");
        if !name.is_empty() {
            let broken = port_name(name);
            if broken.is_empty() && !names.insert(name) {
                found.0.push(FieldError::duplicate(&path.child("name"), name));
            }
            found.each(&path.child("name"), name, broken);
        }
        match number(port, "containerPort").unwrap_or(0) {
            0 => found.required(&path.child("containerPort"), ""),
            number => found.port(number, &path.child("containerPort")),
        }
        if let Some(number) = number(port, "hostPort").filter(|number| *number != 0) {
            found.port(number, &path.child("hostPort"));
        }
        found.protocol(port, &path);
    }
}

fn unique_host_ports(one: &Value, seen: &mut BTreeSet<String>, path: &Path, found: &mut Findings) {
    for (path, port) in items(one, "ports", path) {
        if let Some(number) = number(port, "hostPort").filter(|number| *number != 0) {
            let place = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if seen.contains(&place) {
                found.0.push(FieldError::duplicate(&path.child("hostPort"), place));
            } else {
                seen.insert(place);
            }
        }
    }
}

fn variables(one: &Value, path: &Path, found: &mut Findings) {
    for (path, variable) in items(one, "env", path) {
        match text(variable, "name") {
            "" => found.required(&path.child("name"), ""),
            name => found.each(&path.child("name"), name, variable_name(name)),
        }
        if !variable["valueFrom"].is_null() {
            source(variable, &path.child("valueFrom"), found);
        }
    }
    let list = path.child("envFrom");
    for (path, from) in items(one, "envFrom", path) {
        let prefix = text(from, "prefix");
        if !prefix.is_empty() {
            found.each(&path.child("prefix"), prefix, variable_name(prefix));
        }
        let given: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|field| !from[*field].is_null()).collect();
        for field in &given {
            if text(&from[*field], "name").is_empty() {
                found.required(&path.child(field).child("name"), "");
            }
        }
        match given.len() {
            0 => found.invalid(&list, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => found.invalid(&list, "", "may not have more than one field specified at a time"),
        }
    }
}

fn variable_name(text: &str) -> Vec<String> {
    let right = text.bytes().all(|byte| (byte.is_ascii_graphic() || byte == b' ') && byte != b'=');
    let why =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    if right { Vec::new() } else { vec![why.into()] }
}

fn source(variable: &Value, path: &Path, found: &mut Findings) {
    let from = &variable["valueFrom"];
    let fields = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"];
    let given: Vec<&str> = fields.into_iter().filter(|field| !from[*field].is_null()).collect();
    for field in &given {
        let (one, path) = (&from[*field], path.child(field));
        match *field {
            "fieldRef" => field_path(text(one, "fieldPath"), &path.child("fieldPath"), found),
            "resourceFieldRef" => {
                if text(one, "resource").is_empty() {
                    found.required(&path.child("resource"), "");
                }
            }
            _ => {
                let name = text(one, "name");
                found.each(&path.child("name"), name, name::dns_subdomain(name));
                match text(one, "key") {
                    "" => found.required(&path.child("key"), ""),
                    key => found.each(&path.child("key"), key, name::config_key(key)),
                }
            }
        }
    }
    if given.is_empty() {
        let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
        found.invalid(path, "", why);
    } else if !text(variable, "value").is_empty() {
        found.invalid(path, "", "may not be specified when `value` is not empty");
    } else if given.len() > 1 {
        found.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// The fields of a pod that its containers may ask for.
fn field_path(text: &str, path: &Path, found: &mut Findings) {
    let known = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let keyed = ["metadata.labels['", "metadata.annotations['"];
    if text.is_empty() {
        found.required(path, "");
    } else if !known.contains(&text) && !keyed.iter().any(|start| text.starts_with(start)) {
        let why = format!("error converting fieldPath: field label not supported: {text}");
        found.invalid(path, text, why);
    }
}

fn mounts(one: &Value, volumes: &BTreeSet<String>, path: &Path, found: &mut Findings) {
    let list = path.child("volumeMounts");
    let mut seen = BTreeSet::new();
    for (path, mount) in items(one, "volumeMounts", path) {
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            found.required(&path.child("name"), "");
        }
        if !volumes.contains(name) {
            found.0.push(FieldError::not_found(&path.child("name"), name));
        }
        if place.is_empty() {
            found.required(&path.child("mountPath"), "");
        }
        if !seen.insert(place) {
            found.invalid(&path.child("mountPath"), place, "must be unique");
        }
        for field in ["subPath", "subPathExpr"] {
            let inside = text(mount, field);
            if inside.starts_with('/') {
                found.invalid(&list.child(field), inside, "must be a relative path");
            }
            if inside.split('/').any(|part| part == "..") {
                found.invalid(&list.child(field), inside, "must not contain '..'");
            }
        }
    }
}

fn resources(resources: &Value, path: &Path, found: &mut Findings) {
    let limits = &resources["limits"];
    amounts(limits, &path.child("limits"), found);
    let path_of = |kind: &str| path.child(kind);
    for (name, amount) in resources["requests"].as_object().into_iter().flatten() {
        let one = path_of("requests").key(name);
        resource(name, amount, &one, found);
        let (Some(wanted), limit) = (parsed(amount), parsed(&limits[name])) else { continue };
        let shared = is_native(name) && !name.starts_with("hugepages-");
        let text = |limit: &Quantity| limit.to_string();
        match limit {
            Some(limit) if !shared && wanted != limit => {
                let why = format!("must be equal to {name} limit of {}", text(&limit));
                found.invalid(&path_of("requests"), wanted.to_string(), why);
            }
            Some(limit) if wanted > limit => {
                let why = format!("must be less than or equal to {name} limit of {}", text(&limit));
                found.invalid(&path_of("requests"), wanted.to_string(), why);
            }
            None if !shared && name.contains('/') => {
                let why = "Limit must be set for non overcommitable resources";
                found.required(&path_of("limits"), why);
            }
            _ => {}
        }
    }
}

fn amounts(list: &Value, path: &Path, found: &mut Findings) {
    for (name, amount) in list.as_object().into_iter().flatten() {
        resource(name, amount, &path.key(name), found);
    }
}

fn parsed(amount: &Value) -> Option<Quantity> {
    Quantity::parse(amount.as_str()?).ok()
}

/// Whether a resource is Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn resource(name: &str, amount: &Value, path: &Path, found: &mut Findings) {
    let broken = name::qualified(name);
    let known = NATIVE.contains(&name) || name.starts_with("hugepages-");
    if broken.is_empty() && !name.contains('/') && !known {
        if !matches!(name, "storage" | "pods" | "services" | "secrets" | "configmaps") {
            found.invalid(path, name, "must be a standard resource type or fully qualified");
        }
        found.invalid(path, name, "must be a standard resource for containers");
    }
    found.each(path, name, broken);
    let Some(amount) = parsed(amount) else { return };
    if amount.is_negative() {
        found.invalid(path, amount.to_string(), "must be greater than or equal to 0");
    }
    if !is_native(name) && !amount.is_whole() {
        found.invalid(path, amount.to_string(), "must be an integer");
    }
}

/// Probes and hooks.
fn handlers(one: &Value, path: &Path, found: &mut Findings) {
    for field in ["postStart", "preStop"] {
        if !one["lifecycle"][field].is_null() {
            handler(&one["lifecycle"][field], &path.child("lifecycle").child(field), found);
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if !one[field].is_null() {
            probe(&one[field], field, &path.child(field), found);
        }
    }
}

fn probe(one: &Value, kind: &str, path: &Path, found: &mut Findings) {
    handler(one, path, found);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        found.not_negative(one, field, path);
    }
    let grace = number(one, "terminationGracePeriodSeconds");
    let grace_path = path.child("terminationGracePeriodSeconds");
    if let Some(grace) = grace.filter(|grace| *grace <= 0) {
        found.invalid(&grace_path, grace, "must be greater than 0");
    }
    match kind {
        "readinessProbe" => {
            if let Some(grace) = grace {
                found.invalid(&grace_path, grace, "must not be set for readinessProbes");
            }
        }
        _ => {
            let threshold = number(one, "successThreshold").unwrap_or(0);
            if threshold != 1 {
                found.invalid(&path.child("successThreshold"), threshold, "must be 1");
            }
        }
    }
}

fn handler(one: &Value, path: &Path, found: &mut Findings) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let given: Vec<&str> = kinds.into_iter().filter(|kind| !one[*kind].is_null()).collect();
    let Some((first, others)) = given.split_first() else {
        return found.required(path, "must specify a handler type");
    };
    let (action, inside) = (&one[*first], path.child(first));
    match *first {
        "exec" if action["command"].as_array().is_none_or(Vec::is_empty) => {
            found.required(&inside.child("command"), "");
        }
        "httpGet" => {
            found.port_or_name(&action["port"], &inside.child("port"));
            found.one_of(&inside.child("scheme"), text(action, "scheme"), &["HTTP", "HTTPS"]);
        }
        "tcpSocket" => found.port_or_name(&action["port"], &inside.child("port")),
        "grpc" => found.port(number(action, "port").unwrap_or(0), &inside.child("port")),
        _ => {}
    }
    for kind in others {
        found.forbidden(&path.child(kind), "may not specify more than 1 handler type");
    }
}
