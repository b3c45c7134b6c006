//! Which provisioning cluster a management cluster was made for.

use std::fmt;
use std::str::FromStr;

use crate::Kind as _;
use crate::catalogue::annotations;
use crate::provisioning::v1::Cluster;

/// The set of a management cluster's objects, in the bookkeeping of Rancher's apply.
pub const SET: &str = "cluster-create";

/// The one provisioning cluster that a management cluster, or its namespace, was made for.
///
/// Controllers write it as the annotation `herdsman.io/owner`. Management clusters are the server's alone, so nobody else writes it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Namespace of the provisioning cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID. Empty: not bound yet, as on objects that Rancher or an earlier Herdsman made.
    pub uid: String,
}

impl Owner {
    /// The owner that an object's annotations name: `herdsman.io/owner`, else, unbound, the owner in the bookkeeping of
    /// Rancher's apply. An annotation that cannot be read names nobody.
    pub fn of<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        if let Some(text) = annotation(annotations::HERDSMAN_OWNER) {
            return text.parse().ok();
        }
        let mark = |key| annotation(key).filter(|text| !text.is_empty());
        let gvk = format!("{}/{}, Kind={}", Cluster::GROUP, Cluster::VERSION, Cluster::KIND);
        let ours = mark(annotations::OBJECTSET_ID) == Some(SET)
            && mark(annotations::OBJECTSET_OWNER_GVK) == Some(gvk.as_str());
        Some(Owner {
            namespace: mark(annotations::OBJECTSET_OWNER_NAMESPACE).filter(|_| ours)?.into(),
            name: mark(annotations::OBJECTSET_OWNER_NAME)?.into(),
            uid: String::new(),
        })
    }

    /// Whether it is this very cluster, or one of that name while it is unbound.
    pub fn is(&self, namespace: &str, name: &str, uid: &str) -> bool {
        self.is_at(namespace, name) && (self.uid == uid || !self.is_bound())
    }

    /// Whether it is a cluster of that namespace and name.
    pub fn is_at(&self, namespace: &str, name: &str) -> bool {
        self.namespace == namespace && self.name == name
    }

    /// Whether it names one object, and not whatever has that name.
    pub fn is_bound(&self) -> bool {
        !self.uid.is_empty()
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.name, self.uid)
    }
}

/// The text is not `namespace/name/uid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an owner is written namespace/name/uid")]
pub struct NotAnOwner;

impl FromStr for Owner {
    type Err = NotAnOwner;

    fn from_str(text: &str) -> Result<Self, NotAnOwner> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            [namespace, name, uid] if !namespace.is_empty() && !name.is_empty() => {
                Ok(Owner { namespace: namespace.into(), name: name.into(), uid: uid.into() })
            }
            _ => Err(NotAnOwner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(annotations: &[(&str, &str)]) -> Option<Owner> {
        Owner::of(|key| annotations.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    #[test]
    fn an_owner_round_trips() {
        for text in ["a/b/c", "fleet-default/prod/"] {
            assert_eq!(text.parse::<Owner>().unwrap().to_string(), text);
        }
        for text in ["", "a", "a/b", "/b/c", "a//c", "a/b/c/d", "//"] {
            assert_eq!(text.parse::<Owner>(), Err(NotAnOwner), "{text}");
        }
    }

    #[test]
    fn marks_of_ranchers_apply_are_an_unbound_owner() {
        let gvk = "provisioning.cattle.io/v1, Kind=Cluster";
        let marks = |id, gvk| {
            of(&[
                (annotations::OBJECTSET_ID, id),
                (annotations::OBJECTSET_OWNER_GVK, gvk),
                (annotations::OBJECTSET_OWNER_NAME, "prod"),
                (annotations::OBJECTSET_OWNER_NAMESPACE, "fleet-default"),
            ])
        };
        let owner = marks(SET, gvk).unwrap();
        assert_eq!(owner.to_string(), "fleet-default/prod/");
        assert!(owner.is("fleet-default", "prod", "any") && !owner.is("team", "prod", "any"));
        assert_eq!(marks("rke-cluster", gvk), None);
        assert_eq!(marks(SET, "management.cattle.io/v3, Kind=Cluster"), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_bound_owner_is_one_object() {
        let owner = of(&[(annotations::HERDSMAN_OWNER, "ns/prod/u1")]).unwrap();
        assert!(owner.is("ns", "prod", "u1"));
        assert!(!owner.is("ns", "prod", "u2") && !owner.is("ns", "prod", ""));
        // What cannot be read is nobody, whatever the marks say.
        assert_eq!(of(&[(annotations::HERDSMAN_OWNER, "prod"), (annotations::OBJECTSET_ID, SET)]), None);
    }
}
