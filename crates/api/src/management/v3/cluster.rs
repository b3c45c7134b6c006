use k8s_openapi::api::core::v1::{EnvVar, ObjectReference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GenericCondition;
use crate::provisioning::v1::{AgentDeploymentCustomization, WebhookDeploymentCustomization};
use crate::rke::v1::LocalClusterAuthEndpoint;
use crate::wire::{is_default, null_default};

kind! {
    /// A cluster as the management plane sees it: the end of its tunnel, its agents, its access.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub struct Cluster: "management.cattle.io" / "v3" clusters Cluster {
        /// What is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: ClusterSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<ClusterStatus>,
    }
}

/// What a [`Cluster`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterSpec {
    /// Name that users see.
    #[serde(deserialize_with = "null_default")]
    pub display_name: String,
    /// A sentence of the users.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it is the cluster that the server itself runs in.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub internal: bool,
    /// Image of the cluster agent; `fixed` or empty means the server's own choice.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub desired_agent_image: String,
    /// Image of the authenticator for direct access.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub desired_auth_image: String,
    /// Image that wins over the desired one.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub agent_image_override: String,
    /// Environment of the cluster agent.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub agent_env_vars: Vec<EnvVar>,
    /// Pod security template for the whole cluster.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub default_pod_security_admission_configuration_template_name: String,
    /// Role that members of projects get.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub default_cluster_role_for_project_members: String,
    /// Whether projects are kept apart by network policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_network_policy: Option<bool>,
    /// Direct access to the cluster's API, without the tunnel.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub local_cluster_auth_endpoint: LocalClusterAuthEndpoint,
    /// Secrets that the cluster needs.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub cluster_secrets: ClusterSecrets,
    /// Changes to the cluster agent's Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_agent_deployment_customization: Option<AgentDeploymentCustomization>,
    /// Changes to the Fleet agent's Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet_agent_deployment_customization: Option<AgentDeploymentCustomization>,
    /// Changes to the webhook's Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_deployment_customization: Option<WebhookDeploymentCustomization>,
    /// Settings of an imported cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported_config: Option<ImportedConfig>,
    /// Fleet workspace.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub fleet_workspace_name: String,
}

/// Secrets of a [`Cluster`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterSecrets {
    /// Pull secret of the private registry.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub private_registry_secret: String,
    /// The private registry.
    #[serde(
        rename = "privateRegistryURL",
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub private_registry_url: String,
}

/// Settings of an imported cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ImportedConfig {
    /// The private registry.
    #[serde(
        rename = "privateRegistryURL",
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub private_registry_url: String,
    /// Pull secrets of the private registry.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub private_registry_pull_secrets: Vec<String>,
}

/// What a [`Cluster`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterStatus {
    /// What is observed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<GenericCondition>,
    /// How the cluster came to be: `imported`, `rke2`, `k3s`, `local`, ...
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub driver: String,
    /// The distribution, as found in the cluster.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// Image of the cluster agent that is deployed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub agent_image: String,
    /// Environment of the cluster agent that is deployed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub applied_agent_env_vars: Vec<EnvVar>,
    /// Where the cluster's API is, seen from the cluster's own end of the tunnel.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub api_endpoint: String,
    /// Secret with the token of the cluster agent's ServiceAccount.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub service_account_token_secret: String,
    /// Certificates of the cluster's API, base64 of PEM.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub ca_cert: String,
    /// Version of the cluster's API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<ClusterVersion>,
    /// Nodes.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub node_count: i64,
    /// Linux workers.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub linux_worker_count: i64,
    /// Windows workers.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub windows_worker_count: i64,
    /// While set, `Ready` follows the control plane and not the tunnel.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub ready_reconciling: bool,
    /// What the dashboard shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<ClusterInfo>,
}

/// Version of an API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterVersion {
    /// The version, such as `v1.33.5+rke2r1`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub git_version: String,
    /// `linux/amd64` and the like.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub platform: String,
}

/// A [`Cluster`] in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterInfo {
    /// The driver of its machines.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub machine_provider: String,
    /// Its version.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub kubernetes_version: String,
    /// Its nodes.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub node_count: i64,
    /// Architecture of its nodes, or `mixed`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub arch: String,
    /// The provisioning cluster that it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_cluster_ref: Option<ObjectReference>,
}
