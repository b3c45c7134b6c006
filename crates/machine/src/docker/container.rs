//! The container that a server is.

use serde_json::{Map, Value, json};

use crate::{Failure, Order};

/// On every container of ours: the server that it is.
pub(super) const LABEL: &str = "herdsman.io/machine";

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
pub(super) fn specification(order: &Order) -> Result<Value, Failure> {
    let arguments = &order.arguments;
    let image = arguments.text("image").ok_or_else(|| {
        Failure::Check("image: name an image that has systemd, sh and curl in it".to_owned())
    })?;
    let mut host = json!({
        "NetworkMode": arguments.text("network").unwrap_or("bridge"),
        "CgroupnsMode": "host",
        "Binds": binds(order)?,
        "Tmpfs": {"/run": "", "/tmp": ""},
        "ExtraHosts": arguments.list("extra-host"),
        // It comes back with the host, as a server does.
        "RestartPolicy": {"Name": "unless-stopped"},
        "Memory": arguments.number::<i64>("memory")?.unwrap_or(0) << 20,
        "NanoCpus": cpus(arguments.text("cpus"))?,
    });
    match arguments.switch("privileged") {
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
        "Labels": {LABEL: order.name},
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

fn binds(order: &Order) -> Result<Vec<String>, Failure> {
    let mut all =
        vec!["/sys/fs/cgroup:/sys/fs/cgroup:rw".to_owned(), "/lib/modules:/lib/modules:ro".to_owned()];
    for volume in order.arguments.list("volume") {
        if !volume.starts_with('/') || !volume.contains(":/") {
            let words = format!("volume: {volume:?} is not /on/the/host:/in/the/container");
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
        Order { name: "m".into(), hostname: "h".into(), arguments, ..Order::default() }
    }

    #[test]
    fn arguments_become_a_container() {
        let given: &[(&str, &[&str])] =
            &[("image", &["node"]), ("memory", &["512"]), ("cpus", &["1.5"]), ("volume", &["/a:/b:ro"])];
        let container = specification(&order(given)).unwrap();
        assert_eq!((&container["Image"], &container["Hostname"]), (&json!("node"), &json!("h")));
        assert_eq!(container["Labels"], json!({"herdsman.io/machine": "m"}));
        let host = &container["HostConfig"];
        assert_eq!((&host["Memory"], &host["NanoCpus"]), (&json!(512 << 20), &json!(1_500_000_000)));
        assert_eq!(host["Binds"][2], "/a:/b:ro");
        assert_eq!((host["CapAdd"][0].as_str(), host.get("Privileged")), (Some("SYS_ADMIN"), None));
        let privileged = specification(&order(&[("image", &["node"]), ("privileged", &[])])).unwrap();
        assert_eq!(privileged["HostConfig"]["Privileged"], true);
    }

    #[test]
    fn bad_arguments_are_named() {
        let refusal = |given: &[(&str, &[&str])]| match specification(&order(given)) {
            Err(Failure::Check(words)) => words,
            other => panic!("{other:?}"),
        };
        assert!(refusal(&[]).starts_with("image: "));
        assert!(refusal(&[("image", &["x"]), ("memory", &["much"])]).starts_with("memory: "));
        assert!(refusal(&[("image", &["x"]), ("cpus", &["-1"])]).starts_with("cpus: "));
        assert!(refusal(&[("image", &["x"]), ("volume", &["/data"])]).starts_with("volume: "));
    }
}
