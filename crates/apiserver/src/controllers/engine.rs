//! The one loop behind all controllers.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use kubeapi::Status;
use tokio::sync::watch;
use tokio::task::coop::unconstrained;

use super::place::Place;
use super::queue::{End, Item, Queue};
use crate::store::{Error, Event, Revision, Scope, Store, View};

/// How long to wait before the store is asked again that could not be read.
const STORE_WAIT: Duration = Duration::from_secs(1);

/// Changes that are learned before work that goes on gets a turn, and then everybody else in the process: where much changes there are always
/// more of them.
const AT_ONCE: usize = 256;

/// A piece of work on an item.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<After, Status>> + Send>>;

/// What follows a piece of work that went well.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing.
    Done,
    /// These are to be looked at.
    Look(Vec<Item>),
    /// These are to be looked at, and this one again after this time.
    LookAndLater(Vec<Item>, Duration),
    /// The item waits for somebody else. If nothing happens it is looked at again after this time.
    Later(Duration),
}

/// Something that keeps objects as they should be.
pub(super) trait Controller: Send {
    /// For logs.
    fn name(&self) -> &'static str;

    /// How many items it works on at a time.
    fn width(&self) -> usize {
        1
    }

    /// Forgets all it knew, and learns the present. Gives what is to be looked at.
    fn begin(&mut self, view: &View) -> Vec<Item>;

    /// Learns a change. Gives what is to be looked at.
    fn note(&mut self, place: &Place<'_>, event: &Event) -> Vec<Item>;

    /// Looks at an item.
    fn start(&mut self, item: &Item) -> Work;
}

struct Lane {
    controller: Box<dyn Controller>,
    queue: Queue,
}

impl Lane {
    fn add(&mut self, items: Vec<Item>) {
        items.into_iter().for_each(|item| self.queue.add(item));
    }
}

/// The end of work: whose, on what, and how.
type Finished = Pin<Box<dyn Future<Output = (usize, Item, Result<After, Status>)> + Send>>;
/// The end of a wait: whose, for what, and the ticket.
type Waited = Pin<Box<dyn Future<Output = (usize, Item, u64)> + Send>>;

pub(super) struct Engine {
    store: Arc<dyn Store>,
    lanes: Vec<Lane>,
    working: FuturesUnordered<Finished>,
    waiting: FuturesUnordered<Waited>,
    settled: watch::Sender<Revision>,
}

impl Engine {
    pub(super) fn new(
        store: Arc<dyn Store>,
        controllers: Vec<Box<dyn Controller>>,
        settled: watch::Sender<Revision>,
    ) -> Self {
        let lanes =
            controllers.into_iter().map(|controller| Lane { controller, queue: Queue::default() }).collect();
        Engine { store, lanes, working: FuturesUnordered::new(), waiting: FuturesUnordered::new(), settled }
    }

    /// Goes on until the store is closed.
    pub(super) async fn run(mut self) {
        loop {
            let view = self.store.view();
            for lane in &mut self.lanes {
                let items = lane.controller.begin(&view);
                lane.add(items);
            }
            match self.follow(view.head()).await {
                Error::Closed => return,
                // The present is all that matters.
                error @ Error::Compacted { .. } => tracing::debug!(%error, "controllers begin again"),
                error => {
                    tracing::warn!(%error, "controllers cannot follow the store");
                    tokio::time::sleep(STORE_WAIT).await;
                }
            }
        }
    }

    /// Follows the changes above a revision, and does what they ask for, until that is not possible any more.
    async fn follow(&mut self, after: Revision) -> Error {
        let mut resume = after;
        loop {
            let mut changes = match self.store.watch(Scope::prefix("/registry/"), resume) {
                Ok(changes) => changes,
                Err(error) => return error,
            };
            let mut learned = 0;
            resume = loop {
                self.start_work();
                if learned >= AT_ONCE {
                    learned = 0;
                    self.go_on();
                    tokio::task::yield_now().await;
                }
                self.tell(changes.progress());
                tokio::select! {
                    biased;
                    change = unconstrained(changes.next()) => match change {
                        Ok(event) => {
                            learned += 1;
                            self.note(&event);
                        }
                        Err(Error::Lagged { resume }) => break resume,
                        Err(error) => return error,
                    },
                    Some((lane, item, result)) = self.working.next() => {
                        self.finish(lane, item, result);
                        // On a store in memory work never waits, and others want their turn too.
                        tokio::task::yield_now().await;
                    }
                    Some((lane, item, ticket)) = self.waiting.next() => self.lanes[lane].queue.wake(item, ticket),
                }
            };
        }
    }

    fn note(&mut self, event: &Event) {
        let Some(place) = Place::of(&event.key) else { return };
        for lane in &mut self.lanes {
            let items = lane.controller.note(&place, event);
            lane.add(items);
        }
    }

    /// Gives all work that goes on a turn.
    fn go_on(&mut self) {
        while let Some(Some((lane, item, result))) = self.working.next().now_or_never() {
            self.finish(lane, item, result);
        }
        while let Some(Some((lane, item, ticket))) = self.waiting.next().now_or_never() {
            self.lanes[lane].queue.wake(item, ticket);
        }
    }

    fn start_work(&mut self) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            while let Some(item) = lane.queue.next(lane.controller.width()) {
                let work = lane.controller.start(&item);
                self.working.push(Box::pin(async move { (index, item, work.await) }));
            }
        }
    }

    fn finish(&mut self, index: usize, item: Item, result: Result<After, Status>) {
        let lane = &mut self.lanes[index];
        let end = match result {
            Ok(After::Done) => End::Done,
            Ok(After::Later(wait)) => End::Later(wait),
            Ok(After::Look(items)) => {
                lane.add(items);
                End::Done
            }
            Ok(After::LookAndLater(items, wait)) => {
                lane.add(items);
                End::Later(wait)
            }
            Err(status) => {
                let controller = lane.controller.name();
                tracing::warn!(controller, %item, error = %status.message, "work failed, and is tried again");
                End::Failed
            }
        };
        if let Some((wait, ticket)) = lane.queue.end(item.clone(), end) {
            self.waiting.push(Box::pin(async move {
                tokio::time::sleep(wait).await;
                (index, item, ticket)
            }));
        }
    }

    /// Tells how far all controllers are, when they have nothing left to do.
    fn tell(&self, progress: Revision) {
        if self.lanes.iter().all(|lane| lane.queue.is_settled()) {
            self.settled.send_if_modified(|settled| {
                let further = progress > *settled;
                *settled = progress.max(*settled);
                further
            });
        }
    }
}
