//! Roles and bindings, as far as decisions depend on them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// What may be done with which objects, or which paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// `*` is all.
    #[serde(deserialize_with = "null_is_empty")]
    pub verbs: Vec<String>,
    /// `*` is all; the core group is empty.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub api_groups: Vec<String>,
    /// `pods`, `pods/status`, `*/status`, `*`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub resources: Vec<String>,
    /// None is all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub resource_names: Vec<String>,
    /// A `*` at the end is any rest.
    #[serde(
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// Which role a binding grants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleRef {
    /// [`super::GROUP`].
    pub api_group: String,
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// Of the role.
    pub name: String,
}

/// To whom a binding grants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subject {
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: String,
    /// Of the user, group or account.
    pub name: String,
    /// Of the account; by default the binding's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Binding {
    /// What.
    pub role_ref: RoleRef,
    /// To whom.
    #[serde(deserialize_with = "null_is_empty")]
    pub subjects: Vec<Subject>,
}

/// A ClusterRole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterRole {
    /// What it allows.
    pub rules: Vec<PolicyRule>,
    /// Other ClusterRoles gather its rules by these.
    pub labels: BTreeMap<String, String>,
    /// Label selectors for the ClusterRoles whose rules it gathers; `None` if it gathers none.
    pub selectors: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RoleObject {
    metadata: RoleMeta,
    #[serde(deserialize_with = "null_is_empty")]
    rules: Vec<PolicyRule>,
    aggregation_rule: Option<AggregationRule>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RoleMeta {
    #[serde(deserialize_with = "null_is_empty")]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AggregationRule {
    #[serde(deserialize_with = "null_is_empty")]
    cluster_role_selectors: Vec<Value>,
}

impl ClusterRole {
    /// From a ClusterRole object; a Role is one without labels that matter.
    pub fn from_object(object: &Value) -> Result<Self, serde_json::Error> {
        let role = RoleObject::deserialize(object)?;
        let selectors = role.aggregation_rule.map(|rule| rule.cluster_role_selectors);
        Ok(ClusterRole { rules: role.rules, labels: role.metadata.labels, selectors })
    }

    /// Whether it gathers the rules of others.
    pub fn aggregates(&self) -> bool {
        self.selectors.as_ref().is_some_and(|selectors| !selectors.is_empty())
    }
}

impl Subject {
    /// As reasons name it; accounts with the namespace last, as upstream has it.
    pub(super) fn describe(&self, binding_namespace: &str) -> String {
        match (self.kind.as_str(), self.namespace.as_str()) {
            ("ServiceAccount", "") => {
                format!("{} {:?}", self.kind, format!("{}/{binding_namespace}", self.name))
            }
            ("ServiceAccount", own) => format!("{} {:?}", self.kind, format!("{}/{own}", self.name)),
            _ => format!("{} {:?}", self.kind, self.name),
        }
    }
}

/// As upstream's messages about missing rights show a rule.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let given = parts.iter().filter(|(_, values)| !values.is_empty());
        let shown: Vec<String> = given.map(|(name, values)| format!("{name}:{}", quoted(values))).collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}

/// A list as Go prints it: `["a" "b"]`.
pub(super) fn quoted(values: &[String]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

/// Go writes lists and maps that are not there as `null`.
fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}
