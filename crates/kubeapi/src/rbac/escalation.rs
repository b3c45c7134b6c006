//! Nobody grants what they do not have: the checks on writing roles and bindings.

use serde_json::Value;

use super::model::{PolicyRule, RoleRef, quoted};
use super::policy::{self, Error, Policy};
use super::{Attributes, GROUP, ResourceTarget, Target, authorize, rules};
use crate::authn::{MASTERS, User};
use crate::{GroupResource, Status};

/// A role that is about to be written.
#[derive(Clone, Copy, Debug)]
pub struct RoleWrite<'a> {
    /// Empty for a ClusterRole.
    pub namespace: &'a str,
    /// As in the request's path: empty when it is created.
    pub path_name: &'a str,
    /// As in the object.
    pub name: &'a str,
    /// What it will allow.
    pub rules: &'a [PolicyRule],
    /// Whether it gathers rules of others, or did.
    pub aggregates: bool,
}

/// A binding that is about to be written.
#[derive(Clone, Copy, Debug)]
pub struct BindingWrite<'a> {
    /// Empty for a ClusterRoleBinding.
    pub namespace: &'a str,
    /// As in the object.
    pub name: &'a str,
    /// What it will grant.
    pub role_ref: &'a RoleRef,
}

/// Whether the user may write this role: by holding all of its rules, or the verb `escalate`.
pub fn check_role(user: &User, write: &RoleWrite<'_>, policy: &Policy) -> Result<(), Box<Status>> {
    let resource = if write.namespace.is_empty() { "clusterroles" } else { "roles" };
    if is_allowed(user, "escalate", resource, write.namespace, write.path_name, policy) {
        return Ok(());
    }
    let forbidden =
        |why: &str| Box::new(Status::forbidden(&GroupResource::new(GROUP, resource), write.name, why));
    confirm(user, write.namespace, write.rules, policy).map_err(|why| forbidden(&why))?;
    if write.aggregates && confirm(user, write.namespace, &everything(), policy).is_err() {
        return Err(forbidden("must have cluster-admin privileges to use the aggregationRule"));
    }
    Ok(())
}

/// Whether the user may write this binding: by holding all rules of the role, or the verb `bind` on it.
pub fn check_binding(user: &User, write: &BindingWrite<'_>, policy: &Policy) -> Result<(), Box<Status>> {
    let (role, namespace) = (write.role_ref, write.namespace);
    if user.is_in(MASTERS) {
        return Ok(());
    }
    let bound = match role.kind.as_str() {
        "ClusterRole" => Some("clusterroles"),
        "Role" => Some("roles"),
        _ => None,
    };
    if bound.is_some_and(|resource| is_allowed(user, "bind", resource, namespace, &role.name, policy)) {
        return Ok(());
    }
    let rules = policy.rules_of(role, namespace).map_err(|error| {
        Box::new(match error {
            Error::NoRole { resource, name } => {
                Status::not_found(&GroupResource::new(GROUP, resource), &name)
            }
            other => Status::internal(other),
        })
    })?;
    let resource = if namespace.is_empty() { "clusterrolebindings" } else { "rolebindings" };
    confirm(user, namespace, rules, policy)
        .map_err(|why| Box::new(Status::forbidden(&GroupResource::new(GROUP, resource), write.name, &why)))
}

/// Whether an update changes nothing but what garbage collection needs: such a one is not checked.
pub fn only_collects_garbage(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
                metadata.remove(field);
            }
        }
        object
    };
    rest(new) == rest(old)
}

fn is_allowed(user: &User, verb: &str, resource: &str, namespace: &str, name: &str, policy: &Policy) -> bool {
    let target = ResourceTarget { group: GROUP, resource, subresource: "", namespace, name };
    authorize(&Attributes { user, verb, target: Target::Resource(target) }, policy).allowed
}

/// Whether the user holds all of these rules; if not, which are missing, in upstream's words.
fn confirm(user: &User, namespace: &str, wanted: &[PolicyRule], policy: &Policy) -> Result<(), String> {
    let held = policy.rules_for(user, namespace);
    let missing = rules::missing(&held.rules, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let mut shown: Vec<String> = missing.iter().map(PolicyRule::to_string).collect();
    shown.sort();
    shown.dedup();
    let mut why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quoted(&user.groups),
        shown.join("\n")
    );
    if !held.errors.is_empty() {
        why += &format!("; resolution errors: [{}]", policy::together(&held.errors));
    }
    Err(why)
}

/// What gathering rules needs, since any rule can be gathered.
fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}
