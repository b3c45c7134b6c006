//! Native Cluster API providers: what the documentation's troubleshooting is about, each with its code and next step.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::world::{World, install, story};

const GROUP: &str = "cloud.example.com";

/// The CRDs of a provider that keeps a contract.
fn definition(kind: &str, contract: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}"), "labels": {format!("cluster.x-k8s.io/{contract}"): "v1"}},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}
            }]
        }
    })
}

/// A cluster whose infrastructure and machines are a native provider's.
fn native() -> Value {
    let reference =
        |kind: &str, name: &str| json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "name": name});
    json!({"spec": {
        "kubernetesVersion": "v1.34.1+rke2r1",
        "rkeConfig": {
            "infrastructureRef": reference("NativeCluster", "cloud"),
            "machinePools": [{
                "name": "all", "quantity": 1, "etcdRole": true, "controlPlaneRole": true, "workerRole": true,
                "machineConfigRef": reference("NativeMachineTemplate", "medium")
            }]
        }
    }})
}

async fn waits(world: &World, code: &str) {
    world.condition("ProvisioningCluster", "prod", "Ready", "Unknown", code).await;
}

/// The status of an infrastructure object in either contract.
fn provisioned(contract: &str) -> Value {
    match contract {
        "v1beta1" => json!({"ready": true}),
        _ => json!({"initialization": {"provisioned": true}}),
    }
}

/// One case after the other, until the machine's node has joined.
#[test]
fn each_trouble_has_its_words() {
    for contract in ["v1beta1", "v1beta2"] {
        story(|| async move {
            let world = World::new(31).await;
            // The control plane is as slow as the infrastructure.
            world.hold.store(true, Ordering::Relaxed);
            world.create("ProvisioningCluster", "prod", native()).await;
            waits(&world, "waiting for a CustomResourceDefinition of").await;
            let kinds = ["NativeCluster", "NativeMachine", "NativeMachineTemplate"];
            install(&world.client, kinds.map(|kind| definition(kind, contract)).to_vec()).await;
            waits(&world, "NativeCluster fleet-default/cloud, which spec.rkeConfig.infrastructureRef names")
                .await;
            world.create("NativeCluster", "cloud", json!({"spec": {}})).await;
            waits(&world, "to be provisioned: it has not said anything yet").await;
            // Nobody touches it: is the provider running?
            waits(&world, "none has ever touched it").await;
            let words = json!([{"type": "Ready", "status": "False", "reason": "BadCredentials", "message": "403 from the cloud"}]);
            status(&world, "NativeCluster", "cloud", json!({"conditions": words})).await;
            waits(&world, "BadCredentials: 403 from the cloud").await;
            let endpoint =
                json!({"spec": {"controlPlaneEndpoint": {"host": "api.example.com", "port": 6443}}});
            world.patch("NativeCluster", "cloud", endpoint).await;
            let mut ready = provisioned(contract);
            ready["conditions"] = Value::Null;
            status(&world, "NativeCluster", "cloud", ready).await;
            waits(&world, "NativeMachineTemplate fleet-default/medium of pool all to exist").await;
            let cluster = world.get("Cluster", "prod").await;
            assert_eq!(cluster["spec"]["controlPlaneEndpoint"]["host"], "api.example.com");

            let template = json!({"spec": {"template": {"spec": {"size": "medium"}}}});
            world.create("NativeMachineTemplate", "medium", template.clone()).await;
            world
                .until(120, "a machine with data", async || {
                    let machines = world.machines("prod-all").await;
                    let data = machines.first().map(|one| one["spec"]["bootstrap"]["dataSecretName"].clone());
                    if data.is_some_and(|data| data.is_string()) {
                        Ok(())
                    } else {
                        Err(json!(machines).to_string())
                    }
                })
                .await;
            let machine = crate::world::name(&world.machines("prod-all").await[0]);
            let data = world.get("Secret", &format!("{machine}-machine-bootstrap")).await;
            let value: k8s_openapi::ByteString =
                serde_json::from_value(data["data"]["value"].clone()).unwrap();
            let value = String::from_utf8(value.0).unwrap();
            assert!(value.starts_with("## template: jinja\n#cloud-config\n"), "{value}");
            waits(&world, "none has ever touched it").await;
            let failed = json!([{"type": "Ready", "status": "False", "severity": "Error", "reason": "Quota", "message": "no more servers"}]);
            status(&world, "NativeMachine", &machine, json!({"conditions": failed})).await;
            waits(&world, "Quota: no more servers").await;
            world.patch("NativeMachine", &machine, json!({"spec": {"providerID": "native://1"}})).await;
            let mut ready = provisioned(contract);
            ready["conditions"] = Value::Null;
            status(&world, "NativeMachine", &machine, ready).await;
            waits(&world, "to register: its server has run for 10 minutes").await;

            // The user's template was neither changed nor taken.
            let kept = world.get("NativeMachineTemplate", "medium").await;
            assert_eq!(kept["spec"], template["spec"]);
            assert!(kept["metadata"]["annotations"].get("objectset.rio.cattle.io/id").is_none());
            // The provider lets go of what is deleted: nothing holds it here.
            world.hold.store(false, Ordering::Relaxed);
            world.delete("ProvisioningCluster", "prod").await;
            world.gone("ProvisioningCluster", "prod").await;
            world.gone("NativeCluster", "cloud").await;
            world.gone("NativeMachine", &machine).await;
        });
    }
}

async fn status(world: &World, kind: &str, name: &str, status: Value) {
    let patch = kube::api::Patch::Merge(json!({"status": status}));
    world.api(kind).patch_status(name, &Default::default(), &patch).await.unwrap();
}

/// What cannot be deleted is said, and given up when it is told to be.
#[test]
fn a_cluster_whose_cloud_is_gone_can_be_forced() {
    story(|| async {
        let world = World::new(32).await;
        let kinds = ["NativeCluster", "NativeMachine", "NativeMachineTemplate"];
        install(&world.client, kinds.map(|kind| definition(kind, "v1beta2")).to_vec()).await;
        let held = json!({"metadata": {"finalizers": ["example.com/cloud"]}});
        world
            .create(
                "NativeCluster",
                "cloud",
                json!({"spec": {"controlPlaneEndpoint": {"host": "a", "port": 1}}}),
            )
            .await;
        status(&world, "NativeCluster", "cloud", provisioned("v1beta2")).await;
        world.create("NativeMachineTemplate", "medium", json!({"spec": {"template": {"spec": {}}}})).await;
        world.create("ProvisioningCluster", "prod", native()).await;
        world
            .until(120, "a machine", async || match world.list("NativeMachine").await.len() {
                1 => Ok(()),
                other => Err(other.to_string()),
            })
            .await;
        let machine = crate::world::name(&world.list("NativeMachine").await[0]);
        for (kind, name) in [("NativeMachine", machine.as_str()), ("NativeCluster", "cloud")] {
            world.patch(kind, name, held.clone()).await;
        }
        world.delete("ProvisioningCluster", "prod").await;
        world.condition("ProvisioningCluster", "prod", "Removed", "Unknown", "waiting for machine [").await;
        world.sleep(600).await;
        assert!(world.find("ProvisioningCluster", "prod").await.is_some());
        let force = json!({"metadata": {"annotations": {"herdsman.io/force-remove": "true"}}});
        world.patch("ProvisioningCluster", "prod", force).await;
        world.gone("ProvisioningCluster", "prod").await;
        world.gone("NativeCluster", "cloud").await;
    });
}
