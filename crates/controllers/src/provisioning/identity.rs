//! Which management cluster is a cluster's own.

use std::sync::Arc;

use api::provisioning::v1::Cluster;
use kit::{Key, Object, index, lineage};
use provisioning::graph::Refusal;
use provisioning::management::{self, Claims, Found, Identity};

use super::context::Known;

/// The identity of a cluster, by what is known.
pub(super) fn of(known: &Known, cluster: &Cluster) -> Identity {
    let us = management::owner(cluster);
    let mine = known.management.filed(&index::made_from(&us.namespace, &us.name));
    let mine: Vec<_> =
        mine.iter().filter_map(|one| Some((one.name().to_owned(), lineage::owner(one)?))).collect();
    let named = Claims::named_id(cluster).map(|id| found(known, id)).unwrap_or_default();
    management::identify(cluster, &Claims { mine: &mine, named: &named })
}

fn found(known: &Known, id: &str) -> Found {
    let key = Key::new("", id);
    let owner = |object: Option<Arc<Object>>| object.map(|object| lineage::owner(&object));
    Found { management: owner(known.management.get(&key)), namespace: owner(known.namespaces.get(&key)) }
}

/// The management cluster of a cluster with this identity, if it exists.
pub(super) fn management(known: &Known, cluster: &Cluster, identity: &Identity) -> Option<Arc<Object>> {
    let (Identity::Has(id) | Identity::Takes(id)) = identity else { return None };
    let us = management::owner(cluster);
    let found = known.management.get(&Key::new("", id))?;
    lineage::owner(&found).is_some_and(|one| one.is(&us.namespace, &us.name, &us.uid)).then_some(found)
}

/// Whether a namespace was made for a cluster.
pub(super) fn owns_namespace(cluster: &Cluster, namespace: &Object) -> bool {
    management::owns_namespace(cluster, namespace.name(), lineage::owner(namespace).as_ref())
}

/// Refuses an id whose namespace exists and was not made for this cluster.
pub(super) fn check_namespace(known: &Known, cluster: &Cluster, id: &str) -> Result<(), Refusal> {
    match known.namespaces.get(&Key::new("", id)) {
        Some(found) if !owns_namespace(cluster, &found) => Err(Refusal::NamespaceTaken(id.into())),
        _ => Ok(()),
    }
}
