//! Groups, versions, kinds and resources by their own types, so that they are not mixed up.

use std::fmt;

/// An API group and version; the group of Kubernetes' oldest kinds is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// Such as `apps`; empty for core kinds.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
}

/// A kind of a group, whatever its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// Such as `apps`; empty for core kinds.
    pub group: String,
    /// Such as `Deployment`.
    pub kind: String,
}

/// A resource of a group, whatever its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// Such as `apps`; empty for core kinds.
    pub group: String,
    /// Such as `deployments`.
    pub resource: String,
}

/// A kind in one of its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// Such as `apps`; empty for core kinds.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// Such as `Deployment`.
    pub kind: String,
}

/// A resource in one of its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    /// Such as `apps`; empty for core kinds.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// Such as `deployments`.
    pub resource: String,
}

impl GroupVersion {
    /// A group and version.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        GroupVersion { group: group.into(), version: version.into() }
    }

    /// Reads an `apiVersion`: `v1`, or `apps/v1`. `None` if it has more than one slash.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split('/').collect::<Vec<_>>()[..] {
            [version] => Some(GroupVersion::new("", version)),
            [group, version] => Some(GroupVersion::new(group, version)),
            _ => None,
        }
    }

    /// A kind of this version.
    pub fn kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    /// A resource of this version.
    pub fn resource(&self, resource: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: resource.into(),
        }
    }
}

/// As in `apiVersion`.
impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.is_empty() {
            true => f.write_str(&self.version),
            false => write!(f, "{}/{}", self.group, self.version),
        }
    }
}

impl GroupKind {
    /// A kind of a group.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        GroupKind { group: group.into(), kind: kind.into() }
    }
}

/// `Deployment.apps`, or `Secret`.
impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

impl GroupResource {
    /// A resource of a group.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        GroupResource { group: group.into(), resource: resource.into() }
    }
}

/// `deployments.apps`, or `secrets`.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    match group.is_empty() {
        true => f.write_str(name),
        false => write!(f, "{name}.{group}"),
    }
}

impl GroupVersionKind {
    /// Group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&*self.group, &*self.version)
    }

    /// Group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&*self.group, &*self.kind)
    }
}

impl GroupVersionResource {
    /// Group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&*self.group, &*self.version)
    }

    /// Group and resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group, &*self.resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions() {
        for (text, group, version) in [("v1", "", "v1"), ("apps/v1", "apps", "v1")] {
            let parsed = GroupVersion::parse(text).unwrap();
            assert_eq!((parsed.group.as_str(), parsed.version.as_str()), (group, version));
            assert_eq!(parsed.to_string(), text);
        }
        assert_eq!(GroupVersion::parse("a/b/c"), None);
        assert_eq!(GroupKind::new("apps", "Deployment").to_string(), "Deployment.apps");
        assert_eq!(GroupResource::new("", "secrets").to_string(), "secrets");
    }
}
