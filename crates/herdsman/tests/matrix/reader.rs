//! Somebody who reads a downstream cluster through its tunnel all the time, and remembers.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Between two reads.
const PERIOD: Duration = Duration::from_millis(100);

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) reads: usize,
    /// What went wrong, in the order of time.
    pub(crate) failures: Vec<String>,
    /// The most control plane and etcd nodes, and the most workers, that took no pods at one time.
    pub(crate) most_cordoned: (usize, usize),
    /// Nodes that took no pods at some time.
    pub(crate) cordoned: BTreeSet<String>,
    /// The fewest pods of the application that were ready at one time, from the first time on that all were.
    pub(crate) fewest_pods: Option<usize>,
}

/// The reader at work.
pub(crate) struct Reader {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Seen>,
}

impl Reader {
    /// Starts reading. `pods` is how many the application has, if there is one.
    pub(crate) fn start(client: Client, pods: Option<usize>) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut seen = Seen::default();
            while stopped.try_recv().is_err_and(|why| why == oneshot::error::TryRecvError::Empty) {
                if let Err(error) = look(&client, pods, &mut seen).await {
                    seen.failures.push(error.to_string());
                }
                seen.reads += 1;
                tokio::time::sleep(PERIOD).await;
            }
            seen
        });
        Reader { stop, task }
    }

    /// Ends reading.
    pub(crate) async fn stop(self) -> Seen {
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }

    /// Ends reading; every read must have worked.
    pub(crate) async fn stop_without_failure(self) -> Seen {
        let seen = self.stop().await;
        let (reads, failures) = (seen.reads, seen.failures.len());
        assert!(failures == 0, "{failures} of {reads} reads failed: {:?}", seen.failures.first());
        seen
    }
}

async fn look(client: &Client, pods: Option<usize>, seen: &mut Seen) -> kube::Result<()> {
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client.clone());
    let nodes: Vec<Value> =
        nodes.list(&ListParams::default()).await?.items.iter().map(|node| json!(node)).collect();
    let cordoned = || nodes.iter().filter(|node| node["spec"]["unschedulable"] == true);
    let servers = cordoned().filter(|node| is_server(node)).count();
    let workers = cordoned().filter(|node| !is_server(node)).count();
    seen.most_cordoned = (seen.most_cordoned.0.max(servers), seen.most_cordoned.1.max(workers));
    seen.cordoned.extend(cordoned().map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()));
    let Some(all) = pods else { return Ok(()) };
    let ready = ready_pods(client).await?;
    seen.fewest_pods = match seen.fewest_pods {
        None => (ready == all).then_some(all),
        Some(fewest) => Some(fewest.min(ready)),
    };
    Ok(())
}

pub(crate) fn is_server(node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    ["etcd", "control-plane"].iter().any(|role| labels[format!("node-role.kubernetes.io/{role}")].is_string())
}

/// Pods of the application that are ready and stay.
pub(crate) async fn ready_pods(client: &Client) -> kube::Result<usize> {
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::default_namespaced(client.clone());
    let found = pods.list(&ListParams::default().labels("app=web")).await?;
    let ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
        ready && pod["metadata"]["deletionTimestamp"].is_null()
    };
    Ok(found.iter().filter(|pod| ready(&json!(pod))).count())
}
