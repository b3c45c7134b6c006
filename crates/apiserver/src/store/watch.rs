use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::core::{Attached, Core};
use super::{Answer, Error, Event, Revision, Scope};

/// Where changes are read that are not in memory any more.
pub(super) trait History: Send + Sync {
    /// The next changes of a scope above a revision, from the log, and none above `most`.
    fn read<'a>(&'a self, scope: &'a Scope, after: Revision, most: Revision) -> Answer<'a, Stretch>;
}

/// A stretch of the log.
#[derive(Debug)]
pub(super) struct Stretch {
    /// Its changes in the scope.
    pub(super) events: Vec<Arc<Event>>,
    /// Where it ends: there are no others in the scope up to here.
    pub(super) through: Revision,
}

/// The changes of a scope, as they happen.
pub struct Watch {
    core: Arc<Core>,
    history: Option<Arc<dyn History>>,
    scope: Scope,
    /// All changes up to here have been given. Whoever asks for the progress may find out that it is further.
    given: AtomicI64,
    /// All changes up to here have been given or are in the backlog (and beyond, once the watch is attached).
    read: Revision,
    backlog: VecDeque<Arc<Event>>,
    live: Option<Live>,
    /// The log is being read. Kept here, so that who drops [`Watch::next`] again and again gets on all the same. The lock is
    /// never held: it only lets watches be shared.
    reading: Mutex<Option<Answer<'static, Stretch>>>,
    ended: Option<Error>,
}

struct Live {
    id: u64,
    receiver: mpsc::Receiver<Arc<Event>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("scope", &self.scope)
            .field("given", &self.given())
            .finish_non_exhaustive()
    }
}

impl Watch {
    pub(super) fn new(
        core: Arc<Core>,
        history: Option<Arc<dyn History>>,
        scope: Scope,
        after: Revision,
    ) -> Result<Self, Error> {
        let mut watch = Watch {
            core,
            history,
            scope,
            given: AtomicI64::new(after.0),
            read: after,
            backlog: VecDeque::new(),
            live: None,
            reading: Mutex::default(),
            ended: None,
        };
        watch.attach()?;
        Ok(watch)
    }

    /// Takes a place among the live watches, if what was missed is still in memory.
    fn attach(&mut self) -> Result<bool, Error> {
        let Some(Attached { id, backlog, receiver }) = self.core.attach(&self.scope, self.read)? else {
            return Ok(false);
        };
        self.backlog.extend(backlog);
        self.live = Some(Live { id, receiver });
        Ok(true)
    }

    /// Whose changes they are.
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The next change. Waits for it if need be; nothing is lost if the future is dropped, nor done twice.
    ///
    /// # Errors
    /// [`Error::Lagged`] if too many changes waited to be taken, [`Error::Compacted`] if the log was compacted before
    /// the watch had read it, [`Error::Closed`] with the store. An ended watch gives the same error again.
    pub async fn next(&mut self) -> Result<Arc<Event>, Error> {
        loop {
            if let Some(event) = self.next_ready().await? {
                return Ok(event);
            }
            if let Some(live) = &mut self.live
                && let Some(event) = live.receiver.recv().await
            {
                self.backlog.push_back(event);
            }
        }
    }

    /// The next change that has already happened; `None` if all have been given. Reads the log if need be, but does
    /// not wait for what is still to come.
    ///
    /// # Errors
    /// As [`Watch::next`].
    pub async fn next_ready(&mut self) -> Result<Option<Arc<Event>>, Error> {
        loop {
            if let Some(event) = self.backlog.pop_front() {
                *self.given.get_mut() = event.revision.0;
                return Ok(Some(event));
            }
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            match self.live.as_mut().map(|live| live.receiver.try_recv()) {
                Some(Ok(event)) => self.backlog.push_back(event),
                Some(Err(mpsc::error::TryRecvError::Empty)) => return Ok(None),
                Some(Err(mpsc::error::TryRecvError::Disconnected)) => self.ended = Some(self.why_ended()),
                // Boxed, as every watch has room for this future, and few ever need it.
                None => self.ended = Box::pin(self.catch_up()).await.err(),
            }
        }
    }

    /// Whether [`Watch::next`] would have something to say without waiting for a change; also that the watch is over.
    pub fn has_ready(&self) -> bool {
        let live = |live: &Live| !live.receiver.is_empty() || live.receiver.is_closed();
        !self.backlog.is_empty() || self.ended.is_some() || self.live.as_ref().is_none_or(live)
    }

    async fn catch_up(&mut self) -> Result<(), Error> {
        if self.reading().is_none() {
            if self.attach()? {
                return Ok(());
            }
            let reading = self.read_log()?;
            *self.reading() = Some(reading);
        }
        let Some(reading) = self.reading() else { return Ok(()) };
        let stretch = reading.await;
        *self.reading() = None;
        let stretch = stretch?;
        self.backlog.extend(stretch.events);
        self.read = stretch.through;
        Ok(())
    }

    fn reading(&mut self) -> &mut Option<Answer<'static, Stretch>> {
        self.reading.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to read on in the log.
    fn read_log(&self) -> Result<Answer<'static, Stretch>, Error> {
        // Without a log beyond memory, what is not in memory is gone.
        let view = self.core.view();
        let (read, scope) = (self.read, self.scope.clone());
        let gone = Error::Compacted { asked: read, floor: view.floor() };
        let history = self.history.clone().ok_or(gone)?;
        // The log may be ahead of what is published by one commit, which is the live watch's to tell.
        Ok(Box::pin(async move { history.read(&scope, read, view.head()).await }))
    }

    fn why_ended(&self) -> Error {
        match self.core.is_closed() {
            true => Error::Closed,
            false => Error::Lagged { resume: self.given() },
        }
    }

    fn given(&self) -> Revision {
        Revision(self.given.load(Ordering::Relaxed))
    }

    /// A revision up to which this watch has given all changes: what a bookmark says. It never goes back.
    pub fn progress(&self) -> Revision {
        let reached = match &self.live {
            _ if !self.backlog.is_empty() || self.ended.is_some() => self.given(),
            None => self.read,
            Some(live) => self.core.between_publications(|head| {
                let is_behind = live.receiver.is_closed() || !live.receiver.is_empty();
                if is_behind { self.given() } else { head }
            }),
        };
        Revision(self.given.fetch_max(reached.0, Ordering::Relaxed)).max(reached)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            self.core.detach(&self.scope, live.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::time::Duration;

    use imbl::OrdMap;

    use super::*;
    use crate::store::view::Origin;
    use crate::store::{Options, View};

    /// A log that has grown beyond what is published, in stretches of two revisions, all of other scopes.
    #[derive(Default)]
    struct Ahead(Mutex<Vec<(Revision, Revision)>>);

    impl History for Ahead {
        fn read<'a>(&'a self, _scope: &'a Scope, after: Revision, most: Revision) -> Answer<'a, Stretch> {
            self.0.lock().unwrap().push((after, most));
            let through = Revision(after.0 + 2).min(most);
            Box::pin(ready(Ok(Stretch { events: Vec::new(), through })))
        }
    }

    /// A log that takes a while to be read, and counts how often it is.
    #[derive(Default)]
    struct Slow(AtomicI64);

    impl History for Slow {
        fn read<'a>(&'a self, _scope: &'a Scope, _after: Revision, most: Revision) -> Answer<'a, Stretch> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(Stretch { events: Vec::new(), through: most })
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_no_patience_gets_on_all_the_same() {
        let origin = Origin { head: Revision(5), ..Origin::default() };
        let core = Arc::new(Core::new(View::new(origin, OrdMap::new()), Options::default()));
        let log = Arc::new(Slow::default());
        let mut watch = Watch::new(core, Some(log.clone()), Scope::prefix("/"), Revision::ZERO).unwrap();
        for _ in 0..15 {
            let _ = tokio::time::timeout(Duration::from_millis(100), watch.next()).await;
        }
        assert_eq!(watch.progress(), Revision(5));
        assert_eq!(log.0.load(Ordering::Relaxed), 1, "it is not read anew");
    }

    #[test]
    fn the_log_is_read_up_to_what_is_published_and_not_beyond() {
        let origin = Origin { head: Revision(5), ..Origin::default() };
        let core = Arc::new(Core::new(View::new(origin, OrdMap::new()), Options::default()));
        let log = Arc::new(Ahead::default());
        let mut watch = Watch::new(core, Some(log.clone()), Scope::prefix("/"), Revision::ZERO).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(watch.next_ready()).unwrap().is_none());
        let asked = [0, 2, 4].map(|after| (Revision(after), Revision(5)));
        assert_eq!(*log.0.lock().unwrap(), asked);
        assert_eq!(watch.progress(), Revision(5));
    }
}
