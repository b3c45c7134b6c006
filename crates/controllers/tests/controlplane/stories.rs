//! What happens to clusters.

use serde_json::json;

use crate::world::{World, story};

const ALL: &[&str] = &["etcd", "control-plane", "worker"];
const SERVER: &[&str] = &["etcd", "control-plane"];
const WORKER: &[&str] = &["worker"];
const VERSION: &str = "v1.33.5+k3s1";

#[test]
fn one_machine_becomes_a_cluster_and_rests() {
    story(|| async {
        let mut world = World::new(1).await;
        world.cluster("c", VERSION, json!({})).await;
        world.machine("c", "m1", ALL).await;
        world.reconciled("c").await;
        let kubeconfig = world.get("Secret", "c-kubeconfig").await;
        assert_eq!(kubeconfig["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "c");
        let machine = world.get("Machine", "m1").await;
        assert_eq!(machine["status"]["nodeRef"]["name"], "m1", "{}", machine["status"]);
        assert_eq!(machine["metadata"]["annotations"]["herdsman.io/machine-uid"], machine["metadata"]["uid"]);
        world.sleep(60).await;
        let before = world.revisions();
        world.faults.log.lock().unwrap().clear();
        world.sleep(300).await;
        let written = world.faults.log.lock().unwrap().clone();
        assert_eq!(world.revisions(), before, "nothing is written at rest: {written:?}");
        assert!(world.waits.counts().is_empty(), "{:?}", world.waits.counts());
    });
}

/// Three servers and two workers.
pub(crate) async fn five(seed: u64, more: serde_json::Value) -> World {
    let mut world = World::new(seed).await;
    world.cluster("c", VERSION, more).await;
    for name in ["s1", "s2", "s3"] {
        world.machine("c", name, SERVER).await;
    }
    for name in ["w1", "w2"] {
        world.machine("c", name, WORKER).await;
    }
    world.reconciled("c").await;
    world
}

pub(crate) fn drained() -> serde_json::Value {
    let options = json!({"enabled": true, "force": true, "deleteEmptyDirData": true});
    json!({"spec": {"upgradeStrategy": {"controlPlaneDrainOptions": options, "workerDrainOptions": options}}})
}

fn restarts(world: &World) -> Vec<(String, u32, u32)> {
    let truth = world.truth.lock().unwrap();
    truth.machines.iter().map(|(name, one)| (name.clone(), one.restarts, one.rude)).collect()
}

async fn versions(world: &World) -> Vec<String> {
    let nodes = world.nodes().list(&Default::default()).await.unwrap().items;
    let text =
        |node: &kube::api::DynamicObject| node.data["status"]["nodeInfo"]["kubeletVersion"].to_string();
    nodes.iter().map(text).collect()
}

#[test]
fn a_cluster_of_five_is_made_grows_changes_and_goes() {
    story(|| async {
        let mut world = five(2, drained()).await;
        {
            let truth = world.truth.lock().unwrap();
            assert_eq!((truth.members.len(), truth.started, truth.machines.len()), (3, 1, 5));
        }
        assert!(restarts(&world).iter().all(|(_, restarts, _)| *restarts == 0), "{:?}", restarts(&world));
        let written = world.faults.take();
        println!("for five machines: {written:?}");
        // Deliver, note the join URL, copy the applied plan, note that probes passed, elect; conditions as they change.
        let few = [
            ("PATCH secrets", 5 * 5),
            ("PATCH machines/status", 5 * 5),
            ("PATCH rkecontrolplanes/status", 14),
        ];
        for (what, most) in few {
            assert!(written.get(what).copied().unwrap_or_default() <= most, "{what}: {written:?}");
        }
        let uids = |machines: Vec<serde_json::Value>| -> Vec<String> {
            machines.iter().map(|machine| machine["metadata"]["uid"].to_string()).collect()
        };
        let before = uids(world.list("Machine").await);

        // A pod that has to go before its node restarts.
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::default_namespaced(world.downstream());
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "w1", "containers": [{"name": "c", "image": "i"}]}});
        pods.create(&Default::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();

        let change = json!({"spec": {"machineGlobalConfig": {"debug": true}}});
        world.patch("RKEControlPlane", "c", change).await;
        world.reconciled("c").await;
        for (name, restarts, rude) in restarts(&world) {
            assert_eq!((restarts, rude), (1, 0), "{name}: once, and nobody's pods are disturbed");
        }
        assert!(pods.get_opt("p").await.unwrap().is_none(), "the pod was evicted");
        let cordoned = world.nodes().list(&Default::default()).await.unwrap();
        assert!(cordoned.items.iter().all(|node| node.data["spec"]["unschedulable"] != true));

        world.patch("RKEControlPlane", "c", json!({"spec": {"kubernetesVersion": "v1.34.2+k3s1"}})).await;
        world.reconciled("c").await;
        assert!(versions(&world).await.iter().all(|version| version == "\"v1.34.2+k3s1\""));
        assert_eq!(uids(world.list("Machine").await), before, "managed, not replaced");

        world.machine("c", "w3", WORKER).await;
        world.reconciled("c").await;
        world.delete("Machine", "w3").await;
        world.gone("Machine", "w3").await;

        world.delete("Cluster", "c").await;
        world.gone("Cluster", "c").await;
        world.gone("RKEControlPlane", "c").await;
        for kind in ["Machine", "RKEBootstrap", "CustomMachine"] {
            assert_eq!(world.list(kind).await, Vec::<serde_json::Value>::new(), "{kind}");
        }
        world.sleep(120).await;
        let left: Vec<_> =
            world.list("Secret").await.iter().map(|one| one["metadata"]["name"].to_string()).collect();
        assert_eq!(left, Vec::<String>::new(), "every Secret goes with its owner");
        assert!(world.waits.counts().is_empty(), "{:?}", world.waits.counts());
    });
}

#[test]
fn etcd_machines_go_one_at_a_time_and_never_the_quorum() {
    story(|| async {
        let mut world = five(3, json!({})).await;
        // The one that started the cluster, and another: both at once.
        world.machine("c", "s4", SERVER).await;
        world.reconciled("c").await;
        world.delete("Machine", "s1").await;
        world.delete("Machine", "s2").await;
        world.gone("Machine", "s1").await;
        world.gone("Machine", "s2").await;
        world.reconciled("c").await;
        let truth = world.truth.lock().unwrap();
        assert_eq!(truth.members.iter().map(String::as_str).collect::<Vec<_>>(), ["s3", "s4"]);
        assert_eq!(truth.wrong, Vec::<String>::new());
    });
}

#[test]
fn a_dead_member_is_removed_while_the_others_hold_the_quorum() {
    story(|| async {
        let world = five(4, json!({})).await;
        world.truth.lock().unwrap().dead.insert("s2".into());
        // Nobody on it answers any more, and its node is not heard of.
        let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}});
        let lost = kube::api::Patch::Merge(lost);
        world.nodes().patch_status("s2", &Default::default(), &lost).await.unwrap();
        world.delete("Machine", "s2").await;
        world.gone("Machine", "s2").await;
        world.reconciled("c").await;
        assert_eq!(world.truth.lock().unwrap().members.len(), 2);
    });
}

#[test]
fn a_restart_at_any_moment_changes_nothing() {
    story(|| async {
        let mut world = World::new(5).await;
        world.cluster("c", VERSION, drained()).await;
        for name in ["s1", "s2", "s3"] {
            world.machine("c", name, SERVER).await;
        }
        world.machine("c", "w1", WORKER).await;
        // Odd moments: some within a look, some between two writes of one.
        for round in 0..60u64 {
            tokio::time::sleep(std::time::Duration::from_millis(350 + 137 * (round % 11))).await;
            world.restart();
            if round == 30 {
                world
                    .patch("RKEControlPlane", "c", json!({"spec": {"machineGlobalConfig": {"debug": true}}}))
                    .await;
            }
        }
        world.reconciled("c").await;
        assert_eq!(world.truth.lock().unwrap().started, 1);
        for (name, restarts, rude) in restarts(&world) {
            assert!(restarts <= 1 && rude == 0, "{name}: {restarts} {rude}");
        }
    });
}

/// In the middle of an upgrade the server is stopped for ten minutes. It goes on where it was, and no node is done twice.
#[test]
fn an_upgrade_goes_on_after_ten_minutes_without_a_server() {
    const NEXT: &str = "\"v1.34.2+k3s1\"";
    story(|| async {
        let mut world = five(41, drained()).await;
        world.patch("RKEControlPlane", "c", json!({"spec": {"kubernetesVersion": "v1.34.2+k3s1"}})).await;
        world
            .until(600, "the first node is upgraded", async || {
                let now = versions(&world).await;
                if now.iter().any(|version| version == NEXT) { Ok(()) } else { Err(format!("{now:?}")) }
            })
            .await;
        world.stop();
        world.sleep(10).await;
        let (half, restarted) = (versions(&world).await, restarts(&world));
        assert!(half.iter().any(|version| version != NEXT), "in the middle: {half:?}");
        world.sleep(600).await;
        assert_eq!((versions(&world).await, restarts(&world)), (half, restarted), "nobody goes on alone");

        world.restart();
        world.reconciled("c").await;
        assert!(versions(&world).await.iter().all(|version| version == NEXT));
        for (name, restarts, rude) in restarts(&world) {
            assert_eq!((restarts, rude), (1, 0), "{name} is done once, and drained before");
        }
    });
}

#[test]
fn whoever_is_faster_every_time_keeps_nothing_from_happening() {
    story(|| async {
        let mut world = World::new(6).await;
        world.faults.conflicts.store(true, std::sync::atomic::Ordering::Relaxed);
        world.cluster("c", VERSION, drained()).await;
        for name in ["s1", "s2", "s3"] {
            world.machine("c", name, SERVER).await;
        }
        world.machine("c", "w1", WORKER).await;
        world.reconciled("c").await;
        world.patch("RKEControlPlane", "c", json!({"spec": {"machineGlobalConfig": {"debug": true}}})).await;
        world.reconciled("c").await;
        world.delete("Machine", "s1").await;
        world.gone("Machine", "s1").await;
        world.reconciled("c").await;
        assert_eq!(world.truth.lock().unwrap().started, 1);
        for (name, restarts, rude) in restarts(&world).iter().filter(|(name, ..)| name != "s1") {
            assert!(*restarts <= 2 && *rude == 0, "{name}: {restarts} {rude}");
        }
    });
}

#[test]
fn a_plan_that_fails_is_tried_again_and_said() {
    story(|| async {
        let mut world = World::new(7).await;
        world.truth.lock().unwrap().failures.insert("m1".into(), 2);
        world.cluster("c", VERSION, json!({})).await;
        world.machine("c", "m1", ALL).await;
        world
            .until(120, "the failure is said", async || {
                let machine = world.get("Machine", "m1").await;
                let listed = machine["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let found =
                    listed.iter().find(|one| one["type"] == "PlanApplied").cloned().unwrap_or_default();
                match found["status"] == "False" && found["message"].to_string().contains("k3s.service") {
                    true => Ok(()),
                    false => Err(machine["status"].to_string()),
                }
            })
            .await;
        let events = world.list("Event").await;
        assert!(events.iter().any(|event| event["reason"] == "PlanFailed"), "{events:?}");
        world.reconciled("c").await;
    });
}

/// Somebody takes the Beacon, or gives it back.
async fn owner(world: &World, name: &str) {
    let status = kube::api::Patch::Merge(json!({"status": {"active": true, "owner": name}}));
    world.api("Beacon").patch_status("c", &Default::default(), &status).await.unwrap();
}

#[test]
fn nothing_is_written_while_somebody_else_has_the_beacon() {
    story(|| async {
        let mut world = World::new(8).await;
        world.cluster("c", VERSION, json!({})).await;
        world.create("Beacon", "c", json!({})).await;
        owner(&world, "an-operation").await;
        world.machine("c", "m1", ALL).await;
        world
            .until(60, "it is said who has it", async || {
                let ready = world.says("c", "Ready").await;
                let said = ready["message"].to_string().contains("an-operation");
                if said { Ok(()) } else { Err(ready.to_string()) }
            })
            .await;
        world.sleep(60).await;
        assert!(!world.faults.take().contains_key("PATCH secrets"), "no plan is written");

        owner(&world, "").await;
        world.reconciled("c").await;
        world.sleep(10).await;
        let beacon = world.get("Beacon", "c").await;
        assert_eq!(beacon["status"]["owner"].as_str().unwrap_or_default(), "", "given back: {beacon}");
        assert_eq!(beacon["status"]["active"], true, "what is not ours stays: {beacon}");
    });
}

#[test]
fn secrets_are_in_a_cluster_before_anything_else() {
    story(|| async {
        let mut world = World::new(9).await;
        world.feature("provisioningprebootstrap").await;
        let secret = json!({
            "metadata": {"annotations": {
                "provisioning.cattle.io/sync-bootstrap": "true",
                "provisioning.cattle.io/sync-target-namespace": "network",
                "rke.cattle.io/object-authorized-for-clusters": "c",
            }},
            "stringData": {"peer": "of {{clusterId}}"},
        });
        world.create("Secret", "peering", secret).await;
        world.cluster("c", VERSION, json!({})).await;
        world.machine("c", "m1", ALL).await;
        world.reconciled("c").await;
        let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
            kube::Api::namespaced(world.downstream(), "network");
        let copied = secrets.get("peering").await.unwrap().data.unwrap();
        assert_eq!(String::from_utf8(copied["peer"].0.clone()).unwrap(), "of c-m-w2bfx9xq");
        let truth = world.truth.lock().unwrap();
        assert_eq!(truth.machines["m1"].restarts, 0, "the whole plan restarts nothing");
    });
}

/// Everything in the files of a machine's plan.
async fn files(world: &World, machine: &str) -> String {
    let secret = world.find("Secret", &format!("{machine}-machine-plan")).await.unwrap_or_default();
    let decoded = |value: &serde_json::Value| -> Vec<u8> {
        let bytes: Option<k8s_openapi::ByteString> = serde_json::from_value(value.clone()).ok();
        bytes.map(|bytes| bytes.0).unwrap_or_default()
    };
    let plan: serde_json::Value =
        serde_json::from_slice(&decoded(&secret["data"]["plan"])).unwrap_or_default();
    let all = plan["files"].as_array().cloned().unwrap_or_default();
    all.iter().map(|file| String::from_utf8_lossy(&decoded(&file["content"])).into_owned()).collect()
}

/// Whoever writes control planes can name any management cluster: they get neither its token nor its connection, and write nothing on it.
#[test]
fn a_control_plane_with_anothers_id_gets_no_token() {
    story(|| async {
        let mut world = World::new(60).await;
        world.cluster("c", VERSION, json!({})).await;
        world.machine("c", "m1", ALL).await;
        world.reconciled("c").await;
        assert!(files(&world, "m1").await.contains("registration"), "the victim's plan has its token");
        let before = world.management_cluster().await;
        world.control_plane("evil", VERSION, json!({})).await;
        world.machine("evil", "e1", ALL).await;
        world
            .until(300, "a plan", async || {
                let files = files(&world, "e1").await;
                if files.is_empty() { Err(world.says("evil", "Ready").await.to_string()) } else { Ok(()) }
            })
            .await;
        world.sleep(300).await;
        assert!(!files(&world, "e1").await.contains("registration"), "the victim's token is in the plan");
        assert_eq!(world.find("Secret", "evil-kubeconfig").await, None);
        let evil = world.get("RKEControlPlane", "evil").await;
        assert_ne!(evil["status"]["agentConnected"], true, "{evil}");
        assert_eq!(world.management_cluster().await, before);
    });
}
