//! How many of something each may have, and all together.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use kubeapi::authn::ANONYMOUS;

/// Counts what is held, by who holds it.
#[derive(Debug)]
pub(super) struct Quota<K: Ord> {
    most: usize,
    most_each: usize,
    held: Arc<Mutex<Counts<K>>>,
}

#[derive(Debug)]
struct Counts<K> {
    all: usize,
    own: BTreeMap<K, usize>,
}

impl<K: Ord + Clone> Quota<K> {
    pub(super) fn new(most: usize, most_each: usize) -> Self {
        Quota { most, most_each, held: Arc::new(Mutex::new(Counts { all: 0, own: BTreeMap::new() })) }
    }

    /// One more, until the guard is dropped; none if it would be too many.
    pub(super) fn take(&self, who: &K) -> Option<Held<K>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.own.get(who).copied().unwrap_or_default();
        if held.all >= self.most || own >= self.most_each {
            return None;
        }
        held.all += 1;
        held.own.insert(who.clone(), own + 1);
        Some(Held { who: Some(who.clone()), held: self.held.clone() })
    }

    /// One more that counts for nobody, only among all.
    pub(super) fn take_for_nobody(&self) -> Option<Held<K>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.all >= self.most {
            return None;
        }
        held.all += 1;
        Some(Held { who: None, held: self.held.clone() })
    }
}

/// One of those that a [`Quota`] counts.
#[derive(Debug)]
pub(super) struct Held<K: Ord> {
    who: Option<K>,
    held: Arc<Mutex<Counts<K>>>,
}

impl<K: Ord> Held<K> {
    /// It is nobody's from now on, and one of all still.
    fn disown(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(who) = self.who.take()
            && let Some(own) = held.own.get_mut(&who)
        {
            *own -= 1;
            if *own == 0 {
                held.own.remove(&who);
            }
        }
    }
}

impl<K: Ord> Drop for Held<K> {
    fn drop(&mut self) {
        self.disown();
        self.held.lock().unwrap_or_else(PoisonError::into_inner).all -= 1;
    }
}

/// A connection that counts for its address until it is known who asks over it: the nodes of a whole fleet may come from one load balancer.
#[derive(Clone, Debug)]
pub(super) struct FromAddress(Arc<Mutex<Held<IpAddr>>>);

impl FromAddress {
    pub(super) fn new(held: Held<IpAddr>) -> Self {
        FromAddress(Arc::new(Mutex::new(held)))
    }
}

/// Who has asked over a connection, as an extension of its requests: it counts as one of each of them until it ends.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    /// Few: a list takes less room than a map.
    users: Arc<Mutex<Vec<Held<String>>>>,
    from: Option<FromAddress>,
}

impl Callers {
    /// Of a connection that counts for an address.
    pub(super) fn from(from: FromAddress) -> Self {
        Callers { from: Some(from), ..Callers::default() }
    }

    /// Counts the connection for a user, once. False if it would be one too many of theirs.
    pub(super) fn admit(&self, user: &str, quota: &Quota<String>) -> bool {
        let mut held = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if held.iter().any(|one| one.who.as_deref() == Some(user)) {
            return true;
        }
        let Some(one) = quota.take(&user.to_owned()) else { return false };
        held.push(one);
        if user != ANONYMOUS {
            self.identified();
        }
        true
    }

    /// Somebody has shown who it is: the connection does not count for its address any more.
    pub fn identified(&self) {
        if let Some(FromAddress(held)) = &self.from {
            held.lock().unwrap_or_else(PoisonError::into_inner).disown();
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
        assert!(quota.take_for_nobody().is_none(), "all count among all");
        drop(a);
        let nobodys: Vec<_> = (0..3).map(|_| quota.take_for_nobody()).collect();
        assert_eq!(nobodys.iter().flatten().count(), 2);
        drop(nobodys);
        assert!(quota.take(&"c").is_some());
        assert_eq!(
            quota.held.lock().unwrap().own.keys().collect::<Vec<_>>(),
            [&"b"],
            "nobody is remembered in vain"
        );
    }

    #[test]
    fn an_address_counts_until_it_is_known_who_asks() {
        let (addresses, users) = (Quota::new(3, 1), Quota::new(usize::MAX, 1));
        let address = IpAddr::from([127, 0, 0, 1]);
        let connect = || Some(Callers::from(FromAddress::new(addresses.take(&address)?)));
        let first = connect().unwrap();
        assert!(first.admit(ANONYMOUS, &users) && connect().is_none(), "nobody knows who this is");
        assert!(first.admit("a", &users));
        let second = connect().unwrap();
        assert!(!second.admit("a", &users) && connect().is_none(), "one too many shows nothing");
        second.identified();
        let third = connect().unwrap();
        third.identified();
        assert!(connect().is_none(), "they are three of all still");
        drop(first);
        assert!(connect().is_some());
    }
}
