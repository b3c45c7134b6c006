use serde_json::{Value, json};

use super::*;

const GONE: &str = "2026-01-01T00:00:00Z";

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.metadata.name = Some("prod".into());
    cluster.metadata.namespace = Some("ns".into());
    cluster.metadata.finalizers =
        Some(vec![finalizers::RKE_CLUSTER_REMOVE.into(), "example.com/other".into()]);
    cluster
}

fn object(api_version: &str, kind: &str, name: &str, extra: Value) -> Object {
    let mut document =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "ns"}});
    for (key, value) in extra.as_object().unwrap() {
        match key.as_str() {
            "deleting" => document["metadata"]["deletionTimestamp"] = json!(GONE),
            _ => document[key] = value.clone(),
        }
    }
    Object::from_document(document)
}

fn nothing(cluster: &Cluster) -> Facts<'_> {
    Facts {
        cluster,
        management: None,
        capi_cluster: None,
        control_plane: None,
        machines: &[],
        infrastructure: &[],
        bootstraps: &[],
        others: &[],
        user_exists: false,
    }
}

fn codes(removal: &Removal) -> Option<Code> {
    removal.wait.as_ref().map(|wait| wait.code)
}

#[test]
fn the_order() {
    let cluster = cluster();
    let management =
        object("management.cattle.io/v3", "Cluster", "c-m-x", json!({"spec": {"fleetWorkspaceName": "ns"}}));
    let moved =
        object("management.cattle.io/v3", "Cluster", "c-m-x", json!({"spec": {"fleetWorkspaceName": "x"}}));
    let capi = object("cluster.x-k8s.io/v1beta2", "Cluster", "prod", json!({"spec": {"paused": true}}));
    let capi_going = object("cluster.x-k8s.io/v1beta2", "Cluster", "prod", json!({"deleting": true}));
    let plane = object(
        "rke.cattle.io/v1",
        "RKEControlPlane",
        "prod",
        json!({"status": {"conditions": [{"type": "Removed", "status": "Unknown", "message": "waiting for [a]"}]}}),
    );
    let machines = [
        object(
            "cluster.x-k8s.io/v1beta2",
            "Machine",
            "m1",
            json!({"status": {"conditions": [{"type": "Deleting", "message": "Drain not completed"}]}}),
        ),
        object("cluster.x-k8s.io/v1beta2", "Machine", "m2", json!({})),
    ];
    let base = nothing(&cluster);

    let first = decide(&Facts {
        management: Some(&management),
        capi_cluster: Some(&capi),
        control_plane: Some(&plane),
        machines: &machines,
        ..base
    });
    assert_eq!(
        first.steps,
        [Step::Delete(management.id()), Step::Unpause(capi.id()), Step::Delete(capi.id())]
    );
    let wait = first.wait.unwrap();
    assert_eq!(wait.awaits, "waiting for machine [m1] to delete");
    assert_eq!(wait.evidence, "Drain not completed; and 1 more");

    let kept = decide(&Facts { management: Some(&moved), capi_cluster: Some(&capi_going), ..base });
    assert_eq!(kept.steps, [], "a management cluster of another workspace is not ours to delete");
    assert_eq!(codes(&kept), Some(Code::RemovingCluster));
    assert!(kept.wait.unwrap().awaits.contains("waiting for cluster-api cluster [prod] to delete"));

    let plane_left = decide(&Facts { capi_cluster: Some(&capi_going), control_plane: Some(&plane), ..base });
    assert_eq!(plane_left.wait.unwrap().evidence, "waiting for [a]");

    let left = [object("rke.cattle.io/v1", "RKEBootstrap", "b", json!({}))];
    let leftovers = decide(&Facts { bootstraps: &left, ..base });
    assert_eq!(leftovers.steps, [Step::Delete(left[0].id())]);
    assert_eq!(codes(&leftovers), Some(Code::RemovingLeftovers));

    let done = decide(&Facts { user_exists: true, ..base });
    assert_eq!(codes(&done), None);
    assert!(matches!(&done.steps[0], Step::Delete(id) if id.kind == "User" && id.name.starts_with("u-")));
    assert_eq!(done.steps[1], Step::Release(vec![finalizers::RKE_CLUSTER_REMOVE]), "others' finalizers stay");
    assert_eq!(done.finding(), Finding::yes());
}

#[test]
fn force_gives_up_what_cannot_go() {
    let mut cluster = cluster();
    let infrastructure = [
        object("rke-machine.cattle.io/v1", "SimMachine", "a", json!({})),
        object("infrastructure.cluster.x-k8s.io/v1beta1", "VSphereMachine", "b", json!({"deleting": true})),
        object("infrastructure.cluster.x-k8s.io/v1beta1", "VSphereMachine", "c", json!({})),
    ];
    let bootstraps = [object("rke.cattle.io/v1", "RKEBootstrap", "a", json!({}))];
    let machines = [object("cluster.x-k8s.io/v1beta2", "Machine", "a", json!({"deleting": true}))];
    let steps = |cluster: &Cluster| {
        decide(&Facts {
            machines: &machines,
            infrastructure: &infrastructure,
            bootstraps: &bootstraps,
            ..nothing(cluster)
        })
        .steps
    };
    assert_eq!(steps(&cluster), [], "not without being told");
    cluster.metadata.annotations = Some([(FORCE.to_owned(), "true".to_owned())].into());
    assert_eq!(
        steps(&cluster),
        [
            Step::Force { id: infrastructure[0].id(), annotation: annotations::FORCE_MACHINE_REMOVE },
            Step::Force { id: bootstraps[0].id(), annotation: annotations::ETCD_FORCE_REMOVE },
            Step::GiveUp(infrastructure[1].id()),
        ]
    );
}

#[test]
fn finalizers_come_first() {
    let mut cluster = cluster();
    assert_eq!(
        missing_finalizers(&cluster),
        [finalizers::PROVISIONING_CLUSTER_REMOVE],
        "of an imported cluster only the management half is ours to clean up"
    );
    cluster.spec.rke_config = Some(Default::default());
    assert_eq!(
        missing_finalizers(&cluster),
        [finalizers::PROVISIONING_CLUSTER_REMOVE, finalizers::CAPI_RESOURCES_CLEANUP]
    );
    cluster.metadata.deletion_timestamp = Some(serde_json::from_value(json!(GONE)).unwrap());
    assert_eq!(missing_finalizers(&cluster), Vec::<&str>::new());
}

/// A process that ended between two writes leaves machines or a control plane that no Cluster API cluster deletes.
#[test]
fn orphans_are_deleted() {
    let cluster = cluster();
    let plane = object("rke.cattle.io/v1", "RKEControlPlane", "prod", json!({}));
    let going = object("cluster.x-k8s.io/v1beta2", "Machine", "m1", json!({"deleting": true}));
    let machines = [going, object("cluster.x-k8s.io/v1beta2", "Machine", "m2", json!({}))];
    let orphaned = decide(&Facts { control_plane: Some(&plane), machines: &machines, ..nothing(&cluster) });
    assert_eq!(orphaned.steps, [Step::Delete(machines[1].id()), Step::Delete(plane.id())]);
    assert_eq!(codes(&orphaned), Some(Code::RemovingMachine));
}

#[test]
fn what_users_made_and_nobody_took_is_theirs() {
    let cluster = cluster();
    let version = "infrastructure.cluster.x-k8s.io/v1beta1";
    let mut infrastructure = [object(version, "VSphereCluster", "users", json!({}))];
    let untouched = decide(&Facts { infrastructure: &infrastructure, ..nothing(&cluster) });
    assert_eq!(untouched.wait, None);
    assert!(matches!(&untouched.steps[..], [Step::Release(_)]), "{:?}", untouched.steps);
    infrastructure[0].document_mut()["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "prod"}]);
    let taken = decide(&Facts { infrastructure: &infrastructure, ..nothing(&cluster) });
    assert_eq!(taken.steps, [Step::Delete(infrastructure[0].id())]);
}
