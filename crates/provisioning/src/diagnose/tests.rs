use api::provisioning::v1::{MachinePool, RKEConfig};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T01:00:00Z";

fn cluster() -> Cluster {
    let reference = |kind: &str, name: &str| ObjectReference {
        api_version: Some("infrastructure.cluster.x-k8s.io/v1beta1".into()),
        kind: Some(kind.into()),
        name: Some(name.into()),
        ..Default::default()
    };
    let mut cluster = Cluster::default();
    cluster.metadata.namespace = Some("ns".into());
    cluster.spec.rke_config = Some(RKEConfig {
        infrastructure_ref: Some(reference("VSphereCluster", "vs")),
        machine_pools: vec![MachinePool {
            name: "pool".into(),
            machine_config_ref: Some(reference("VSphereMachineTemplate", "tmpl")),
            ..Default::default()
        }],
        ..Default::default()
    });
    cluster
}

fn object(kind: &str, created: &str, extra: Value) -> Object {
    let mut document = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind,
        "metadata": {"name": "x", "namespace": "ns", "creationTimestamp": created},
    });
    api_merge(&mut document, extra);
    Object::from_document(document)
}

fn api_merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                api_merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

const OLD: &str = "2026-01-01T00:00:00Z";
const NEW: &str = "2026-01-01T00:59:50Z";

fn found(infrastructure: Referred<'_>) -> Vec<Wait> {
    let (cluster, now) = (cluster(), NOW.parse().unwrap());
    waits(&Facts { cluster: &cluster, infrastructure, templates: &[], deployments: &[], machines: &[], now })
}

#[test]
fn infrastructure_clusters() {
    let object = |created, extra| object("VSphereCluster", created, extra);
    let ready = [
        object(OLD, json!({"status": {"ready": true}})),
        object(OLD, json!({"status": {"initialization": {"provisioned": true}}})),
    ];
    for one in &ready {
        assert_eq!(found(Referred::Found(one)), [], "both contracts count");
    }
    let silent = object(OLD, json!({}));
    let young = object(NEW, json!({}));
    let says = object(
        OLD,
        json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": "VCenterUnreachable", "message": "dial tcp: i/o timeout"},
        ]}}),
    );
    let detail = object(
        OLD,
        json!({"status": {"conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "VCenterAvailable", "status": "False", "message": "cannot complete login: incorrect user name"},
        ]}}),
    );
    let terminal =
        object(OLD, json!({"status": {"failureReason": "CreateError", "failureMessage": "no quota"}}));
    let cases = [
        (Referred::UnknownKind, Code::InfrastructureCRDMissing, "", "installed"),
        (Referred::Missing, Code::InfrastructureClusterMissing, "", "create it"),
        (Referred::Found(&silent), Code::InfrastructureProviderSilent, "", "is the provider running?"),
        (
            Referred::Found(&young),
            Code::InfrastructureClusterNotReady,
            "not said anything",
            "kubectl -n ns describe",
        ),
        (
            Referred::Found(&says),
            Code::InfrastructureClusterNotReady,
            "VCenterUnreachable: dial tcp: i/o timeout",
            "",
        ),
        (Referred::Found(&detail), Code::InfrastructureClusterNotReady, "incorrect user name", ""),
        (Referred::Found(&terminal), Code::InfrastructureClusterNotReady, "CreateError: no quota", ""),
    ];
    for (infrastructure, code, evidence, remedy) in cases {
        let waits = found(infrastructure);
        assert_eq!(waits.len(), 1, "{waits:?}");
        assert_eq!(waits[0].code, code);
        assert!(waits[0].evidence.contains(evidence), "{waits:?}");
        assert!(waits[0].remedy.contains(remedy), "{waits:?}");
        assert!(waits[0].awaits.contains("VSphereCluster"), "{waits:?}");
    }
}

fn with_parts(template: Referred<'_>, deployments: &[Object], machines: &[Machine<'_>]) -> Vec<Wait> {
    let (cluster, now) = (cluster(), NOW.parse().unwrap());
    let ready = object("VSphereCluster", OLD, json!({"status": {"ready": true}}));
    let facts = Facts {
        cluster: &cluster,
        infrastructure: Referred::Found(&ready),
        templates: &[Template { pool: "pool", template }],
        deployments,
        machines,
        now,
    };
    waits(&facts)
}

#[test]
fn templates_and_deployments() {
    let template = object("VSphereMachineTemplate", OLD, json!({}));
    let codes = |waits: &[Wait]| waits.iter().map(|wait| wait.code).collect::<Vec<_>>();
    assert_eq!(codes(&with_parts(Referred::UnknownKind, &[], &[])), [Code::MachineTemplateCRDMissing]);
    let blocked = object(
        "MachineSet",
        OLD,
        json!({"status": {"conditions": [{
            "type": "ScalingUp", "status": "True", "reason": "ScalingUp",
            "message": "Scaling up from 0 to 3 replicas is blocked because VSphereMachineTemplate tmpl does not exist",
        }]}}),
    );
    let missing = with_parts(Referred::Missing, std::slice::from_ref(&blocked), &[]);
    assert_eq!(codes(&missing), [Code::MachineTemplateMissing], "the cause, not its echo");
    assert!(missing[0].awaits.contains("VSphereMachineTemplate ns/tmpl of pool pool"));

    let there = Referred::Found(&template);
    let quoted = with_parts(there, &[blocked.clone(), blocked], &[]);
    assert_eq!(codes(&quoted), [Code::MachineDeploymentWarning], "each complaint once");
    assert!(quoted[0].evidence.contains("is blocked because"));

    let counts = object(
        "MachineDeployment",
        OLD,
        json!({"status": {"deprecated": {"v1beta1": {"conditions": [{
            "type": "Ready", "status": "False", "severity": "Warning", "reason": "WaitingForAvailableMachines",
            "message": "Minimum availability requires more replicas, current 0 available",
        }]}}}}),
    );
    assert_eq!(with_parts(there, &[counts], &[]), [], "every deployment says so while its machines boot");

    let invalid = object(
        "MachineSet",
        OLD,
        json!({"status": {"deprecated": {"v1beta1": {"conditions": [{
            "type": "MachinesCreated", "status": "False", "severity": "Error",
            "reason": "InfrastructureTemplateCloningFailed",
            "message": "admission webhook denied the request: spec.template: Required value",
        }]}}}}),
    );
    let waits = with_parts(there, &[invalid], &[]);
    assert_eq!(codes(&waits), [Code::MachineTemplateInvalid]);
    assert!(waits[0].evidence.contains("Required value"));

    let on_the_way = object(
        "MachineSet",
        OLD,
        json!({"status": {"deprecated": {"v1beta1": {"conditions": [{
            "type": "Resized", "status": "False", "severity": "Warning", "reason": "ScalingUp",
            "message": "Scaling up MachineSet to 3 replicas (actual 1)",
        }]}}}}),
    );
    assert_eq!(with_parts(there, &[on_the_way], &[]), [], "every set says so while it grows");

    let calm = object(
        "MachineDeployment",
        OLD,
        json!({"status": {"conditions": [{"type": "ScalingUp", "status": "True", "message": "Scaling up from 0 to 3"}]}}),
    );
    assert_eq!(with_parts(there, &[calm], &[]), [], "scaling up is no problem");
}

#[test]
fn machines_that_do_not_become_nodes() {
    let machine = object("Machine", OLD, json!({"apiVersion": "cluster.x-k8s.io/v1beta2"}));
    let registered =
        object("Machine", OLD, json!({"metadata": {"labels": {"rke.cattle.io/machine-id": "1"}}}));
    let node = object("Machine", OLD, json!({"status": {"nodeRef": {"name": "n"}}}));
    let infra = |created, extra| object("VSphereMachine", created, extra);
    let failing = infra(
        OLD,
        json!({"status": {"conditions": [{
            "type": "VMProvisioned", "status": "False", "severity": "Error", "reason": "CloningFailed",
            "message": "ServerFaultCode: Permission to perform this operation was denied",
        }]}}),
    );
    let busy = infra(
        OLD,
        json!({"status": {"conditions": [{
            "type": "VMProvisioned", "status": "False", "severity": "Info", "reason": "Cloning",
        }]}}),
    );
    let (silent, young) = (infra(OLD, json!({})), infra(NEW, json!({})));
    let up = infra(OLD, json!({"status": {"ready": true}}));
    let cases = [
        (&machine, &failing, Some(Code::InfrastructureMachineError)),
        (&machine, &busy, None),
        (&machine, &silent, Some(Code::MachineProviderSilent)),
        (&machine, &young, None),
        (&machine, &up, Some(Code::NodeNotRegistered)),
        (&registered, &up, None),
        (&node, &failing, None),
    ];
    let template = object("VSphereMachineTemplate", OLD, json!({}));
    for (machine, infrastructure, code) in cases {
        let one = Machine { machine, infrastructure: Referred::Found(infrastructure) };
        let waits = with_parts(Referred::Found(&template), &[], &[one]);
        assert_eq!(waits.first().map(|wait| wait.code), code, "{:?}", infrastructure.document());
    }
}

/// Our own controller of drivers' machines says what it waits for in its own words.
#[test]
fn machines_of_drivers_say_what_they_wait_for() {
    let machine = object("Machine", OLD, json!({"apiVersion": "cluster.x-k8s.io/v1beta2"}));
    let infra = |status: Value| {
        object("Amazonec2Machine", OLD, json!({"apiVersion": "rke-machine.cattle.io/v1", "status": status}))
    };
    let ready = |reason: &str| {
        infra(
            json!({"conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": "waiting for it"}]}),
        )
    };
    let failed = infra(json!({
        "failureMessage": "quota exceeded",
        "conditions": [{"type": "CreateJob", "status": "False", "reason": "CreateError", "message": "failed"}],
    }));
    let cases = [
        (failed, Some(Code::CreateFailed)),
        (ready("CredentialMissing"), Some(Code::CredentialMissing)),
        (ready("NodeDriverMissing"), Some(Code::NodeDriverMissing)),
        (ready("WaitingForBootstrapData"), None),
        (ready("WaitingForInfrastructure"), None),
    ];
    let template = object("VSphereMachineTemplate", OLD, json!({}));
    for (infrastructure, code) in &cases {
        let one = Machine { machine: &machine, infrastructure: Referred::Found(infrastructure) };
        let waits = with_parts(Referred::Found(&template), &[], &[one]);
        assert_eq!(waits.first().map(|wait| wait.code), *code, "{:?}", infrastructure.document());
    }
}

#[test]
fn time_alone_brings_no_more_than_the_end_of_patience() {
    let machine = object("Machine", OLD, json!({}));
    let registered =
        object("Machine", OLD, json!({"metadata": {"labels": {"rke.cattle.io/machine-id": "1"}}}));
    let node = object("Machine", OLD, json!({"status": {"nodeRef": {"name": "n"}}}));
    let infra = |extra| object("VSphereMachine", NEW, extra);
    let (young, up) = (infra(json!({})), infra(json!({"status": {"ready": true}})));
    let busy = infra(json!({"status": {"conditions": [{"type": "X", "status": "False"}]}}));
    let (cluster, now): (_, Timestamp) = (cluster(), NOW.parse().unwrap());
    let facts = |machines: &[Machine<'_>], now| {
        let facts = Facts {
            cluster: &cluster,
            infrastructure: Referred::Missing,
            templates: &[],
            deployments: &[],
            machines,
            now,
        };
        (due_in(&facts), waits(&facts).len())
    };
    let of = |machine, infrastructure| Machine { machine, infrastructure: Referred::Found(infrastructure) };
    let cases = [
        (vec![of(&machine, &young)], Some(51)),
        (vec![of(&machine, &up)], Some(591)),
        (vec![of(&machine, &up), of(&machine, &young)], Some(51)),
        (vec![of(&machine, &busy)], None),
        (vec![of(&registered, &up)], None),
        (vec![of(&node, &young)], None),
        (vec![Machine { machine: &machine, infrastructure: Referred::Missing }], None),
        (vec![], None),
    ];
    for (machines, due) in &cases {
        let (found, before) = facts(machines, now);
        assert_eq!(found, *due, "{machines:?}");
        let Some(seconds) = due else { continue };
        let (_, after) = facts(machines, now + SignedDuration::from_secs(*seconds as i64));
        assert_eq!(after, before + 1, "it is said then");
    }
}

#[test]
fn a_server_that_has_just_come_up_has_time_to_register() {
    let up = |minutes: &str| {
        object(
            "Machine",
            OLD,
            json!({"status": {"conditions": [
                {"type": "InfrastructureReady", "status": "True", "lastTransitionTime": minutes},
            ]}}),
        )
    };
    let infra = object("VSphereMachine", OLD, json!({"status": {"ready": true}}));
    let template = object("VSphereMachineTemplate", OLD, json!({}));
    for (time, waits) in [("2026-01-01T00:55:00Z", 0), ("2026-01-01T00:45:00Z", 1)] {
        let machine = up(time);
        let one = Machine { machine: &machine, infrastructure: Referred::Found(&infra) };
        assert_eq!(with_parts(Referred::Found(&template), &[], &[one]).len(), waits, "{time}");
    }
}
