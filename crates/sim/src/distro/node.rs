//! What a Node of a simulated machine looks like.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::process::Context;
use super::{Role, Runtime};
use crate::machine::Os;
use clock::Clock as _;

/// The Node as its kubelet would create it, and its status.
pub(super) fn describe(context: &Context<'_>, name: &str, member: Option<&str>) -> (Value, Value) {
    let machine = context.machine;
    let record = machine.record();
    let node = Described {
        name,
        os: record.os,
        runtime: context.process.runtime,
        version: context.version.as_str(),
        address: machine.address.to_string(),
        cpus: record.cpus,
        memory_mib: record.memory_mib,
        now: machine.clock.now(),
        context,
    };
    (node.document(member), node.status())
}

struct Described<'a> {
    name: &'a str,
    os: Os,
    runtime: Runtime,
    version: &'a str,
    address: String,
    cpus: u32,
    memory_mib: u64,
    now: Timestamp,
    context: &'a Context<'a>,
}

impl Described<'_> {
    fn os(&self) -> &'static str {
        match self.os {
            Os::Linux => "linux",
            Os::Windows => "windows",
        }
    }

    fn document(&self, member: Option<&str>) -> Value {
        let config = &self.context.config;
        let mut spec = json!({"taints": config.values("node-taint").iter().filter_map(|text| taint(text)).collect::<Vec<_>>()});
        let cloud = config.text("cloud-provider-name");
        let given = config.argument("kubelet-arg", "provider-id");
        if let Some(id) =
            given.or_else(|| cloud.is_empty().then(|| format!("{}://{}", self.runtime, self.name)))
        {
            spec["providerID"] = id.into();
        }
        if !cloud.is_empty() {
            let waits = json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"});
            if let Some(taints) = spec["taints"].as_array_mut() {
                taints.push(waits);
            }
        }
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": self.labels(), "annotations": self.annotations(member)},
            "spec": spec,
        })
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let config = &self.context.config;
        let mut labels: BTreeMap<String, String> = config
            .values("node-label")
            .iter()
            .filter_map(|text| text.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
        set("kubernetes.io/hostname", self.name);
        for prefix in ["kubernetes.io", "beta.kubernetes.io"] {
            set(&format!("{prefix}/os"), self.os());
            set(&format!("{prefix}/arch"), "amd64");
        }
        set("node.kubernetes.io/instance-type", self.runtime.as_str());
        if self.context.process.role == Role::Server {
            if !config.is("disable-etcd") {
                set("node-role.kubernetes.io/etcd", "true");
            }
            if !config.is("disable-apiserver") {
                set("node-role.kubernetes.io/control-plane", "true");
            }
        }
        labels
    }

    fn annotations(&self, member: Option<&str>) -> BTreeMap<String, String> {
        let runtime = self.runtime;
        let mut annotations = BTreeMap::from([
            (format!("{runtime}.io/hostname"), self.name.to_owned()),
            (format!("{runtime}.io/internal-ip"), self.address.clone()),
        ]);
        if let Some(member) = member {
            annotations.insert(format!("etcd.{runtime}.cattle.io/node-name"), member.to_owned());
            annotations.insert(format!("etcd.{runtime}.cattle.io/node-address"), self.address.clone());
        }
        annotations
    }

    fn status(&self) -> Value {
        let config = &self.context.config;
        let mut internal = config.values("node-ip");
        if internal.is_empty() {
            internal.push(self.address.clone());
        }
        let mut addresses: Vec<Value> = Vec::new();
        addresses.extend(internal.iter().map(|ip| json!({"type": "InternalIP", "address": ip})));
        let external = config.values("node-external-ip");
        addresses.extend(external.iter().map(|ip| json!({"type": "ExternalIP", "address": ip})));
        addresses.push(json!({"type": "Hostname", "address": self.name}));
        let capacity =
            json!({"cpu": self.cpus.to_string(), "memory": format!("{}Mi", self.memory_mib), "pods": "110"});
        json!({
            "addresses": addresses,
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": conditions(self.now),
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "", "machineID": self.name, "systemUUID": self.name,
                "containerRuntimeVersion": "containerd://2.1.5-simulated",
                "kernelVersion": "6.12.0-simulated",
                "kubeProxyVersion": "",
                "kubeletVersion": self.version,
                "operatingSystem": self.os(),
                "osImage": match self.os { Os::Linux => "Simulated Linux", Os::Windows => "Simulated Windows" },
            },
        })
    }
}

fn conditions(now: Timestamp) -> Vec<Value> {
    let pressure = ["MemoryPressure", "DiskPressure", "PIDPressure"];
    let fine = pressure.map(|type_| condition(type_, "False", "KubeletHasSufficient", "", now));
    fine.into_iter().chain([ready(true, now)]).collect()
}

/// The condition `Ready`: as a kubelet sets it, or as it is set when nobody hears of the kubelet.
pub(super) fn ready(heard_of: bool, now: Timestamp) -> Value {
    match heard_of {
        true => condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now),
        false => {
            condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", now)
        }
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}

/// `key[=value]:effect`.
fn taint(text: &str) -> Option<Value> {
    let (key, effect) = text.rsplit_once(':')?;
    Some(match key.split_once('=') {
        Some((key, value)) => json!({"key": key, "value": value, "effect": effect}),
        None => json!({"key": key, "effect": effect}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints() {
        assert_eq!(taint("a=b:NoSchedule"), Some(json!({"key": "a", "value": "b", "effect": "NoSchedule"})));
        assert_eq!(taint("x/y:NoExecute"), Some(json!({"key": "x/y", "effect": "NoExecute"})));
        assert_eq!(taint("x"), None);
    }
}
