//! Draining a node: which pods go, in which order, and what is said while they do.
//!
//! What decides is here and in [`report()`], without IO; [`crate::evict`] does what it is told.

mod report;
mod select;

use std::collections::{BTreeMap, BTreeSet};

use api::capi::v1beta2::MachineDrainRule;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};

pub use report::{Attempt, report};
pub use select::{Selection, Treatment, select, treat};

/// Labels, as objects have them.
pub type Labels = BTreeMap<String, String>;

/// What a drain needs to know beside the pods.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// The rules of the machine's namespace.
    pub rules: Vec<&'a MachineDrainRule>,
    /// Labels of the machine.
    pub machine: &'a Labels,
    /// Labels of its cluster.
    pub cluster: &'a Labels,
    /// Labels of the namespaces of the drained cluster.
    pub namespaces: &'a BTreeMap<String, Labels>,
    /// Namespaces and names of the drained cluster's DaemonSets.
    pub daemon_sets: &'a BTreeSet<(String, String)>,
    /// Whether nobody hears of the node any more: its pods will never confirm that they have stopped.
    pub unreachable: bool,
    /// The time.
    pub now: Timestamp,
}

/// Why a drain cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A pod's namespace was not read.
    #[error("Pod {pod} is in namespace {namespace}, which is not there")]
    NoNamespace {
        /// `namespace/name` of the pod.
        pod: String,
        /// Its namespace.
        namespace: String,
    },
    /// A rule's selector is wrong.
    #[error("MachineDrainRule {rule}: {path}: {problem}")]
    Selector {
        /// Name of the rule.
        rule: String,
        /// The field.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Whether the cluster hears nothing of the node.
pub fn unreachable(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "Unknown"))
}

/// `namespace/name` of a pod.
pub fn pod_name(pod: &Pod) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", text(&pod.metadata.namespace), text(&pod.metadata.name))
}

/// Whether a selector takes these labels; no selector takes all.
pub(crate) fn matches(selector: Option<&LabelSelector>, labels: &Labels) -> Result<bool, String> {
    let Some(selector) = selector else { return Ok(true) };
    let selector: Selector =
        selector.clone().try_into().map_err(|error: kube::core::ParseExpressionError| error.to_string())?;
    Ok(selector.matches(labels))
}
