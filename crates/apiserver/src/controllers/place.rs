//! What a key of the store says about its object.

use std::sync::Arc;

use kubeapi::GroupVersion;

use crate::registry::{Registry, Resource};

/// Where an object is. What does not apply is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) group: &'a str,
    pub(super) plural: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl<'a> Place<'a> {
    /// Reads a key: `/registry/<group>/<plural>/[<namespace>/]<name>`.
    pub(super) fn of(key: &'a str) -> Option<Self> {
        let mut parts = key.strip_prefix("/registry/")?.split('/');
        let (group, plural, third) = (parts.next()?, parts.next()?, parts.next()?);
        let group = if group == "core" { "" } else { group };
        match (parts.next(), parts.next()) {
            (None, _) => Some(Place { group, plural, namespace: "", name: third }),
            (Some(name), None) => Some(Place { group, plural, namespace: third, name }),
            (Some(_), Some(_)) => None,
        }
    }

    /// Whether it is an object of a built-in kind.
    pub(super) fn is(&self, group: &str, plural: &str) -> bool {
        (self.group, self.plural) == (group, plural)
    }

    /// The resource, in the version that costs no conversion if that is served.
    pub(super) fn resource<'r>(&self, registry: &'r Registry) -> Option<&'r Arc<Resource>> {
        let mut served = registry.iter().filter(|one| self.is(&one.group, &one.plural)).peekable();
        let first = served.peek().copied();
        served.find(|one| one.version == one.storage_version).or(first)
    }
}

/// The resource of a kind, if it is served in that version.
pub(super) fn resource_of_kind<'r>(
    registry: &'r Registry,
    api_version: &str,
    kind: &str,
) -> Option<&'r Arc<Resource>> {
    let GroupVersion { group, version } = GroupVersion::parse(api_version)?;
    registry.iter().find(|one| one.kind == kind && one.group == group && one.version == version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read() {
        let place = |group, plural, namespace, name| Some(Place { group, plural, namespace, name });
        for (key, wanted) in [
            ("/registry/core/namespaces/a", place("", "namespaces", "", "a")),
            ("/registry/core/secrets/n/a", place("", "secrets", "n", "a")),
            ("/registry/apps/deployments/n/a", place("apps", "deployments", "n", "a")),
            ("/registry/core/secrets", None),
            ("/registry/core/secrets/a/b/c", None),
            ("/other/core/secrets/a", None),
        ] {
            assert_eq!(Place::of(key), wanted, "{key}");
        }
    }
}
