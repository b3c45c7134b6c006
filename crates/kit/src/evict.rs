//! Draining: the part that talks to the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Deadline};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::drain::{self, Attempt, Labels, Selection, Surroundings};
use crate::write::code;

/// How long evictions may take in one look.
const BUDGET: Duration = Duration::from_secs(10);
/// Pods of a page.
const PAGE: u32 = 100;
/// What a pod on a node that nobody hears of is given to stop.
const LOST_GRACE_SECONDS: u32 = 1;

/// What drains ask of the management cluster.
#[derive(Clone, Debug)]
pub struct Rules<'a> {
    /// The rules of the machine's namespace.
    pub rules: Vec<&'a api::capi::v1beta2::MachineDrainRule>,
    /// Labels of the machine.
    pub machine: &'a Labels,
    /// Labels of its cluster.
    pub cluster: &'a Labels,
}

/// Why pods may not go, in words; none if they may.
pub type Objection<'a> = dyn Fn(&[&Pod]) -> Option<String> + Send + Sync + 'a;

/// How pods are made to go. By default as Cluster API does: evicted, with their own time to stop, all waited for.
#[derive(Clone, Copy, Default)]
pub struct Manner<'a> {
    /// Seconds that every pod gets to stop; none is the pod's own time.
    pub grace_seconds: Option<u32>,
    /// Pods are deleted: disruption budgets do not count.
    pub delete: bool,
    /// Pods whose deletion began longer ago than this are not waited for.
    pub waits_at_most: Option<SignedDuration>,
    /// Asked about the pods that are to go; if it has words, none goes and the words are the reason.
    pub objects: Option<&'a Objection<'a>>,
}

impl std::fmt::Debug for Manner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manner").field("delete", &self.delete).finish_non_exhaustive()
    }
}

/// Why a drain did not get anywhere.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster did not answer.
    #[error("cannot {what}")]
    Cluster {
        /// What was to be done.
        what: &'static str,
        /// The answer.
        #[source]
        answer: Box<kube::Error>,
    },
    /// It cannot be decided what is to go.
    #[error(transparent)]
    Undecided(#[from] drain::Error),
}

/// How far a drain is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Done. The pods that were left alone, by namespace and name: their volumes do not matter.
    Done(BTreeSet<(String, String)>),
    /// Not done, for these reasons.
    Waiting(String),
}

/// One step of a drain: keeps new pods away, evicts those whose turn it is, and says what is still there.
///
/// # Errors
/// If the cluster does not answer or a rule is wrong. Evictions that are refused are no errors but reasons to wait.
pub async fn step(
    client: &Client,
    clock: &Arc<dyn Clock>,
    node: &Node,
    rules: &Rules<'_>,
    started: Timestamp,
) -> Result<Progress, Error> {
    step_in(client, clock, node, rules, Manner::default(), started).await
}

/// The same, in a manner of its own.
///
/// # Errors
/// As [`step`].
pub async fn step_in(
    client: &Client,
    clock: &Arc<dyn Clock>,
    node: &Node,
    rules: &Rules<'_>,
    manner: Manner<'_>,
    started: Timestamp,
) -> Result<Progress, Error> {
    cordon(client, node).await?;
    let unreachable = drain::unreachable(node);
    let mut pods = pods(client, &node.name_any()).await?;
    if let Some(most) = manner.waits_at_most {
        let now = clock.now();
        let long = |time: &Time| now.duration_since(time.0) > most;
        pods.retain(|pod| !pod.metadata.deletion_timestamp.as_ref().is_some_and(long));
    }
    let (namespaces, daemon_sets) = (namespaces(client).await?, daemon_sets(client).await?);
    let around = Surroundings {
        rules: rules.rules.clone(),
        machine: rules.machine,
        cluster: rules.cluster,
        namespaces: &namespaces,
        daemon_sets: &daemon_sets,
        unreachable,
        now: clock.now(),
    };
    let selection = drain::select(&pods, &around)?;
    let going: Vec<&Pod> = selection.evict.iter().chain(&selection.later).copied().collect();
    if let Some(words) = manner.objects.and_then(|objects| objects(&going)) {
        return Ok(Progress::Waiting(words));
    }
    let attempts = evict(client, clock, &selection, unreachable, manner).await;
    Ok(match drain::report(&selection, &attempts, started) {
        Some(message) => Progress::Waiting(message),
        None => Progress::Done(selection.skipped.iter().map(|pod| named(pod)).collect()),
    })
}

fn named(pod: &Pod) -> (String, String) {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

/// Keeps new pods away from a node. Nothing is sent if they are kept away already.
///
/// # Errors
/// If the cluster does not answer.
pub async fn cordon(client: &Client, node: &Node) -> Result<(), Error> {
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let nodes: Api<Node> = Api::all(client.clone());
    let answer = nodes.patch(&node.name_any(), &PatchParams::default(), &patch).await;
    answer.map(drop).map_err(|answer| failed("keep new pods away from the node", answer))
}

async fn pods(client: &Client, node: &str) -> Result<Vec<Pod>, Error> {
    let api: Api<Pod> = Api::all(client.clone());
    let mut options = ListParams::default().fields(&format!("spec.nodeName={node}")).limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = api.list(&options).await.map_err(|answer| failed("list the node's pods", answer))?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => options = options.continue_token(&token),
            None => return Ok(all),
        }
    }
}

async fn namespaces(client: &Client) -> Result<BTreeMap<String, Labels>, Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    let list = api.list(&ListParams::default()).await.map_err(|answer| failed("list namespaces", answer))?;
    Ok(list.items.into_iter().map(|one| (one.name_any(), one.metadata.labels.unwrap_or_default())).collect())
}

async fn daemon_sets(client: &Client) -> Result<BTreeSet<(String, String)>, Error> {
    let api: Api<DaemonSet> = Api::all(client.clone());
    let list = api.list(&ListParams::default()).await.map_err(|answer| failed("list DaemonSets", answer))?;
    Ok(list.items.iter().map(|one| (one.namespace().unwrap_or_default(), one.name_any())).collect())
}

/// Evicts pods one by one while there is time. What was not tried is tried next time.
async fn evict(
    client: &Client,
    clock: &Arc<dyn Clock>,
    selection: &Selection<'_>,
    unreachable: bool,
    manner: Manner<'_>,
) -> Vec<Attempt> {
    let deadline = Deadline::after(&**clock, BUDGET);
    let mut attempts = Vec::new();
    for warning in &selection.warnings {
        tracing::info!("draining: {warning}");
    }
    for pod in &selection.evict {
        if deadline.passed(&**clock) {
            break;
        }
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let grace_period_seconds = if unreachable { Some(LOST_GRACE_SECONDS) } else { manner.grace_seconds };
        let how = DeleteParams { grace_period_seconds, ..DeleteParams::default() };
        let answer = match manner.delete {
            true => api.delete(&pod.name_any(), &how).await.map(drop),
            false => evict_one(&api, &pod.name_any(), grace_period_seconds).await,
        };
        attempts.push(match answer {
            Ok(()) => Attempt::Accepted,
            Err(answer) => refused(&answer),
        });
    }
    attempts
}

/// Asks for one eviction. The client library has a call for it, which spells the options so that servers overlook them.
async fn evict_one(api: &Api<Pod>, pod: &str, grace_seconds: Option<u32>) -> Result<(), kube::Error> {
    let mut eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
    if let Some(seconds) = grace_seconds {
        eviction["deleteOptions"] = json!({"gracePeriodSeconds": seconds});
    }
    let answer: Result<Value, _> =
        api.create_subresource("eviction", pod, &PostParams::default(), &eviction).await;
    answer.map(drop)
}

/// What a refusal of an eviction means.
fn refused(answer: &kube::Error) -> Attempt {
    let kube::Error::Api(status) = answer else { return Attempt::Failed(answer.to_string()) };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<String> =
        causes.map(|cause| cause.message.clone()).filter(|text| !text.is_empty()).collect();
    match code(answer) {
        Some(404) => Attempt::Gone,
        Some(429) => {
            let why = if causes.is_empty() { status.message.clone() } else { causes.join(", ") };
            Attempt::Held(format!("cannot evict pod as it would violate the pod's disruption budget. {why}"))
        }
        Some(403)
            if status
                .details
                .iter()
                .flat_map(|details| &details.causes)
                .any(|cause| cause.reason == "NamespaceTerminating") =>
        {
            Attempt::Failed("cannot evict pod from terminating namespace: unable to create eviction".into())
        }
        _ => Attempt::Failed(status.message.clone()),
    }
}

fn failed(what: &'static str, answer: kube::Error) -> Error {
    Error::Cluster { what, answer: Box::new(answer) }
}
