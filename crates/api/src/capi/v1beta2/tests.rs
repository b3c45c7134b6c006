use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::crd::Definition;

/// Reads an example and writes it again; whatever the type does not know, or spells differently, shows.
fn round_trip<K: Serialize + DeserializeOwned>(example: &str) -> K {
    let example: Value = serde_saphyr::from_str(example).unwrap();
    let object: K = serde_json::from_value(example.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), example);
    object
}

#[test]
fn cluster() {
    let cluster: Cluster = round_trip(include_str!("../../../fixtures/cluster.x-k8s.io/cluster.yaml"));
    assert_eq!(cluster.spec.control_plane_endpoint.to_string(), "10.0.0.1:6443");
    let control_plane = cluster.spec.control_plane_ref.unwrap();
    assert_eq!(control_plane.group_kind(), "RKEControlPlane.rke.cattle.io");
    assert_eq!(cluster.status.unwrap().control_plane.unwrap().ready_replicas, Some(0), "zero is not absent");
}

#[test]
fn cluster_with_topology() {
    let cluster: Cluster =
        round_trip(include_str!("../../../fixtures/cluster.x-k8s.io/cluster-topology.yaml"));
    let topology = cluster.spec.topology.unwrap();
    assert_eq!(
        topology.workers.machine_deployments[0].rollout.strategy.type_,
        values::rollout_strategy::ON_DELETE
    );
    assert_eq!(topology.variables[0].value, json!({"size": 3, "tags": ["a"]}));
}

#[test]
fn machine() {
    let machine: Machine = round_trip(include_str!("../../../fixtures/cluster.x-k8s.io/machine.yaml"));
    let status = machine.status.unwrap();
    assert_eq!(status.node_ref.unwrap().name, "node-1");
    assert_eq!(status.phase, values::machine_phase::RUNNING);
}

#[test]
fn machine_set() {
    let machine_set: MachineSet =
        round_trip(include_str!("../../../fixtures/cluster.x-k8s.io/machineset.yaml"));
    assert_eq!(machine_set.spec.replicas, Some(0), "zero is not absent");
}

#[test]
fn machine_deployment() {
    let deployment: MachineDeployment =
        round_trip(include_str!("../../../fixtures/cluster.x-k8s.io/machinedeployment.yaml"));
    let counts = deployment.status.unwrap().deprecated.unwrap().v1beta1.unwrap();
    assert_eq!(counts.unavailable_replicas, 1);
}

#[test]
fn machine_health_check() {
    let check: MachineHealthCheck =
        round_trip(include_str!("../../../fixtures/cluster.x-k8s.io/machinehealthcheck.yaml"));
    assert_eq!(check.spec.checks.unhealthy_node_conditions[0].timeout_seconds, 300);
}

#[test]
fn machine_drain_rule() {
    let rule: MachineDrainRule =
        round_trip(include_str!("../../../fixtures/cluster.x-k8s.io/machinedrainrule.yaml"));
    assert_eq!(rule.spec.drain.behavior, values::drain_behavior::DRAIN);
}

/// Nothing that a reader could trip over is written for what is not set: the API refuses empty objects.
#[test]
fn empty_objects_are_left_out() {
    let mut machine = Machine::default();
    assert_eq!(
        serde_json::to_value(&machine).unwrap(),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {}})
    );
    machine.spec.cluster_name = "one".into();
    let reference = json!({"kind": "", "name": "", "apiGroup": ""});
    assert_eq!(
        serde_json::to_value(&machine.spec).unwrap(),
        json!({"clusterName": "one", "bootstrap": {}, "infrastructureRef": reference})
    );
}

#[test]
fn clusterctl_finds_every_definition() {
    for definition in definitions().into_iter().map(Definition::build) {
        let labels = definition.metadata.labels.unwrap();
        assert_eq!(labels["clusterctl.cluster.x-k8s.io"], "");
        assert_eq!(labels["cluster.x-k8s.io/provider"], "cluster-api");
        assert!(!labels.keys().any(|label| label.starts_with("cluster.x-k8s.io/v1")), "not a provider's");
    }
}
