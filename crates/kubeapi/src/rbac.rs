//! Role-based access control as a pure function: roles and bindings in, a decision with its reason out.

pub mod aggregation;
pub mod bootstrap;
pub mod escalation;
mod model;
mod policy;
pub mod reconcile;
mod rules;

use serde::Serialize;

use crate::authn::{MASTERS, User};
use crate::{GroupResource, Status};

pub use model::{Binding, ClusterRole, PolicyRule, RoleRef, Subject};
pub use policy::{Affected, Error, Policy, Resolved};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// Who.
    pub user: &'a User,
    /// The API's verb, such as `list`; in lower case that of HTTP for paths.
    pub verb: &'a str,
    /// With what.
    pub target: Target<'a>,
}

/// What something is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Objects.
    Resource(ResourceTarget<'a>),
    /// A path of the server that is no resource's.
    Path(&'a str),
}

/// Objects that something is done with. What does not apply is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget<'a> {
    /// API group.
    pub group: &'a str,
    /// In plural.
    pub resource: &'a str,
    /// Such as `status`.
    pub subresource: &'a str,
    /// Empty for what is not in a namespace, or in all.
    pub namespace: &'a str,
    /// Empty for what concerns more than one.
    pub name: &'a str,
}

impl Target<'_> {
    fn namespace(&self) -> &str {
        match self {
            Target::Resource(target) => target.namespace,
            Target::Path(_) => "",
        }
    }
}

/// Whether it may be done, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Nothing else allows it either when this is false: there is no denying.
    pub allowed: bool,
    /// The binding that allows it, or what was wrong with the policy. May be empty.
    pub reason: String,
}

/// Decides. Members of `system:masters` may do everything.
pub fn authorize(attributes: &Attributes<'_>, policy: &Policy) -> Decision {
    if attributes.user.is_in(MASTERS) {
        return Decision { allowed: true, reason: String::new() };
    }
    let mut errors = Vec::new();
    for grant in policy.grants(attributes.user, attributes.target.namespace()) {
        match grant.rules {
            Ok(rules) if rules.iter().any(|rule| rule.allows(attributes.verb, &attributes.target)) => {
                return Decision {
                    allowed: true,
                    reason: format!("RBAC: allowed by {}", grant.source(attributes.user)),
                };
            }
            Ok(_) => {}
            Err(error) => errors.push(error.to_string()),
        }
    }
    let reason = match errors.is_empty() {
        true => String::new(),
        false => format!("RBAC: {}", policy::together(&errors)),
    };
    Decision { allowed: false, reason }
}

/// The `status` of a SelfSubjectRulesReview.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RulesReview {
    /// Rules about objects.
    pub resource_rules: Vec<ResourceRule>,
    /// Rules about paths.
    pub non_resource_rules: Vec<NonResourceRule>,
    /// Never here: all rules are known.
    pub incomplete: bool,
    /// What was wrong with the policy.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub evaluation_error: String,
}

/// A rule about objects in a [`RulesReview`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRule {
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
}

/// A rule about paths in a [`RulesReview`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NonResourceRule {
    verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    non_resource_urls: Vec<String>,
}

/// All that a user may do in a namespace, as `kubectl auth can-i --list` shows it.
pub fn review_rules(user: &User, namespace: &str, policy: &Policy) -> RulesReview {
    let resolved = policy.rules_for(user, namespace);
    let of_resources = resolved.rules.iter().filter(|rule| !rule.resources.is_empty());
    let of_paths = resolved.rules.iter().filter(|rule| !rule.non_resource_urls.is_empty());
    RulesReview {
        resource_rules: of_resources
            .map(|rule| ResourceRule {
                verbs: rule.verbs.clone(),
                api_groups: rule.api_groups.clone(),
                resources: rule.resources.clone(),
                resource_names: rule.resource_names.clone(),
            })
            .collect(),
        non_resource_rules: of_paths
            .map(|rule| NonResourceRule {
                verbs: rule.verbs.clone(),
                non_resource_urls: rule.non_resource_urls.clone(),
            })
            .collect(),
        incomplete: false,
        evaluation_error: policy::together(&resolved.errors),
    }
}

/// The answer to what is not allowed.
pub fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Status {
    let message = forbidden_message(attributes);
    let why = match reason.is_empty() {
        true => message,
        false => format!("{message}: {reason}"),
    };
    match attributes.target {
        Target::Resource(target) => {
            Status::forbidden(&GroupResource::new(target.group, target.resource), target.name, &why)
        }
        Target::Path(_) => Status::forbidden(&GroupResource::new("", ""), "", &why),
    }
}

/// `User "u" cannot get resource "pods" in API group "" in the namespace "n"`
pub fn forbidden_message(attributes: &Attributes<'_>) -> String {
    let (user, verb) = (&attributes.user.name, attributes.verb);
    let message = match attributes.target {
        Target::Path(path) => format!("User {user:?} cannot {verb} path {path:?}"),
        Target::Resource(target) => {
            let resource = combined(&target);
            let scope = match target.namespace {
                "" => "at the cluster scope".into(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            format!(
                "User {user:?} cannot {verb} resource {resource:?} in API group {:?} {scope}",
                target.group
            )
        }
    };
    // A browser must not take it for HTML.
    message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// `pods`, or `pods/status`.
fn combined(target: &ResourceTarget<'_>) -> String {
    match target.subresource {
        "" => target.resource.into(),
        subresource => format!("{}/{subresource}", target.resource),
    }
}

#[cfg(test)]
mod tests;
