//! All at once, in kinds of `apidiscovery.k8s.io`.

use kubeapi::GroupVersionKind;
use kubeapi::media::Discovery;
use serde_json::{Value, json};

use super::groups::{Group, Version, verbs};
use crate::registry::{Origin, Resource};

/// An `APIGroupDiscoveryList`.
pub(super) fn list<'a, 'b: 'a>(form: Discovery, groups: impl IntoIterator<Item = &'a Group<'b>>) -> Value {
    let api_version = match form {
        Discovery::V2Beta1 => "apidiscovery.k8s.io/v2beta1",
        Discovery::V2 | Discovery::Legacy => "apidiscovery.k8s.io/v2",
    };
    let items: Vec<Value> = groups.into_iter().map(group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items})
}

fn group(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    let metadata = match group.name {
        "" => json!({}),
        name => json!({"name": name}),
    };
    json!({"metadata": metadata, "versions": versions})
}

fn version(version: &Version<'_>) -> Value {
    let resources: Vec<Value> = version.resources.iter().map(|one| resource(one)).collect();
    json!({"version": version.name, "resources": resources, "freshness": "Current"})
}

fn resource(resource: &Resource) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": response_kind(resource, &resource.gvk()),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    for (name, list) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !list.is_empty() {
            entry[name] = json!(list);
        }
    }
    if !resource.subresources.is_empty() {
        let subresources = resource.subresources.iter().map(|sub| {
            let kind = response_kind(resource, &sub.kind);
            json!({"subresource": sub.name, "responseKind": kind, "verbs": sub.verbs})
        });
        entry["subresources"] = subresources.collect();
    }
    entry
}

/// Of built-in kinds only a foreign group and version is told.
fn response_kind(resource: &Resource, kind: &GroupVersionKind) -> Value {
    let builtin = matches!(resource.origin, Origin::Builtin(_));
    match builtin && kind.group_version() == resource.group_version() {
        true => json!({"group": "", "version": "", "kind": kind.kind}),
        false => json!({"group": kind.group, "version": kind.version, "kind": kind.kind}),
    }
}
