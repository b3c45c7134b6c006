//! Who waits for a cache, sorted by what they wait for: an event wakes those whom it concerns, and nobody else.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::object::Key;

/// What somebody waits for. Whatever it is, a list that was read to its end may bring it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A revision, or a later one.
    Revision(u64),
    /// A change of an object.
    Change(Key),
    /// A list that was read to its end.
    List,
}

/// The order in which they came decides among those who wait for the same: a seed replays.
type Place = (Event, u64);

/// Those who wait. Whoever is taken out is woken.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeMap<Place, oneshot::Sender<()>>,
    came: u64,
}

/// A place among those who wait; it is given up with this value.
pub(crate) struct Ticket<'a> {
    waiters: &'a Waiters,
    place: Place,
    woken: oneshot::Receiver<()>,
}

impl Waiters {
    /// From here on the event is not missed.
    pub(crate) fn enter(&self, event: Event) -> Ticket<'_> {
        let (wake, woken) = oneshot::channel();
        let mut queue = self.lock();
        queue.came += 1;
        let place = (event, queue.came);
        queue.waiting.insert(place.clone(), wake);
        Ticket { waiters: self, place, woken }
    }

    /// This revision has been seen, by a change of this object.
    pub(crate) fn seen(&self, revision: u64, key: &Key) {
        let mut queue = self.lock();
        let later = queue.waiting.split_off(&(Event::Revision(revision.saturating_add(1)), 0));
        let mut woken = std::mem::replace(&mut queue.waiting, later);
        let of_key = (Event::Change(key.clone()), 0)..=(Event::Change(key.clone()), u64::MAX);
        let places: Vec<Place> = queue.waiting.range(of_key).map(|(place, _)| place.clone()).collect();
        woken.extend(places.iter().filter_map(|place| queue.waiting.remove_entry(place)));
        drop(queue);
        drop(woken);
    }

    /// A list has been read to its end.
    pub(crate) fn listed(&self) {
        let woken = std::mem::take(&mut self.lock().waiting);
        drop(woken);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket<'_> {
    /// Waits until somebody says that the event has come.
    pub(crate) async fn wake(mut self) {
        // Being taken out of the queue is all that is told.
        let _ = (&mut self.woken).await;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.waiters.lock().waiting.remove(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_are_woken_whom_it_concerns() {
        let waiters = Waiters::default();
        let (mine, other) = (Key::new("n", "mine"), Key::new("n", "other"));
        let wanted = [
            Event::Revision(5),
            Event::Revision(7),
            Event::Change(mine.clone()),
            Event::Change(other),
            Event::List,
        ];
        let mut tickets: Vec<Ticket<'_>> = wanted.into_iter().map(|event| waiters.enter(event)).collect();
        let mut woken = || -> Vec<bool> {
            let asleep = |ticket: &mut Ticket<'_>| {
                matches!(ticket.woken.try_recv(), Err(oneshot::error::TryRecvError::Empty))
            };
            tickets.iter_mut().map(|ticket| !asleep(ticket)).collect()
        };
        waiters.seen(4, &Key::new("n", "third"));
        assert_eq!(woken(), [false, false, false, false, false]);
        waiters.seen(6, &mine);
        assert_eq!(woken(), [true, false, true, false, false]);
        waiters.listed();
        assert_eq!(woken(), [true, true, true, true, true]);
    }

    #[test]
    fn whoever_goes_leaves_nothing_behind() {
        let waiters = Waiters::default();
        drop(waiters.enter(Event::Revision(5)));
        drop(waiters.enter(Event::List));
        assert!(waiters.lock().waiting.is_empty());
    }
}
