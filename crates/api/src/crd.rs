//! CustomResourceDefinitions, made from the types.

mod definition;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub use definition::{Column, Definition, Version};
pub(crate) use definition::{schema_props, status_subresource};

/// Every CustomResourceDefinition that Herdsman installs, in the order in which they are listed in the manifests.
pub fn all() -> Vec<CustomResourceDefinition> {
    let groups = [
        crate::provisioning::v1::definitions(),
        crate::rke::v1::definitions(),
        crate::plans::v1alpha1::definitions(),
        crate::operation::v1alpha1::definitions(),
        crate::management::v3::definitions(),
        crate::capi::v1beta2::definitions(),
        crate::ipam::definitions(),
        crate::clusterctl::v1alpha3::definitions(),
    ];
    groups.into_iter().flatten().map(Definition::build).collect()
}
