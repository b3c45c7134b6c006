//! Notifies requests that last, such as watches, when something that they were permitted by changes or is deleted.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubeapi::rbac::{Affected, GROUP};
use tokio::sync::Notify;

use super::{Server, policy};
use crate::registry::Resource;

/// What a request rests on.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Ground<'a> {
    /// An object, by its key in the store.
    Object(&'a str),
    /// What a user may do.
    User(&'a str),
}

impl Ground<'_> {
    /// Two grounds may have the same number: then a change of one makes requests of the other check again, and nothing else.
    fn number(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// Requests that last, by what they rest on.
#[derive(Debug, Default)]
pub(crate) struct Revocations(Mutex<Filed>);

#[derive(Debug, Default)]
struct Filed {
    next: u64,
    requests: BTreeMap<(u64, u64), Arc<Doubt>>,
}

/// Whether a request may have lost what it rests on.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// How many changes have not been looked into.
    changes: AtomicU32,
    notify: Notify,
}

impl Doubt {
    fn raise(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.notify.notify_one();
    }

    /// Whether there is one, until it is settled.
    pub(crate) fn is_raised(&self) -> bool {
        self.changes() > 0
    }

    /// Waits for one.
    pub(crate) async fn raised(&self) {
        self.notify.notified().await;
    }

    /// How many changes are to be looked into.
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Relaxed)
    }

    /// So many changes have been looked into.
    pub(crate) fn settle(&self, changes: u32) {
        self.changes.fetch_sub(changes, Ordering::Relaxed);
    }
}

/// A request that is notified of changes as long as this lives.
#[derive(Debug)]
pub(crate) struct Followed {
    revocations: Arc<Revocations>,
    number: u64,
    grounds: Box<[u64]>,
    doubt: Arc<Doubt>,
}

impl Followed {
    pub(crate) fn doubt(&self) -> &Arc<Doubt> {
        &self.doubt
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let mut filed = self.revocations.lock();
        for ground in &self.grounds {
            filed.requests.remove(&(*ground, self.number));
        }
    }
}

impl Revocations {
    /// Has a request told of changes of what it rests on.
    pub(crate) fn follow(self: &Arc<Self>, grounds: &[Ground<'_>]) -> Followed {
        let (doubt, grounds) = (Arc::<Doubt>::default(), grounds.iter().map(|one| one.number()).collect());
        let mut filed = self.lock();
        filed.next += 1;
        let number = filed.next;
        let followed = Followed { revocations: self.clone(), number, grounds, doubt };
        for ground in &followed.grounds {
            filed.requests.insert((*ground, number), followed.doubt.clone());
        }
        drop(filed);
        // It may have gone between the decision and now.
        followed.doubt.raise();
        followed
    }

    fn tell(&self, ground: Ground<'_>) {
        let number = ground.number();
        for doubt in self.lock().requests.range((number, 0)..=(number, u64::MAX)).map(|(_, doubt)| doubt) {
            doubt.raise();
        }
    }

    fn tell_all(&self) {
        self.lock().requests.values().for_each(|doubt| doubt.raise());
    }

    fn lock(&self) -> MutexGuard<'_, Filed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Requests that last, to be notified of changes.
    pub(crate) fn revocations(&self) -> &Arc<Revocations> {
        &self.revocations
    }

    /// To be called after an object was changed or deleted, before the policy is made anew. New objects take nothing from anybody.
    pub(super) fn revoke(&self, written: &Resource, key: &str) {
        if written.group != GROUP {
            return self.revocations.tell(Ground::Object(key));
        }
        let affected = policy::identity_of(key)
            .map(|(kind, namespace, name)| self.policy().affected(kind, namespace, name));
        match affected {
            Some(Affected::Users(users)) => {
                users.iter().for_each(|user| self.revocations.tell(Ground::User(user)))
            }
            Some(Affected::Everybody) | None => self.revocations.tell_all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_rests_on_it_is_told_and_nobody_else() {
        let all = Arc::<Revocations>::default();
        let anna = all.follow(&[Ground::User("anna"), Ground::Object("/registry/core/secrets/n/s")]);
        let bert = all.follow(&[Ground::User("bert")]);
        assert!(
            anna.doubt().is_raised() && bert.doubt().is_raised(),
            "what was decided just before is looked at once more"
        );
        anna.doubt().settle(anna.doubt().changes());
        bert.doubt().settle(bert.doubt().changes());
        let told = |one: &Followed| {
            let told = one.doubt().is_raised();
            one.doubt().settle(one.doubt().changes());
            told
        };
        all.tell(Ground::Object("/registry/core/secrets/n/s"));
        assert_eq!((told(&anna), told(&bert)), (true, false));
        all.tell(Ground::Object("bert"));
        assert_eq!((told(&anna), told(&bert)), (false, false), "an object is no user");
        all.tell(Ground::User("bert"));
        assert_eq!((told(&anna), told(&bert)), (false, true));
        all.tell_all();
        assert_eq!((told(&anna), told(&bert)), (true, true));
        drop((anna, bert));
        assert!(all.lock().requests.is_empty());
    }
}
