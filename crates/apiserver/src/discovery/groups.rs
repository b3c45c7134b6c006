use kubeapi::compare_versions;

use crate::registry::{Origin, Registry, Resource};

/// Built-in groups in the order of their priority. What a CRD adds comes after them.
const BUILTIN: [&str; 13] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];

/// All groups of a registry, core included.
pub(super) struct Groups<'a>(Vec<Group<'a>>);

pub(super) struct Group<'a> {
    pub(super) name: &'a str,
    /// The preferred one first.
    pub(super) versions: Vec<Version<'a>>,
}

pub(super) struct Version<'a> {
    pub(super) name: &'a str,
    pub(super) resources: Vec<&'a Resource>,
}

impl<'a> Groups<'a> {
    pub(super) fn of(registry: &'a Registry) -> Self {
        let mut groups: Vec<Group<'a>> = Vec::new();
        // They come by group, version and plural.
        for resource in registry.iter() {
            if groups.last().is_none_or(|group| group.name != resource.group) {
                groups.push(Group { name: &resource.group, versions: Vec::new() });
            }
            let Some(group) = groups.last_mut() else { continue };
            if group.versions.last().is_none_or(|version| version.name != resource.version) {
                group.versions.push(Version { name: &resource.version, resources: Vec::new() });
            }
            if let Some(version) = group.versions.last_mut() {
                version.resources.push(resource);
            }
        }
        for group in &mut groups {
            group.versions.sort_by(|left, right| compare_versions(left.name, right.name));
        }
        Groups(groups)
    }

    pub(super) fn core(&self) -> Option<&Group<'a>> {
        self.0.iter().find(|group| group.name.is_empty())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Group<'a>> {
        self.0.iter().find(|group| !name.is_empty() && group.name == name)
    }

    /// The named groups, as aggregated discovery orders them.
    pub(super) fn by_name(&self) -> Vec<&Group<'a>> {
        self.ordered(|group| group.name.to_owned())
    }

    /// The named groups, as the legacy list orders them.
    pub(super) fn by_preferred_version(&self) -> Vec<&Group<'a>> {
        self.ordered(|group| {
            let preferred = group.versions.first().map_or("", |version| version.name);
            format!("{preferred}.{}", group.name)
        })
    }

    fn ordered(&self, among_equals: impl Fn(&Group<'a>) -> String) -> Vec<&Group<'a>> {
        let mut named: Vec<&Group<'a>> = self.0.iter().filter(|group| !group.name.is_empty()).collect();
        named.sort_by_cached_key(|group| (group.priority(), among_equals(group)));
        named
    }
}

impl<'a> Group<'a> {
    pub(super) fn version(&self, name: &str) -> Option<&Version<'a>> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Whether it is there without any CRD.
    pub(super) fn is_builtin(&self) -> bool {
        let mut resources = self.versions.iter().flat_map(|version| &version.resources);
        resources.any(|resource| matches!(resource.origin, Origin::Builtin(_)))
    }

    fn priority(&self) -> usize {
        BUILTIN.iter().position(|name| *name == self.name).unwrap_or(BUILTIN.len())
    }
}

/// What can be done to a resource now: nothing is added to one whose CRD goes.
pub(super) fn verbs(resource: &Resource) -> Vec<&str> {
    let terminating = resource.as_custom().is_some_and(|custom| custom.terminating);
    let kept = |verb: &&str| !terminating || !["create", "patch", "update"].contains(verb);
    resource.verbs.iter().map(String::as_str).filter(kept).collect()
}
