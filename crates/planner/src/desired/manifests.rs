//! What the distribution applies inside the cluster: the agent that dials back, the user's manifests, chart values.
//! JSON documents with `---` between them, which is YAML.

use api::catalogue::namespaces;
use api::names;
use k8s_openapi::api::core::v1::Taint;
use plan::document::File;
use serde_json::{Value, json};

use super::{Context, dynamic, install};
use crate::snapshot::ClusterAgent;

/// Set by a kubelet that waits for a cloud controller.
const TAINT_CLOUD: &str = "node.cloudprovider.kubernetes.io/uninitialized";

pub(super) fn files(context: &Context<'_>, registry: &str) -> Vec<File> {
    let directory = format!("{}/server/manifests/rancher", context.data_dir);
    let runtime = context.runtime();
    let mut files = Vec::new();
    if context.cluster.pre_bootstrap {
        let agent = context.cluster.agent.as_ref().filter(|_| context.roles.control_plane);
        let documents = agent.map(|agent| cluster_agent(context, agent, registry));
        files.extend(documents.map(|documents| minor(format!("{directory}/cluster-agent.yaml"), documents)));
        return files;
    }
    if context.roles.control_plane {
        if let Some(agent) = &context.cluster.agent {
            let documents = cluster_agent(context, agent, registry);
            files.push(minor(format!("{directory}/cluster-agent.yaml"), documents));
        }
        let path = format!("{directory}/{runtime}-etcd-snapshot-extra-metadata.yaml");
        files.push(minor(path, vec![snapshot_metadata(context)]));
        let addons = &context.cluster.spec.configuration.additional_manifest;
        // Written even when empty: that is how what was in it goes away.
        files.push(dynamic(format!("{directory}/addons.yaml"), addons));
    }
    if context.roles.is_server() {
        let path = format!("{directory}/managed-chart-config.yaml");
        files.push(dynamic(path, join(&chart_values(context))));
    }
    files
}

fn minor(path: String, documents: Vec<Value>) -> File {
    File { minor: true, ..dynamic(path, join(&documents)) }
}

fn join(documents: &[Value]) -> String {
    documents.iter().map(|document| format!("{document}\n")).collect::<Vec<_>>().join("---\n")
}

/// Rancher keeps the cluster's spec with every snapshot, by a ConfigMap that the distribution reads.
fn snapshot_metadata(context: &Context<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names::snapshot_metadata_config_map(context.runtime().as_str()),
            "namespace": "kube-system",
        },
        "data": {"provisioning-cluster-spec": context.cluster.cluster_spec},
    })
}

/// Values for the distribution's own charts, the cluster's id among them.
fn chart_values(context: &Context<'_>) -> Vec<Value> {
    let spec = &context.cluster.spec;
    let mut charts = spec.configuration.chart_values.clone();
    let cloud = spec.configuration.machine_global_config.get("cloud-provider-name").and_then(Value::as_str);
    if cloud == Some("rancher-vsphere") {
        charts.entry("rancher-vsphere-csi".into()).or_insert_with(|| json!({}));
    }
    let config = |(chart, values): (&String, &Value)| {
        let mut values = if values.is_object() { values.clone() } else { json!({}) };
        if !values["global"].is_object() {
            values["global"] = json!({});
        }
        if !values["global"]["cattle"].is_object() {
            values["global"]["cattle"] = json!({});
        }
        values["global"]["cattle"]["clusterId"] = spec.management_cluster_name.as_str().into();
        json!({
            "apiVersion": "helm.cattle.io/v1",
            "kind": "HelmChartConfig",
            "metadata": {"name": chart, "namespace": "kube-system"},
            "spec": {"valuesContent": values.to_string()},
        })
    };
    charts.iter().map(config).collect()
}

fn cluster_agent(context: &Context<'_>, agent: &ClusterAgent, registry: &str) -> Vec<Value> {
    let namespace = namespaces::CATTLE_SYSTEM;
    let credentials = credentials_name(agent);
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "cattle", "namespace": namespace},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "cattle-admin"},
            "rules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "cattle-admin-binding"},
            "subjects": [{"kind": "ServiceAccount", "name": "cattle", "namespace": namespace}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cattle-admin"},
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": credentials, "namespace": namespace},
            "stringData": {"url": agent.server_url, "token": agent.token, "namespace": ""},
        }),
        deployment(context, agent, &credentials, registry),
    ]
}

/// Another token is another Secret, so that pods restart.
fn credentials_name(agent: &ClusterAgent) -> String {
    let hash = names::plan_hash(format!("{}\n{}", agent.server_url, agent.token).as_bytes());
    format!("cattle-credentials-{}", &hash[..7])
}

fn deployment(context: &Context<'_>, agent: &ClusterAgent, credentials: &str, registry: &str) -> Value {
    let early = context.cluster.pre_bootstrap;
    let name = if early { names::CLUSTER_AGENT_BOOTSTRAP } else { names::CLUSTER_AGENT };
    let labels = json!({"app": name});
    let custom = agent.customization.as_ref();
    let mut container = json!({
        "name": "cluster-register",
        "image": install::from_registry(registry, &agent.image),
        "imagePullPolicy": "IfNotPresent",
        "env": environment(context, agent, credentials),
        "volumeMounts": [{"name": "cattle-credentials", "mountPath": "/cattle-credentials", "readOnly": true}],
    });
    if let Some(resources) = custom.and_then(|custom| custom.override_resource_requirements.as_ref()) {
        container["resources"] = json!(resources);
    }
    let affinity = match custom.and_then(|custom| custom.override_affinity.as_ref()) {
        Some(affinity) => json!(affinity),
        None => spread(&labels),
    };
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespaces::CATTLE_SYSTEM},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": "cattle",
                    "affinity": affinity,
                    "tolerations": tolerations(context, agent),
                    "containers": [container],
                    "volumes": [{
                        "name": "cattle-credentials",
                        "secret": {"secretName": credentials, "defaultMode": 320},
                    }],
                },
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        },
    });
    if early {
        before_the_network(&mut deployment["spec"]["template"]["spec"]);
    }
    deployment
}

/// Without a network of pods it uses the node's, where an API server is, whatever that node waits for itself.
fn before_the_network(pod: &mut Value) {
    pod["hostNetwork"] = true.into();
    pod["dnsPolicy"] = "Default".into();
    pod["tolerations"] = json!([{"operator": "Exists"}]);
    pod["nodeSelector"] = json!({"node-role.kubernetes.io/control-plane": "true"});
    if let Some(env) = pod["containers"][0]["env"].as_array_mut() {
        env.push(json!({"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"}));
        env.push(json!({"name": "KUBERNETES_SERVICE_PORT", "value": "6443"}));
    }
}

fn environment(context: &Context<'_>, agent: &ClusterAgent, credentials: &str) -> Vec<Value> {
    let fixed = [
        ("CATTLE_SERVER", agent.server_url.as_str()),
        ("CATTLE_CA_CHECKSUM", agent.ca_checksum.as_str()),
        ("CATTLE_CLUSTER", "true"),
        ("CATTLE_K8S_MANAGED", "true"),
        ("CATTLE_CREDENTIAL_NAME", credentials),
    ];
    let own = context.cluster.spec.agent_env_vars.iter();
    let own = own.map(|variable| (variable.name.as_str(), variable.value.as_str()));
    let all = fixed.into_iter().chain(own).filter(|(_, value)| !value.is_empty());
    all.map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn spread(labels: &Value) -> Value {
    let elsewhere = json!({
        "weight": 100,
        "podAffinityTerm": {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"},
    });
    let linux = json!({"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]});
    json!({
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [linux]}],
        }},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [elsewhere]},
    })
}

/// The agent runs on servers, on nodes that no cloud controller has seen yet, and on this node, whatever its taints.
fn tolerations(context: &Context<'_>, agent: &ClusterAgent) -> Vec<Value> {
    let exists = |key: &str, effect: &str| json!({"key": key, "operator": "Exists", "effect": effect});
    let mut all = vec![
        exists("node-role.kubernetes.io/control-plane", "NoSchedule"),
        exists("node-role.kubernetes.io/etcd", "NoExecute"),
        exists(TAINT_CLOUD, "NoSchedule"),
        exists(api::catalogue::annotations::TAINT_UNINITIALIZED, "NoSchedule"),
    ];
    let note = context.machine.note(api::catalogue::annotations::TAINTS).unwrap_or_default();
    let taints: Vec<Taint> = serde_json::from_str(note).unwrap_or_default();
    all.extend(taints.iter().map(|taint| {
        json!({"key": taint.key, "operator": "Equal", "value": taint.value.as_deref().unwrap_or(""), "effect": taint.effect})
    }));
    let custom = agent.customization.iter().flat_map(|custom| &custom.append_tolerations);
    all.extend(custom.map(|toleration| json!(toleration)));
    all
}
