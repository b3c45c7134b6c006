//! The roles and bindings in the store, ready for decisions.

use std::collections::BTreeMap;
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
    /// The revision that each object was read at. Who holds the lock makes the next policy, so that no older one
    /// replaces a newer.
    read: Mutex<BTreeMap<Arc<str>, Revision>>,
}

impl Current {
    /// What the store holds.
    pub(super) fn of(store: &dyn Store) -> Self {
        let current = Current::default();
        current.refresh(store);
        current
    }

    /// Reads again what has changed.
    fn refresh(&self, store: &dyn Store) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let view = store.view();
        let (changed, gone) = differences(&view, &read);
        if changed.is_empty() && gone.is_empty() {
            return;
        }
        let mut policy = Policy::clone(&self.policy.load());
        for key in gone {
            take_out(&mut policy, &key);
            read.remove(&key);
        }
        for stored in changed {
            // An object that cannot be read must not go on granting what it granted before.
            take_out(&mut policy, &stored.key);
            put_in(&mut policy, &stored);
            read.insert(stored.key.clone(), stored.modified);
        }
        self.policy.store(Arc::new(policy));
    }
}

/// The objects that were not read in this revision, and the keys of those that are no more.
fn differences(view: &View, read: &BTreeMap<Arc<str>, Revision>) -> (Vec<Arc<Stored>>, Vec<Arc<str>>) {
    let scope = Scope::prefix(PREFIX);
    let new = |stored: &&Arc<Stored>| read.get(&stored.key) != Some(&stored.modified);
    let changed = view.scan(&scope).filter(new).cloned().collect();
    let gone = read.keys().filter(|key| view.get(key).is_none()).cloned().collect();
    (changed, gone)
}

fn put_in(policy: &mut Policy, stored: &Stored) {
    let object = serde_json::from_slice::<Value>(&stored.value).map_err(|error| error.to_string());
    let put = object.and_then(|object| policy.put(&object).map_err(|error| error.to_string()));
    if let Err(error) = put {
        tracing::warn!(key = &*stored.key, error, "a role or binding is left out of the policy");
    }
}

fn take_out(policy: &mut Policy, key: &str) {
    let parts: Vec<&str> = key.strip_prefix(PREFIX).unwrap_or_default().split('/').collect();
    let object = match parts[..] {
        ["roles", namespace, name] => identity("Role", namespace, name),
        ["rolebindings", namespace, name] => identity("RoleBinding", namespace, name),
        ["clusterroles", name] => identity("ClusterRole", "", name),
        ["clusterrolebindings", name] => identity("ClusterRoleBinding", "", name),
        _ => return,
    };
    // It has the form of one of the four kinds: there is nothing to refuse.
    policy.remove(&object).ok();
}

fn identity(kind: &str, namespace: &str, name: &str) -> Value {
    json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}})
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
