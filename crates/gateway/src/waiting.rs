//! Waiting for an object to change, by its name.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use kit::{Cache, Key, Object};
use tokio::sync::Notify;

/// Who waits for which objects. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting(Arc<Mutex<BTreeMap<Key, Entry>>>);

#[derive(Debug, Default)]
struct Entry {
    told: Arc<Notify>,
    waiting: usize,
}

impl Waiting {
    /// Tells of every change in a cache from now on.
    pub(crate) fn listen(&self, cache: &Cache) {
        self.listen_as(cache, Object::key);
    }

    /// The same for who waits for an object of another name, by what has changed.
    pub(crate) fn listen_as(&self, cache: &Cache, awaited: fn(&Object) -> Key) {
        let this = self.clone();
        cache.listen("gateway-waiting", || {
            Arc::new(move |change| {
                let all = this.0.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(entry) = all.get(&awaited(change.object())) {
                    entry.told.notify_waiters();
                }
            })
        });
    }

    /// Waits until `look` finds something; it looks again whenever an object of that name changes.
    pub(crate) async fn until<T>(&self, key: &Key, mut look: impl FnMut() -> Option<T>) -> T {
        let turn = Turn::take(self, key);
        loop {
            let mut told = pin!(turn.told.notified());
            // From here on no change is missed.
            told.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            told.await;
        }
    }
}

/// One who waits.
struct Turn<'a> {
    waiting: &'a Waiting,
    key: &'a Key,
    told: Arc<Notify>,
}

impl<'a> Turn<'a> {
    fn take(waiting: &'a Waiting, key: &'a Key) -> Self {
        let mut all = waiting.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entry(key.clone()).or_default();
        entry.waiting += 1;
        Turn { waiting, key, told: entry.told.clone() }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut all = self.waiting.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = all.get_mut(self.key) {
            entry.waiting -= 1;
            if entry.waiting == 0 {
                all.remove(self.key);
            }
        }
    }
}
