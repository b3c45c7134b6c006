//! Clusters that are described by a ClusterClass: nothing here makes anything of one, and that is said. No IO.

use api::capi::v1beta1;
use api::capi::v1beta2::Cluster;
use api::catalogue::{conditions as types, reasons};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::conditions::legacy::{self, Severity};
use kit::conditions::{self, Finding};

/// What is told of such a cluster.
const NOT_DONE: &str = "ClusterClass is not supported by these controllers: nothing is made of spec.topology. Set \
                        spec.infrastructureRef and spec.controlPlaneRef, and make MachineDeployments";
/// What is told of what such a cluster lacks.
const WAITING: &str = "Waiting for cluster topology to be reconciled";

/// Whether something that the cluster does not refer to would have to be made of its topology.
pub(super) fn owes(cluster: &Cluster) -> bool {
    cluster.spec.topology.is_some()
}

/// What is said of a part that a topology should have brought.
pub(super) fn missing(type_: &'static str) -> Finding {
    Finding::no(type_, reasons::OBJECT_DOES_NOT_EXIST).saying(WAITING)
}

/// Says that nothing is made of a topology, unless somebody who does make something of it has spoken.
pub(super) fn tell(cluster: &Cluster, list: &mut Vec<Condition>, (generation, now): (i64, Timestamp)) {
    let said =
        conditions::find(list, types::TOPOLOGY_RECONCILED).is_some_and(|said| said.message != NOT_DONE);
    if owes(cluster) && !said {
        let finding = Finding::no(types::TOPOLOGY_RECONCILED, reasons::RECONCILE_FAILED).saying(NOT_DONE);
        conditions::set(list, finding, generation, now);
    }
}

/// The same for old readers.
pub(super) fn tell_legacy(topology: bool, list: &mut Vec<v1beta1::Condition>, now: Timestamp) {
    let said = list.iter().any(|one| one.type_ == types::TOPOLOGY_RECONCILED && one.message != NOT_DONE);
    if topology && !said {
        let reason = reasons::TOPOLOGY_RECONCILE_FAILED;
        legacy::mark_false(list, types::TOPOLOGY_RECONCILED, Severity::Error, reason, NOT_DONE, now);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whoever_does_topologies_has_the_word() {
        let cluster = |spec: serde_json::Value| -> Cluster {
            serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": spec})).unwrap()
        };
        let classy = cluster(json!({"topology": {"classRef": {"name": "k"}, "version": "v1.34.1"}}));
        let plain = cluster(json!({"infrastructureRef": {"apiGroup": "i", "kind": "F", "name": "x"}}));
        let at = (1, "2026-01-01T00:00:00Z".parse().unwrap());
        let told = |cluster: &Cluster, mut list: Vec<Condition>| {
            tell(cluster, &mut list, at);
            conditions::find(&list, types::TOPOLOGY_RECONCILED).map(|one| one.status.clone())
        };
        assert_eq!(told(&plain, Vec::new()), None);
        assert_eq!(told(&classy, Vec::new()).as_deref(), Some("False"));
        let mut list = Vec::new();
        conditions::set(&mut list, Finding::yes(types::TOPOLOGY_RECONCILED, "ReconcileSucceeded"), 1, at.1);
        assert_eq!(told(&classy, list).as_deref(), Some("True"));
        assert!(owes(&classy) && !owes(&plain));
    }
}
