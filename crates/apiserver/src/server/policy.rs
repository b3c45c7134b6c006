//! The roles and bindings in the store, ready for decisions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use kubeapi::rbac::{GROUP, Policy};
use serde_json::{Value, json};

use super::Server;
use crate::registry::Resource;
use crate::store::{Revision, Scope, Store, Stored, View};

/// The prefix of all keys of roles and bindings.
const PREFIX: &str = "/registry/rbac.authorization.k8s.io/";

/// The policy of now.
#[derive(Debug, Default)]
pub(super) struct Current {
    policy: ArcSwap<Policy>,
    /// The revision that it is of. Who holds the lock makes the next policy, so that no older one replaces a newer.
    read: Mutex<Revision>,
}

impl Current {
    /// What the store holds.
    pub(super) fn of(store: &dyn Store) -> Self {
        let (current, view) = (Current::default(), store.view());
        current.policy.store(Arc::new(whole(&view)));
        *current.read.lock().unwrap_or_else(PoisonError::into_inner) = view.head();
        current
    }

    /// Reads again what has changed. Every machine has a role and a binding: nothing here may look at all of them.
    fn refresh(&self, store: &dyn Store) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let view = store.view();
        let policy = match view.changed_since(*read, &Scope::prefix(PREFIX)) {
            Some(changed) if changed.is_empty() => None,
            Some(changed) => Some(with(&self.policy.load(), &view, &changed)),
            None => Some(whole(&view)),
        };
        if let Some(policy) = policy {
            self.policy.store(Arc::new(policy));
        }
        *read = view.head();
    }
}

/// The policy of all objects.
fn whole(view: &View) -> Policy {
    let mut policy = Policy::default();
    view.scan(&Scope::prefix(PREFIX)).for_each(|stored| put_in(&mut policy, stored));
    policy
}

/// The policy after these objects changed.
fn with(policy: &Policy, view: &View, changed: &BTreeSet<Arc<str>>) -> Policy {
    let mut policy = policy.clone();
    for key in changed {
        // An object that cannot be read must not go on granting what it granted before.
        take_out(&mut policy, key);
        if let Some(stored) = view.get(key) {
            put_in(&mut policy, stored);
        }
    }
    policy
}

fn put_in(policy: &mut Policy, stored: &Stored) {
    let object = serde_json::from_slice::<Value>(&stored.value()).map_err(|error| error.to_string());
    let put = object.and_then(|object| policy.put(&object).map_err(|error| error.to_string()));
    if let Err(error) = put {
        tracing::warn!(key = &*stored.key, error, "a role or binding is left out of the policy");
    }
}

fn take_out(policy: &mut Policy, key: &str) {
    let Some((kind, namespace, name)) = identity_of(key) else { return };
    let object = json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}});
    // It has the form of one of the four kinds: there is nothing to refuse.
    policy.remove(&object).ok();
}

/// Kind, namespace and name of the role or binding with this key.
pub(super) fn identity_of(key: &str) -> Option<(&'static str, &str, &str)> {
    let parts: Vec<&str> = key.strip_prefix(PREFIX)?.split('/').collect();
    match parts[..] {
        ["roles", namespace, name] => Some(("Role", namespace, name)),
        ["rolebindings", namespace, name] => Some(("RoleBinding", namespace, name)),
        ["clusterroles", name] => Some(("ClusterRole", "", name)),
        ["clusterrolebindings", name] => Some(("ClusterRoleBinding", "", name)),
        _ => None,
    }
}

impl Server {
    /// Who may do what now. A request that was answered is in it.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.policy.load_full()
    }

    /// To be called after a write.
    pub(super) fn refresh_policy(&self, written: &Resource) {
        if written.group == GROUP {
            self.policy.refresh(&*self.store);
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::SystemClock;

    use super::*;
    use crate::store::{Expect, MemoryStore, Options, Write};

    fn role(number: usize, verb: &str) -> Write {
        let (kind, place) = match number % 2 {
            0 => ("Role", "roles"),
            _ => ("RoleBinding", "rolebindings"),
        };
        let object = json!({
            "kind": kind, "metadata": {"namespace": "n", "name": format!("o{number}")},
            "rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}],
            "roleRef": {"kind": "Role", "name": verb}, "subjects": [{"kind": "User", "name": verb}],
        });
        Write::put(format!("{PREFIX}{place}/n/o{number}"), object.to_string(), Expect::Anything)
    }

    /// Whatever changed, however many times, between two looks, and whether or not history reaches back to the last one.
    #[tokio::test]
    async fn a_policy_of_changes_is_that_of_all_objects() {
        let store = MemoryStore::new(Options::default(), Arc::new(SystemClock));
        let current = Current::of(&store);
        for step in 0..60 {
            let gone = Write::delete(format!("{PREFIX}roles/n/o{}", step % 8), Expect::Anything);
            let other = Write::put("/registry/pods/n/p", "{}", Expect::Anything);
            let unreadable = Write::put(format!("{PREFIX}roles/n/o4"), "no object", Expect::Anything);
            let writes = [role(step % 7, "get"), role(step % 5, "list"), gone, other, unreadable];
            for write in writes.into_iter().skip(step % 4) {
                store.write(vec![write]).await.unwrap();
            }
            if step % 9 == 0 {
                store.compact(store.view().head()).await.unwrap();
            }
            current.refresh(&store);
            let (changed, all) = (current.policy.load(), whole(&store.view()));
            assert_eq!(format!("{changed:?}"), format!("{all:?}"), "step {step}");
        }
        assert!(format!("{:?}", current.policy.load()).contains("list"));
    }
}
