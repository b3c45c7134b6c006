use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use clock::Clock;
use imbl::OrdMap;
use jiff::Timestamp;

use super::core::Core;
use super::draft::Draft;
use super::hash::LogHasher;
use super::trim::{Mark, floor_for};
use super::view::Origin;
use super::{
    Answer, Commit, Error, LogHash, Options, Page, Query, Revision, Scope, Store, Stored, View, Watch, Write,
};

/// A store that lives as long as its process: for simulation and tests.
///
/// It has no threads and never waits: every future is ready at once, and the same calls give the same log.
pub struct MemoryStore {
    core: Arc<Core>,
    clock: Arc<dyn Clock>,
    /// Held by the one writer.
    log: Mutex<LogHasher>,
}

impl MemoryStore {
    /// An empty store. All history above the floor is held in memory, whatever the options' `recent` limits say.
    pub fn new(options: Options, clock: Arc<dyn Clock>) -> Self {
        let options = Options { recent_events: usize::MAX, recent_bytes: usize::MAX, ..options };
        let view = View::new(Origin::default(), OrdMap::new());
        MemoryStore { core: Arc::new(Core::new(view, options)), clock, log: Mutex::default() }
    }

    fn apply(&self, transaction: &[Write]) -> Result<Commit, Error> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let mut draft = Draft::on(&self.core.view(), self.clock.now());
        let commit = draft.apply(transaction)?;
        commit.events.iter().for_each(|event| log.follow(event));
        self.core.publish(draft);
        Ok(commit)
    }

    fn raise(&self, floor: Revision) -> Result<(), Error> {
        let _writer = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let view = self.core.view();
        if floor > view.head() {
            return Err(Error::FutureRevision { asked: floor, head: view.head() });
        }
        let forgotten = view.recent().iter().take_while(|event| event.revision <= floor).last();
        let forgotten = forgotten.map_or(0, |event| event.superseded);
        self.core.revise(|view| view.above(floor).freed(forgotten));
        Ok(())
    }

    fn limit(&self, now: Timestamp) -> Result<Revision, Error> {
        let view = self.core.view();
        floor_for(&view, &self.core.options, now, |revision| {
            let before = Revision(revision.0 - 1);
            let event = view.since(before).and_then(|mut events| events.next());
            let event = event.ok_or(Error::Compacted { asked: revision, floor: view.floor() })?;
            Ok(Mark { time: event.time, superseded: event.superseded })
        })
    }
}

fn now<'a, T: Send + 'a>(result: Result<T, Error>) -> Answer<'a, T> {
    Box::pin(ready(result))
}

impl Store for MemoryStore {
    fn view(&self) -> Arc<View> {
        self.core.view()
    }

    fn write(&self, transaction: Vec<Write>) -> Answer<'_, Commit> {
        now(self.apply(&transaction))
    }

    fn get<'a>(&'a self, key: &'a str, at: Option<Revision>) -> Answer<'a, Option<Arc<Stored>>> {
        let query = Query { at, ..Query::all(Scope::key(key)) };
        Box::pin(async move { Ok(self.list(query).await?.items.pop()) })
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        let view = self.core.view();
        let asked = query.at.unwrap_or(view.head());
        now(view.page(&query).and_then(|page| page.ok_or(Error::Compacted { asked, floor: view.floor() })))
    }

    fn watch(&self, scope: Scope, after: Revision) -> Result<Watch, Error> {
        Watch::new(self.core.clone(), None, scope, after)
    }

    fn expire(&self, now: Timestamp) -> Answer<'_, usize> {
        Box::pin(self.core.expire(self, now))
    }

    fn compact(&self, floor: Revision) -> Answer<'_, ()> {
        now(self.raise(floor))
    }

    fn trim(&self, time: Timestamp) -> Answer<'_, Revision> {
        let raised = self.limit(time).and_then(|floor| self.raise(floor));
        now(raised.map(|()| self.core.view().floor()))
    }

    fn log_hash(&self) -> Answer<'_, LogHash> {
        now(Ok(self.log.lock().unwrap_or_else(PoisonError::into_inner).hash()))
    }
}
