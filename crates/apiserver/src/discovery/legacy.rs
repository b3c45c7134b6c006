//! Group by group, in kinds of `v1`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeapi::GroupVersion;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::groups::{Group, Groups, Version, verbs};
use crate::registry::{Origin, Registry, Resource, Subresource};

/// `/api`. The addresses are left to who knows them: no client asks.
pub(super) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `/apis`
pub(super) fn group_list(groups: &Groups<'_>) -> Value {
    let groups: Vec<Value> = groups.by_preferred_version().into_iter().map(described).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`
pub(super) fn group(group: &Group<'_>) -> Value {
    let mut value = described(group);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    value
}

fn described(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            json!({"groupVersion": format!("{}/{}", group.name, version.name), "version": version.name})
        })
        .collect();
    json!({"name": group.name, "preferredVersion": versions.first(), "versions": versions})
}

/// `/api/v1` and `/apis/<group>/<version>`
pub(super) fn resources(registry: &Registry, group: &str, version: &Version<'_>) -> Value {
    let group_version = GroupVersion::new(group, version.name).to_string();
    let resources: Vec<Value> = version.resources.iter().flat_map(|one| entries(registry, one)).collect();
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

/// A resource and its subresources.
fn entries(registry: &Registry, resource: &Resource) -> Vec<Value> {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs(resource),
    });
    for (name, list) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !list.is_empty() {
            entry[name] = json!(list);
        }
    }
    if let Some(hash) = storage_version_hash(registry, resource) {
        entry["storageVersionHash"] = hash.into();
    }
    let subresources = resource.subresources.iter().map(|sub| subresource(resource, sub));
    std::iter::once(entry).chain(subresources).collect()
}

fn subresource(resource: &Resource, sub: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, sub.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": sub.kind.kind,
        "verbs": sub.verbs,
    });
    if sub.kind.group_version() != resource.group_version() {
        entry["group"] = sub.kind.group.as_str().into();
        entry["version"] = sub.kind.version.as_str().into();
    }
    entry
}

/// What changes when objects are stored in another version. Nothing for what is not stored, or in a version that is
/// not served. Of built-in kinds it is upstream's, which stores some in another group or version.
fn storage_version_hash(registry: &Registry, resource: &Resource) -> Option<String> {
    let stored = GroupVersion::new(&*resource.group, &*resource.storage_version);
    let stored = match &resource.origin {
        Origin::Builtin(one) if !one.stored => return None,
        Origin::Builtin(one) => match one.kind {
            "Event" => GroupVersion::new("", "v1"),
            "CustomResourceDefinition" => GroupVersion::new(one.group, "v1beta1"),
            _ => stored,
        },
        Origin::Custom(_) => registry.get(&stored, &resource.plural).map(|_| stored)?,
    };
    let name = format!("{}/{}/{}", stored.group, stored.version, resource.kind);
    Some(STANDARD.encode(&Sha256::digest(name)[..8]))
}
