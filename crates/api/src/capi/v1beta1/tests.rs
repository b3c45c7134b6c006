use serde_json::{Value, json};

use super::*;
use crate::wire::assert_round_trips;

fn object(kind: &str, spec: Value, status: Value) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": kind,
        "metadata": {"name": "edge", "namespace": "fleet"}, "spec": spec, "status": status,
    })
}

fn reference(kind: &str) -> Value {
    json!({"apiVersion": "infrastructure.example.com/v1beta1", "kind": kind, "name": "edge", "namespace": "fleet"})
}

fn legacy_conditions() -> Value {
    json!([{
        "type": "Ready", "status": "False", "severity": "Warning", "lastTransitionTime": "2026-01-02T03:04:05Z",
        "reason": "WaitingForInfrastructure", "message": "1 of 3 completed",
    }])
}

fn conditions() -> Value {
    json!([{
        "type": "Available", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z",
        "reason": "Available", "message": "", "observedGeneration": 3,
    }])
}

fn taints() -> Value {
    json!([{"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule", "propagation": "Always"}])
}

fn health_rules() -> Value {
    json!({
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "5m"}],
        "unhealthyMachineConditions": [{"type": "NodeHealthy", "status": "False", "timeout": "300s"}],
        "maxUnhealthy": "40%", "unhealthyRange": "[1-3]", "nodeStartupTimeout": "0s",
        "remediationTemplate": reference("RemediationTemplate"),
    })
}

fn machine_spec() -> Value {
    json!({
        "clusterName": "edge", "bootstrap": {"configRef": reference("Config"), "dataSecretName": "edge-boot"},
        "infrastructureRef": reference("ExampleMachine"), "version": "v1.34.1", "providerID": "example:///edge",
        "failureDomain": "a", "readinessGates": [{"conditionType": "example.com/Audited", "polarity": "Negative"}],
        "nodeDrainTimeout": "10m", "nodeVolumeDetachTimeout": "0s", "nodeDeletionTimeout": "1.5h",
        "taints": taints(),
    })
}

fn machine_template() -> Value {
    json!({"metadata": {"labels": {"pool": "one"}, "annotations": {"note": "two"}}, "spec": machine_spec()})
}

fn strategy() -> Value {
    json!({
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%", "deletePolicy": "Oldest"},
        "remediation": {"maxInFlight": 1},
    })
}

fn topology() -> Value {
    let mut health_check = health_rules();
    health_check["enable"] = json!(false);
    let overrides = json!({"overrides": [{"name": "size", "value": {"cpu": 4, "tags": [null, "x"]}}]});
    json!({
        "class": "small", "classNamespace": "classes", "version": "v1.34.1", "rolloutAfter": "2026-02-01T00:00:00Z",
        "controlPlane": {
            "metadata": {"labels": {"role": "cp"}}, "replicas": 3, "rollout": {"after": "2026-02-01T00:00:00Z"},
            "machineHealthCheck": health_check, "nodeDrainTimeout": "1m", "nodeVolumeDetachTimeout": "2m",
            "nodeDeletionTimeout": "3m", "taints": taints(), "readinessGates": [{"conditionType": "Audited"}],
            "variables": overrides,
        },
        "workers": {
            "machineDeployments": [{
                "metadata": {"annotations": {"a": "b"}}, "class": "worker", "name": "md-0", "failureDomain": "a",
                "replicas": 0, "machineHealthCheck": {"enable": true}, "nodeDrainTimeout": "1m",
                "nodeVolumeDetachTimeout": "2m", "nodeDeletionTimeout": "3m", "taints": taints(),
                "minReadySeconds": 0, "readinessGates": [{"conditionType": "Audited"}],
                "rollout": {"after": "2026-02-01T00:00:00Z"}, "strategy": strategy(), "variables": overrides,
            }],
            "machinePools": [{
                "metadata": {"labels": {"a": "b"}}, "class": "pool", "name": "mp-0", "failureDomains": ["a", "b"],
                "replicas": 2, "nodeDrainTimeout": "1m", "nodeVolumeDetachTimeout": "2m",
                "nodeDeletionTimeout": "3m", "taints": taints(), "minReadySeconds": 5, "variables": overrides,
            }],
        },
        "variables": [
            {"name": "region", "definitionFrom": "inline", "value": "north"},
            {"name": "off", "value": false},
        ],
    })
}

#[test]
fn clusters_round_trip() {
    let counts = json!({
        "desiredReplicas": 3, "replicas": 2, "upToDateReplicas": 1, "readyReplicas": 0, "availableReplicas": 0,
        "versions": [{"version": "v1.34.1", "replicas": 2}], "upgradePlan": [{"version": "v1.35.0"}],
    });
    assert_round_trips::<Cluster>(object(
        "Cluster",
        json!({
            "paused": true,
            "clusterNetwork": {
                "apiServerPort": 0, "services": {"cidrBlocks": ["10.43.0.0/16"]}, "pods": {"cidrBlocks": []},
                "serviceDomain": "cluster.local",
            },
            "controlPlaneEndpoint": {"host": "edge.example.com", "port": 6443},
            "controlPlaneRef": reference("ExampleControlPlane"), "infrastructureRef": reference("ExampleCluster"),
            "topology": topology(), "availabilityGates": [{"conditionType": "Audited", "polarity": "Positive"}],
        }),
        json!({
            "failureDomains": {"a": {"controlPlane": true, "attributes": {"rack": "4"}}, "b": {}},
            "failureReason": "InvalidConfiguration", "failureMessage": "no such region", "phase": "Provisioned",
            "infrastructureReady": true, "controlPlaneReady": false, "conditions": legacy_conditions(),
            "observedGeneration": 3,
            "v1beta2": {"conditions": conditions(), "controlPlane": counts, "workers": counts},
        }),
    ));
}

#[test]
fn machines_round_trip() {
    assert_round_trips::<Machine>(object(
        "Machine",
        machine_spec(),
        json!({
            "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": "edge", "uid": "7"},
            "nodeInfo": {
                "architecture": "arm64", "bootID": "b", "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12", "kubeProxyVersion": "", "kubeletVersion": "v1.34.1", "machineID": "m",
                "operatingSystem": "linux", "osImage": "SLE Micro", "swap": {"capacity": 1024}, "systemUUID": "u",
            },
            "lastUpdated": "2026-01-02T03:04:05Z", "failureReason": "CreateError", "failureMessage": "no quota",
            "addresses": [{"type": "InternalIP", "address": "192.0.2.10"}], "phase": "Deleting",
            "certificatesExpiryDate": "2027-01-02T03:04:05Z", "bootstrapReady": true, "infrastructureReady": true,
            "observedGeneration": 1, "conditions": legacy_conditions(),
            "deletion": {
                "nodeDrainStartTime": "2026-01-02T03:04:05Z",
                "waitForNodeVolumeDetachStartTime": "2026-01-02T03:04:06Z",
                "waitForPreDrainHookStartTime": "2026-01-02T03:04:04Z",
                "waitForPreTerminateHookStartTime": "2026-01-02T03:04:07Z",
            },
            "v1beta2": {"conditions": conditions()},
        }),
    ));
}

#[test]
fn machine_sets_round_trip() {
    assert_round_trips::<MachineSet>(object(
        "MachineSet",
        json!({
            "clusterName": "edge", "replicas": 0, "minReadySeconds": 10, "deletePolicy": "Newest",
            "selector": {"matchLabels": {"pool": "one"}}, "template": machine_template(),
            "machineNamingStrategy": {"template": "{{ .cluster.name }}-{{ .random }}"},
        }),
        json!({
            "selector": "pool=one", "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2,
            "availableReplicas": 0, "versions": [{"version": "v1.34.1", "replicas": 3}], "observedGeneration": 4,
            "failureReason": "CreateError", "failureMessage": "no quota", "conditions": legacy_conditions(),
            "v1beta2": {
                "conditions": conditions(), "readyReplicas": 2, "availableReplicas": 0, "upToDateReplicas": 3,
            },
        }),
    ));
}

#[test]
fn machine_deployments_round_trip() {
    assert_round_trips::<MachineDeployment>(object(
        "MachineDeployment",
        json!({
            "clusterName": "edge", "replicas": 3, "rolloutAfter": "2026-02-01T00:00:00Z",
            "selector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["one"]}]},
            "template": machine_template(), "strategy": strategy(),
            "machineNamingStrategy": {"template": "{{ .random }}"}, "minReadySeconds": 0,
            "revisionHistoryLimit": 1, "paused": true, "progressDeadlineSeconds": 600,
        }),
        json!({
            "observedGeneration": 4, "selector": "pool=one", "replicas": 3, "updatedReplicas": 2,
            "readyReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 2,
            "versions": [{"version": "v1.34.1", "replicas": 3}], "phase": "ScalingUp",
            "conditions": legacy_conditions(), "v1beta2": {"conditions": conditions(), "upToDateReplicas": 2},
        }),
    ));
}

#[test]
fn machine_health_checks_round_trip() {
    let mut spec = health_rules();
    spec["clusterName"] = json!("edge");
    spec["selector"] = json!({"matchLabels": {"pool": "one"}});
    assert_round_trips::<MachineHealthCheck>(object(
        "MachineHealthCheck",
        spec,
        json!({
            "expectedMachines": 3, "currentHealthy": 2, "remediationsAllowed": 0, "observedGeneration": 1,
            "targets": ["edge-1", "edge-2"], "conditions": legacy_conditions(),
            "v1beta2": {"conditions": conditions()},
        }),
    ));
}

#[test]
fn machine_drain_rules_round_trip() {
    assert_round_trips::<MachineDrainRule>(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDrainRule",
        "metadata": {"name": "databases-last", "namespace": "fleet"},
        "spec": {
            "drain": {"behavior": "Drain", "order": -10},
            "machines": [{"selector": {}, "clusterSelector": {"matchLabels": {"tier": "edge"}}}],
            "pods": [{"selector": {"matchLabels": {"app": "database"}}, "namespaceSelector": {}}],
        },
    }));
}

#[test]
fn nothing_is_needed_to_read_an_object() {
    let bare =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": {"name": "edge"}});
    assert_round_trips::<Machine>(bare);
}

#[test]
fn machines_can_be_scaled_where_they_are_counted() {
    let scaled = |version: Version| {
        let built = crate::crd::Definition::of::<MachineSet>(version).build();
        built.spec.versions[0].subresources.as_ref().is_some_and(|subresources| subresources.scale.is_some())
    };
    assert!(scaled(machine_set()) && scaled(machine_deployment()));
    assert!(!scaled(machine()) && !scaled(cluster()));
}
