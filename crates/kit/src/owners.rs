//! Owner references: who an object belongs to.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::cache::Cache;
use crate::object::{Key, KindId, Object};

/// A reference to an owner.
pub fn reference(kind: &KindId, owner: &Object, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        name: owner.name().into(),
        uid: owner.uid().into(),
        controller: controller.then_some(true),
        block_owner_deletion: controller.then_some(true),
    }
}

/// The group of a reference's apiVersion.
pub fn group(reference: &OwnerReference) -> &str {
    reference.api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Whether two references mean the same object, whatever their version, and whether or not it was made anew.
pub fn same(a: &OwnerReference, b: &OwnerReference) -> bool {
    group(a) == group(b) && a.kind == b.kind && a.name == b.name
}

/// Puts a reference into the list, in the place of one to the same object. Gives whether the list changed.
///
/// An owner that was restored from a backup has a new UID, an older writer an older version: both are put right.
pub fn ensure(owners: &mut Vec<OwnerReference>, wanted: OwnerReference) -> bool {
    match owners.iter_mut().find(|owner| same(owner, &wanted)) {
        Some(owner) if *owner == wanted => false,
        Some(owner) => {
            *owner = wanted;
            true
        }
        None => {
            owners.push(wanted);
            true
        }
    }
}

/// The owner that controls an object.
pub fn controller(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// The owner of a kind, if there is one.
pub fn of_kind<'a>(owners: &'a [OwnerReference], kind: &KindId) -> Option<&'a OwnerReference> {
    owners.iter().find(|owner| group(owner) == kind.group && owner.kind == kind.kind)
}

/// Whether an object's owner of a kind is this very object, and not one that had its name before.
pub fn is(object: &Object, kind: &KindId, owner: &Object) -> bool {
    !owner.uid().is_empty()
        && object.namespace() == owner.namespace()
        && of_kind(object.owners(), kind)
            .is_some_and(|one| one.name == owner.name() && one.uid == owner.uid())
}

/// The owner of an object, of the kind of a cache: the very object, and not another that has its name now.
pub fn known(object: &Object, cache: &Cache) -> Option<Arc<Object>> {
    let owner = of_kind(object.owners(), cache.kind())?;
    let found = cache.get(&Key::new(object.namespace(), &owner.name))?;
    is(object, cache.kind(), &found).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(version: &str, name: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: format!("cluster.x-k8s.io/{version}"),
            kind: "Cluster".into(),
            name: name.into(),
            uid: uid.into(),
            ..OwnerReference::default()
        }
    }

    #[test]
    fn an_owner_is_known_by_its_uid() {
        let cluster = |namespace: &str, name: &str, uid: &str| {
            let metadata = serde_json::json!({"namespace": namespace, "name": name, "uid": uid});
            Object::from_document(serde_json::json!({"metadata": metadata})).unwrap()
        };
        let metadata = serde_json::json!({"namespace": "n", "name": "x", "ownerReferences": [owner("v1beta1", "a", "u")]});
        let owned = Object::from_document(serde_json::json!({"metadata": metadata})).unwrap();
        let kind = KindId::new("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters");
        for (namespace, name, uid, expected) in [
            ("n", "a", "u", true),
            ("n", "a", "other", false),
            ("n", "b", "u", false),
            ("elsewhere", "a", "u", false),
        ] {
            assert_eq!(
                is(&owned, &kind, &cluster(namespace, name, uid)),
                expected,
                "{namespace}/{name}/{uid}"
            );
        }
        let other = KindId::new("other.io", "v1", "Cluster", "clusters");
        assert!(!is(&owned, &other, &cluster("n", "a", "u")));
    }

    #[test]
    fn a_reference_is_put_right_and_never_doubled() {
        let mut owners = vec![owner("v1beta1", "a", "old"), owner("v1beta2", "b", "x")];
        assert!(ensure(&mut owners, owner("v1beta2", "a", "new")));
        assert_eq!(owners, [owner("v1beta2", "a", "new"), owner("v1beta2", "b", "x")]);
        assert!(!ensure(&mut owners, owner("v1beta2", "a", "new")));
        assert!(ensure(&mut owners, owner("v1beta2", "c", "y")));
        assert_eq!(owners.len(), 3);
    }
}
