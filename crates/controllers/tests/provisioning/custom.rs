//! Hosts that register by their own hand.

use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::world::{NAMESPACE, World, condition, story};

/// A cluster without pools, and the namespace of its management half.
async fn pets(world: &World) -> String {
    let spec = json!({"spec": {"kubernetesVersion": "v1.34.1+k3s1", "rkeConfig": {}}});
    world.create("ProvisioningCluster", "pets", spec).await;
    world
        .until(60, "its name", async || {
            let cluster = world.get("ProvisioningCluster", "pets").await;
            let made = world.find("Cluster", "pets").await;
            let named = cluster["status"]["clusterName"].is_string() && made.is_some();
            if named { Ok(()) } else { Err(cluster.to_string()) }
        })
        .await;
    let cluster = world.get("ProvisioningCluster", "pets").await;
    cluster["status"]["clusterName"].as_str().unwrap().to_owned()
}

/// A host's request, as the gateway writes it.
async fn ask(world: &World, namespace: &str, name: &str, id: &str) {
    let headers = json!({
        "id": [id], "role-etcd": ["true"], "role-control-plane": ["true"], "role-worker": ["true"],
        "node-name": [format!("node-{id}")], "labels": ["cattle.io/os=linux,rack=7"], "address": ["203.0.113.7"]
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "rke.cattle.io/machine-request",
        "metadata": {"name": name, "namespace": namespace}, "stringData": {"data": headers.to_string()}
    });
    let secret: DynamicObject = serde_json::from_value(secret).unwrap();
    world.api_in("Secret", namespace).create(&PostParams::default(), &secret).await.unwrap();
}

/// Waits for the name of the Machine that a request got.
async fn answered(world: &World, namespace: &str, name: &str) -> String {
    world
        .until(60, "an answer", async || {
            let secret = world.api_in("Secret", namespace).get(name).await.unwrap();
            let label = secret.metadata.labels.unwrap_or_default().contains_key("rke.cattle.io/machine-name");
            if label { Ok(()) } else { Err("none".into()) }
        })
        .await;
    let secret = world.api_in("Secret", namespace).get(name).await.unwrap();
    let labels = secret.metadata.labels.unwrap();
    assert_eq!(labels["rke.cattle.io/machine-namespace"], NAMESPACE);
    labels["rke.cattle.io/machine-name"].clone()
}

#[test]
fn a_host_becomes_a_machine_and_goes_with_it() {
    story(|| async {
        let world = World::new(11).await;
        let before = world.everything().await;
        let namespace = pets(&world).await;
        ask(&world, &namespace, "custom-a", "0123abc").await;
        let machine = answered(&world, &namespace, "custom-a").await;
        assert!(machine.starts_with("custom-"), "{machine}");
        let object = world.get("Machine", &machine).await;
        assert_eq!(object["metadata"]["labels"]["rke.cattle.io/machine-id"], "0123abc");
        assert_eq!(object["metadata"]["labels"]["rack"], "7");
        // Its plan Secret comes, and its account: what the host is given.
        world
            .until(120, "the plan Secret", async || {
                let plan = world.find("Secret", &format!("{machine}-machine-plan")).await;
                if plan.is_some() { Ok(()) } else { Err("none".into()) }
            })
            .await;
        world.condition("Machine", &machine, "NodeHealthy", "True", "").await;
        let host = world.get("CustomMachine", &machine).await;
        assert_eq!(condition(&host, "Ready")["status"], "True");
        assert_eq!(host["status"]["initialization"]["provisioned"], true);

        // Whoever comes again is known, even under another request.
        ask(&world, &namespace, "custom-b", "0123abc").await;
        assert_eq!(answered(&world, &namespace, "custom-b").await, machine);
        assert_eq!(world.list("Machine").await.len(), 1);
        // Requests do not stay.
        world.sleep(120).await;
        for name in ["custom-a", "custom-b"] {
            assert!(world.api_in("Secret", &namespace).get_opt(name).await.unwrap().is_none());
        }

        // The last plan takes everything off the host; nothing goes before the agent says that it is done.
        world.delete("Machine", &machine).await;
        let secret = format!("{machine}-machine-plan");
        let plan = async || {
            let found = world.get("Secret", &secret).await["data"]["plan"].clone();
            serde_json::from_value::<k8s_openapi::ByteString>(found).map(|plan| plan.0).unwrap_or_default()
        };
        world
            .until(60, "the last plan", async || {
                let plan = String::from_utf8(plan().await).unwrap();
                if plan.contains("k3s-uninstall.sh") { Ok(()) } else { Err(plan) }
            })
            .await;
        world.sleep(60).await;
        assert!(world.find("CustomMachine", &machine).await.is_some());
        let checksum: String =
            Sha256::digest(plan().await).iter().map(|byte| format!("{byte:02x}")).collect();
        let done = json!({"stringData": {"plan-state": "succeeded", "applied-checksum": checksum}});
        world.patch("Secret", &secret, done).await;
        world.gone("Machine", &machine).await;
        for kind in ["CustomMachine", "RKEBootstrap"] {
            world.gone(kind, &machine).await;
        }
        world.delete("ProvisioningCluster", "pets").await;
        world.gone("ProvisioningCluster", "pets").await;
        world
            .until(120, "nothing left", async || {
                let mut left = world.everything().await;
                left.retain(|one| !before.contains(one));
                if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
            })
            .await;
    });
}

/// A node that is gone for longer than the cluster allows takes its Machine along.
#[test]
fn a_missing_node_takes_its_machine_along() {
    story(|| async {
        let world = World::new(12).await;
        let namespace = pets(&world).await;
        let after = json!({"metadata": {"annotations": {"rke.cattle.io/delete-missing-custom-machines-after": "10m"}}});
        world.patch("ProvisioningCluster", "pets", after).await;
        ask(&world, &namespace, "custom-a", "0123abc").await;
        let machine = answered(&world, &namespace, "custom-a").await;
        world.condition("Machine", &machine, "NodeHealthy", "True", "").await;
        let nodes: kube::Api<DynamicObject> =
            kube::Api::all_with(world.downstream.client("test"), &crate::world::resource("Node"));
        nodes.delete(&machine, &Default::default()).await.unwrap();
        world.condition("Machine", &machine, "NodeHealthy", "False", "NodeDeleted").await;
        world.sleep(300).await;
        assert!(world.find("Machine", &machine).await.is_some(), "not yet");
        world.gone("Machine", &machine).await;
        let left: Vec<Value> = world.list("CustomMachine").await;
        assert!(left.is_empty(), "{left:?}");
        // Its agent did not answer either.
        let events = world.list("Event").await;
        assert!(events.iter().any(|event| event["reason"] == "HostNotCleaned"), "{events:?}");
    });
}

/// A bootstrap token ends half an hour old, and a token that was used ends sooner.
#[test]
fn bootstrap_tokens_end() {
    story(|| async {
        let world = World::new(13).await;
        let namespace = pets(&world).await;
        ask(&world, &namespace, "custom-a", "0123abc").await;
        let machine = answered(&world, &namespace, "custom-a").await;
        let token = format!("{machine}-machine-bootstrap-token");
        world
            .until(60, "the token", async || match world.find("Secret", &token).await {
                Some(secret) if secret["data"]["token"].is_string() => Ok(()),
                other => Err(format!("{other:?}")),
            })
            .await;
        let ended = async || {
            let secret = world.get("Secret", &token).await;
            secret["metadata"]["annotations"]["rke.cattle.io/bootstrap-token-invalidated"] == "true"
        };
        world.sleep(20 * 60).await;
        assert!(!ended().await);
        let now = world.clock.now().to_string();
        let used = json!({"metadata": {"annotations": {"rke.cattle.io/last-access-timestamp": now}}});
        world.patch("Secret", &token, used).await;
        world.sleep(20).await;
        assert!(!ended().await);
        world.sleep(15).await;
        assert!(ended().await);
    });
}

/// What is said on a request that is not answered.
async fn refused(world: &World, namespace: &str, name: &str) -> String {
    let annotation = async || {
        let secret = world.api_in("Secret", namespace).get(name).await.unwrap();
        let labels = secret.metadata.labels.unwrap_or_default();
        assert!(!labels.contains_key("rke.cattle.io/machine-name"), "it was answered: {labels:?}");
        secret.metadata.annotations.unwrap_or_default().remove("herdsman.io/refused")
    };
    world
        .until(
            30,
            "a refusal",
            async || if annotation().await.is_some() { Ok(()) } else { Err("none".into()) },
        )
        .await;
    annotation().await.unwrap()
}

/// Neither the id of another cluster's host, nor one that only has the same short hash, nor a label gives a host another's Machine.
#[test]
fn a_host_gets_no_others_machine() {
    story(|| async {
        let world = World::new(13).await;
        let namespace = pets(&world).await;
        let short = |id: &str| api::names::registered_machine(api::names::Registrant::Custom, id);
        // A Machine of another cluster with that id, and one of this cluster whose name an id was searched for.
        for (id, cluster, bears) in [("77", "other", "77"), ("88", "pets", "another")] {
            let reference = json!({"apiGroup": "rke.cattle.io", "kind": "CustomMachine", "name": short(id)});
            let machine = json!({
                "metadata": {"labels": {"rke.cattle.io/machine-id": bears, "cluster.x-k8s.io/cluster-name": cluster}},
                "spec": {"clusterName": cluster, "bootstrap": {"dataSecretName": "x"}, "infrastructureRef": reference},
            });
            world.create("Machine", &short(id), machine).await;
        }
        for id in ["77", "88"] {
            ask(&world, &namespace, &short(id), id).await;
            let why = refused(&world, &namespace, &short(id)).await;
            assert!(why.contains("cattle-id") && !why.contains("other\""), "{why}");
        }
        let headers =
            json!({"id": ["99"], "role-worker": ["true"], "labels": ["rke.cattle.io/etcd-role=true"]});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "rke.cattle.io/machine-request",
            "metadata": {"name": short("99"), "namespace": namespace}, "stringData": {"data": headers.to_string()}
        });
        let secret: DynamicObject = serde_json::from_value(secret).unwrap();
        world.api_in("Secret", &namespace).create(&PostParams::default(), &secret).await.unwrap();
        let why = refused(&world, &namespace, &short("99")).await;
        assert!(why.contains("rke.cattle.io/etcd-role"), "{why}");
        assert_eq!(world.find("Machine", &short("99")).await, None);
    });
}
