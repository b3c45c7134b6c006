//! All roles and bindings, found by who asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use serde::Deserialize;
use serde_json::Value;

use super::model::{Binding, ClusterRole, PolicyRule, RoleRef, Subject};
use crate::authn::{User, service_account_user};

/// What is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A binding refers to a role that is not there.
    #[error("{resource}.rbac.authorization.k8s.io {name:?} not found")]
    NoRole {
        /// `role` or `clusterrole`.
        resource: &'static str,
        /// As the binding has it.
        name: String,
    },
    /// A binding refers to what is no role.
    #[error("unsupported role reference kind: {0:?}")]
    NoRoleKind(String),
    /// An object that is none of the four kinds, or not in their form.
    #[error("not a role or binding: {0}")]
    NotRbac(String),
}

/// Roles and bindings. Those of the cluster are in the namespace without a name.
///
/// A clone shares what does not change: the next policy costs little, however many roles there are, and every machine of a
/// fleet has one of its own.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    roles: OrdMap<(String, String), Arc<Vec<PolicyRule>>>,
    cluster_roles: Arc<BTreeMap<String, ClusterRole>>,
    bindings: OrdMap<String, Bindings>,
}

/// The bindings of a namespace, so that a request looks only at those of its user: there can be thousands.
#[derive(Clone, Debug, Default)]
struct Bindings {
    by_name: OrdMap<String, Arc<Binding>>,
    by_holder: OrdMap<Holder, Arc<BTreeSet<String>>>,
}

/// A subject as requests show it; a service account is a user by then.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    User(String),
    Group(String),
}

/// Whose permissions rest on a role or a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affected {
    /// These users', by name.
    Users(BTreeSet<String>),
    /// Anybody's, for groups are among its subjects.
    Everybody,
}

/// What one binding gives to a user.
pub(super) struct Grant<'a> {
    /// The rules of the role, if it is there.
    pub(super) rules: Result<&'a [PolicyRule], Error>,
    binding: &'a Binding,
    namespace: &'a str,
    name: &'a str,
}

/// The rules that apply to a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved<'a> {
    /// All that could be found.
    pub rules: Vec<&'a PolicyRule>,
    /// Why there may be more.
    pub errors: Vec<String>,
}

impl Policy {
    /// The policy that consists of these objects.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Result<Policy, Error> {
        let mut policy = Policy::default();
        for object in objects {
            policy.put(object)?;
        }
        Ok(policy)
    }

    /// Adds or replaces a Role, ClusterRole, RoleBinding or ClusterRoleBinding.
    pub fn put(&mut self, object: &Value) -> Result<(), Error> {
        let (kind, namespace, name) = identity(object)?;
        let malformed = |error: serde_json::Error| Error::NotRbac(format!("{kind} {name:?}: {error}"));
        match kind {
            "Role" => {
                let role = ClusterRole::from_object(object).map_err(malformed)?;
                self.roles.insert((namespace.into(), name.into()), role.rules.into());
            }
            "ClusterRole" => {
                let role = ClusterRole::from_object(object).map_err(malformed)?;
                Arc::make_mut(&mut self.cluster_roles).insert(name.into(), role);
            }
            _ => {
                let binding = Binding::deserialize(object).map_err(malformed)?;
                self.remove_binding(namespace, name);
                self.bindings.entry(namespace.into()).or_default().put(namespace, name, binding);
            }
        }
        Ok(())
    }

    /// Takes an object out, if it is there.
    pub fn remove(&mut self, object: &Value) -> Result<(), Error> {
        let (kind, namespace, name) = identity(object)?;
        match kind {
            "Role" => drop(self.roles.remove(&(namespace.into(), name.into()))),
            "ClusterRole" => drop(Arc::make_mut(&mut self.cluster_roles).remove(name)),
            _ => self.remove_binding(namespace, name),
        }
        Ok(())
    }

    fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(bindings) = self.bindings.get_mut(namespace) else { return };
        bindings.remove(namespace, name);
        if bindings.by_name.is_empty() {
            self.bindings.remove(namespace);
        }
    }

    /// Whose permissions change with a Role, ClusterRole, RoleBinding or ClusterRoleBinding.
    pub fn affected(&self, kind: &str, namespace: &str, name: &str) -> Affected {
        let Some(bindings) = self.bindings.get(namespace) else {
            return if kind == "ClusterRole" {
                Affected::Everybody
            } else {
                Affected::Users(BTreeSet::new())
            };
        };
        let bindings: Vec<&Binding> = match kind {
            // Bindings of every namespace may refer to it.
            "ClusterRole" => return Affected::Everybody,
            "Role" => {
                let refers =
                    |binding: &&Binding| binding.role_ref.kind == kind && binding.role_ref.name == name;
                bindings.by_name.values().map(|binding| &**binding).filter(refers).collect()
            }
            _ => bindings.by_name.get(name).map(|binding| &**binding).into_iter().collect(),
        };
        let mut users = BTreeSet::new();
        for subject in bindings.into_iter().flat_map(|binding| &binding.subjects) {
            match holder_of(subject, namespace) {
                Some(Holder::User(name)) => drop(users.insert(name)),
                Some(Holder::Group(_)) => return Affected::Everybody,
                None => {}
            }
        }
        Affected::Users(users)
    }

    /// All ClusterRoles, by name.
    pub fn cluster_roles(&self) -> &BTreeMap<String, ClusterRole> {
        &self.cluster_roles
    }

    /// The rules of the role that a binding in this namespace refers to.
    pub fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<&[PolicyRule], Error> {
        let missing = |resource| Error::NoRole { resource, name: role.name.clone() };
        match role.kind.as_str() {
            "Role" => {
                let rules = self.roles.get(&(namespace.to_owned(), role.name.clone()));
                rules.map(|rules| rules.as_slice()).ok_or_else(|| missing("role"))
            }
            "ClusterRole" => {
                let found = self.cluster_roles.get(&role.name);
                found.map(|role| role.rules.as_slice()).ok_or_else(|| missing("clusterrole"))
            }
            other => Err(Error::NoRoleKind(other.into())),
        }
    }

    /// The rules that apply to a user in a namespace, or (if it is empty) in the cluster.
    pub fn rules_for(&self, user: &User, namespace: &str) -> Resolved<'_> {
        let mut resolved = Resolved::default();
        for grant in self.grants(user, namespace) {
            match grant.rules {
                Ok(rules) => resolved.rules.extend(rules),
                Err(error) => resolved.errors.push(error.to_string()),
            }
        }
        resolved
    }

    /// What each binding gives to a user: those of the cluster first, each by name.
    pub(super) fn grants(&self, user: &User, namespace: &str) -> Vec<Grant<'_>> {
        let holders = holders(user);
        let mut grants = Vec::new();
        for wanted in BTreeSet::from(["", namespace]) {
            let Some((namespace, bindings)) = self.bindings.get_key_value(wanted) else { continue };
            let held = holders.iter().filter_map(|holder| bindings.by_holder.get(holder));
            let names: BTreeSet<&String> = held.flat_map(|names| names.iter()).collect();
            grants.extend(names.into_iter().filter_map(|name| {
                let binding = bindings.by_name.get(name)?;
                let rules = self.rules_of(&binding.role_ref, namespace);
                Some(Grant { rules, binding, namespace, name })
            }));
        }
        grants
    }
}

impl Grant<'_> {
    /// The binding and the first of its subjects that the user is, in upstream's words.
    pub(super) fn source(&self, user: &User) -> String {
        let holders = holders(user);
        let is_user = |subject: &&Subject| {
            holder_of(subject, self.namespace).is_some_and(|holder| holders.contains(&holder))
        };
        let subject = self.binding.subjects.iter().find(is_user);
        let subject = subject.map(|subject| subject.describe(self.namespace)).unwrap_or_default();
        let (kind, binding) = match self.namespace {
            "" => ("ClusterRoleBinding", self.name.to_owned()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let role = &self.binding.role_ref;
        format!("{kind} {binding:?} of {} {:?} to {subject}", role.kind, role.name)
    }
}

impl Bindings {
    fn put(&mut self, namespace: &str, name: &str, binding: Binding) {
        for holder in binding.subjects.iter().filter_map(|subject| holder_of(subject, namespace)) {
            Arc::make_mut(self.by_holder.entry(holder).or_default()).insert(name.into());
        }
        self.by_name.insert(name.into(), binding.into());
    }

    fn remove(&mut self, namespace: &str, name: &str) {
        let Some(binding) = self.by_name.remove(name) else { return };
        for holder in binding.subjects.iter().filter_map(|subject| holder_of(subject, namespace)) {
            if let Some(names) = self.by_holder.get_mut(&holder) {
                let names = Arc::make_mut(names);
                names.remove(name);
                if names.is_empty() {
                    self.by_holder.remove(&holder);
                }
            }
        }
    }
}

/// Kind, namespace and name.
fn identity(object: &Value) -> Result<(&str, &str, &str), Error> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match (kind, namespace.is_empty()) {
        ("Role" | "RoleBinding", false) | ("ClusterRole" | "ClusterRoleBinding", true) => {
            Ok((kind, namespace, name))
        }
        _ => Err(Error::NotRbac(format!("{kind} {name:?} in namespace {namespace:?}"))),
    }
}

fn holder_of(subject: &Subject, binding_namespace: &str) -> Option<Holder> {
    match subject.kind.as_str() {
        "User" => Some(Holder::User(subject.name.clone())),
        "Group" => Some(Holder::Group(subject.name.clone())),
        "ServiceAccount" => {
            let own = [subject.namespace.as_str(), binding_namespace];
            let namespace = own.into_iter().find(|namespace| !namespace.is_empty())?;
            Some(Holder::User(service_account_user(namespace, &subject.name)))
        }
        _ => None,
    }
}

fn holders(user: &User) -> Vec<Holder> {
    let groups = user.groups.iter().map(|group| Holder::Group(group.clone()));
    groups.chain([Holder::User(user.name.clone())]).collect()
}

/// Several errors as Go joins them, each said once.
pub(super) fn together(errors: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}
