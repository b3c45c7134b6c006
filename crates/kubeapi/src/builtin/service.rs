//! The addresses and ports of Services: which belong to what type, which are given by the server.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::{FieldError, Path};

/// The addresses that Services get are `10.96.0.0/16`, without the first and the last.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const LAST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 255, 254);
/// Who wants an address of his own choice finds one below: those that the server chooses start here.
const FIRST_CHOSEN_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 1, 0);

const FIRST_PORT: u16 = 30_000;
const LAST_PORT: u16 = 32_767;
/// As for addresses.
const FIRST_CHOSEN_PORT: u16 = 30_086;

const HEADLESS: &str = "None";

/// What other Services have.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    addresses: BTreeSet<Ipv4Addr>,
    ports: BTreeSet<u16>,
}

impl Taken {
    /// Notes what a stored Service has.
    pub fn add(&mut self, service: &Value) {
        let spec = &service["spec"];
        self.addresses.extend(texts(&spec["clusterIPs"]).filter_map(|text| text.parse::<Ipv4Addr>().ok()));
        self.ports.extend(ports(spec).filter_map(|(_, port)| number(&port["nodePort"])));
        self.ports.extend(number(&spec["healthCheckNodePort"]));
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The ports, to be changed; none if there are none.
fn ports_mut(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten()
}

fn ports(spec: &Value) -> impl Iterator<Item = (usize, &Value)> {
    spec["ports"].as_array().into_iter().flatten().enumerate()
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0)
}

fn text<'a>(spec: &'a Value, field: &str) -> &'a str {
    spec[field].as_str().unwrap_or_default()
}

fn remove(spec: &mut Value, field: &str) {
    if let Some(fields) = spec.as_object_mut() {
        fields.remove(field);
    }
}

fn needs_address(spec: &Value) -> bool {
    text(spec, "type") != "ExternalName"
}

fn needs_node_ports(spec: &Value) -> bool {
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

fn needs_health_port(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

/// Whether it can be reached from outside the cluster.
pub(super) fn is_open(spec: &Value) -> bool {
    let outside = spec["externalIPs"].as_array().is_some_and(|list| !list.is_empty());
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
        || (text(spec, "type") == "ClusterIP" && outside)
}

/// Whether it is a name for its endpoints, without an address of its own.
pub(super) fn is_headless(spec: &Value) -> bool {
    texts(&spec["clusterIPs"]).eq([HEADLESS])
}

/// Makes a new Service ready: the list of its addresses follows the single one.
pub fn prepare_create(service: &mut Value) {
    service["status"] = json!({"loadBalancer": {}});
    follow(&mut service["spec"], &Value::Null);
}

fn follow(spec: &mut Value, old: &Value) {
    let (new, before) = (text(spec, "clusterIP").to_owned(), text(old, "clusterIP"));
    let same_list = texts(&spec["clusterIPs"]).eq(texts(&old["clusterIPs"]));
    if new == before || !same_list {
        return;
    }
    match new.is_empty() {
        true => remove(spec, "clusterIPs"),
        false => spec["clusterIPs"] = json!([new]),
    }
}

/// Makes an updated Service ready: what was given to it stays if it is not mentioned, and goes if its type does not
/// need it any more.
pub fn prepare_update(service: &mut Value, old: &Value) {
    let before = &old["spec"];
    let spec = &mut service["spec"];
    follow(spec, before);
    keep_given(spec, before);
    drop_unneeded(spec, before);
    if text(&service["spec"], "type") != "LoadBalancer" {
        service["status"] = json!({"loadBalancer": {}});
    }
}

fn keep_given(spec: &mut Value, old: &Value) {
    if needs_address(old) && needs_address(spec) {
        if text(spec, "clusterIP").is_empty() {
            spec["clusterIP"] = old["clusterIP"].clone();
        }
        if spec["clusterIP"] == old["clusterIP"] && texts(&spec["clusterIPs"]).next().is_none() {
            spec["clusterIPs"] = old["clusterIPs"].clone();
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if spec[field].is_null() {
                spec[field] = old[field].clone();
            }
        }
    }
    if needs_node_ports(old) && needs_node_ports(spec) {
        let of = |port: &Value| (port["port"].clone(), port["protocol"].clone());
        let mut used: BTreeSet<u16> = ports(spec).filter_map(|(_, port)| number(&port["nodePort"])).collect();
        let given: Vec<_> = ports(old).map(|(_, port)| (of(port), number(&port["nodePort"]))).collect();
        for port in ports_mut(spec) {
            if number(&port["nodePort"]).is_some() {
                continue;
            }
            let found = given.iter().find(|(key, _)| *key == of(port)).and_then(|(_, number)| *number);
            if let Some(number) = found.filter(|number| used.insert(*number)) {
                port["nodePort"] = number.into();
            }
        }
    }
    if needs_health_port(old) && needs_health_port(spec) && number(&spec["healthCheckNodePort"]).is_none() {
        spec["healthCheckNodePort"] = old["healthCheckNodePort"].clone();
    }
}

fn drop_unneeded(spec: &mut Value, old: &Value) {
    let mut gone = Vec::new();
    if needs_address(old) && !needs_address(spec) {
        gone.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
    }
    if needs_health_port(old) && !needs_health_port(spec) {
        gone.push("healthCheckNodePort");
    }
    if text(old, "type") == "LoadBalancer" && text(spec, "type") != "LoadBalancer" {
        gone.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if is_open(old) && !is_open(spec) {
        gone.push("externalTrafficPolicy");
    }
    // What was changed together with the type is the client's, and checked.
    for field in gone {
        if spec[field] == old[field] {
            remove(spec, field);
        }
    }
    let node_ports = |spec: &Value| -> Vec<Option<u16>> {
        ports(spec).map(|(_, port)| number(&port["nodePort"])).collect()
    };
    if needs_node_ports(old) && !needs_node_ports(spec) && node_ports(old) == node_ports(spec) {
        for port in ports_mut(spec) {
            remove(port, "nodePort");
        }
    }
}

/// Gives a valid Service what its type needs: address families, an address, node ports. The one that clients find the
/// API at (`is_api`) gets the first address. `old` is what is stored of it.
///
/// # Errors
/// If what it asks for cannot be had.
pub fn allocate(
    service: &mut Value,
    old: Option<&Value>,
    taken: &Taken,
    is_api: bool,
) -> Result<(), Vec<FieldError>> {
    let nothing = Value::Null;
    let before = old.map_or(&nothing, |old| &old["spec"]);
    let spec = &mut service["spec"];
    let errors = choose_families(spec);
    if !errors.is_empty() {
        return Err(errors);
    }
    let had: Vec<&str> = texts(&before["clusterIPs"]).collect();
    choose_address(spec, &had, taken, is_api).map_err(|error| vec![error])?;
    choose_ports(spec, before, taken)
}

/// The cluster has addresses of one family only.
fn choose_families(spec: &mut Value) -> Vec<FieldError> {
    if !needs_address(spec) {
        return Vec::new();
    }
    let path = Path::new("spec");
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    if is_headless(spec) && !selects {
        // It leads to whatever its endpoints are.
        let policy = text(spec, "ipFamilyPolicy").to_owned();
        if policy.is_empty() && spec["ipFamilies"].is_null() {
            spec["ipFamilyPolicy"] = json!("RequireDualStack");
        }
        let both = text(spec, "ipFamilyPolicy") != "SingleStack" && !text(spec, "ipFamilyPolicy").is_empty();
        let first = texts(&spec["ipFamilies"]).next().unwrap_or("IPv4").to_owned();
        let other = if first == "IPv4" { "IPv6" } else { "IPv4" };
        if spec["ipFamilyPolicy"].is_null() {
            spec["ipFamilyPolicy"] = json!("SingleStack");
        }
        spec["ipFamilies"] = if both { json!([first, other]) } else { json!([first]) };
        return Vec::new();
    }
    let mut errors = Vec::new();
    for (index, family) in texts(&spec["ipFamilies"]).enumerate() {
        if family != "IPv4" {
            let path = path.child("ipFamilies").index(index);
            errors.push(FieldError::invalid(&path, family, "not configured on this cluster"));
        }
    }
    if text(spec, "ipFamilyPolicy") == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(&path.child("ipFamilyPolicy"), "RequireDualStack", why));
    }
    if errors.is_empty() {
        spec["ipFamilies"] = json!(["IPv4"]);
        if spec["ipFamilyPolicy"].is_null() {
            spec["ipFamilyPolicy"] = json!("SingleStack");
        }
    }
    errors
}

fn choose_address(spec: &mut Value, had: &[&str], taken: &Taken, is_api: bool) -> Result<(), FieldError> {
    if !needs_address(spec) || is_headless(spec) {
        return Ok(());
    }
    let path = Path::new("spec").child("clusterIPs");
    let wanted = text(spec, "clusterIP").to_owned();
    if !wanted.is_empty() {
        let refuse = |why: &str| {
            let why = format!("failed to allocate IP {wanted}: {why}");
            Err(FieldError::invalid(&path, spec["clusterIPs"].clone(), why))
        };
        let address = wanted.parse::<Ipv4Addr>().ok();
        return match address.filter(|address| (FIRST_ADDRESS..=LAST_ADDRESS).contains(address)) {
            _ if had.contains(&wanted.as_str()) => Ok(()),
            None => refuse("the provided network does not match the current range"),
            Some(address) if taken.addresses.contains(&address) => refuse("provided IP is already allocated"),
            Some(_) => Ok(()),
        };
    }
    let all = |from: Ipv4Addr, to: Ipv4Addr| (u32::from(from)..=u32::from(to)).map(Ipv4Addr::from);
    let first = if is_api { Some(FIRST_ADDRESS) } else { None };
    let low = Ipv4Addr::from(u32::from(FIRST_ADDRESS) + 1);
    let candidates = first
        .into_iter()
        .chain(all(FIRST_CHOSEN_ADDRESS, LAST_ADDRESS))
        .chain(all(low, FIRST_CHOSEN_ADDRESS));
    let mut free = candidates.filter(|address| !taken.addresses.contains(address));
    let Some(address) = free.next() else {
        let why = "failed to allocate a serviceIP: range is full";
        return Err(FieldError::invalid(&path, Value::Null, why));
    };
    spec["clusterIP"] = json!(address.to_string());
    spec["clusterIPs"] = json!([address.to_string()]);
    Ok(())
}

fn choose_ports(spec: &mut Value, before: &Value, taken: &Taken) -> Result<(), Vec<FieldError>> {
    let had: BTreeSet<u16> = ports(before).filter_map(|(_, port)| number(&port["nodePort"])).collect();
    let mut used: BTreeSet<u16> = ports(spec).filter_map(|(_, port)| number(&port["nodePort"])).collect();
    let (wants, health) = (needs_node_ports(spec), needs_health_port(spec));
    let path = Path::new("spec").child("ports");
    let mut errors = Vec::new();
    for (index, port) in ports_mut(spec).enumerate() {
        let path = path.index(index).child("nodePort");
        let given = port["nodePort"].as_i64().filter(|number| *number != 0);
        let why = match (given.and_then(|number| u16::try_from(number).ok()), given) {
            (Some(number), _) if had.contains(&number) => None,
            (Some(number), _) if (FIRST_PORT..=LAST_PORT).contains(&number) => {
                taken.ports.contains(&number).then(|| "provided port is already allocated".to_owned())
            }
            (_, Some(_)) => Some(format!(
                "provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
            )),
            (_, None) if wants => {
                port["nodePort"] = free_port(taken, &mut used).into();
                None
            }
            (_, None) => None,
        };
        errors.extend(why.map(|why| FieldError::invalid(&path, port["nodePort"].clone(), why)));
    }
    if health && number(&spec["healthCheckNodePort"]).is_none() {
        spec["healthCheckNodePort"] = free_port(taken, &mut used).into();
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn free_port(taken: &Taken, used: &mut BTreeSet<u16>) -> u16 {
    let mut candidates = (FIRST_CHOSEN_PORT..=LAST_PORT).chain(FIRST_PORT..FIRST_CHOSEN_PORT);
    let free = candidates.find(|port| !taken.ports.contains(port) && !used.contains(port));
    let port = free.unwrap_or(0);
    used.insert(port);
    port
}
