use std::collections::BTreeMap;

use kubeapi::GroupVersion;
use kubeapi::openapi::{Custom, Resource, Subresource};

use crate::registry::{self, Registry};

/// All resources by group and version.
pub(super) fn described(registry: &Registry) -> BTreeMap<GroupVersion, Vec<Resource<'_>>> {
    let mut found: BTreeMap<GroupVersion, Vec<Resource<'_>>> = BTreeMap::new();
    for resource in registry.iter() {
        found.entry(resource.group_version()).or_default().push(one(resource));
    }
    found
}

fn one(resource: &registry::Resource) -> Resource<'_> {
    let subresources = resource.subresources.iter();
    Resource {
        group: &resource.group,
        version: &resource.version,
        kind: &resource.kind,
        list_kind: &resource.list_kind,
        plural: &resource.plural,
        namespaced: resource.namespaced,
        verbs: &resource.verbs,
        subresources: subresources
            .map(|sub| Subresource { name: &sub.name, kind: &sub.kind, verbs: &sub.verbs })
            .collect(),
        custom: resource.as_custom().map(|custom| Custom {
            schema: custom.version.schema.as_ref(),
            selectable_fields: &custom.version.selectable_fields,
        }),
    }
}
