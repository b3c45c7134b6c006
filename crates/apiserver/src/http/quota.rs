//! How many of something each may have, and all together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts what is held, by who holds it.
#[derive(Debug)]
pub(super) struct Quota<K: Ord> {
    most: usize,
    most_each: usize,
    held: Arc<Mutex<BTreeMap<K, usize>>>,
}

impl<K: Ord + Clone> Quota<K> {
    pub(super) fn new(most: usize, most_each: usize) -> Self {
        Quota { most, most_each, held: Arc::default() }
    }

    /// One more, until the guard is dropped; none if it would be too many.
    pub(super) fn take(&self, who: &K) -> Option<Held<K>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (held.values().sum::<usize>(), held.get(who).copied().unwrap_or_default());
        if all >= self.most || own >= self.most_each {
            return None;
        }
        held.insert(who.clone(), own + 1);
        Some(Held { who: who.clone(), held: self.held.clone() })
    }
}

/// One of those that a [`Quota`] counts.
#[derive(Debug)]
pub(super) struct Held<K: Ord> {
    who: K,
    held: Arc<Mutex<BTreeMap<K, usize>>>,
}

impl<K: Ord> Drop for Held<K> {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.who) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.who);
            }
        }
    }
}

/// Who has asked over a connection, as an extension of its requests: it counts as one of each of them until it ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Callers(Arc<Mutex<BTreeMap<String, Held<String>>>>);

impl Callers {
    /// Counts the connection for a user, once. False if it would be one too many of theirs.
    pub(super) fn admit(&self, user: &str, quota: &Quota<String>) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains_key(user) {
            return true;
        }
        match quota.take(&user.to_owned()) {
            Some(one) => held.insert(user.to_owned(), one).is_none(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_once_for_each_who_asks_over_it() {
        let quota = Quota::new(usize::MAX, 2);
        let connections: Vec<Callers> = (0..3).map(|_| Callers::default()).collect();
        let admitted = |connection: usize, user: &str| connections[connection].admit(user, &quota);
        assert_eq!([0, 0, 1, 2, 1].map(|number| admitted(number, "a")), [true, true, true, false, true]);
        // Others may ask over the same one.
        assert!(admitted(2, "b"));
        // When one ends, there is room for another.
        let mut connections = connections;
        connections.remove(0);
        assert!(connections[1].admit("a", &quota));
    }

    #[test]
    fn each_and_all_have_their_most_and_give_it_back() {
        let quota = Quota::new(3, 2);
        let a: Vec<_> = (0..3).map(|_| quota.take(&"a")).collect();
        assert_eq!(a.iter().flatten().count(), 2);
        let b = quota.take(&"b");
        assert!(b.is_some() && quota.take(&"c").is_none());
        drop(a);
        assert!(quota.take(&"c").is_some());
        assert_eq!(
            quota.held.lock().unwrap().keys().collect::<Vec<_>>(),
            [&"b"],
            "nobody is remembered in vain"
        );
    }
}
