use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::null_default;

kind! {
    /// A token with which machines and agents of one cluster introduce themselves.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub struct ClusterRegistrationToken: "management.cattle.io" / "v3" clusterregistrationtokens Namespaced {
        /// What is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: ClusterRegistrationTokenSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<ClusterRegistrationTokenStatus>,
    }
}

/// What a [`ClusterRegistrationToken`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterRegistrationTokenSpec {
    /// Name of the management cluster object.
    #[serde(deserialize_with = "null_default")]
    pub cluster_name: String,
    /// Lifetime of a token before a new one takes its place; not set or 0 means for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<i64>,
    /// How long the token before the present one stays good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<i64>,
}

/// What a [`ClusterRegistrationToken`] is. In commands, `{token}` stands for the token: it is put in when a user who
/// may see it reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterRegistrationTokenStatus {
    /// Command that imports a cluster, without a check of the server's certificate.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub insecure_command: String,
    /// Command that imports a cluster.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Command that makes a Windows machine a node.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub windows_node_command: String,
    /// The same without a check of the server's certificate.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub insecure_windows_node_command: String,
    /// Command that makes a Linux machine a node; role flags follow it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub node_command: String,
    /// The same without a check of the server's certificate.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub insecure_node_command: String,
    /// URL of the manifest of the cluster agent.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub manifest_url: String,
    /// Deprecated: tokens live in the Secret.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// Secret with the token.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub token_secret_name: String,
    /// When the token gives way to a new one, RFC 3339.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub expires_at: String,
    /// Until when the token before it is good, RFC 3339.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub grace_period_expires_at: String,
}
