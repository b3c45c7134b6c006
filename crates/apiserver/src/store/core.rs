//! What both backends share: the present in memory, and the watches on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::draft::Draft;
use super::expiry::Expiry;
use super::hub::Hub;
use super::{Error, Event, Expect, Options, Revision, Scope, Store, View, Write};

/// How many objects expire in one go.
const EXPIRY_STEP: usize = 500;

#[derive(Debug)]
pub(super) struct Core {
    view: ArcSwap<View>,
    closed: AtomicBool,
    /// Held for the moment of a publication, and to register a watch between two of them. Reads do not need it.
    shared: Mutex<Shared>,
    pub(super) options: Options,
}

#[derive(Debug, Default)]
struct Shared {
    hub: Hub,
    expiry: Expiry,
}

/// A watch's place among the registered ones.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) id: u64,
    /// Changes that came before the place was taken.
    pub(super) backlog: Vec<Arc<Event>>,
    pub(super) receiver: mpsc::Receiver<Arc<Event>>,
}

impl Core {
    pub(super) fn new(view: View, options: Options) -> Self {
        let mut shared = Shared::default();
        view.objects().values().for_each(|object| shared.expiry.add(object));
        Core {
            view: ArcSwap::from_pointee(view),
            closed: AtomicBool::new(false),
            shared: Mutex::new(shared),
            options,
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Nothing that can panic runs under this lock between two related changes.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Runs `look` while nothing can be published: the watches have been handed all changes up to the revision that it
    /// gets, and none above it.
    pub(super) fn between_publications<T>(&self, look: impl FnOnce(Revision) -> T) -> T {
        let _publication = self.shared();
        look(self.view.load().head())
    }

    /// Makes a draft the present and tells the watches. Only the one writer calls this.
    pub(super) fn publish(&self, draft: Draft) {
        let mut shared = self.shared();
        let events = draft.events.clone();
        let next = self.view.load().with(draft, &self.options);
        // The view first: who hears of a change and then reads has to find it.
        self.view.store(Arc::new(next));
        for event in &events {
            shared.expiry.follow(event);
            shared.hub.deliver(event);
        }
    }

    /// Changes the present's account of history. Only the one writer calls this.
    pub(super) fn revise(&self, change: impl FnOnce(&View) -> View) {
        let _publication = self.shared();
        let next = change(&self.view.load());
        self.view.store(Arc::new(next));
    }

    /// Registers a watch for all changes above `after`; `None` if some of them are not in memory any more.
    pub(super) fn attach(&self, scope: &Scope, after: Revision) -> Result<Option<Attached>, Error> {
        let mut shared = self.shared();
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let view = self.view.load();
        view.readable(after)?;
        let Some(missed) = view.since(after) else { return Ok(None) };
        let backlog = missed.filter(|event| scope.contains(&event.key)).cloned().collect();
        let (id, receiver) = shared.hub.register(scope, self.options.watch_buffer);
        Ok(Some(Attached { id, backlog, receiver }))
    }

    pub(super) fn detach(&self, scope: &Scope, id: u64) {
        self.shared().hub.unregister(scope, id);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends all watches, for good.
    pub(super) fn close(&self) {
        let mut shared = self.shared();
        self.closed.store(true, Ordering::Release);
        shared.hub.close();
    }

    /// Deletes what is due by ordinary writes, some at a time.
    pub(super) async fn expire(&self, store: &dyn Store, now: Timestamp) -> Result<usize, Error> {
        let mut expired = 0;
        loop {
            let due = self.shared().expiry.due(now, EXPIRY_STEP);
            if due.is_empty() {
                return Ok(expired);
            }
            let view = self.view();
            // The view may be newer than the list: what was written since is not due any more.
            let objects = due.iter().filter_map(|key| view.get(key));
            let due = objects.filter(|object| object.expires.is_some_and(|expires| expires <= now));
            let deletions: Vec<Write> = due
                .map(|object| Write::delete(object.key.clone(), Expect::Revision(object.modified)))
                .collect();
            match store.write(deletions).await {
                Ok(commit) => expired += commit.events.len(),
                // Someone was faster with one of them: look again.
                Err(Error::Conflict { .. } | Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
