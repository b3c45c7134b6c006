use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::null_default;

kind! {
    /// A configuration of Kubernetes' pod security admission that clusters take by name.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub struct PodSecurityAdmissionConfigurationTemplate: "management.cattle.io" / "v3" podsecurityadmissionconfigurationtemplates Cluster {
        /// A sentence.
        #[serde(deserialize_with = "null_default")]
        pub description: String,
        /// The configuration.
        #[serde(deserialize_with = "null_default")]
        pub configuration: PodSecurityConfiguration,
    }
}

/// What a [`PodSecurityAdmissionConfigurationTemplate`] says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PodSecurityConfiguration {
    /// Levels of namespaces that do not say their own.
    #[serde(deserialize_with = "null_default")]
    pub defaults: PodSecurityDefaults,
    /// Who and what is let through.
    #[serde(deserialize_with = "null_default")]
    pub exemptions: PodSecurityExemptions,
}

/// Levels (`privileged`, `baseline`, `restricted`) and the Kubernetes versions whose meaning of them counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct PodSecurityDefaults {
    /// Pods beyond it are refused.
    #[serde(deserialize_with = "null_default")]
    pub enforce: String,
    /// A version or `latest`.
    #[serde(deserialize_with = "null_default")]
    pub enforce_version: String,
    /// Pods beyond it are noted in the audit log.
    #[serde(deserialize_with = "null_default")]
    pub audit: String,
    /// A version or `latest`.
    #[serde(deserialize_with = "null_default")]
    pub audit_version: String,
    /// Pods beyond it bring a warning.
    #[serde(deserialize_with = "null_default")]
    pub warn: String,
    /// A version or `latest`.
    #[serde(deserialize_with = "null_default")]
    pub warn_version: String,
}

/// What pod security does not look at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSecurityExemptions {
    /// Pods that these users make.
    #[serde(deserialize_with = "null_default")]
    pub usernames: Vec<String>,
    /// Pods of these runtime classes.
    #[serde(deserialize_with = "null_default")]
    pub runtime_classes: Vec<String>,
    /// Pods in these namespaces.
    #[serde(deserialize_with = "null_default")]
    pub namespaces: Vec<String>,
}
