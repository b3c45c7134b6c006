//! Services and where they lead to.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::findings::{Findings, items, number, text, texts};
use crate::builtin::service::{is_headless, is_open};
use crate::{FieldError, Path, name};

/// A day.
const LONGEST_AFFINITY: i64 = 86_400;
const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;

pub(super) fn service(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let kind = text(spec, "type");
    let none = spec["ports"].as_array().is_none_or(Vec::is_empty);
    if none && !is_headless(spec) && kind != "ExternalName" {
        found.required(&path.child("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let why = format!("may not be set to 'None' for {kind} services");
            found.invalid(&path.child("clusterIPs").index(0), "None", why);
        }
        "ExternalName" => external_name(spec, &path, found),
        _ => {}
    }
    service_ports(spec, &path, found);
    found.labels(&spec["selector"], &path.child("selector"));
    affinity(spec, &path, found);
    if kind != "ExternalName" {
        addresses(spec, &path, found);
    }
    for (path, address) in items(spec, "externalIPs", &path) {
        let address = address.as_str().unwrap_or_default();
        if found.address(address, &path) {
            found.public_address(address, &path);
        }
    }
    let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    found.required_one_of(&path.child("type"), kind, &known);
    distinct_ports(spec, &path, found);
    balancer(spec, &path, found);
    traffic(spec, &path, found);
}

fn external_name(spec: &Value, path: &Path, found: &mut Findings) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !spec[field].is_null() {
            found.forbidden(&path.child(field), "may not be set for ExternalName services");
        }
    }
    let (name, path) = (text(spec, "externalName"), path.child("externalName"));
    match name.strip_suffix('.').unwrap_or(name) {
        "" => found.required(&path, ""),
        name => found.each(&path, name, name::dns_subdomain(name)),
    }
}

fn service_ports(spec: &Value, path: &Path, found: &mut Findings) {
    let several = spec["ports"].as_array().is_some_and(|ports| ports.len() > 1);
    let mut names = BTreeSet::new();
    for (path, port) in items(spec, "ports", path) {
        match text(port, "name") {
            "" if several => found.required(&path.child("name"), ""),
            "" => {}
            name => {
                found.each(&path.child("name"), name, name::dns_label(name));
                if !names.insert(name) {
                    found.0.push(FieldError::duplicate(&path.child("name"), name));
                }
            }
        }
        found.port(number(port, "port").unwrap_or(0), &path.child("port"));
        found.protocol(port, &path);
        found.port_or_name(&port["targetPort"], &path.child("targetPort"));
        if let Some(protocol) = port["appProtocol"].as_str() {
            found.label_key(protocol, &path.child("appProtocol"));
        }
    }
}

fn affinity(spec: &Value, path: &Path, found: &mut Findings) {
    let kind = text(spec, "sessionAffinity");
    found.required_one_of(&path.child("sessionAffinity"), kind, &["ClientIP", "None"]);
    let seconds = number(&spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds").unwrap_or(0);
    if kind == "ClientIP" && !(1..=LONGEST_AFFINITY).contains(&seconds) {
        let path = path.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
        let why = format!("must be greater than 0 and less than {LONGEST_AFFINITY}");
        found.invalid(&path, seconds, why);
    }
}

fn addresses(spec: &Value, path: &Path, found: &mut Findings) {
    let at = path.child("clusterIPs");
    let (single, list): (_, Vec<&str>) = (text(spec, "clusterIP"), texts(spec, "clusterIPs").collect());
    match (single, list.first()) {
        ("", Some(_)) => {
            let why = "must be empty when `clusterIP` is not specified";
            found.invalid(&at, spec["clusterIPs"].clone(), why);
        }
        ("", None) => {}
        (_, None) => found.required(&at, ""),
        (single, Some(first)) if single != *first => {
            found.invalid(&at, spec["clusterIPs"].clone(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for (path, family) in items(spec, "ipFamilies", path) {
        let family = family.as_str().unwrap_or_default();
        found.one_of(&path, family, &["IPv4", "IPv6"]);
        if !seen.insert(family) {
            found.0.push(FieldError::duplicate(&path, family));
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    found.optional_one_of(spec, "ipFamilyPolicy", path, &policies);
    if list.first() == Some(&"None") {
        if list.len() > 1 {
            let why = "'None' must be the first and only value";
            found.invalid(&at, spec["clusterIPs"].clone(), why);
        }
        return;
    }
    let mut right = true;
    for (index, address) in list.iter().enumerate() {
        right &= found.address(address, &at.index(index));
    }
    if list.len() > 2 {
        found.invalid(&at, spec["clusterIPs"].clone(), "may only hold up to 2 values");
    }
    for (index, (address, family)) in list.iter().zip(texts(spec, "ipFamilies")).enumerate() {
        let fits = address.contains(':') == (family == "IPv6");
        if right && !fits && matches!(family, "IPv4" | "IPv6") {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            found.invalid(&at.index(index), *address, why);
        }
    }
}

fn distinct_ports(spec: &Value, path: &Path, found: &mut Findings) {
    let (mut node_ports, mut own) = (BTreeSet::new(), BTreeSet::new());
    let node_port = |port: &Value| number(port, "nodePort").filter(|number| *number != 0);
    if text(spec, "type") == "ClusterIP" {
        for (path, _) in items(spec, "ports", path).filter(|(_, port)| node_port(port).is_some()) {
            found.forbidden(&path.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    for (path, port) in items(spec, "ports", path) {
        if let Some(number) = node_port(port)
            && !node_ports.insert((text(port, "protocol"), number))
        {
            found.0.push(FieldError::duplicate(&path.child("nodePort"), number));
        }
    }
    for (path, port) in items(spec, "ports", path) {
        if !own.insert((text(port, "protocol"), number(port, "port"))) {
            let shown = json!({
                "Name": "", "Protocol": port["protocol"], "AppProtocol": null, "Port": port["port"],
                "TargetPort": 0, "NodePort": 0,
            });
            found.0.push(FieldError::duplicate(&path, shown));
        }
    }
}

fn balancer(spec: &Value, path: &Path, found: &mut Findings) {
    let balances = text(spec, "type") == "LoadBalancer";
    let only = "may only be used when `type` is 'LoadBalancer'";
    // Upstream has a capital there.
    let at = path.child("LoadBalancerSourceRanges");
    let ranges: Vec<&str> = texts(spec, "loadBalancerSourceRanges").collect();
    if !ranges.is_empty() && !balances {
        found.forbidden(&at, only);
    }
    for (index, range) in ranges.iter().enumerate() {
        found.network(range.trim(), &at.index(index));
    }
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if !spec[field].is_null() && !balances {
            found.forbidden(&path.child(field), only);
        }
    }
}

fn traffic(spec: &Value, path: &Path, found: &mut Findings) {
    let (policy, at) = (text(spec, "externalTrafficPolicy"), path.child("externalTrafficPolicy"));
    match (is_open(spec), policy) {
        (false, "") => {}
        (false, policy) => {
            found.invalid(&at, policy, "may only be set for externally-accessible services");
        }
        (true, policy) => found.required_one_of(&at, policy, &["Cluster", "Local"]),
    }
    let checks_health = text(spec, "type") == "LoadBalancer" && policy == "Local";
    let port = number(spec, "healthCheckNodePort").filter(|port| *port != 0);
    if let Some(port) = port.filter(|_| !checks_health) {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        found.invalid(&path.child("healthCheckNodePort"), port, why);
    }
    found.optional_one_of(spec, "internalTrafficPolicy", path, &["Cluster", "Local"]);
    found.optional_one_of(spec, "trafficDistribution", path, &["PreferClose"]);
}

/// Addresses stay, unless the Service turns into a name or is none any more.
pub(super) fn service_update(new: &Value, old: &Value, found: &mut Findings) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    let named = |spec: &Value| text(spec, "type") == "ExternalName";
    let headless = is_headless(spec) && is_headless(before);
    if !named(spec) && !named(before) && !headless {
        let (now, was): (Vec<&str>, Vec<&str>) =
            (texts(spec, "clusterIPs").collect(), texts(before, "clusterIPs").collect());
        let path = Path::new("spec").child("clusterIPs");
        if now.is_empty() && !was.is_empty() {
            found.invalid(&path.index(0), Value::Null, "primary clusterIP can not be unset");
        }
        for (index, _) in now.iter().zip(&was).enumerate().filter(|(_, (now, was))| now != was) {
            found.invalid(&path.index(index), spec["clusterIPs"].clone(), "may not change once set");
        }
    }
    service(new, found);
}

pub(super) fn endpoints(object: &Value, found: &mut Findings) {
    for (path, subset) in items(object, "subsets", &Path::root()) {
        let count = |field: &str| subset[field].as_array().map_or(0, Vec::len);
        if count("addresses") + count("notReadyAddresses") == 0 {
            found.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (path, one) in items(subset, list, &path) {
                let (address, path) = (text(one, "ip"), path.child("ip"));
                found.address(address, &path);
                found.public_address(address, &path);
            }
        }
        for (path, port) in items(subset, "ports", &path) {
            match text(port, "name") {
                "" if count("ports") > 1 => found.required(&path.child("name"), ""),
                "" => {}
                name => found.each(&path.child("name"), name, name::dns_label(name)),
            }
            found.port(number(port, "port").unwrap_or(0), &path.child("port"));
            found.protocol(port, &path);
        }
    }
}

pub(super) fn endpoint_slice(object: &Value, found: &mut Findings) {
    let (root, kind) = (Path::root(), text(object, "addressType"));
    found.required_one_of(&Path::new("addressType"), kind, &["FQDN", "IPv4", "IPv6"]);
    let mut names = BTreeSet::new();
    for (path, port) in items(object, "ports", &root) {
        let name = text(port, "name");
        if !name.is_empty() {
            found.each(&path.child("name"), name, name::dns_label(name));
        }
        if !names.insert(name) {
            found.0.push(FieldError::duplicate(&path.child("name"), name));
        }
        found.protocol(port, &path);
    }
    let count = object["endpoints"].as_array().map_or(0, Vec::len);
    if count > MOST_ENDPOINTS {
        let path = Path::new("endpoints");
        return found.0.push(FieldError::too_many(&path, count, MOST_ENDPOINTS));
    }
    for (path, one) in items(object, "endpoints", &root) {
        endpoint(one, kind, &path, found);
    }
}

fn endpoint(one: &Value, kind: &str, path: &Path, found: &mut Findings) {
    let list = path.child("addresses");
    match texts(one, "addresses").count() {
        0 => found.required(&list, "must contain at least 1 address"),
        count if count > MOST_ADDRESSES => {
            found.0.push(FieldError::too_many(&list, count, MOST_ADDRESSES));
        }
        _ => {}
    }
    for (index, address) in texts(one, "addresses").enumerate() {
        if kind == "FQDN" || !found.address(address, &list.index(index)) {
            continue;
        }
        let wants = |v6: bool| address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6() == v6);
        if kind == "IPv4" && !wants(false) || kind == "IPv6" && !wants(true) {
            found.invalid(&list, address, format!("must be an {kind} address"));
        }
        found.public_address(address, &list.index(index));
    }
    if let Some(node) = one["nodeName"].as_str() {
        found.each(&path.child("nodeName"), node, name::dns_subdomain(node));
    }
    if let Some(host) = one["hostname"].as_str() {
        found.each(&path.child("hostname"), host, name::dns_label(host));
    }
}
