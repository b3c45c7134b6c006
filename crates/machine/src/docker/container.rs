//! The container that a server is.

use serde_json::{Map, Value, json};

use super::{Docker, HOST};
use crate::{Failure, Order};

/// On every container of ours: the server that it is.
pub(super) const LABEL: &str = "herdsman.io/machine";

/// On every container of ours: the infrastructure machine that it belongs to, as `namespace/name/uid`.
const OWNER: &str = "herdsman.io/owner";

/// What systemd wants to be allowed. Some hosts have not all there is to give, so that privileged containers fail there.
const CAPABILITIES: [&str; 10] = [
    "SYS_ADMIN",
    "NET_ADMIN",
    "SYS_PTRACE",
    "MKNOD",
    "NET_RAW",
    "SYS_MODULE",
    "SYS_BOOT",
    "IPC_LOCK",
    "SYSLOG",
    "DAC_READ_SEARCH",
];

/// What Docker is asked for.
///
/// # Errors
/// If an argument makes no sense.
pub(super) fn specification(order: &Order, operator: &Docker) -> Result<Value, Failure> {
    as_the_operator_says(order, operator)?;
    let arguments = &order.arguments;
    let image = arguments.text("image").ok_or_else(|| {
        Failure::Check("image: name an image that has systemd, sh and curl in it".to_owned())
    })?;
    let mut host = json!({
        "NetworkMode": network(arguments.text("network"))?,
        "CgroupnsMode": "host",
        "Binds": binds(operator)?,
        "Tmpfs": {"/run": "", "/tmp": ""},
        "ExtraHosts": arguments.list("extra-host"),
        // It comes back with the host, as a server does.
        "RestartPolicy": {"Name": "unless-stopped"},
        "Memory": arguments.number::<i64>("memory")?.unwrap_or(0) << 20,
        "NanoCpus": cpus(arguments.text("cpus"))?,
    });
    match operator.privileged {
        true => host["Privileged"] = json!(true),
        false => {
            host["CapAdd"] = json!(CAPABILITIES);
            let unconfined = ["seccomp", "apparmor"].map(|filter| format!("{filter}=unconfined"));
            host["SecurityOpt"] = json!(unconfined);
            // What the client calls systempaths=unconfined.
            host["MaskedPaths"] = json!([]);
            host["ReadonlyPaths"] = json!([]);
        }
    }
    let mut environment = vec!["container=docker".to_owned()];
    environment.extend(arguments.list("env").iter().cloned());
    let mut volumes = Map::new();
    volumes.extend(["/var/lib/kubelet", "/var/lib/rancher"].map(|path| (path.to_owned(), json!({}))));
    let mut all = json!({
        "Image": image,
        "Hostname": order.hostname,
        "Env": environment,
        "Labels": {LABEL: order.name, OWNER: order.owner},
        "Volumes": volumes,
        "StopSignal": "SIGRTMIN+3",
        "Tty": true,
        "HostConfig": host,
    });
    if let Some(command) = arguments.text("command") {
        all["Cmd"] = json!(command.split_whitespace().collect::<Vec<_>>());
    }
    Ok(all)
}

/// Whether a container is a machine's: by the owner that it was made for, or by its id, which only the machine's own state knows. A name
/// is no proof, because names are the same in many namespaces, and others run containers, too.
pub(super) fn is_of(container: &Value, order: &Order) -> bool {
    let labels = &container["Config"]["Labels"];
    let by_owner = !order.owner.is_empty() && labels[OWNER] == order.owner.as_str();
    let by_id = !order.instance.is_empty() && container["Id"] == order.instance.as_str();
    labels[LABEL] == order.name.as_str() && (by_owner || by_id)
}

/// What reaches into the host is the operator's: a machine that says otherwise is refused.
fn as_the_operator_says(order: &Order, operator: &Docker) -> Result<(), Failure> {
    let refused = |field: &str, flag: &str| {
        Err(Failure::Check(format!("{field}: is set by the server's operator with {flag}, not by a machine")))
    };
    let arguments = &order.arguments;
    if arguments.switch("privileged") && !operator.privileged {
        return refused("privileged", "--docker-privileged");
    }
    if arguments.list("volume").iter().any(|volume| !operator.volumes.contains(volume)) {
        return refused("volume", "--docker-volume");
    }
    same_host(order, operator)
}

/// A machine of another Docker is not looked for in this one.
pub(super) fn same_host(order: &Order, operator: &Docker) -> Result<(), Failure> {
    match order.arguments.text("host") {
        Some(host) if host != HOST && host != operator.host => Err(Failure::Check(format!(
            "host: {host} is not the Docker of this server: start it with --docker-host {host}"
        ))),
        _ => Ok(()),
    }
}

/// A Docker network by its name: neither the host's own nor that of another container.
fn network(name: Option<&str>) -> Result<&str, Failure> {
    let name = name.unwrap_or("bridge");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    match ["host", "none"].contains(&name) || !name.bytes().all(plain) {
        true => Err(Failure::Check(format!("network: {name:?} is not the name of a Docker network"))),
        false => Ok(name),
    }
}

fn binds(operator: &Docker) -> Result<Vec<String>, Failure> {
    let mut all =
        vec!["/sys/fs/cgroup:/sys/fs/cgroup:rw".to_owned(), "/lib/modules:/lib/modules:ro".to_owned()];
    for volume in &operator.volumes {
        if !volume.starts_with('/') || !volume.contains(":/") {
            let words = format!("--docker-volume: {volume:?} is not /on/the/host:/in/the/container");
            return Err(Failure::Check(words));
        }
        all.push(volume.clone());
    }
    Ok(all)
}

fn cpus(text: Option<&str>) -> Result<i64, Failure> {
    let Some(text) = text else { return Ok(0) };
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1024.0).contains(number));
    let number = number.ok_or_else(|| Failure::Check(format!("cpus: {text:?} is not a number of CPUs")))?;
    Ok((number * 1e9) as i64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Arguments;

    fn order(arguments: &[(&str, &[&str])]) -> Order {
        let all = arguments
            .iter()
            .map(|(flag, values)| (flag.to_string(), values.iter().map(|value| value.to_string()).collect()));
        let arguments = Arguments(all.collect::<BTreeMap<_, _>>());
        Order { name: "m".into(), hostname: "h".into(), owner: "n/m/u".into(), arguments, ..Order::default() }
    }

    #[test]
    fn arguments_become_a_container() {
        let given: &[(&str, &[&str])] =
            &[("image", &["node"]), ("memory", &["512"]), ("cpus", &["1.5"]), ("host", &[HOST])];
        let operator = Docker { volumes: vec!["/a:/b:ro".into()], ..Docker::default() };
        let container = specification(&order(given), &operator).unwrap();
        assert_eq!((&container["Image"], &container["Hostname"]), (&json!("node"), &json!("h")));
        assert_eq!(container["Labels"], json!({"herdsman.io/machine": "m", "herdsman.io/owner": "n/m/u"}));
        let host = &container["HostConfig"];
        assert_eq!((&host["Memory"], &host["NanoCpus"]), (&json!(512 << 20), &json!(1_500_000_000)));
        assert_eq!(host["Binds"][2], "/a:/b:ro");
        assert_eq!((host["CapAdd"][0].as_str(), host.get("Privileged")), (Some("SYS_ADMIN"), None));
        let operator = Docker { privileged: true, ..Docker::default() };
        let privileged = specification(&order(&[("image", &["node"])]), &operator).unwrap();
        assert_eq!(privileged["HostConfig"]["Privileged"], true);
    }

    #[test]
    fn bad_arguments_are_named() {
        let refusal = |given: &[(&str, &[&str])]| match specification(&order(given), &Docker::default()) {
            Err(Failure::Check(words)) => words,
            other => panic!("{other:?}"),
        };
        assert!(refusal(&[]).starts_with("image: "));
        assert!(refusal(&[("image", &["x"]), ("memory", &["much"])]).starts_with("memory: "));
        assert!(refusal(&[("image", &["x"]), ("cpus", &["-1"])]).starts_with("cpus: "));
        let operator = Docker { volumes: vec!["/data".into()], ..Docker::default() };
        let wrong = specification(&order(&[("image", &["x"])]), &operator).unwrap_err().to_string();
        assert!(wrong.starts_with("--docker-volume: "), "{wrong}");
        // What reaches into the host.
        for (field, value) in [
            ("volume", "/:/host"),
            ("host", "unix:///run/other.sock"),
            ("network", "host"),
            ("network", "none"),
            ("network", "container:victim"),
            ("privileged", "true"),
        ] {
            let words = refusal(&[("image", &["x"]), (field, &[value])]);
            assert!(words.starts_with(&format!("{field}: ")), "{words}");
        }
    }

    #[test]
    fn a_container_is_known_by_its_owner_not_by_its_name() {
        let container = |labels: Value| json!({"Id": "c0ffee", "Config": {"Labels": labels}});
        let named = Order { name: "m".into(), owner: "n/m/u".into(), ..Order::default() };
        let remembered = Order { instance: "c0ffee".into(), ..named.clone() };
        let other_id = Order { instance: "other".into(), ..named.clone() };
        let (ours, old) = (json!({LABEL: "m", OWNER: "n/m/u"}), json!({LABEL: "m"}));
        let theirs = json!({LABEL: "m", OWNER: "victim/m/v"});
        for (labels, order, is) in [
            (&ours, &named, true),
            (&theirs, &named, false),
            (&theirs, &other_id, false),
            (&old, &named, false),
            (&old, &other_id, false),
            (&old, &remembered, true),
            (&json!({}), &remembered, false),
            (&Value::Null, &named, false),
        ] {
            assert_eq!(is_of(&container(labels.clone()), order), is, "{labels} {order:?}");
        }
    }
}
