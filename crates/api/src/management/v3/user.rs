use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::GenericCondition;
use crate::wire::{is_default, null_default};

kind! {
    /// Somebody, or something, that requests are made for.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub struct User: "management.cattle.io" / "v3" users Cluster {
        /// Name that others see.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
        pub display_name: String,
        /// A sentence.
        #[serde(deserialize_with = "null_default")]
        pub description: String,
        /// Name to log in with; empty for users that do not.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
        pub username: String,
        /// Who the user is with each authentication provider, such as `system://provisioning/fleet-default/prod`.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
        pub principal_ids: Vec<String>,
        /// Whether requests are let in; not set means yes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub enabled: Option<bool>,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<UserStatus>,
    }
}

/// What a [`User`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct UserStatus {
    /// What is observed.
    #[serde(deserialize_with = "null_default")]
    pub conditions: Vec<GenericCondition>,
}

kind! {
    /// A credential of a user. A client shows `<name>:<secret>`.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub struct Token: "management.cattle.io" / "v3" tokens Cluster {
        /// Hash of the secret half.
        #[serde(deserialize_with = "null_default")]
        pub token: String,
        /// Who the user was when the token was made.
        #[serde(deserialize_with = "null_default")]
        pub user_principal: Principal,
        /// Groups of the user at that time.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
        pub group_principals: Vec<Principal>,
        /// What the provider keeps with it.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
        pub provider_info: BTreeMap<String, String>,
        /// Name of the user.
        #[serde(deserialize_with = "null_default")]
        pub user_id: String,
        /// Provider that vouched for the user.
        #[serde(deserialize_with = "null_default")]
        pub auth_provider: String,
        /// Lifetime in milliseconds; 0 means for ever.
        #[serde(deserialize_with = "null_default")]
        pub ttl: i64,
        /// Whether it was made from another token.
        #[serde(deserialize_with = "null_default")]
        pub is_derived: bool,
        /// A sentence.
        #[serde(deserialize_with = "null_default")]
        pub description: String,
        /// Whether its time is over.
        #[serde(deserialize_with = "null_default")]
        pub expired: bool,
        /// When its time is over, RFC 3339; empty means never.
        #[serde(deserialize_with = "null_default")]
        pub expires_at: String,
        /// Whether it is the one the request was made with.
        #[serde(deserialize_with = "null_default")]
        pub current: bool,
        /// The one cluster that it opens; empty means all.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
        pub cluster_name: String,
        /// Whether it is let in; not set means yes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub enabled: Option<bool>,
    }
}

/// A user or group as a provider knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Principal {
    /// Its name is the principal's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Value>>,
    /// Name that others see.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Name to log in with.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub login_name: String,
    /// `user` or `group`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub principal_type: String,
    /// Whether it is who asks.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub me: bool,
    /// The provider.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub provider: String,
}

kind! {
    /// A role of a user or group in one cluster. Lives in the namespace that bears the cluster's name.
    #[schemars(extend(
        "required" = ["clusterName", "roleTemplateName"],
        "x-kubernetes-preserve-unknown-fields" = true
    ))]
    pub struct ClusterRoleTemplateBinding: "management.cattle.io" / "v3" clusterroletemplatebindings Namespaced {
        /// The user, by object name.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
        pub user_name: String,
        /// The user, by principal.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
        pub user_principal_name: String,
        /// The group, by object name.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
        pub group_name: String,
        /// The group, by principal.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
        pub group_principal_name: String,
        /// The cluster.
        #[serde(deserialize_with = "null_default")]
        pub cluster_name: String,
        /// The role, such as `cluster-owner`.
        #[serde(deserialize_with = "null_default")]
        pub role_template_name: String,
    }
}

kind! {
    /// A role that can be given to users in clusters or projects.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub struct RoleTemplate: "management.cattle.io" / "v3" roletemplates Cluster {
        /// Name that users see.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
        pub display_name: String,
        /// A sentence.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
        pub description: String,
        /// What it allows.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
        pub rules: Vec<PolicyRule>,
        /// Whether it came with the server.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub builtin: bool,
        /// Whether the rules come from a ClusterRole of the same name.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub external: bool,
        /// Whether it is not offered.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub hidden: bool,
        /// Whether it can no longer be given.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub locked: bool,
        /// Whether who makes a cluster gets it.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub cluster_creator_default: bool,
        /// Whether who makes a project gets it.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub project_creator_default: bool,
        /// `cluster` or `project`.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
        #[schemars(extend("enum" = ["project", "cluster", ""]))]
        pub context: String,
        /// Roles that it includes.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
        pub role_template_names: Vec<String>,
        /// Whether it allows everything.
        #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
        pub administrative: bool,
    }
}
