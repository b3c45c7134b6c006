//! What cannot be rendered, and what is waited for.

use provisioning::Code;
use provisioning::graph::{Hold, Refusal};

use crate::shape::Shape;

fn outcome(change: impl FnOnce(&mut Shape)) -> Hold {
    let mut shape = Shape::read("02-ha");
    change(&mut shape);
    shape.render().expect_err("there is no graph")
}

fn pools(shape: &mut Shape) -> &mut Vec<api::provisioning::v1::MachinePool> {
    &mut shape.cluster.spec.rke_config.as_mut().unwrap().machine_pools
}

#[test]
fn nothing_is_made_for_clusters_of_others_and_those_that_go() {
    assert_eq!(outcome(|shape| shape.cluster.spec.rke_config = None), Hold::Nothing);
    let deleted = |shape: &mut Shape| {
        let time = serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
        shape.cluster.metadata.deletion_timestamp = Some(time);
    };
    assert_eq!(outcome(deleted), Hold::Nothing);
}

#[test]
fn waits_have_codes() {
    let code = |change: fn(&mut Shape)| match outcome(change) {
        Hold::Waiting(wait) => wait.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(|shape| shape.cluster.status = None), Code::WaitingForManagementCluster);
    assert_eq!(code(|shape| shape.cluster.metadata.finalizers = None), Code::WaitingForFinalizer);
    assert_eq!(code(|shape| shape.configs.clear()), Code::MachineConfigMissing);
    assert_eq!(code(|shape| shape.credentials.clear()), Code::CredentialMissing);
    assert_eq!(code(|shape| pools(shape)[0].dynamic_schema_spec.clear()), Code::WaitingForDriverSchema);
}

#[test]
fn refusals_say_which_pool() {
    let words = |change: fn(&mut Shape)| match outcome(change) {
        Hold::Refused(refusal) => refusal.to_string(),
        other => panic!("{other:?}"),
    };
    type Case = (fn(&mut Shape), &'static str);
    let cases: [Case; 9] = [
        (
            |shape| shape.cluster.spec.kubernetes_version.clear(),
            "kubernetesVersion not set on fleet-default/prod",
        ),
        (|shape| pools(shape)[1].name = "servers".into(), "duplicate machinePool name [servers] used"),
        (|shape| pools(shape)[0].machine_config_ref = None, "invalid machinePool [servers] missing name"),
        (
            |shape| pools(shape)[0].machine_config_ref.as_mut().unwrap().kind = Some("Odd".into()),
            "invalid machinePool [servers]",
        ),
        (|shape| pools(shape)[0].name.clear(), "invalid machinePool [] missing name"),
        (
            |shape| {
                pools(shape)[1].worker_role = false;
            },
            "at least one role of etcd, control-plane or worker must be assigned to machinePool [workers]",
        ),
        (|shape| pools(shape)[0].dynamic_schema_spec = "{".into(), "dynamicSchemaSpec is not the JSON"),
        (
            |shape| pools(shape)[0].machine_config_ref.as_mut().unwrap().namespace = Some("other".into()),
            "spec.rkeConfig.machinePools[0].machineConfigRef.namespace is other",
        ),
        (
            |shape| {
                let config = shape.cluster.spec.rke_config.as_mut().unwrap();
                config.infrastructure_ref = Some(Default::default());
            },
            "spec.rkeConfig.infrastructureRef must have",
        ),
    ];
    for (change, expected) in cases {
        let found = words(change);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_config_of_another_cluster_is_not_taken() {
    let taken = outcome(|shape| {
        let config = shape.configs.values_mut().next().unwrap();
        let owner = serde_json::json!([{
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "name": "other", "uid": "u",
        }]);
        config.metadata.owner_references = Some(serde_json::from_value(owner).unwrap());
    });
    assert!(matches!(taken, Hold::Refused(Refusal::ConfigTaken { .. })), "{taken:?}");
}

#[test]
fn pools_of_two_clusters_do_not_share_a_deployment() {
    // `a` with pool `b-c` and `a-b` with pool `c` both come to `a-b-c`.
    let mut one = Shape::read("03-split-roles");
    one.cluster.metadata.name = Some("a".into());
    pools(&mut one)[0].name = "b-c".into();
    let existing = one.apply(&[]);
    let mut other = Shape::read("03-split-roles");
    other.cluster.metadata.name = Some("a-b".into());
    pools(&mut other)[0].name = "c".into();
    let conflict = other.changes(&existing).unwrap_err();
    assert!(conflict.0.name.starts_with("a-b-c"), "{conflict}");
}
