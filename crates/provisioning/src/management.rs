//! The half of a cluster that users, agents and tunnels see: the `management.cattle.io/v3` objects.

use std::collections::BTreeMap;

use api::catalogue::{annotations, labels};
use api::management::Owner;
use api::management::v3::{
    Cluster as ManagementCluster, ClusterRegistrationToken, ClusterRegistrationTokenSpec, ClusterSecrets,
    ClusterSpec,
};
use api::names;
use api::provisioning::v1::Cluster;
use k8s_openapi::api::core::v1::{EnvVar, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Object;
use crate::graph::applied::is_mark;

mod identity;

pub use identity::{Claims, Found, Identity, identify, owns_namespace};

/// The registration tokens that every management cluster has: for hosts, for its tunnel.
pub const TOKENS: [&str; 2] = [names::DEFAULT_REGISTRATION_TOKEN, names::SYSTEM_REGISTRATION_TOKEN];

/// The set of these objects.
pub use api::management::SET;

/// Variable that moves the node agent's directory.
pub const AGENT_VAR_DIR: &str = "CATTLE_AGENT_VAR_DIR";

/// What annotations of the server's own begin with.
const OURS: &str = "herdsman.io/";

/// `kubectl apply`'s own note. It speaks of another object.
const KUBECTL_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Images that the server's settings name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Images<'a> {
    /// Of the cluster agent.
    pub agent: &'a str,
    /// Of the authenticator for direct access.
    pub auth: &'a str,
    /// Registry that images come from; the cluster's own wins.
    pub registry: &'a str,
}

/// The management cluster, the namespace of its name, and the tokens with which hosts and the cluster's tunnel introduce
/// themselves: neither can do what the other does. The first two say whom they were made for.
pub fn objects(cluster: &Cluster, name: &str, images: Images<'_>) -> Vec<Object> {
    let owner = BTreeMap::from([(annotations::HERDSMAN_OWNER.to_owned(), owner(cluster).to_string())]);
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.into()),
            annotations: Some(owner),
            labels: Some(BTreeMap::from([(labels::MANAGEMENT_CLUSTER_NAME.to_owned(), name.to_owned())])),
            ..Default::default()
        },
        ..Default::default()
    };
    let token = |token: &str| ClusterRegistrationToken {
        metadata: ObjectMeta { name: Some(token.into()), namespace: Some(name.into()), ..Default::default() },
        spec: ClusterRegistrationTokenSpec { cluster_name: name.into(), ..Default::default() },
        ..Default::default()
    };
    let mut made = vec![Object::of(&management_cluster(cluster, name, images)), Object::of(&namespace)];
    made.extend(TOKENS.map(|name| Object::of(&token(name))));
    made
}

/// The provisioning cluster as the owner of its management cluster.
pub fn owner(cluster: &Cluster) -> Owner {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let metadata = &cluster.metadata;
    Owner { namespace: text(&metadata.namespace), name: text(&metadata.name), uid: text(&metadata.uid) }
}

/// Whether an annotation of a provisioning cluster, which its user writes, is copied to the management cluster. What the server notes
/// there is the server's alone.
fn is_copied(key: &str) -> bool {
    !is_mark(key)
        && !key.starts_with(OURS)
        && ![KUBECTL_APPLIED, annotations::MANAGEMENT_CLUSTER_NAME].contains(&key)
}

fn management_cluster(cluster: &Cluster, name: &str, images: Images<'_>) -> ManagementCluster {
    let copied = cluster.metadata.annotations.iter().flatten().filter(|(key, _)| is_copied(key));
    let mut marks: BTreeMap<String, String> =
        copied.map(|(key, value)| (key.clone(), value.clone())).collect();
    marks.insert(annotations::HERDSMAN_OWNER.into(), owner(cluster).to_string());
    // A user may say otherwise, as with Rancher.
    let administrated = || cluster.spec.rke_config.is_some().to_string();
    marks.entry(annotations::ADMINISTRATED.to_owned()).or_insert_with(administrated);
    ManagementCluster {
        metadata: ObjectMeta {
            name: Some(name.into()),
            labels: cluster.metadata.labels.clone(),
            annotations: Some(marks),
            ..Default::default()
        },
        spec: spec(cluster, images),
        ..Default::default()
    }
}

fn spec(cluster: &Cluster, images: Images<'_>) -> ClusterSpec {
    let from = &cluster.spec;
    let (registry, secret) = private_registry(cluster);
    let prefix = if registry.is_empty() { images.registry } else { &registry };
    let text = |key| annotation(cluster, key).unwrap_or_default().to_owned();
    let workspace = match text(annotations::FLEET_WORKSPACE_NAME) {
        none if none.is_empty() => cluster.metadata.namespace.clone().unwrap_or_default(),
        asked => asked,
    };
    ClusterSpec {
        display_name: cluster.metadata.name.clone().unwrap_or_default(),
        description: text(annotations::DESCRIPTION),
        desired_agent_image: from_registry(images.agent, prefix),
        desired_auth_image: from_registry(images.auth, prefix),
        agent_env_vars: agent_environment(cluster),
        default_pod_security_admission_configuration_template_name: from
            .default_pod_security_admission_configuration_template_name
            .clone(),
        default_cluster_role_for_project_members: from.default_cluster_role_for_project_members.clone(),
        enable_network_policy: from.enable_network_policy,
        local_cluster_auth_endpoint: from.local_cluster_auth_endpoint.clone(),
        cluster_secrets: ClusterSecrets { private_registry_secret: secret, private_registry_url: registry },
        cluster_agent_deployment_customization: from.cluster_agent_deployment_customization.clone(),
        fleet_agent_deployment_customization: from.fleet_agent_deployment_customization.clone(),
        webhook_deployment_customization: from.webhook_deployment_customization.clone(),
        fleet_workspace_name: workspace,
        ..Default::default()
    }
}

fn agent_environment(cluster: &Cluster) -> Vec<EnvVar> {
    let variable = |name: &str, value: &str| EnvVar {
        name: name.into(),
        value: Some(value.into()),
        ..Default::default()
    };
    let given = cluster.spec.agent_env_vars.iter().map(|one| variable(&one.name, &one.value));
    let directory = cluster
        .spec
        .rke_config
        .as_ref()
        .map(|config| config.configuration.data_directories.system_agent.as_str())
        .filter(|directory| !directory.is_empty());
    given.chain(directory.map(|directory| variable(AGENT_VAR_DIR, directory))).collect()
}

/// The registry that the cluster's nodes use for the system's images, and the Secret of its credentials.
fn private_registry(cluster: &Cluster) -> (String, String) {
    const KEY: &str = "system-default-registry";
    let Some(config) = &cluster.spec.rke_config else { return Default::default() };
    let config = &config.configuration;
    let everywhere = config.machine_selector_config.iter().rev();
    let everywhere = everywhere.filter(|one| one.machine_label_selector.is_none()).map(|one| &one.config);
    let url = everywhere
        .chain([&config.machine_global_config])
        .filter_map(|settings| settings.get(KEY)?.as_str())
        .find(|url| !url.is_empty())
        .unwrap_or_default();
    let registry = config.registries.as_ref().and_then(|registries| registries.configs.get(url));
    (url.to_owned(), registry.map(|one| one.auth_config_secret_name.clone()).unwrap_or_default())
}

fn from_registry(image: &str, registry: &str) -> String {
    match image.is_empty() || registry.is_empty() || image.starts_with(&format!("{registry}/")) {
        true => image.to_owned(),
        false => format!("{registry}/{image}"),
    }
}

fn annotation<'a>(cluster: &'a Cluster, key: &str) -> Option<&'a str> {
    cluster.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use api::provisioning::v1::RKEConfig;
    use api::rke::v1::{ClusterConfiguration, SystemConfig};
    use serde_json::json;

    use super::*;

    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some("prod".into());
        cluster.metadata.namespace = Some("fleet-default".into());
        cluster
    }

    #[test]
    fn images_come_from_the_clusters_registry() {
        let images = Images { agent: "rancher/agent:v1", auth: "", registry: "global.example.com" };
        let image = |cluster: &Cluster| spec(cluster, images).desired_agent_image;
        let mut one = cluster();
        assert_eq!(image(&one), "global.example.com/rancher/agent:v1");
        let registry = |url: &str| BTreeMap::from([("system-default-registry".to_owned(), json!(url))]);
        one.spec.rke_config = Some(RKEConfig {
            configuration: ClusterConfiguration {
                machine_global_config: registry("one.example.com"),
                ..Default::default()
            },
            ..Default::default()
        });
        assert_eq!(image(&one), "one.example.com/rancher/agent:v1");
        let config = &mut one.spec.rke_config.as_mut().unwrap().configuration;
        let everywhere = SystemConfig { config: registry("two.example.com"), ..Default::default() };
        config.machine_selector_config.push(everywhere);
        assert_eq!(image(&one), "two.example.com/rancher/agent:v1");
    }

    #[test]
    fn annotations_are_copied_but_for_bookkeeping() {
        let mut one = cluster();
        one.metadata.uid = Some("u1".into());
        let given = [
            ("a", "1"),
            (KUBECTL_APPLIED, "{}"),
            ("objectset.rio.cattle.io/id", "x"),
            (annotations::HERDSMAN_OWNER, "team-a/prod/u0"),
            (annotations::MANAGEMENT_CLUSTER_NAME, "c-m-other"),
            ("herdsman.io/paused-by-move", "true"),
        ];
        one.metadata.annotations = Some(given.map(|(key, value)| (key.into(), value.into())).into());
        let made = objects(&one, "c-m-x", Images::default());
        assert_eq!(made[0].annotation("a"), Some("1"));
        assert_eq!(made[0].annotation(KUBECTL_APPLIED), None);
        assert_eq!(made[0].annotation("objectset.rio.cattle.io/id"), None);
        assert_eq!(made[0].annotation(annotations::MANAGEMENT_CLUSTER_NAME), None);
        assert_eq!(made[0].annotation("herdsman.io/paused-by-move"), None);
        for object in &made[..2] {
            assert_eq!(object.annotation(annotations::HERDSMAN_OWNER), Some("fleet-default/prod/u1"));
        }
        assert_eq!(made[0].annotation(annotations::ADMINISTRATED), Some("false"));
        assert_eq!(made[2].id().to_string(), "ClusterRegistrationToken c-m-x/default-token");
        assert_eq!(made[3].id().to_string(), "ClusterRegistrationToken c-m-x/system");
    }
}
