use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rke::v1::{CommonNodeConfig, RKEMachineStatus};
use crate::wire::{is_default, null_default};

/// What the servers of a pool are, as users say it. The driver's fields stand at the top level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfig {
    /// `rke-machine-config.cattle.io/v1`.
    pub api_version: String,
    /// `<Driver>Config`.
    pub kind: String,
    /// Name, namespace and the rest of what every object has.
    pub metadata: ObjectMeta,
    /// The driver's fields.
    #[serde(flatten)]
    pub fields: BTreeMap<String, Value>,
}

/// From which a MachineDeployment clones machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTemplate {
    /// `rke-machine.cattle.io/v1`.
    pub api_version: String,
    /// `<Driver>MachineTemplate`.
    pub kind: String,
    /// Name, namespace and the rest of what every object has.
    pub metadata: ObjectMeta,
    /// The pattern.
    #[serde(deserialize_with = "null_default")]
    pub spec: MachineTemplateSpec,
}

/// What a [`MachineTemplate`] holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTemplateSpec {
    /// Name of the provisioning cluster.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// The machine to make.
    #[serde(deserialize_with = "null_default")]
    pub template: MachineTemplateResource,
}

/// A [`Machine`] to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTemplateResource {
    /// Its spec.
    #[serde(deserialize_with = "null_default")]
    pub spec: MachineSpec,
}

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Machine {
    /// `rke-machine.cattle.io/v1`.
    pub api_version: String,
    /// `<Driver>Machine`.
    pub kind: String,
    /// Name, namespace and the rest of what every object has.
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "null_default")]
    pub spec: MachineSpec,
    /// What is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RKEMachineStatus>,
}

/// What a [`Machine`] should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// What is said whatever the driver. A change of it replaces no machine.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub common: CommonNodeConfig,
    /// The provider id of its node; known once the node has joined.
    #[serde(
        rename = "providerID",
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub provider_id: String,
    /// The driver's fields.
    #[serde(flatten)]
    pub fields: BTreeMap<String, Value>,
}

/// These kinds are known only while running: an `ApiResource` says which one is meant.
macro_rules! dynamic_resource {
    ($($Object:ident),*) => { $(
        impl kube::Resource for $Object {
            type DynamicType = ApiResource;
            type Scope = NamespaceResourceScope;

            fn kind(resource: &ApiResource) -> Cow<'_, str> {
                resource.kind.as_str().into()
            }
            fn group(resource: &ApiResource) -> Cow<'_, str> {
                resource.group.as_str().into()
            }
            fn version(resource: &ApiResource) -> Cow<'_, str> {
                resource.version.as_str().into()
            }
            fn plural(resource: &ApiResource) -> Cow<'_, str> {
                resource.plural.as_str().into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )* };
}

dynamic_resource!(MachineConfig, MachineTemplate, Machine);
