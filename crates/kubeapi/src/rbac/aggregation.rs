//! ClusterRoles that gather the rules of others.

use std::collections::BTreeMap;

use serde_json::Value;

use super::model::{ClusterRole, PolicyRule};

/// The rules that a ClusterRole gathers, each once, selector by selector, from roles in the order of their names;
/// `None` if it gathers none. `matches` says whether a LabelSelector object takes labels.
pub fn gathered_rules(
    name: &str,
    roles: &BTreeMap<String, ClusterRole>,
    matches: impl Fn(&Value, &BTreeMap<String, String>) -> bool,
) -> Option<Vec<PolicyRule>> {
    let mut gathered: Vec<PolicyRule> = Vec::new();
    for selector in roles.get(name)?.selectors.as_ref()? {
        let others = roles.iter().filter(|(other, role)| *other != name && matches(selector, &role.labels));
        for rule in others.flat_map(|(_, role)| &role.rules) {
            if !gathered.contains(rule) {
                gathered.push(rule.clone());
            }
        }
    }
    Some(gathered)
}

/// Every ClusterRole whose rules are not what it gathers, with the rules it should have. Roles that gather from
/// roles that gather settle within one call; where they go in circles it ends all the same.
pub fn out_of_date(
    roles: &BTreeMap<String, ClusterRole>,
    matches: impl Fn(&Value, &BTreeMap<String, String>) -> bool,
) -> BTreeMap<String, Vec<PolicyRule>> {
    let mut settled = roles.clone();
    // Rules move on by at least one role a round.
    for _ in 0..roles.len() {
        let mut changed = false;
        for name in roles.keys() {
            let Some(rules) = gathered_rules(name, &settled, &matches) else { continue };
            settled.entry(name.clone()).and_modify(|role| {
                changed |= role.rules != rules;
                role.rules = rules;
            });
        }
        if !changed {
            break;
        }
    }
    let changed = settled.into_iter().filter(|(name, role)| roles.get(name) != Some(role));
    changed.map(|(name, role)| (name, role.rules)).collect()
}
