//! A real K3s by the product's own road: `herdsman up`, a Cluster of one server and one worker on `docker` machines, the
//! bootstrap script, the agent, the plan, K3s's installer out of an image; through the tunnel of the agent in the cluster.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "real_k3s/world.rs"]
mod world;

use std::collections::BTreeMap;

use peers::k3s::VERSIONS;
use serde_json::{Value, json};
use world::{CLUSTER, NAMESPACE, POD_IMAGE, World};

/// Names and UIDs of objects.
fn identities(list: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| (text(&item["metadata"]["name"]), text(&item["metadata"]["uid"]))).collect()
}

/// Of each node: whether it is ready, its version, and how many pods it takes.
fn nodes(world: &World) -> Vec<(bool, String, String)> {
    let list = world.inside_json(&["get", "nodes"]);
    let of = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.filter(|one| one["type"] == "Ready").any(|one| one["status"] == "True");
        let text =
            |pointer: &str| node.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        (ready, text("/status/nodeInfo/kubeletVersion"), text("/status/capacity/pods"))
    };
    list["items"].as_array().into_iter().flatten().map(of).collect()
}

/// Who must stay the same through every change.
fn everybody(world: &World) -> [BTreeMap<String, String>; 3] {
    [
        identities(&world.inside_json(&["get", "nodes"])),
        identities(&world.admin_json(&["get", "machines.cluster.x-k8s.io", "-n", NAMESPACE])),
        identities(&world.inside_json(&["get", "pods", "-n", "default"])),
    ]
}

fn both(version: &str, pods: &str) -> Vec<(bool, String, String)> {
    vec![(true, version.to_owned(), pods.to_owned()); 2]
}

#[test]
#[ignore = "real: kubectl, k3s, node-image, fleet, busybox"]
fn a_real_k3s_from_creation_to_removal() {
    let Some(world) = World::start() else { return };
    world.create(VERSIONS[0], &["--pool", "servers:1:server", "--pool", "workers:1:worker"]);
    assert_eq!(nodes(&world), both(VERSIONS[0], "110"), "{}", world.diagnosis());

    // The agent in the cluster is the way to the cluster.
    world.inside(&[
        "rollout",
        "status",
        "-n",
        "cattle-system",
        "deploy/cattle-cluster-agent",
        "--timeout=300s",
    ]);
    // It dials in a moment after its pod is ready, and is a way beside the agent on the server: which of them came first does not matter.
    world.until("the tunnels of the server and of the cluster", || world.tunnels() == 2);

    // Something runs, and is reached: logs and exec are streams through the tunnel.
    let image = format!("--image={POD_IMAGE}");
    let command = [
        "--command",
        "--",
        "/busybox",
        "sh",
        "-c",
        "echo it runs; while true; do echo it answers | /busybox nc -l -p 8080; done",
    ];
    world.inside(&[&["run", "hello", &image, "--image-pull-policy=Never"], &command[..]].concat());
    world.inside(&["wait", "pod/hello", "--for=condition=Ready", "--timeout=300s"]);
    assert_eq!(world.inside(&["logs", "hello"]), "it runs\n");
    assert_eq!(world.inside(&["exec", "hello", "--", "/busybox", "echo", "hello"]), "hello\n");

    // So are watches and forwarded ports.
    world.inside(&["label", "pod", "hello", "seen=yes"]);
    let watched =
        world.watch(&["get", "pods", "-l", "seen=yes", "--watch", "-o", "name"], |line| line == "pod/hello");
    assert!(watched, "{}", world.diagnosis());
    assert_eq!(world.forwarded("hello", 8080), "it answers\n");

    // A change of the configuration reaches the machines that are there.
    let before = everybody(&world);
    let change = json!({"spec": {"rkeConfig": {"machineGlobalConfig": {"kubelet-arg": ["max-pods=77"]}}}});
    let cluster = format!("clusters.provisioning.cattle.io/{CLUSTER}");
    world.admin(&["patch", &cluster, "-n", NAMESPACE, "--type=merge", "-p", &change.to_string()]);
    world.until("the new configuration", || nodes(&world) == both(VERSIONS[0], "77"));
    assert_eq!(everybody(&world), before, "in place");

    // So does another version.
    world.herdsman(&["upgrade", CLUSTER, "--kubernetes-version", VERSIONS[1], "--wait", "--timeout", "900"]);
    world.until("the new version", || nodes(&world) == both(VERSIONS[1], "77"));
    assert_eq!(everybody(&world), before, "in place");

    world.admin(&["delete", &cluster, "-n", NAMESPACE, "--timeout=300s"]);
    assert_eq!(world.left(), Vec::<String>::new());
}
