//! Who else is asked about a write: webhooks, and ValidatingAdmissionPolicies.
//!
//! Their configurations are objects in the store. What is in force follows each write of one, as the registry follows
//! CRDs. [`crate::server`] says when they are asked.

mod asking;
mod call;
mod configured;
mod matching;
mod mutating;
mod params;
mod policies;
mod reinvocation;
mod validating;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

pub(crate) use asking::Asking;
pub(crate) use reinvocation::Reinvocation;

use crate::store::{Revision, Scope, Store};
use configured::{Bound, Entry, Webhook};

/// The group of the kinds that say who is asked.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// The prefix of all their keys.
const PREFIX: &str = "/registry/admissionregistration.k8s.io/";

/// Everybody who is asked, in the order in which they are.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    mutating: Vec<Arc<Webhook>>,
    validating: Vec<Arc<Webhook>>,
    policies: Vec<Bound>,
}

impl Hooks {
    /// Whether nobody is.
    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty() && self.policies.is_empty()
    }

    /// Entries are sorted by their keys: configurations go by name.
    fn gather<'a>(entries: impl Iterator<Item = &'a Entry> + Clone) -> Self {
        let mut hooks = Hooks::default();
        for entry in entries.clone() {
            match entry {
                Entry::Mutating(webhooks) => hooks.mutating.extend(webhooks.iter().cloned()),
                Entry::Validating(webhooks) => hooks.validating.extend(webhooks.iter().cloned()),
                // A policy without a binding is asked nothing.
                Entry::Policy(policy) => hooks.policies.extend(Bound::of(policy, entries.clone())),
                Entry::Binding(_) | Entry::Unreadable => {}
            }
        }
        hooks
    }
}

/// Who is asked now.
#[derive(Debug, Default)]
pub(crate) struct Current {
    hooks: ArcSwap<Hooks>,
    /// What was read, and the revision it was read at. Who holds the lock makes the next hooks, so that no older ones
    /// replace newer.
    read: Mutex<BTreeMap<Arc<str>, (Revision, Entry)>>,
}

impl Current {
    /// What the store says.
    pub(crate) fn of(store: &dyn Store) -> Self {
        let current = Current::default();
        current.refresh(store);
        current
    }

    /// Who is asked now. A request that was answered is in it.
    pub(crate) fn hooks(&self) -> Arc<Hooks> {
        self.hooks.load_full()
    }

    /// Reads again what has changed.
    pub(crate) fn refresh(&self, store: &dyn Store) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let view = store.view();
        let mut next = BTreeMap::new();
        for stored in view.scan(&Scope::prefix(PREFIX)) {
            let known = read.remove(&stored.key).filter(|(revision, _)| *revision == stored.modified);
            let entry = known.unwrap_or_else(|| (stored.modified, Entry::read(stored)));
            next.insert(stored.key.clone(), entry);
        }
        *read = next;
        self.hooks.store(Arc::new(Hooks::gather(read.values().map(|(_, entry)| entry))));
    }
}
