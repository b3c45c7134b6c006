//! The distribution's config file, `50-rancher.yaml`: JSON, which is YAML.

use api::catalogue::labels;
use api::rke::v1::FreeMap;
use k8s_openapi::api::core::v1::Taint;
use plan::document::File;
use serde_json::{Value, json};

use super::registries::Registries;
use super::s3::S3;
use super::{Context, Error, addresses, file, files};
use crate::version::Runtime;

/// Labels of the plan Secret that a node repeats.
const LIFECYCLE: [&str; 6] = [
    labels::PLAN_CLUSTER_GROUP,
    labels::PLAN_CLUSTER_KIND,
    labels::PLAN_CLUSTER_NAME,
    labels::PLAN_MACHINE_GROUP,
    labels::PLAN_MACHINE_KIND,
    labels::PLAN_MACHINE_NAME,
];

/// The config and the files that it names.
pub(super) struct Config {
    /// The arguments.
    pub(super) values: FreeMap,
    /// Files with contents of arguments.
    pub(super) files: Vec<File>,
    /// The config file; none if somebody else writes it.
    pub(super) file: Option<File>,
    /// The config as it counts for draining.
    pub(super) for_drain: Option<String>,
}

pub(super) fn config(
    context: &Context<'_>,
    user: FreeMap,
    registry: &str,
    registries: &Registries,
    s3: &S3,
) -> Result<Config, Error> {
    let mut values = user;
    if context.cluster.spec.unmanaged_config {
        return Ok(Config { values, files: Vec::new(), file: None, for_drain: None });
    }
    let custom = &context.cluster.spec.configuration.data_directories.k8s_distro;
    if !custom.is_empty() && !context.machine.is_windows() {
        values.insert("data-dir".into(), custom.as_str().into());
    }
    etcd(context, &mut values, s3);
    role(context, &mut values, registry);
    control_plane(context, &mut values);
    if let Some(name) = context.machine.bootstrap.labels.get(labels::NODE_NAME) {
        values.insert("node-name".into(), name.as_str().into());
    }
    prime(context, &mut values);
    tokens(context, &mut values);
    addresses::addresses(context, &mut values)?;
    node(context, &mut values);
    let files = files::of_arguments(context, &mut values)?;
    if registries.present {
        values.insert("private-registry".into(), registries.path.as_str().into());
    }
    values.retain(|_, value| !is_empty(value));
    let file = file(config_path(context.runtime()), pretty(&values));
    let mut for_drain = values.clone();
    for key in ["server", "cluster-init"] {
        for_drain.remove(key);
    }
    Ok(Config { for_drain: Some(pretty(&for_drain)), values, files, file: Some(file) })
}

/// Where the config file is.
pub(crate) fn config_path(runtime: Runtime) -> String {
    format!("/etc/rancher/{runtime}/config.yaml.d/50-rancher.yaml")
}

fn etcd(context: &Context<'_>, values: &mut FreeMap, s3: &S3) {
    let Some(etcd) = context.cluster.spec.configuration.etcd.as_ref().filter(|_| context.roles.etcd) else {
        return;
    };
    if etcd.disable_snapshots {
        values.insert("etcd-disable-snapshots".into(), true.into());
    }
    if etcd.snapshot_retention > 0 {
        values.insert("etcd-snapshot-retention".into(), etcd.snapshot_retention.into());
    }
    if !etcd.snapshot_schedule_cron.is_empty() {
        values.insert("etcd-snapshot-schedule-cron".into(), etcd.snapshot_schedule_cron.as_str().into());
    }
    values.extend(s3.arguments.clone());
}

fn role(context: &Context<'_>, values: &mut FreeMap, registry: &str) {
    let (roles, placement) = (context.roles, context.placement);
    let mut set = |key: &str, value: Value| values.insert(key.to_owned(), value);
    if placement.init && context.runtime() == Runtime::K3s {
        set("cluster-init", true.into());
    }
    if let Some(url) = placement.server.as_ref().filter(|_| !placement.init) {
        set("server", url.as_str().into());
    }
    if roles.is_only_etcd() {
        for part in ["disable-scheduler", "disable-apiserver", "disable-controller-manager"] {
            set(part, true.into());
        }
    }
    if roles.is_only_control_plane() {
        set("disable-etcd", true.into());
    }
    if roles.is_server() && !registry.is_empty() {
        set("system-default-registry", registry.into());
    }
}

/// Components that serve their own certificates get a directory that outlives them, and the port that is probed.
fn control_plane(context: &Context<'_>, values: &mut FreeMap) {
    if !context.roles.control_plane {
        return;
    }
    for (component, port) in [("kube-controller-manager", 10257), ("kube-scheduler", 10259)] {
        let key = format!("{component}-arg");
        let given = |name: &str| argument(values, &key, name).is_some();
        let directory = format!("{}/server/tls/{component}", context.data_dir);
        let mut more = Vec::new();
        let own_directory = !given("cert-dir") && !given("tls-cert-file");
        if own_directory {
            more.push(format!("cert-dir={directory}"));
        }
        if !given("secure-port") {
            more.push(format!("secure-port={port}"));
        }
        append(values, &key, more);
        if own_directory && context.runtime() == Runtime::Rke2 {
            append(values, &format!("{component}-extra-mount"), vec![format!("{directory}:{directory}")]);
        }
    }
    if context.cluster.spec.local_cluster_auth_endpoint.enabled {
        let path = files::webhook_path(context);
        append(
            values,
            "kube-apiserver-arg",
            vec![format!("authentication-token-webhook-config-file={path}")],
        );
    }
}

fn prime(context: &Context<'_>, values: &mut FreeMap) {
    let known = || context.cluster.releases.argument(context.version, "prime").is_some();
    let wanted = context.cluster.prime && context.roles.is_server() && context.runtime() == Runtime::Rke2;
    if wanted && !values.contains_key("prime") && known() {
        values.insert("prime".into(), true.into());
    }
}

fn tokens(context: &Context<'_>, values: &mut FreeMap) {
    let Some(tokens) = &context.cluster.tokens else { return };
    if context.roles.is_server() {
        values.insert("token".into(), tokens.server.as_str().into());
        values.insert("agent-token".into(), tokens.agent.as_str().into());
    } else {
        values.insert("token".into(), tokens.agent.as_str().into());
    }
}

/// Labels and taints.
fn node(context: &Context<'_>, values: &mut FreeMap) {
    let machine = context.machine;
    let json = |annotation: &str| machine.note(annotation).unwrap_or_default();
    let own: std::collections::BTreeMap<String, String> =
        serde_json::from_str(json(api::catalogue::annotations::LABELS)).unwrap_or_default();
    let mut labels: Vec<String> = own.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.push(format!("{}={}", labels::MACHINE_UID, machine.id));
    let lifecycle = LIFECYCLE.iter().filter_map(|key| Some((key, machine.bootstrap.labels.get(*key)?)));
    labels.extend(lifecycle.map(|(key, value)| format!("{key}={value}")));
    append(values, "node-label", labels);

    let taints: Vec<Taint> =
        serde_json::from_str(json(api::catalogue::annotations::TAINTS)).unwrap_or_default();
    let mut taints: Vec<String> = taints.iter().map(taint).collect();
    let roles = context.roles;
    if !roles.worker {
        let combined_k3s = context.runtime() == Runtime::K3s && roles.control_plane;
        if roles.etcd && !combined_k3s {
            taints.push("node-role.kubernetes.io/etcd:NoExecute".into());
        }
        if roles.control_plane {
            taints.push("node-role.kubernetes.io/control-plane:NoSchedule".into());
        }
    }
    append(values, "node-taint", taints);
    for key in ["node-label", "node-taint"] {
        if let Some(Value::Array(list)) = values.get_mut(key) {
            list.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
            list.dedup();
        }
    }
}

fn taint(taint: &Taint) -> String {
    match taint.value.as_deref() {
        None | Some("") => format!("{}:{}", taint.key, taint.effect),
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
    }
}

/// Adds to a list; one value becomes a list.
pub(super) fn append(values: &mut FreeMap, key: &str, more: Vec<String>) {
    if more.is_empty() {
        return;
    }
    let mut list = texts(values.get(key)).map(Value::from).collect::<Vec<_>>();
    list.extend(more.into_iter().map(Value::from));
    values.insert(key.to_owned(), list.into());
}

/// A list of texts, or one.
pub(super) fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let (list, one) = match value {
        Some(Value::Array(list)) => (list.as_slice(), None),
        Some(Value::String(one)) => ([].as_slice(), Some(one.as_str())),
        _ => ([].as_slice(), None),
    };
    list.iter().filter_map(Value::as_str).chain(one)
}

/// The value of `name=value` in a list of a component's arguments; the last one counts.
pub(super) fn argument<'a>(values: &'a FreeMap, key: &str, name: &str) -> Option<&'a str> {
    let pairs = texts(values.get(key)).filter_map(|text| text.trim_start_matches("--").split_once('='));
    pairs.filter(|(found, _)| *found == name).last().map(|(_, value)| value)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn pretty(values: &FreeMap) -> String {
    serde_json::to_string_pretty(&json!(values)).unwrap_or_default()
}
