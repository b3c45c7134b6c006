//! Addresses of a machine in its config: what the user said, what the registration said, what the driver or the native
//! provider knows.

use std::net::IpAddr;

use api::catalogue::annotations;
use api::rke::v1::FreeMap;
use serde_json::Value;

use super::config::{append, texts};
use super::{Context, Error};

#[derive(Default)]
struct Known {
    internal: Vec<String>,
    external: Vec<String>,
    names: Vec<String>,
}

pub(super) fn addresses(context: &Context<'_>, values: &mut FreeMap) -> Result<(), Error> {
    let known = if context.machine.infra.native { native(context) } else { ours(context)? };
    let mut node_ip: Vec<String> = list(values.get("node-ip"));
    node_ip.extend(known.internal.iter().cloned());
    let node_ip = in_order_of_families(context, unique(node_ip), values);
    let cloud = texts(values.get("cloud-provider-name")).any(|name| !name.is_empty());
    let external: Vec<String> = known.external.into_iter().filter(|ip| !is_link_local(ip)).collect();
    if !node_ip.is_empty() && !cloud {
        let mut node_external: Vec<String> = list(values.get("node-external-ip"));
        node_external.extend(external.iter().filter(|ip| !node_ip.contains(ip)).cloned());
        set(values, "node-external-ip", unique(node_external));
    }
    if context.roles.is_server() {
        let differ = !external.is_empty() && external.iter().any(|ip| !node_ip.contains(ip));
        let mut names = if differ { external } else { Vec::new() };
        names.extend(known.names);
        if let Some(first) = node_ip.first().filter(|_| differ) {
            values.entry("advertise-address".into()).or_insert_with(|| first.as_str().into());
        }
        append(values, "tls-san", names);
    }
    set(values, "node-ip", node_ip);
    provider_id(context, values, cloud);
    Ok(())
}

/// What the agent was told at registration, and where that says nothing, what the driver saved.
fn ours(context: &Context<'_>) -> Result<Known, Error> {
    let machine = context.machine;
    let noted = |annotation| -> Vec<String> {
        let parts = machine.note(annotation).unwrap_or_default().split(',');
        parts.map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let mut known = Known {
        internal: noted(annotations::INTERNAL_ADDRESS),
        external: noted(annotations::ADDRESS),
        names: Vec::new(),
    };
    let Some(driver) = &machine.infra.driver else { return Ok(known) };
    let mut ipv6 = None;
    if known.internal.is_empty() || known.external.is_empty() {
        let place = || format!("{}/{}", context.cluster.namespace, context.name);
        let saved = driver.saved.as_ref().ok_or_else(|| Error::DriverConfig(place()))?;
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        if known.internal.is_empty() {
            known.internal.extend(some(&saved.internal));
        }
        if known.external.is_empty() {
            known.external.extend(some(&saved.external));
        }
        ipv6 = some(&saved.ipv6);
    }
    match driver.name.as_str() {
        // Its machines are pods, whose addresses are not theirs to announce.
        "pod" => return Ok(Known::default()),
        // Its machines have but one address.
        "digitalocean" if known.internal.is_empty() => known.internal = known.external.clone(),
        _ => {}
    }
    known.internal.extend(ipv6);
    Ok(known)
}

fn native(context: &Context<'_>) -> Known {
    let of = |kind: &str| -> Vec<String> {
        let all = context.machine.infra.addresses.iter();
        all.filter(|address| address.kind == kind).map(|address| address.address.clone()).collect()
    };
    Known { internal: of("InternalIP"), external: of("ExternalIP"), names: of("ExternalDNS") }
}

/// The kubelet of a native machine says who it is, unless a cloud provider does.
fn provider_id(context: &Context<'_>, values: &mut FreeMap, cloud: bool) {
    let infra = &context.machine.infra;
    let given = super::config::argument(values, "kubelet-arg", "provider-id").is_some();
    if infra.native && !infra.provider_id.is_empty() && !cloud && !given {
        append(values, "kubelet-arg", vec![format!("provider-id={}", infra.provider_id)]);
    }
}

/// The family of the first service range comes first.
fn in_order_of_families(context: &Context<'_>, addresses: Vec<String>, values: &FreeMap) -> Vec<String> {
    let global = &context.cluster.spec.configuration.machine_global_config;
    let ranges: Vec<String> = list(values.get("service-cidr").or_else(|| global.get("service-cidr")));
    let Some(first) = ranges.first() else { return addresses };
    let six = first.contains(':');
    let (mut before, after): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.contains(':') == six);
    before.extend(after);
    before
}

/// Entries of a list, or parts between commas.
fn list(value: Option<&Value>) -> Vec<String> {
    let parts = texts(value).flat_map(|text| text.split(','));
    parts.map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn unique(addresses: Vec<String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for address in addresses {
        if !seen.contains(&address) {
            seen.push(address);
        }
    }
    seen
}

fn set(values: &mut FreeMap, key: &str, list: Vec<String>) {
    if !list.is_empty() {
        values.insert(key.to_owned(), list.into_iter().map(Value::from).collect::<Vec<_>>().into());
    }
}

fn is_link_local(address: &str) -> bool {
    match address.parse() {
        Ok(IpAddr::V4(four)) => four.is_link_local(),
        Ok(IpAddr::V6(six)) => six.is_unicast_link_local(),
        Err(_) => false,
    }
}
