use std::sync::Arc;

use kubeapi::crd::{Definition, Version};
use kubeapi::meta::GenerationRule;
use kubeapi::name::{self, NameRule};
use kubeapi::schema::Structural;
use kubeapi::table::Printer;
use kubeapi::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, builtin};
use serde_json::{Value, json};

use super::Family;
use crate::store::{Revision, Scope};

/// A resource in one version.
#[derive(Debug)]
pub struct Resource {
    /// API group; empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Kind of its lists.
    pub list_kind: String,
    /// As in paths.
    pub plural: String,
    /// As people say.
    pub singular: String,
    /// As people type.
    pub short_names: Vec<String>,
    /// Groups of resources, such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// What can be done to it.
    pub verbs: Vec<String>,
    /// Its subresources.
    pub subresources: Vec<Subresource>,
    /// The version in which its objects are stored.
    pub storage_version: String,
    /// What its names look like.
    pub name_rule: NameRule,
    /// What changes its generation.
    pub generation: GenerationRule,
    /// Makes its Tables.
    pub printer: Printer,
    /// Where it comes from, and what only its like has.
    pub origin: Origin,
}

/// A subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Such as `status`.
    pub name: String,
    /// Group, version and kind of its bodies.
    pub kind: GroupVersionKind,
    /// What can be done to it.
    pub verbs: Vec<String>,
}

/// Where a resource comes from.
#[derive(Debug)]
pub enum Origin {
    /// It is built in.
    Builtin(&'static builtin::Resource),
    /// A CRD defines it.
    Custom(Box<Custom>),
}

/// What a CRD says of a version.
#[derive(Debug)]
pub struct Custom {
    /// The version's part of the CRD.
    pub version: Arc<Version>,
    /// The schema, ready for use.
    pub schema: Option<Arc<Structural>>,
    /// What all versions have in common.
    pub family: Arc<Family>,
    /// The revision of the CRD.
    pub definition: Revision,
    /// Whether the CRD is being deleted: its objects go, and no new ones come.
    pub terminating: bool,
}

impl Custom {
    /// The schema of a group and version of this kind, served or not.
    pub fn schema_of(&self, group_version: &str) -> Option<&Structural> {
        let version = group_version.rsplit('/').next()?;
        self.family.versions.get(version)?.schema.as_deref()
    }

    /// Whether an object that was written at a revision was written by the schemas of now.
    pub fn wrote(&self, revision: Revision) -> bool {
        // The objects of a CRD that goes are marked as they are.
        revision > self.family.since && !self.terminating
    }
}

const ALL: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const CHANGE: [&str; 3] = ["get", "patch", "update"];

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Resource {
    /// A resource that is built in.
    pub(super) fn builtin(one: &'static builtin::Resource) -> Self {
        let subresources = one.subresources.iter().map(|sub| {
            let (group, version, kind) = sub.kind.unwrap_or((one.group, one.version, one.kind));
            let kind = GroupVersion::new(group, version).kind(kind);
            Subresource { name: sub.name.into(), kind, verbs: texts(sub.verbs) }
        });
        Resource {
            group: one.group.into(),
            version: one.version.into(),
            kind: one.kind.into(),
            list_kind: format!("{}List", one.kind),
            plural: one.plural.into(),
            singular: one.singular.into(),
            short_names: texts(one.short_names),
            categories: texts(one.categories),
            namespaced: one.namespaced,
            verbs: texts(one.verbs),
            subresources: subresources.collect(),
            storage_version: one.version.into(),
            name_rule: one.names.rule(),
            generation: one.generation,
            printer: Printer::builtin(&GroupKind::new(one.group, one.kind)),
            origin: Origin::Builtin(one),
        }
    }

    /// What a CRD defines, a resource for each served version.
    pub(super) fn custom(crd: &Value, family: &Arc<Family>, definition: Revision) -> Vec<Self> {
        let terminating = kubeapi::meta::is_being_deleted(crd);
        let parts = Definition::read(crd);
        let Some(storage) = parts.storage_version() else { return Vec::new() };
        let served = parts.served_versions().filter_map(|version| family.versions.get(&version.name));
        served
            .map(|member| {
                let custom = Custom {
                    version: member.version.clone(),
                    schema: member.schema.clone(),
                    family: family.clone(),
                    definition,
                    terminating,
                };
                Resource::of_version(&parts, &storage.name, custom)
            })
            .collect()
    }

    fn of_version(definition: &Definition, storage_version: &str, custom: Custom) -> Self {
        let version = &custom.version;
        let kind = definition.kind_in(&version.name);
        let mut subresources = Vec::new();
        if version.status {
            subresources.push(Subresource { name: "status".into(), kind, verbs: texts(&CHANGE) });
        }
        if version.scale.is_some() {
            let kind = GroupVersion::new("autoscaling", "v1").kind("Scale");
            subresources.push(Subresource { name: "scale".into(), kind, verbs: texts(&CHANGE) });
        }
        let names = &definition.names;
        Resource {
            group: definition.group.clone(),
            version: version.name.clone(),
            kind: names.kind.clone(),
            list_kind: names.list_kind.clone(),
            plural: names.plural.clone(),
            singular: names.singular.clone(),
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            namespaced: definition.namespaced,
            verbs: texts(&ALL),
            subresources,
            storage_version: storage_version.to_owned(),
            name_rule: name::is_subdomain,
            generation: match version.status {
                true => GenerationRule::AllButMetadataAndStatus,
                false => GenerationRule::AllButMetadata,
            },
            printer: printer(version),
            origin: Origin::Custom(Box::new(custom)),
        }
    }

    /// Group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&*self.group, &*self.version)
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        self.group_version().kind(&*self.kind)
    }

    /// Group and kind, for messages about what is wrong with an object.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&*self.group, &*self.kind)
    }

    /// Group and resource, for messages.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group, &*self.plural)
    }

    /// A subresource by its name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|one| one.name == name)
    }

    /// What a request to a built-in resource's subresource is read as, where its bodies are of a kind of their own.
    pub(crate) fn of_subresource(&self, name: &str) -> Option<Self> {
        let Origin::Builtin(one) = &self.origin else { return None };
        let GroupVersionKind { group, version, kind } = self.subresource(name)?.kind.clone();
        let list_kind = format!("{kind}List");
        Some(Resource { group, version, kind, list_kind, subresources: Vec::new(), ..Resource::builtin(one) })
    }

    /// What a CRD says, if one defines it.
    pub fn as_custom(&self) -> Option<&Custom> {
        match &self.origin {
            Origin::Custom(custom) => Some(custom),
            Origin::Builtin(_) => None,
        }
    }

    /// Group and version that its objects are stored in. Events are stored once for both groups that have them.
    pub fn storage(&self) -> GroupVersion {
        match (self.group.as_str(), self.plural.as_str()) {
            ("events.k8s.io", "events") => GroupVersion::new("", "v1"),
            _ => GroupVersion::new(&*self.group, &*self.storage_version),
        }
    }

    /// The key of an object; the namespace is empty for kinds without.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        format!("{}{name}", self.prefix(namespace))
    }

    /// What the keys of all objects in a namespace begin with; of all objects at all if it is empty.
    pub fn prefix(&self, namespace: &str) -> String {
        let group = self.storage().group;
        let group = if group.is_empty() { "core" } else { &group };
        let all = format!("/registry/{group}/{}/", self.plural);
        match namespace.is_empty() || !self.namespaced {
            true => all,
            false => format!("{all}{namespace}/"),
        }
    }

    /// The keys that a list or watch is about: one only, if it asks for one by name.
    pub fn scope(&self, namespace: &str, name: &str) -> Scope {
        match !name.is_empty() && (!self.namespaced || !namespace.is_empty()) {
            true => Scope::key(self.key(namespace, name)),
            false => Scope::prefix(self.prefix(namespace)),
        }
    }
}

fn printer(version: &Version) -> Printer {
    let columns = version.columns.iter().map(|column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority, "jsonPath": column.json_path,
        })
    });
    let columns: Vec<Value> = columns.collect();
    // Paths were validated with the CRD; if one is not understood here, names and ages still are.
    Printer::custom(&Value::Array(columns))
        .or_else(|_| Printer::custom(&Value::Null))
        .unwrap_or_else(|_| Printer::builtin(&GroupKind::default()))
}
