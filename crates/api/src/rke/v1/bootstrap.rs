use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::{is_default, null_default};

kind! {
    /// What makes one machine a node: the bootstrap provider answers it with a Secret that holds the install script.
    #[schemars(extend("required" = ["spec"]))]
    pub struct RKEBootstrap: "rke.cattle.io" / "v1" rkebootstraps Namespaced {
        /// What is asked for.
        #[serde(deserialize_with = "null_default")]
        pub spec: RKEBootstrapSpec,
        /// What is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<RKEBootstrapStatus>,
    }
}

kind! {
    /// The pattern from which Cluster API makes the bootstrap object of each machine in a pool.
    #[schemars(extend("required" = ["spec"]))]
    pub struct RKEBootstrapTemplate: "rke.cattle.io" / "v1" rkebootstraptemplates Namespaced {
        /// The pattern.
        #[serde(deserialize_with = "null_default")]
        pub spec: RKEBootstrapTemplateSpec,
    }
}

/// What an [`RKEBootstrap`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RKEBootstrapSpec {
    /// What the machine runs beside the install script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub userdata: Option<Userdata>,
    /// Name of the cluster that the machine belongs to.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
}

/// A user's own start-up instructions. Only machines of native Cluster API providers take them from here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Userdata {
    /// A cloud-config document; the install script comes before its commands.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub inline_userdata: String,
}

/// What an [`RKEBootstrap`] is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RKEBootstrapStatus {
    /// Deprecated: [`initialization`](Self::initialization) replaces it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub ready: bool,
    /// What Cluster API's contract asks of a bootstrap object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<RKEBootstrapInitialization>,
    /// Secret with the install script in its key `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub data_secret_name: Option<String>,
}

/// First outcome of an [`RKEBootstrap`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct RKEBootstrapInitialization {
    /// Set once the Secret is there; never unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_secret_created: Option<bool>,
}

/// What an [`RKEBootstrapTemplate`] holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["template"]))]
pub struct RKEBootstrapTemplateSpec {
    /// Name of the cluster that the template belongs to.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// The object to make.
    #[serde(deserialize_with = "null_default")]
    pub template: RKEBootstrapTemplateResource,
}

/// An [`RKEBootstrap`] to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["spec"]))]
pub struct RKEBootstrapTemplateResource {
    /// Not used: the template's kind decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Not used: the template's kind decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Labels and annotations of the object to make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Its spec.
    #[serde(deserialize_with = "null_default")]
    pub spec: RKEBootstrapSpec,
    /// Not used: an object begins without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RKEBootstrapStatus>,
}

/// What of an object's metadata a template can say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMetadata {
    /// Not used: names are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Not used: objects stay in the template's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the object.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the object.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Not used: controllers place their own.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}
