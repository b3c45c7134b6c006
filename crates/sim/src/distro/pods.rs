//! Pods of Deployments: made, put on nodes, run, and gone when they are evicted. Nothing runs in them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::disruption;
use crate::ground;

/// What needs nobody's word, such as a node that came back, is seen after so long.
const PERIOD: Duration = Duration::from_secs(10);

pub(super) type Objects = BTreeMap<(String, String), Value>;

/// What is known.
#[derive(Default)]
struct Known {
    deployments: Objects,
    pods: Objects,
    nodes: Objects,
    budgets: Objects,
}

/// Runs until it is dropped.
pub(super) async fn run(cluster: &Arc<Cluster>) {
    let client = cluster.client("system:kube-controller-manager");
    let config = watcher::Config::default;
    let mut deployments = watcher(Api::<Deployment>::all(client.clone()), config()).boxed();
    let mut pods = watcher(Api::<Pod>::all(client.clone()), config()).boxed();
    let mut nodes = watcher(Api::<Node>::all(client.clone()), config()).boxed();
    let mut budgets = watcher(Api::<PodDisruptionBudget>::all(client.clone()), config()).boxed();
    let mut known = Known::default();
    // Lists of which a watch has not told the end yet: nobody may go by them.
    let mut lists = [(); 4].map(|()| Some(Objects::new()));
    let mut chance = cluster.base.chance.of(&format!("{} pods", cluster.id));
    loop {
        tokio::select! {
            biased;
            Some(event) = deployments.next() => take(&mut known.deployments, &mut lists[0], event),
            Some(event) = pods.next() => take(&mut known.pods, &mut lists[1], event),
            Some(event) = nodes.next() => take(&mut known.nodes, &mut lists[2], event),
            Some(event) = budgets.next() => take(&mut known.budgets, &mut lists[3], event),
            () = tokio::time::sleep(PERIOD) => {}
        }
        if lists.iter().any(Option::is_some) {
            continue;
        }
        for step in decide(&known, &|node| is_alive(cluster, node)) {
            if let Err(error) = act(&client, &mut known, step, cluster.base.clock.now(), &mut chance).await {
                tracing::debug!(cluster = cluster.id, error = %agent::chain(&error), "a pod is left for later");
            }
        }
        let Known { budgets, pods, deployments, .. } = &mut known;
        disruption::settle(&client, budgets, pods, deployments, cluster.base.clock.now()).await;
    }
}

fn is_alive(cluster: &Cluster, node: &str) -> bool {
    cluster.kubelets().get(node).is_some_and(|kubelet| cluster.serves(kubelet.address))
}

/// Takes what a watch says. A list that it begins anew counts once it is whole: what is not in it yet is not gone.
fn take<T: serde::Serialize>(
    objects: &mut Objects,
    list: &mut Option<Objects>,
    event: Result<Event<T>, watcher::Error>,
) {
    let key = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
    };
    match event {
        Ok(Event::Apply(object)) => {
            let object = json!(object);
            objects.insert(key(&object), object);
        }
        Ok(Event::Delete(object)) => drop(objects.remove(&key(&json!(object)))),
        Ok(Event::Init) => *list = Some(Objects::new()),
        Ok(Event::InitApply(object)) => {
            let object = json!(object);
            list.get_or_insert_default().insert(key(&object), object);
        }
        Ok(Event::InitDone) => *objects = list.take().unwrap_or_default(),
        Err(_) => {}
    }
}

/// Something to do with a pod.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Make one of a Deployment, on a node.
    Create { deployment: Value, node: String },
    /// It runs.
    Run { namespace: String, name: String },
    /// It has stopped.
    Finish { namespace: String, name: String },
}

fn decide(known: &Known, alive: &dyn Fn(&str) -> bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for ((namespace, name), pod) in &known.pods {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let (namespace, name) = (namespace.clone(), name.clone());
        let gone = !known.nodes.contains_key(&(String::new(), node.to_owned()));
        let stops = pod["metadata"]["deletionTimestamp"].is_string() && alive(node);
        // Pods of a node that is gone are gone with it.
        if stops || (gone && !node.is_empty()) {
            steps.push(Step::Finish { namespace, name });
        } else if pod["status"]["phase"] == "Pending" && alive(node) {
            steps.push(Step::Run { namespace, name });
        }
    }
    for deployment in known.deployments.values() {
        let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
        let uid = deployment["metadata"]["uid"].as_str();
        let staying = |pod: &&Value| owner(pod) == uid && !pod["metadata"]["deletionTimestamp"].is_string();
        let mine = known.pods.values().filter(staying).count();
        for _ in mine..wanted {
            if let Some(node) = choose(known, deployment, alive) {
                steps.push(Step::Create { deployment: deployment.clone(), node });
            }
        }
        let extra = known.pods.iter().filter(|(_, pod)| staying(pod)).skip(wanted);
        steps.extend(
            extra.map(|((namespace, name), _)| Step::Finish {
                namespace: namespace.clone(),
                name: name.clone(),
            }),
        );
    }
    steps
}

/// Whether a pod says that it is ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// The Deployment that a pod is of.
pub(super) fn owner(pod: &Value) -> Option<&str> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["kind"] == "Deployment")?["uid"].as_str()
}

/// The node with the fewest pods that takes this one.
fn choose(known: &Known, deployment: &Value, alive: &dyn Fn(&str) -> bool) -> Option<String> {
    let tolerations = &deployment["spec"]["template"]["spec"]["tolerations"];
    let takes = |node: &Value| {
        let taints = node["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default();
        let hard = taints.iter().filter(|taint| taint["effect"] != "PreferNoSchedule");
        node["spec"]["unschedulable"] != true
            && hard.into_iter().all(|taint| is_tolerated(taint, tolerations))
    };
    let windows = |node: &Value| node["metadata"]["labels"]["kubernetes.io/os"] == "windows";
    let names = known.nodes.iter().filter(|((_, name), node)| alive(name) && takes(node) && !windows(node));
    let load = |name: &str| known.pods.values().filter(|pod| pod["spec"]["nodeName"] == *name).count();
    names.map(|((_, name), _)| name.clone()).min_by_key(|name| (load(name), name.clone()))
}

fn is_tolerated(taint: &Value, tolerations: &Value) -> bool {
    let all = tolerations.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().any(|one| {
        let effect = one["effect"].as_str().is_none_or(|effect| taint["effect"] == effect);
        let key = one["key"].as_str().is_none_or(|key| taint["key"] == key);
        let value = one["operator"] == "Exists"
            || one["value"].as_str().unwrap_or_default() == taint["value"].as_str().unwrap_or_default();
        effect && key && value
    })
}

async fn act(
    client: &kube::Client,
    known: &mut Known,
    step: Step,
    now: Timestamp,
    chance: &mut dyn clock::Entropy,
) -> kube::Result<()> {
    match step {
        Step::Finish { namespace, name } => {
            let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;
            known.pods.remove(&(namespace, name));
        }
        Step::Run { namespace, name } => {
            let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
            let well = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": now});
            let types = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(well);
            let status = json!({"status": {"phase": "Running", "startTime": now, "conditions": types}});
            let pod = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
            known.pods.insert((namespace, name), json!(pod));
        }
        Step::Create { deployment, node } => {
            let meta = &deployment["metadata"];
            let namespace = meta["namespace"].as_str().unwrap_or_default();
            let name = format!("{}-{}", meta["name"].as_str().unwrap_or_default(), ground::hex(chance, 5));
            let mut pod = deployment["spec"]["template"].clone();
            pod["metadata"]["name"] = name.clone().into();
            pod["metadata"]["namespace"] = namespace.into();
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"], "uid": meta["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }]);
            pod["spec"]["nodeName"] = node.into();
            let Ok(document) = serde_json::from_value::<Pod>(pod) else { return Ok(()) };
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            let made = pods.create(&PostParams::default(), &document).await?;
            known.pods.insert((namespace.to_owned(), name), json!(made));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_a_list_has_not_named_yet_is_not_gone() {
        let (mut nodes, mut list) = (Objects::new(), None);
        let node = || Node {
            metadata: kube::api::ObjectMeta { name: Some("n".into()), ..Default::default() },
            ..Node::default()
        };
        take(&mut nodes, &mut list, Ok(Event::Apply(node())));
        take::<Node>(&mut nodes, &mut list, Ok(Event::Init));
        assert!(nodes.len() == 1 && list.is_some(), "what was known stays, and is not gone by");
        take(&mut nodes, &mut list, Ok(Event::InitApply(node())));
        take::<Node>(&mut nodes, &mut list, Ok(Event::InitDone));
        assert!(nodes.len() == 1 && list.is_none());
        take::<Node>(&mut nodes, &mut list, Ok(Event::Init));
        take::<Node>(&mut nodes, &mut list, Ok(Event::InitDone));
        assert!(nodes.is_empty(), "what a whole list does not name is gone");
    }
}
