//! What a node can do with its own credential: it may update its plan Secret as a whole. Here nobody stands at the door, so that what is
//! written arrives.

use std::collections::BTreeMap;

use api::catalogue::{annotations, labels};
use serde_json::{Value, json};

use crate::stories::{drained, five};
use crate::world::{World, story};

/// Every plan, and when it was delivered.
async fn plans(world: &World) -> BTreeMap<String, (String, String)> {
    let of = |secret: &Value| {
        let name = secret["metadata"]["name"].as_str()?.strip_suffix("-machine-plan")?.to_owned();
        let delivered = &secret["metadata"]["annotations"][annotations::PLAN_LAST_UPDATED];
        Some((name, (secret["data"]["plan"].to_string(), delivered.to_string())))
    };
    world.list("Secret").await.iter().filter_map(of).collect()
}

/// Labels and annotations of RKEBootstraps that the planner writes.
async fn marks(world: &World) -> BTreeMap<String, Value> {
    let of = |bootstrap: &Value| {
        let (words, notes) = (&bootstrap["metadata"]["labels"], &bootstrap["metadata"]["annotations"]);
        let keys = [annotations::JOIN_URL, annotations::JOINED_TO, annotations::JOIN_URL_AUTOSET_DISABLED];
        let notes: Vec<&Value> = keys.iter().map(|key| &notes[*key]).collect();
        let name = bootstrap["metadata"]["name"].as_str().unwrap().to_owned();
        (name, json!([words[labels::INIT_NODE], notes]))
    };
    world.list("RKEBootstrap").await.iter().map(of).collect()
}

/// What a worker that wants to be a server says of itself, and of others.
fn forged(other: &str) -> Value {
    json!({"metadata": {
        "labels": {
            labels::ETCD_ROLE: "true", labels::CONTROL_PLANE_ROLE: "true", labels::INIT_NODE: "true",
            labels::MACHINE_NAME: other, labels::PLAN_MACHINE_NAME: other, labels::CLUSTER_NAME: "another",
            labels::NODE_NAME: other, labels::OS: "windows", labels::MACHINE_ID: format!("id-{other}"),
        },
        "annotations": {
            annotations::JOIN_URL: "https://evil.example.com:9345", annotations::JOIN_URL_AUTOSET_DISABLED: "true",
            annotations::JOINED_TO: "https://evil.example.com:9345", annotations::ADDRESS: "203.0.113.66",
            annotations::TAINTS: r#"[{"key":"evil","effect":"NoExecute"}]"#, annotations::LABELS: r#"{"evil":"true"}"#,
        },
    }})
}

#[test]
fn a_worker_that_says_it_is_a_server_gets_a_workers_plan() {
    story(|| async {
        let mut world = five(41, drained()).await;
        world.sleep(60).await;
        let (before, marked) = (plans(&world).await, marks(&world).await);
        assert_eq!(before.len(), 5);
        world.patch("Secret", "w1-machine-plan", forged("s2")).await;
        world.sleep(120).await;
        // Everything is planned anew: nobody's plan has anything of it.
        world.restart();
        world.sleep(60).await;
        assert_eq!(plans(&world).await, before, "nothing is delivered to anybody");
        assert_eq!(marks(&world).await, marked, "nobody is joined elsewhere");

        // A change reaches it as a worker, and nobody by its URL.
        world.patch("RKEControlPlane", "c", json!({"spec": {"machineGlobalConfig": {"debug": true}}})).await;
        world.reconciled("c").await;
        let after = plans(&world).await;
        for (name, (plan, _)) in &after {
            assert_ne!(*plan, before[name].0, "{name} has the change");
            let plan = decoded(plan);
            assert!(!plan.contains("evil"), "{name}: {plan}");
        }
        let files = decoded_files(&after["w1"].0);
        assert!(files.iter().all(|file| !file.contains("agent-token")), "a server's token: {files:?}");
        assert!(files.iter().any(|file| file.contains("\"debug\"")), "{files:?}");
        assert_eq!(marks(&world).await, marked);
    });
}

#[test]
fn a_drain_reaches_only_the_node_of_its_own_secret() {
    story(|| async {
        let world = five(42, json!({})).await;
        world.sleep(60).await;
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::default_namespaced(world.downstream());
        for (name, node) in [("theirs", "s2"), ("own", "w1")] {
            let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
            pods.create(&Default::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        }
        let mut forged = forged("s2");
        forged["metadata"]["annotations"][annotations::DRAIN_OPTIONS] =
            r#"{"deleteEmptyDirData":true,"disableEviction":true,"enabled":true,"force":true}"#.into();
        let owner = world.get("RKEBootstrap", "s2").await["metadata"]["uid"].clone();
        forged["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "rke.cattle.io/v1", "kind": "RKEBootstrap", "name": "s2", "uid": owner}]);
        world.patch("Secret", "w1-machine-plan", forged).await;
        world
            .until(120, "its own node is drained", async || match pods.get_opt("own").await.unwrap() {
                None => Ok(()),
                Some(_) => Err("its own pod is there".into()),
            })
            .await;
        world.sleep(120).await;
        assert!(pods.get_opt("theirs").await.unwrap().is_some(), "another's node was drained");
        let node = world.nodes().get("s2").await.unwrap();
        assert_ne!(node.data["spec"]["unschedulable"], true);
    });
}

#[test]
fn marks_of_an_older_version_are_copied_once_and_no_plan_changes() {
    story(|| async {
        let mut world = five(43, json!({})).await;
        world.sleep(60).await;
        let (before, marked) = (plans(&world).await, marks(&world).await);
        assert!(marked.values().any(|mark| mark[0] == "true"), "{marked:?}");
        // As an older version left them; one worker has forged its own.
        world.stop();
        for (name, mark) in &marked {
            let secret = format!("{name}-machine-plan");
            let notes = json!({annotations::JOIN_URL: mark[1][0], annotations::JOINED_TO: mark[1][1]});
            let was = json!({"metadata": {"labels": {labels::INIT_NODE: mark[0]}, "annotations": notes}});
            world.patch("Secret", &secret, was).await;
            let off = json!({annotations::JOIN_URL: null, annotations::JOINED_TO: null});
            let off = json!({"metadata": {"labels": {labels::INIT_NODE: null}, "annotations": off}});
            world.patch("RKEBootstrap", name, off).await;
        }
        let mut lies = forged("s2");
        lies["metadata"]["annotations"][annotations::JOINED_TO] = marked["w1"][1][1].clone();
        world.patch("Secret", "w1-machine-plan", lies).await;
        let unmarked = json!({"metadata": {"annotations": {annotations::HERDSMAN_MARKS: null}}});
        world.patch("RKEControlPlane", "c", unmarked).await;
        assert!(marks(&world).await.values().all(|mark| mark[0].is_null()));

        world.restart();
        world.sleep(120).await;
        assert_eq!(marks(&world).await, marked, "all are copied, and none that was forged");
        assert_eq!(plans(&world).await, before, "no plan is delivered");
        let plane = world.get("RKEControlPlane", "c").await;
        assert_eq!(plane["metadata"]["annotations"][annotations::HERDSMAN_MARKS], "bootstrap");

        // From then on a Secret gives nothing any more, a server's neither.
        world.patch("Secret", "s2-machine-plan", forged("s3")).await;
        world.sleep(120).await;
        assert_eq!(marks(&world).await, marked);
        assert_eq!(plans(&world).await, before);
    });
}

fn decoded(plan: &str) -> String {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(plan.trim_matches('"')).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// What is in the files of a plan.
fn decoded_files(plan: &str) -> Vec<String> {
    let plan: Value = serde_json::from_str(&decoded(plan)).unwrap();
    let files = plan["files"].as_array().unwrap();
    files.iter().map(|file| decoded(file["content"].as_str().unwrap_or_default())).collect()
}
