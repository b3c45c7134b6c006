//! Members of etcd that go: asked out by an annotation of their Node, or with it.

use std::collections::BTreeMap;

use api::catalogue::annotations::{
    ETCD_REMOVE_K3S, ETCD_REMOVE_RKE2, ETCD_REMOVED_NODE_NAME_K3S, ETCD_REMOVED_NODE_NAME_RKE2,
};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::Runtime;
use super::cluster::Cluster;
use crate::machine::MachineName;

/// The annotations that ask, and that answer.
fn words(runtime: Runtime) -> (&'static str, &'static str) {
    match runtime {
        Runtime::K3s => (ETCD_REMOVE_K3S, ETCD_REMOVED_NODE_NAME_K3S),
        Runtime::Rke2 => (ETCD_REMOVE_RKE2, ETCD_REMOVED_NODE_NAME_RKE2),
    }
}

/// Takes a node's member out of etcd if that is asked for, and says so on the Node.
pub(super) async fn consider(cluster: &Cluster, nodes: &Api<Node>, node: &Value) {
    let (ask, answer) = words(cluster.runtime);
    let notes = &node["metadata"]["annotations"];
    let asked = notes[ask] == "true";
    if !asked || notes[answer].as_str().is_some_and(|name| !name.is_empty()) {
        return;
    }
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let removed = match member_of(cluster, name) {
        Some(machine) => match cluster.remove_member(&machine) {
            Ok(member) => member.map(|member| member.name),
            Err(why) => return cluster.say(format!("member of {name} stays: {why}")),
        },
        None => None,
    };
    // One that is none any more is told so too.
    let removed = removed.unwrap_or_else(|| name.to_owned());
    cluster.say(format!("member {removed} leaves etcd"));
    let patch = json!({"metadata": {"annotations": {answer: removed}}});
    if let Err(error) = nodes.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        tracing::warn!(cluster = cluster.id, node = name, error = %agent::chain(&error), "the removal is not told");
    }
}

/// What could not be done before.
pub(super) async fn retry(cluster: &Cluster, nodes: &Api<Node>, known: &BTreeMap<String, Value>) {
    for node in known.values() {
        consider(cluster, nodes, node).await;
    }
}

/// A Node is gone: its member goes too, as the distributions do it.
pub(super) fn deleted(cluster: &Cluster, node: &str) {
    let Some(machine) = member_of(cluster, node) else { return };
    match cluster.remove_member(&machine) {
        Ok(_) => cluster.say(format!("member of {node} leaves etcd with its node")),
        Err(why) => cluster.say(format!("member of {node} stays: {why}")),
    }
}

/// The machine whose member is a node's: a member's name is the node's with eight digits after it.
fn member_of(cluster: &Cluster, node: &str) -> Option<MachineName> {
    let members = cluster.members();
    let is_theirs = |name: &str| name.rsplit_once('-').is_some_and(|(base, _)| base == node);
    members.iter().find(|(_, member)| is_theirs(&member.name)).map(|(machine, _)| machine.clone())
}
