use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::{is_default, null_default};

/// Count or percentage of nodes, as the API takes it.
const CONCURRENCY: &str = r"^((([1-9]|[1-9][0-9]|100)%)|([1-9][0-9]*|0)|)$";

/// How a change reaches the nodes that are already there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeStrategy {
    /// Control-plane nodes at a time: a number, a percentage (rounded up), `0` for all at once; empty means one.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = CONCURRENCY), length(max = 10))]
    pub control_plane_concurrency: String,
    /// Draining of etcd and control-plane nodes.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub control_plane_drain_options: DrainOptions,
    /// Workers at a time: a number, a percentage (rounded up), `0` for all at once; empty means one.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = CONCURRENCY), length(max = 10))]
    pub worker_concurrency: String,
    /// Draining of workers.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub worker_drain_options: DrainOptions,
}

/// How a node is emptied before a change that disturbs its pods.
///
/// Written out in full: the drain annotations carry it as text, and hooks compare that text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainOptions {
    /// Whether nodes are drained at all.
    #[serde(deserialize_with = "null_default")]
    pub enabled: bool,
    /// Evict pods that no controller will make anew.
    #[serde(deserialize_with = "null_default")]
    pub force: bool,
    /// Go on although pods of daemon sets stay; not set means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_daemon_sets: Option<bool>,
    /// Go on although the drain fails.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub ignore_errors: bool,
    /// Evict pods with emptyDir volumes; their data is lost.
    #[serde(deserialize_with = "null_default")]
    pub delete_empty_dir_data: bool,
    /// Delete pods instead of evicting them: disruption budgets do not count.
    #[serde(deserialize_with = "null_default")]
    pub disable_eviction: bool,
    /// Seconds a pod gets to stop; negative uses the pod's own.
    #[serde(deserialize_with = "null_default")]
    pub grace_period: i64,
    /// Seconds until the drain is given up; 0 means ten minutes.
    #[serde(deserialize_with = "null_default")]
    pub timeout: i64,
    /// Do not wait for pods whose deletion began more than this many seconds ago.
    #[serde(deserialize_with = "null_default")]
    pub skip_wait_for_delete_timeout_seconds: i64,
    /// What must agree before the drain begins.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub pre_drain_hooks: Vec<DrainHook>,
    /// What must agree before the node takes pods again.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub post_drain_hooks: Vec<DrainHook>,
}

/// Somebody outside who holds a drain until he answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainHook {
    /// Annotation on the plan Secret that the hook sets to the value of the pre-drain or post-drain annotation.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 317))]
    pub annotation: String,
}
