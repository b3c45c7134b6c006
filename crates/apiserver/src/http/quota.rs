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

#[cfg(test)]
mod tests {
    use super::*;

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
