//! Which provisioning cluster a management cluster was made for, and the way back.
//!
//! The management cluster says it, which only the server writes. What a provisioning cluster says of itself (`status.clusterName`) is its
//! user's to write and decides nothing.

use std::sync::Arc;

use api::management::Owner;

use crate::{Cache, Key, Object, index};

/// The owner that an object names.
pub fn owner(object: &Object) -> Option<Owner> {
    Owner::of(|key| object.annotation(key))
}

/// Whether an object that stands under `id` was made for a provisioning cluster. Where its owner is not bound to a UID yet, the cluster has to
/// name the id, too.
pub fn is_of(id: &str, found: &Owner, cluster: &Object) -> bool {
    found.is(cluster.namespace(), cluster.name(), cluster.uid())
        && (found.is_bound() || cluster.document()["status"]["clusterName"] == id)
}

/// The provisioning cluster that the management cluster `id` was made for, if it exists.
pub fn cluster(management: &Cache, clusters: &Cache, id: &str) -> Option<Arc<Object>> {
    let found = owner(&*management.get(&Key::new("", id))?)?;
    let cluster = clusters.get(&Key::new(&found.namespace, &found.name))?;
    is_of(id, &found, &cluster).then_some(cluster)
}

/// The management cluster that was made for a provisioning cluster.
pub fn management(management: &Cache, cluster: &Object) -> Option<Arc<Object>> {
    let made = management.filed(&index::made_from(cluster.namespace(), cluster.name()));
    made.into_iter().find(|one| owner(one).is_some_and(|found| is_of(one.name(), &found, cluster)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unbound_owner_has_to_be_named_back() {
        let cluster = |uid: &str, id: &str| {
            let metadata = json!({"namespace": "team", "name": "prod", "uid": uid});
            Object::from_document(json!({"metadata": metadata, "status": {"clusterName": id}})).unwrap()
        };
        let table = [
            ("team/prod/u1", "u1", "c-m-x", true),
            ("team/prod/u1", "u1", "c-m-other", true),
            ("team/prod/u1", "u2", "c-m-x", false),
            ("team/prod/", "u1", "c-m-x", true),
            ("team/prod/", "u1", "c-m-other", false),
            ("other/prod/", "u1", "c-m-x", false),
            ("team/other/u1", "u1", "c-m-x", false),
        ];
        for (owner, uid, id, expected) in table {
            assert_eq!(
                is_of("c-m-x", &owner.parse().unwrap(), &cluster(uid, id)),
                expected,
                "{owner} {uid} {id}"
            );
        }
    }
}
