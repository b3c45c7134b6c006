//! What a cluster does by itself: it sees which nodes are still heard of, lets members of etcd go that are asked out, runs
//! pods, and has its agent dial back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clock::Monotonic;
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::cluster::Cluster;
use super::{cluster_agent, node, pods, removal};

/// How often nodes are looked at, and how long one may be silent, as Kubernetes has it.
const PERIOD: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(40);
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Runs until it is dropped.
pub(super) async fn run(cluster: Arc<Cluster>) {
    let controllers = async {
        loop {
            // Controllers run beside an API server: without one there is nobody to tell.
            cluster.until(|cluster| cluster.endpoint(None).is_some()).await;
            tokio::select! {
                biased;
                () = cluster.until(|cluster| cluster.endpoint(None).is_none()) => cluster.say("has no API any more"),
                () = follow_nodes(&cluster) => {}
                () = pods::run(&cluster) => {}
            }
        }
    };
    tokio::join!(controllers, cluster_agent::run(&cluster));
}

async fn follow_nodes(cluster: &Arc<Cluster>) {
    let nodes: Api<Node> = Api::all(cluster.client("system:kube-controller-manager"));
    let mut events = watcher(nodes.clone(), watcher::Config::default()).boxed();
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    let mut heard: BTreeMap<String, Monotonic> = BTreeMap::new();
    let mut tick = tokio::time::interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            event = events.next() => match event {
                Some(Ok(Event::Apply(node) | Event::InitApply(node))) => {
                    let node = json!(node);
                    removal::consider(cluster, &nodes, &node).await;
                    known.insert(name(&node), node);
                }
                Some(Ok(Event::Delete(node))) => {
                    let node = json!(node);
                    known.remove(&name(&node));
                    removal::deleted(cluster, &name(&node));
                }
                Some(Ok(Event::Init | Event::InitDone)) => {}
                Some(Err(error)) => {
                    tracing::warn!(cluster = cluster.id, error = %agent::chain(&error), "no watch of nodes");
                    tokio::time::sleep(PERIOD).await;
                }
                None => return,
            },
            _ = tick.tick() => {
                removal::retry(cluster, &nodes, &known).await;
                let kubelets = cluster.kubelets();
                for node in known.values() {
                    let alive = kubelets.get(&name(node)).is_some_and(|kubelet| cluster.serves(kubelet.address));
                    judge(cluster, &nodes, node, alive, &mut heard).await;
                }
            }
        }
    }
}

fn name(node: &Value) -> String {
    node["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Marks a node that nobody has heard of for too long, and takes the mark off one that came back.
async fn judge(
    cluster: &Cluster,
    nodes: &Api<Node>,
    node: &Value,
    alive: bool,
    heard: &mut BTreeMap<String, Monotonic>,
) {
    let name = name(node);
    let now = cluster.base.clock.monotonic();
    let last = heard.entry(name.clone()).or_insert(now);
    if alive {
        *last = now;
    }
    let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    if ready == alive || (!alive && now.since(*last) <= GRACE) {
        return;
    }
    cluster.say(format!("node {name} is {}", if alive { "heard of again" } else { "not heard of any more" }));
    let status = json!({"status": {"conditions": [node::ready(alive, cluster.base.clock.now())]}});
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.retain(|taint| taint["key"] != UNREACHABLE);
    if !alive {
        let marks = ["NoSchedule", "NoExecute"].map(|effect| json!({"key": UNREACHABLE, "effect": effect}));
        taints.extend(marks);
    }
    let spec = json!({"spec": {"taints": taints}});
    let params = PatchParams::default();
    let first = nodes.patch_status(&name, &params, &Patch::Strategic(&status)).await;
    let second = nodes.patch(&name, &params, &Patch::Merge(&spec)).await;
    for error in [first.err(), second.err()].into_iter().flatten() {
        tracing::warn!(cluster = cluster.id, node = name, error = %agent::chain(&error), "the node is not marked");
    }
}
