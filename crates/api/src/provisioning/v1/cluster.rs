use k8s_openapi::api::core::v1::ObjectReference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentDeploymentCustomization, MachinePool, MachinePoolDefaults, WebhookDeploymentCustomization};
use crate::GenericCondition;
use crate::rke::v1::{
    ClusterConfiguration, EnvVar, LocalClusterAuthEndpoint, RotateCertificates, RotateEncryptionKeys,
    SnapshotCreate, SnapshotRestore,
};
use crate::wire::{is_default, null_default};

kind! {
    /// A cluster as its users ask for it: everything else is made from this object.
    pub struct Cluster: "provisioning.cattle.io" / "v1" clusters Namespaced {
        /// What is asked for.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub spec: ClusterSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<ClusterStatus>,
    }
}

/// What a [`Cluster`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// The credential of pools that name none: `cattle-global-data:name`, or a Secret in the cluster's namespace.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 317))]
    pub cloud_credential_secret_name: String,
    /// Version of the distribution, such as `v1.33.5+rke2r1` or `v1.33.5+k3s1`. Needed with `rkeConfig`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub kubernetes_version: String,
    /// Deprecated: a Cluster API cluster to take over.
    #[serde(rename = "clusterAPIConfig", skip_serializing_if = "Option::is_none")]
    pub cluster_api_config: Option<ClusterAPIConfig>,
    /// The nodes and their configuration; without it the cluster is somebody else's, and imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rke_config: Option<RKEConfig>,
    /// Direct access to the cluster's API, without the tunnel.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub local_cluster_auth_endpoint: LocalClusterAuthEndpoint,
    /// Environment of the agents on the nodes and in the cluster, and of the distribution's installer.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub agent_env_vars: Vec<EnvVar>,
    /// Changes to the cluster agent's Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_agent_deployment_customization: Option<AgentDeploymentCustomization>,
    /// Pod security template for the whole cluster.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub default_pod_security_admission_configuration_template_name: String,
    /// Not used.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub default_cluster_role_for_project_members: String,
    /// Whether projects are kept apart by network policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_network_policy: Option<bool>,
    /// Changes to the Fleet agent's Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet_agent_deployment_customization: Option<AgentDeploymentCustomization>,
    /// Changes to the webhook's Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_deployment_customization: Option<WebhookDeploymentCustomization>,
    /// Each new value installs the node agents again.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub redeploy_system_agent_generation: i64,
}

/// A Cluster API cluster that exists already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAPIConfig {
    /// Its name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
}

/// The nodes of a cluster and what runs on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RKEConfig {
    /// The configuration of the nodes.
    #[serde(flatten)]
    pub configuration: ClusterConfiguration,
    /// Save a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_snapshot_create: Option<SnapshotCreate>,
    /// Go back to a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_snapshot_restore: Option<SnapshotRestore>,
    /// Renew certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_certificates: Option<RotateCertificates>,
    /// Encrypt Secrets with a new key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_encryption_keys: Option<RotateEncryptionKeys>,
    /// Groups of equal machines. None for a cluster of machines that register themselves.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub machine_pools: Vec<MachinePool>,
    /// What pools that do not say otherwise do.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub machine_pool_defaults: MachinePoolDefaults,
    /// The infrastructure cluster of a native Cluster API provider, made by the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ObjectReference>,
}

/// What a [`Cluster`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Whether the cluster's agent has ever connected.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub ready: bool,
    /// Name of the management cluster object, such as `c-m-w2bfx9xq`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// Fleet workspace; the cluster's namespace unless told otherwise.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub fleet_workspace_name: String,
    /// Secret with a kubeconfig of the cluster, in the same namespace.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub client_secret_name: String,
    /// Whether the cluster's agent is deployed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub agent_deployed: bool,
    /// The generation that this status speaks of.
    #[serde(deserialize_with = "null_default")]
    pub observed_generation: i64,
    /// What is observed.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<GenericCondition>,
}
