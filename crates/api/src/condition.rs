//! The condition that Rancher's own kinds report with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::null_default;

/// One observation about an object, in Rancher's shape: times are text, a reason is not required.
///
/// Kinds of Cluster API and of Kubernetes use `metav1.Condition` instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["status", "type"]))]
pub struct GenericCondition {
    /// What is observed, such as `Ready`.
    #[serde(rename = "type", deserialize_with = "null_default")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "null_default")]
    pub status: String,
    /// When the condition was last written, RFC 3339.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub last_update_time: String,
    /// When the status last changed, RFC 3339.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub last_transition_time: String,
    /// One word for machines.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl GenericCondition {
    /// The condition of the given type, if the list has one.
    pub fn find<'a>(conditions: &'a [GenericCondition], type_: &str) -> Option<&'a GenericCondition> {
        conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}
