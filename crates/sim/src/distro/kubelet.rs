//! A kubelet: it registers its node, and is alive. Who is not heard of any more is seen by the cluster's upkeep.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, Kubelet};
use super::process::Context;
use super::{node, ports};

/// After a write that did not work.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs for ever.
///
/// # Errors
/// If another machine has a node of this name.
pub(super) async fn run(context: &Context<'_>, cluster: &Arc<Cluster>) -> Result<Infallible, String> {
    let (machine, name) = (context.machine, context.node_name());
    let _listening = ports::of_kubelet(context, cluster);
    let mut said = String::new();
    loop {
        cluster.until(|cluster| cluster.serves(machine.address)).await;
        if cluster.kubelets().get(&name).is_some_and(|other| other.machine != machine.name) {
            return Err(format!("Node password rejected, duplicate hostname {name:?}"));
        }
        match register(context, cluster, &name).await {
            Ok(true) => {
                machine.say(format!("node {name} registers"));
                break;
            }
            Ok(false) => break,
            Err(error) if error != said => {
                machine.say(format!("node {name} does not register: {error}"));
                said = error;
            }
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
    let kubelet = Kubelet { machine: machine.name.clone(), address: machine.address };
    let _up = cluster.kubelet(&name, kubelet);
    let _network = ports::of_network(context, cluster);
    std::future::pending().await
}

/// Makes the Node, or brings it up to date. Says whether it is new.
async fn register(context: &Context<'_>, cluster: &Cluster, name: &str) -> Result<bool, String> {
    let nodes: Api<Node> = Api::all(cluster.client(&format!("system:node:{name}")));
    let member = cluster
        .members()
        .iter()
        .find(|(machine, _)| **machine == context.machine.name)
        .map(|(_, member)| member.name.clone());
    let (wanted, status) = node::describe(context, name, member.as_deref());
    let failed = |error: kube::Error| agent::chain(&error);
    let found = nodes.get_opt(name).await.map_err(failed)?;
    let is_new = found.is_none();
    match found {
        None => {
            let document: Node = serde_json::from_value(wanted).map_err(|error| error.to_string())?;
            nodes.create(&PostParams::default(), &document).await.map_err(failed)?;
        }
        // As a real kubelet: labels and taints of the config are for the first time only.
        Some(_) => {
            let patch = json!({"metadata": {"annotations": wanted["metadata"]["annotations"]}});
            apply(&nodes, name, &patch, false).await?;
        }
    }
    apply(&nodes, name, &json!({"status": status}), true).await?;
    Ok(is_new)
}

async fn apply(nodes: &Api<Node>, name: &str, patch: &Value, status: bool) -> Result<(), String> {
    let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
    let answer = match status {
        true => nodes.patch_status(name, &params, &patch).await,
        false => nodes.patch(name, &params, &patch).await,
    };
    answer.map(drop).map_err(|error| agent::chain(&error))
}
