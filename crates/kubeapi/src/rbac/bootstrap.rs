//! The roles and bindings that every server starts with: facts from `data/rbac.json`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::GROUP;
use super::model::PolicyRule;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    cluster_roles: BTreeMap<String, Role>,
    /// Groups by the name that a binding and its role have in common.
    cluster_role_bindings: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Role {
    /// The label by which another role gathers this one.
    aggregated_by: Option<String>,
    /// The label of the roles that this one gathers.
    aggregates: Option<String>,
    #[serde(default)]
    rules: Vec<Rule>,
}

/// Verbs, resources and paths are separated by spaces.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Rule {
    Resources { verbs: String, group: String, resources: String },
    Paths { verbs: String, urls: String },
}

/// The ClusterRoles and ClusterRoleBindings, as a new server creates them. Roles that gather others have no rules
/// yet: see [`super::aggregation::out_of_date`].
pub fn objects() -> Vec<Value> {
    let file: File = serde_json::from_str(include_str!("../../data/rbac.json"))
        .expect("data/rbac.json is part of the program");
    let roles = file.cluster_roles.iter().map(|(name, role)| cluster_role(name, role));
    let bindings = file.cluster_role_bindings.iter().map(|(name, groups)| cluster_role_binding(name, groups));
    roles.chain(bindings).collect()
}

fn cluster_role(name: &str, role: &Role) -> Value {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": metadata(name),
        "rules": role.rules.iter().map(policy_rule).collect::<Vec<_>>(),
    });
    if let Some(label) = &role.aggregated_by {
        object["metadata"]["labels"][format!("{GROUP}/{label}")] = "true".into();
    }
    if let Some(label) = &role.aggregates {
        let selector = json!({"matchLabels": {format!("{GROUP}/{label}"): "true"}});
        object["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
    }
    object
}

fn cluster_role_binding(name: &str, groups: &[String]) -> Value {
    let subject = |group: &String| json!({"kind": "Group", "apiGroup": GROUP, "name": group});
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
    })
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn policy_rule(rule: &Rule) -> PolicyRule {
    let words = |text: &String| text.split(' ').map(str::to_owned).collect();
    match rule {
        Rule::Resources { verbs, group, resources } => PolicyRule {
            verbs: words(verbs),
            api_groups: vec![group.clone()],
            resources: words(resources),
            ..PolicyRule::default()
        },
        Rule::Paths { verbs, urls } => {
            PolicyRule { verbs: words(verbs), non_resource_urls: words(urls), ..PolicyRule::default() }
        }
    }
}
