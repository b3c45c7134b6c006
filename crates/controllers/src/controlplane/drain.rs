//! Nodes that are drained before their plan changes, and take pods again after it: the drainer's half of the handshake.
//!
//! | annotation of the plan Secret | who |
//! |---|---|
//! | `drain-options` | the planner asks |
//! | `pre-drain`, then `drain-done` | the drainer answers with the same value; hooks answer in between |
//! | `uncordon` | the planner asks |
//! | `post-drain` | the drainer; hooks answer; then everything is taken off |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::catalogue::annotations;
use api::catalogue::secrets::types;
use api::rke::v1::{DrainHook, DrainOptions};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kit::access::Connection;
use kit::evict::{self, Manner, Progress, Rules};
use kit::runner::Controller;
use kit::{Ended, Key, Object, Turn};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use planner::Words;
use serde_json::{Map, Value, json};

use super::context::{Context, Error, MANAGER, lock};

/// How often a drain goes on: nobody watches the pods of downstream clusters.
const LOOK: Duration = Duration::from_secs(5);
/// How long a drain takes at most that does not say.
const LONGEST: i64 = 600;

/// What the drainer does next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing is asked.
    Nothing,
    /// Keep new pods away, and have the hooks told; they answer in their own time.
    Hold(Option<(&'static str, String)>),
    /// Keep new pods away, evict the others, then say that it is done.
    Drain(String),
    /// Keep new pods away, and say that it is done.
    Done(String),
    /// Have the hooks told, with the node as it is.
    Tell(Option<(&'static str, String)>),
    /// Let pods come again, and take these annotations off.
    Uncordon(Vec<String>),
}

/// The next step, by the annotations of the plan Secret.
fn step(notes: &Words) -> Step {
    let note = |key: &str| notes.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let Some(asked) = note(annotations::DRAIN_OPTIONS) else { return Step::Nothing };
    let options: DrainOptions = serde_json::from_str(asked).unwrap_or_default();
    let answered = |hooks: &[DrainHook]| hooks.iter().all(|hook| note(&hook.annotation) == Some(asked));
    let told = |key: &'static str| (note(key) != Some(asked)).then(|| (key, asked.to_owned()));
    if note(annotations::UNCORDON).is_some() {
        if !answered(&options.post_drain_hooks) {
            return Step::Tell(told(annotations::POST_DRAIN));
        }
        let hooks = options.pre_drain_hooks.iter().chain(&options.post_drain_hooks);
        let ours = [
            annotations::DRAIN_OPTIONS,
            annotations::DRAIN_DONE,
            annotations::DRAIN_ERROR,
            annotations::PRE_DRAIN,
            annotations::POST_DRAIN,
            annotations::UNCORDON,
        ];
        let all = ours.iter().map(|key| (*key).to_owned()).chain(hooks.map(|hook| hook.annotation.clone()));
        return Step::Uncordon(all.filter(|key| notes.contains_key(key)).collect());
    }
    match () {
        () if note(annotations::DRAIN_DONE) == Some(asked) => Step::Nothing,
        () if !answered(&options.pre_drain_hooks) => Step::Hold(told(annotations::PRE_DRAIN)),
        () if options.enabled => Step::Drain(asked.to_owned()),
        () => Step::Done(asked.to_owned()),
    }
}

/// Why pods may not be made to go under these options, as `kubectl drain` has it.
fn objections(options: &DrainOptions, pods: &[&Pod]) -> Option<String> {
    let names = |which: &dyn Fn(&Pod) -> bool| {
        let found: Vec<String> =
            pods.iter().filter(|pod| which(pod)).map(|pod| kit::drain::pod_name(pod)).collect();
        (!found.is_empty()).then(|| found.join(", "))
    };
    let controlled = |pod: &Pod| pod.owner_references().iter().any(|owner| owner.controller == Some(true));
    let scratch = |pod: &Pod| {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        volumes.into_iter().any(|volume| volume.empty_dir.is_some())
    };
    let alone = names(&|pod| !controlled(pod)).filter(|_| !options.force);
    if let Some(pods) = alone {
        return Some(format!(
            "cannot evict pods that no controller makes anew (set force to evict them): {pods}"
        ));
    }
    let scratch = names(&scratch).filter(|_| !options.delete_empty_dir_data);
    let scratch = scratch?;
    Some(format!(
        "cannot evict pods with emptyDir volumes (set deleteEmptyDirData to lose their data): {scratch}"
    ))
}

/// Drains nodes, and lets pods come again.
pub(crate) struct Drains {
    context: Arc<Context>,
    /// When a drain with these options was first seen. Lost with the process: a drain then gets its time once more.
    started: Mutex<BTreeMap<Key, (String, Timestamp)>>,
}

impl Drains {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Drains { context, started: Mutex::default() }
    }
}

impl Controller for Drains {
    type Error = Error;

    fn name(&self) -> &'static str {
        "drain"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.context.secrets.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.context;
        let found = context.secrets.get(key);
        let is_plan = |secret: &Arc<Object>| secret.document()["type"] == types::MACHINE_PLAN;
        let Some(secret) = found.filter(is_plan) else { return Ok(self.gone(key)) };
        let step = step(&secret.meta().annotations.clone().unwrap_or_default());
        if step == Step::Nothing {
            return Ok(self.gone(key));
        }
        let (connection, node) = match self.node(&secret).await {
            Ok(found) => found,
            Err(why) => {
                self.note(turn, &secret, &[(annotations::DRAIN_ERROR, Some(why))]).await?;
                // The way to the cluster, once it is open, has this looked at again.
                return Ok(Ended::Well);
            }
        };
        let say = match step {
            Step::Nothing => Vec::new(),
            Step::Hold(told) => {
                if let Some(node) = &node {
                    evict::cordon(&connection.client, node).await?;
                }
                told.into_iter().map(|(key, value)| (key, Some(value))).collect()
            }
            Step::Tell(told) => told.into_iter().map(|(key, value)| (key, Some(value))).collect(),
            Step::Done(asked) => {
                if let Some(node) = &node {
                    evict::cordon(&connection.client, node).await?;
                }
                vec![(annotations::DRAIN_DONE, Some(asked)), (annotations::DRAIN_ERROR, None)]
            }
            Step::Drain(asked) => match self.drain(key, &connection, node.as_ref(), &asked).await? {
                None => vec![(annotations::DRAIN_DONE, Some(asked)), (annotations::DRAIN_ERROR, None)],
                Some(words) => {
                    self.note(turn, &secret, &[(annotations::DRAIN_ERROR, Some(words))]).await?;
                    return Ok(Ended::Again(LOOK));
                }
            },
            Step::Uncordon(keys) => {
                if let Some(node) = &node {
                    uncordon(&connection, node).await?;
                }
                let off: Map<String, Value> = keys.into_iter().map(|key| (key, Value::Null)).collect();
                let patch = json!({"metadata": {"annotations": off}});
                context.patch_seen(turn, &context.secrets, &secret, patch).await?;
                return Ok(self.gone(key));
            }
        };
        self.note(turn, &secret, &say).await?;
        Ok(Ended::Well)
    }
}

impl Drains {
    fn gone(&self, key: &Key) -> Ended {
        lock(&self.started).remove(key);
        Ended::Gone
    }

    /// The node of a plan Secret's machine; none if there is no such node any more.
    async fn node(&self, secret: &Object) -> Result<(Connection, Option<Node>), String> {
        let planned = self.context.planned(&secret.key()).ok_or("its Machine is not there")?;
        let connection = self.context.access.connection(&Key::new(secret.namespace(), planned.cluster()));
        let connection = connection.map_err(|error| error.to_string())?;
        let Some(name) = planned.machine.document()["status"]["nodeRef"]["name"].as_str() else {
            return Ok((connection, None));
        };
        let nodes: Api<Node> = Api::all(connection.client.clone());
        let node = nodes.get_opt(name).await.map_err(|error| error.to_string())?;
        Ok((connection, node))
    }

    /// Goes on with a drain. Gives why it is not done.
    async fn drain(
        &self,
        key: &Key,
        connection: &Connection,
        node: Option<&Node>,
        asked: &str,
    ) -> Result<Option<String>, Error> {
        let Some(node) = node else { return Ok(None) };
        let context = &self.context;
        let options: DrainOptions = serde_json::from_str(asked).unwrap_or_default();
        let now = context.now();
        let started = {
            let mut started = lock(&self.started);
            let entry = started.entry(key.clone()).or_insert_with(|| (asked.to_owned(), now));
            if entry.0 != asked {
                *entry = (asked.to_owned(), now);
            }
            entry.1
        };
        let objects = |pods: &[&Pod]| objections(&options, pods);
        let skip = options.skip_wait_for_delete_timeout_seconds;
        let manner = Manner {
            grace_seconds: u32::try_from(options.grace_period).ok(),
            delete: options.disable_eviction,
            waits_at_most: (skip > 0).then(|| SignedDuration::from_secs(skip)),
            objects: Some(&objects),
        };
        let nothing = BTreeMap::new();
        let rules = Rules { rules: Vec::new(), machine: &nothing, cluster: &nothing };
        let progress =
            evict::step_in(&connection.client, &context.clock, node, &rules, manner, started).await;
        let longest = SignedDuration::from_secs(if options.timeout > 0 { options.timeout } else { LONGEST });
        let over = now.duration_since(started) >= longest;
        let words = match progress {
            Ok(Progress::Done(_)) => return Ok(None),
            Ok(Progress::Waiting(words)) => words,
            Err(error) => error.to_string(),
        };
        // The user wants the change more than the pods.
        if options.ignore_errors && over {
            tracing::warn!(node = node.name_any(), words, "going on although the drain did not end");
            return Ok(None);
        }
        Ok(Some(words))
    }

    /// Writes annotations of a plan Secret, as far as they differ.
    async fn note(
        &self,
        turn: &Turn,
        secret: &Object,
        notes: &[(&'static str, Option<String>)],
    ) -> Result<(), Error> {
        let differs =
            |(key, value): &&(&'static str, Option<String>)| secret.annotation(key) != value.as_deref();
        let changed: Map<String, Value> =
            notes.iter().filter(differs).map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        if !changed.is_empty() {
            let patch = json!({"metadata": {"annotations": changed}});
            self.context.patch_seen(turn, &self.context.secrets, secret, patch).await?;
        }
        Ok(())
    }
}

async fn uncordon(connection: &Connection, node: &Node) -> Result<(), Error> {
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true) {
        return Ok(());
    }
    let nodes: Api<Node> = Api::all(connection.client.clone());
    let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"spec": {"unschedulable": null}}));
    let answer = nodes.patch(&node.name_any(), &options, &patch).await;
    answer
        .map(drop)
        .map_err(|answer| Error::Remote { what: "let pods come to the node again", answer: Box::new(answer) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(pairs: &[(&str, &str)]) -> Words {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_handshake_goes_step_by_step() {
        let asked = r#"{"enabled":true,"preDrainHooks":[{"annotation":"h/pre"}],"postDrainHooks":[{"annotation":"h/post"}]}"#;
        let (options, uncordon) = (annotations::DRAIN_OPTIONS, annotations::UNCORDON);
        let table = [
            (vec![], Step::Nothing),
            (vec![(options, "")], Step::Nothing),
            (vec![(options, asked)], Step::Hold(Some((annotations::PRE_DRAIN, asked.into())))),
            (vec![(options, asked), (annotations::PRE_DRAIN, asked)], Step::Hold(None)),
            (vec![(options, asked), (annotations::PRE_DRAIN, asked), ("h/pre", "old")], Step::Hold(None)),
            (
                vec![(options, asked), (annotations::PRE_DRAIN, asked), ("h/pre", asked)],
                Step::Drain(asked.into()),
            ),
            (vec![(options, asked), ("h/pre", asked), (annotations::DRAIN_DONE, asked)], Step::Nothing),
            (
                vec![(options, asked), (uncordon, asked)],
                Step::Tell(Some((annotations::POST_DRAIN, asked.into()))),
            ),
            (
                vec![
                    (options, asked),
                    (uncordon, asked),
                    (annotations::POST_DRAIN, asked),
                    ("h/post", asked),
                ],
                Step::Uncordon(vec![
                    options.into(),
                    annotations::POST_DRAIN.into(),
                    uncordon.into(),
                    "h/post".into(),
                ]),
            ),
            (vec![(options, r#"{"enabled":false}"#)], Step::Done(r#"{"enabled":false}"#.into())),
        ];
        for (pairs, expected) in table {
            assert_eq!(step(&notes(&pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn pods_that_would_be_lost_are_not_evicted_unasked() {
        let pod = |value: serde_json::Value| -> Pod { serde_json::from_value(value).unwrap() };
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]);
        let alone = pod(json!({"metadata": {"namespace": "n", "name": "alone"}}));
        let scratch =
            pod(json!({"metadata": {"namespace": "n", "name": "scratch", "ownerReferences": owner},
            "spec": {"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]}}));
        let plain = pod(json!({"metadata": {"namespace": "n", "name": "plain", "ownerReferences": owner}}));
        let strict = DrainOptions::default();
        let lax = DrainOptions { force: true, delete_empty_dir_data: true, ..DrainOptions::default() };
        assert_eq!(objections(&strict, &[&plain]), None);
        assert!(objections(&strict, &[&plain, &alone]).unwrap().ends_with("n/alone"));
        assert!(objections(&strict, &[&scratch]).unwrap().ends_with("n/scratch"));
        assert_eq!(objections(&lax, &[&alone, &scratch, &plain]), None);
    }
}
