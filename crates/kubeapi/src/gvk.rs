//! Groups, versions, kinds and resources by their own types, so that they are not mixed up.

use std::cmp::{Ordering, Reverse};
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
    /// What an object says it is; `None` if it does not say, or not properly.
    pub fn of(object: &serde_json::Value) -> Option<Self> {
        let version = GroupVersion::parse(object["apiVersion"].as_str()?)?;
        Some(version.kind(object["kind"].as_str()?))
    }

    /// Group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&*self.group, &*self.version)
    }

    /// Group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&*self.group, &*self.kind)
    }
}

/// As messages show it: `apps/v1, Kind=Deployment`.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.group_version(), self.kind)
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

/// The order in which a group's versions are preferred: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, and after them
/// by name what does not look like that.
pub fn compare_versions(left: &str, right: &str) -> Ordering {
    match (stability(left), stability(right)) {
        (Some(left), Some(right)) => Reverse(left).cmp(&Reverse(right)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// How mature a version is, then its numbers.
fn stability(version: &str) -> Option<(u8, u64, u64)> {
    let number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?;
    let rest = version.strip_prefix('v')?;
    for (word, maturity) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((maturity, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_by_maturity() {
        let order = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v1gamma",
        ];
        let mut versions = order;
        versions.sort();
        versions.sort_by(|left, right| compare_versions(left, right));
        assert_eq!(versions, order);
    }

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
