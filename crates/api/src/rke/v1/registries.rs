use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::wire::{is_default, null_default};

/// Where images are pulled from instead of their own registries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Registry {
    /// Mirrors, by the host that images name (`*` for all).
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub mirrors: BTreeMap<String, Mirror>,
    /// Credentials and TLS, by the host that is asked.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub configs: BTreeMap<String, RegistryConfig>,
}

/// Stand-ins for one registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Mirror {
    /// URLs, tried in order.
    #[serde(rename = "endpoint", deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
    /// Replacements in the repository's path: regular expression to result.
    #[serde(
        rename = "rewrite",
        deserialize_with = "null_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub rewrites: BTreeMap<String, String>,
}

/// How one registry is talked to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryConfig {
    /// Secret with the credentials, in the cluster's namespace.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub auth_config_secret_name: String,
    /// `kubernetes.io/tls` Secret with a client certificate, in the cluster's namespace.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub tls_secret_name: String,
    /// Certificates to trust, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "bytes")]
    pub ca_bundle: Option<ByteString>,
    /// Do not check the registry's certificate.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub insecure_skip_verify: bool,
}

/// Bytes on the wire: base64.
fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "byte" })
}
