//! Where the control plane stands.

use std::collections::BTreeSet;

use api::GenericCondition;
use api::capi::v1beta2::{Cluster, MachineDeployment};
use api::catalogue::{annotations, conditions, labels};
use api::management::v3::Cluster as ManagementCluster;
use api::names::kubeconfig_secret;
use api::plans::v1alpha1::OWNER_PLANNER;
use api::rke::v1::{RKEControlPlane, RKEControlPlaneStatus};
use kit::object::Unreadable;
use kit::{Key, Object, index};
use planner::{Beacon, CapiCluster, Epoch, Operation, State};

use super::super::known::{Known, kinds};
use super::Ground;

pub(super) fn gather(
    ground: &Ground<'_>,
    object: &Object,
    control_plane: &RKEControlPlane,
    cluster: Option<&Object>,
    management: Option<&Object>,
) -> Result<State, Unreadable> {
    let status = control_plane.status.clone().unwrap_or_default();
    let initialization = status.initialization.as_ref();
    let has =
        |type_| GenericCondition::find(&status.conditions, type_).is_some_and(GenericCondition::is_true);
    let epoch = object.annotation(annotations::HERDSMAN_RENDERING_EPOCH);
    let name = &control_plane.spec.cluster_name;
    let kubeconfig = Key::new(object.namespace(), &kubeconfig_secret(name));
    Ok(State {
        capi: cluster.map(capi).transpose()?,
        deleting: object.deleting(),
        paused: object.annotation(annotations::PAUSED).is_some(),
        beacon: beacon(ground.known.get(&kinds::beacons(), &object.key()).as_deref()),
        designated_init: object.label(labels::INIT_NODE_MACHINE_ID).unwrap_or_default().into(),
        initialized: initialization.and_then(|all| all.control_plane_initialized) == Some(true),
        bootstrapped: has(conditions::BOOTSTRAPPED),
        agent_connected: is_connected(management),
        spec_is_applied: status.applied_spec.as_ref() == Some(&control_plane.spec),
        epoch: epoch.and_then(|number| Epoch::from_number(number.parse().ok()?)),
        epoch_requested: object.annotation(annotations::HERDSMAN_ADOPT_EPOCH) == Some("true"),
        etcd_wanted: etcd_wanted(ground.known, object.namespace(), name),
        has_kubeconfig: ground.known.get(&kinds::secrets(), &kubeconfig).is_some(),
        operations: operations(control_plane, &status),
    })
}

fn capi(cluster: &Object) -> Result<CapiCluster, Unreadable> {
    let view = cluster.view::<Cluster>()?;
    let initialization = view.status.as_ref().map(|status| status.initialization.clone()).unwrap_or_default();
    Ok(CapiCluster {
        infrastructure_provisioned: initialization.infrastructure_provisioned == Some(true),
        paused: view.spec.paused == Some(true),
        deleting: cluster.deleting(),
        control_plane_initialized: kit::conditions::has(
            view.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default(),
            conditions::CONTROL_PLANE_INITIALIZED,
            kit::conditions::Status::True,
        ),
    })
}

/// Who may write plans.
fn beacon(object: Option<&Object>) -> Beacon {
    let Some(object) = object else { return Beacon::Absent };
    match object.document()["status"]["owner"].as_str().unwrap_or_default() {
        "" => Beacon::Free,
        OWNER_PLANNER => Beacon::Ours,
        other => Beacon::Held(other.to_owned()),
    }
}

/// Whether the cluster's agent is connected, by the management cluster's condition.
fn is_connected(management: Option<&Object>) -> bool {
    let view = management.and_then(|object| object.view::<ManagementCluster>().ok());
    let status = view.as_ref().and_then(|view| view.status.as_ref());
    let found = status.and_then(|status| GenericCondition::find(&status.conditions, conditions::CONNECTED));
    found.is_some_and(GenericCondition::is_true)
}

/// Etcd machines that MachineDeployments ask for; none if there are no MachineDeployments.
fn etcd_wanted(known: &dyn Known, namespace: &str, cluster: &str) -> Option<u32> {
    let all = known.filed(&kinds::deployments(), &index::cluster(namespace, cluster));
    let views = all.iter().filter(|object| !object.deleting());
    let views: Vec<_> = views.filter_map(|object| object.view::<MachineDeployment>().ok()).collect();
    if views.is_empty() {
        return None;
    }
    let etcd = views.iter().filter(|view| {
        let words = &view.spec.template.metadata.labels;
        words.get(labels::ETCD_ROLE).is_some_and(|value| value == "true")
    });
    Some(etcd.map(|view| u32::try_from(view.spec.replicas.unwrap_or(1)).unwrap_or_default()).sum())
}

/// Requests that an operation would have to answer and that are not answered.
fn operations(control_plane: &RKEControlPlane, status: &RKEControlPlaneStatus) -> BTreeSet<Operation> {
    let spec = &control_plane.spec;
    let initialized =
        status.initialization.as_ref().and_then(|all| all.control_plane_initialized) == Some(true);
    let mut asked = BTreeSet::new();
    let mut ask = |so: bool, operation| {
        if so {
            asked.insert(operation);
        }
    };
    let create = spec.etcd_snapshot_create.as_ref();
    ask(
        initialized && create.is_some() && create != status.etcd_snapshot_create.as_ref(),
        Operation::SnapshotCreate,
    );
    let restore = spec.etcd_snapshot_restore.as_ref().filter(|restore| !restore.name.is_empty());
    ask(restore.is_some() && restore != status.etcd_snapshot_restore.as_ref(), Operation::SnapshotRestore);
    let certificates = spec.rotate_certificates.as_ref().map(|rotate| rotate.generation);
    ask(
        initialized && certificates.is_some_and(|asked| asked != status.certificate_rotation_generation),
        Operation::RotateCertificates,
    );
    let keys = spec.rotate_encryption_keys.as_ref();
    ask(
        initialized && keys.is_some() && keys != status.rotate_encryption_keys.as_ref(),
        Operation::RotateEncryptionKeys,
    );
    asked
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::super::known::Lists;
    use super::*;

    #[test]
    fn etcd_machines_are_counted_over_pools_that_stay() {
        let mut lists = Lists::default();
        assert_eq!(etcd_wanted(&lists, "n", "c"), None, "machines register by hand");
        let mut pool = |name: &str, etcd: bool, replicas: i64, going: bool| {
            let role = if etcd { json!({labels::ETCD_ROLE: "true"}) } else { json!({}) };
            let mut document = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
                "metadata": {"namespace": "n", "name": name},
                "spec": {"clusterName": "c", "replicas": replicas, "template": {"metadata": {"labels": role}}}
            });
            if going {
                document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            lists.put(&kinds::deployments(), Arc::new(Object::from_document(document).unwrap()));
            etcd_wanted(&lists, "n", "c")
        };
        assert_eq!(pool("workers", false, 5, false), Some(0));
        assert_eq!(pool("servers", true, 3, false), Some(3));
        assert_eq!(pool("more", true, 2, false), Some(5));
        assert_eq!(pool("more", true, 2, true), Some(3), "a pool that goes asks for nothing");
    }

    #[test]
    fn requests_count_until_they_are_answered() {
        let asked = |spec: serde_json::Value, status: serde_json::Value| {
            let control_plane = json!({"apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane", "spec": spec, "status": status});
            let control_plane: RKEControlPlane = serde_json::from_value(control_plane).unwrap();
            let status = control_plane.status.clone().unwrap_or_default();
            operations(&control_plane, &status).into_iter().collect::<Vec<_>>()
        };
        let running = json!({"initialization": {"controlPlaneInitialized": true}});
        assert_eq!(asked(json!({}), running.clone()), []);
        assert_eq!(
            asked(json!({"etcdSnapshotCreate": {"generation": 1}}), running.clone()),
            [Operation::SnapshotCreate]
        );
        assert_eq!(
            asked(json!({"etcdSnapshotCreate": {"generation": 1}}), json!({})),
            [],
            "nothing to save yet"
        );
        assert_eq!(asked(json!({"etcdSnapshotRestore": {"name": ""}}), running.clone()), []);
        assert_eq!(
            asked(json!({"etcdSnapshotRestore": {"name": "s"}}), json!({})),
            [Operation::SnapshotRestore],
            "a cluster that is down is what restores are for"
        );
        let rotated =
            json!({"initialization": {"controlPlaneInitialized": true}, "certificateRotationGeneration": 2});
        assert_eq!(asked(json!({"rotateCertificates": {"generation": 2}}), rotated.clone()), []);
        assert_eq!(
            asked(json!({"rotateCertificates": {"generation": 3}}), rotated),
            [Operation::RotateCertificates]
        );
    }
}
