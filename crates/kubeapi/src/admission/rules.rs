//! What a webhook or policy is about.

use serde::Deserialize;
use serde_json::Value;

use super::MatchPolicy;

/// The group of the kinds that say who is asked.
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Where a write goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place<'a> {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// API group.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// Empty for the whole object.
    pub subresource: &'a str,
    /// Empty for kinds without; of a Namespace its own name.
    pub namespace: &'a str,
    /// Empty if it is yet to be made up.
    pub name: &'a str,
}

impl Place<'_> {
    fn is_namespace(&self) -> bool {
        (self.group, self.version, self.resource) == ("", "v1", "namespaces")
    }
}

/// Resources and what is done to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// `*`, or some operations.
    pub operations: Vec<String>,
    /// `*`, or some groups.
    pub api_groups: Vec<String>,
    /// `*`, or some versions.
    pub api_versions: Vec<String>,
    /// `a`, `a/b`, `*`, `*/b`, `a/*` or `*/*`.
    pub resources: Vec<String>,
    /// `Cluster`, `Namespaced` or `*`.
    pub scope: Option<String>,
}

impl Rule {
    /// Whether a write is one of those that the rule names.
    pub fn matches(&self, place: &Place<'_>) -> bool {
        let any = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        self.has_scope(place)
            && any(&self.operations, place.operation)
            && any(&self.api_groups, place.group)
            && any(&self.api_versions, place.version)
            && self.resources.iter().any(|one| has_resource(one, place))
    }

    fn has_scope(&self, place: &Place<'_>) -> bool {
        // A Namespace is in itself, but not one of those that are in namespaces.
        let in_namespace = !place.is_namespace() && !place.namespace.is_empty();
        match self.scope.as_deref() {
            None | Some("*") => true,
            Some("Namespaced") => in_namespace,
            Some("Cluster") => !in_namespace,
            Some(_) => false,
        }
    }
}

fn has_resource(pattern: &str, place: &Place<'_>) -> bool {
    let (resource, part) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resource == "*" || resource == place.resource) && (part == "*" || part == place.subresource)
}

/// A rule that may be for some objects only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamedRule {
    /// Names of objects; empty for all.
    pub resource_names: Vec<String>,
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
}

impl NamedRule {
    fn matches(&self, place: &Place<'_>) -> bool {
        let named =
            self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == place.name);
        named && self.rule.matches(place)
    }
}

/// What a policy or its binding is about, but for the selectors.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MatchResources {
    /// One of them has to match; none matches all.
    pub resource_rules: Vec<NamedRule>,
    /// None of them may match.
    pub exclude_resource_rules: Vec<NamedRule>,
    /// Whether other versions of a resource count.
    pub match_policy: MatchPolicy,
    /// Of the namespace.
    pub namespace_selector: Option<Value>,
    /// Of the object, as it was or as it will be.
    pub object_selector: Option<Value>,
}

impl MatchResources {
    /// The group and version in which a write is looked at, if it is one of those that are meant. `equivalents` are
    /// the other groups and versions of the resource.
    pub fn matches<'a>(
        &self,
        place: &Place<'a>,
        equivalents: &[(&'a str, &'a str)],
    ) -> Option<(&'a str, &'a str)> {
        let find = |rules: &[NamedRule]| self.find(rules, place, equivalents);
        if find(&self.exclude_resource_rules).is_some() {
            return None;
        }
        match self.resource_rules.is_empty() {
            true => Some((place.group, place.version)),
            false => find(&self.resource_rules),
        }
    }

    fn find<'a>(
        &self,
        rules: &[NamedRule],
        place: &Place<'a>,
        equivalents: &[(&'a str, &'a str)],
    ) -> Option<(&'a str, &'a str)> {
        first(rules, NamedRule::matches, self.match_policy, place, equivalents)
    }
}

/// The place itself if a rule matches it, else the first of its equivalents that one matches. Earlier rules go first.
fn first<'a, R>(
    rules: &[R],
    matches: impl Fn(&R, &Place<'_>) -> bool,
    policy: MatchPolicy,
    place: &Place<'a>,
    equivalents: &[(&'a str, &'a str)],
) -> Option<(&'a str, &'a str)> {
    if rules.iter().any(|rule| matches(rule, place)) {
        return Some((place.group, place.version));
    }
    let others = if policy == MatchPolicy::Equivalent { equivalents } else { &[] };
    rules.iter().find_map(|rule| {
        let is_meant = |(group, version)| matches(rule, &Place { group, version, ..*place });
        others.iter().copied().find(|other| is_meant(*other))
    })
}

impl Rule {
    /// As [`MatchResources::matches`], for the rules of a webhook.
    pub fn first_match<'a>(
        rules: &[Rule],
        policy: MatchPolicy,
        place: &Place<'a>,
        equivalents: &[(&'a str, &'a str)],
    ) -> Option<(&'a str, &'a str)> {
        first(rules, Rule::matches, policy, place, equivalents)
    }
}

/// Whether no webhook is asked about a kind: who configures them must always be able to set things right.
pub fn is_exempt(group: &str, kind: &str) -> bool {
    let kinds = [
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    group == ADMISSION && kinds.contains(&kind)
}

/// Whether no policy is asked about a resource: questions about who asks and what they may.
pub fn is_hidden_from_policies(group: &str, resource: &str) -> bool {
    match group {
        "authentication.k8s.io" => matches!(resource, "selfsubjectreviews" | "tokenreviews"),
        "authorization.k8s.io" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
