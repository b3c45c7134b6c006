//! What a controller has to look at: each thing once, however often it was asked for, and never twice at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What is to be looked at: mostly a key of the store.
pub(super) type Item = Arc<str>;

/// The wait after the first failure; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(5);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It waits for its turn.
    Ready,
    /// It is being looked at.
    Running,
    /// It is being looked at, and was asked for again meanwhile.
    RunningAgain,
    /// It is to be looked at later. The ticket tells the timer that counts from those that do not any more.
    Delayed { ticket: u64, failed: bool },
}

impl State {
    /// Whether there is something left to do that nobody else has to do first.
    fn is_busy(self) -> bool {
        !matches!(self, State::Delayed { failed: false, .. })
    }
}

/// How a look at an item ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All is well.
    Done,
    /// It waits for somebody else, and is to be looked at again after this time even if nothing happens.
    Later(Duration),
    /// It went wrong.
    Failed,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    states: BTreeMap<Item, State>,
    ready: VecDeque<Item>,
    failures: BTreeMap<Item, u32>,
    running: usize,
    busy: usize,
    tickets: u64,
}

impl Queue {
    /// Asks for an item to be looked at.
    pub(super) fn add(&mut self, item: Item) {
        match self.states.get(&item) {
            Some(State::Ready | State::RunningAgain) => {}
            Some(State::Running) => self.set(item, Some(State::RunningAgain)),
            None | Some(State::Delayed { .. }) => {
                self.ready.push_back(item.clone());
                self.set(item, Some(State::Ready));
            }
        }
    }

    /// The next item to look at, unless `most` are being looked at.
    pub(super) fn next(&mut self, most: usize) -> Option<Item> {
        let item = if self.running < most { self.ready.pop_front() } else { None }?;
        self.running += 1;
        self.set(item.clone(), Some(State::Running));
        Some(item)
    }

    /// Notes that the look at an item has ended. What it gives is the time to wait and the ticket for [`Queue::wake`].
    pub(super) fn end(&mut self, item: Item, end: End) -> Option<(Duration, u64)> {
        self.running -= 1;
        let failures = match end {
            End::Failed => *self.failures.entry(item.clone()).and_modify(|count| *count += 1).or_insert(1),
            End::Done | End::Later(_) => {
                self.failures.remove(&item);
                0
            }
        };
        if self.states.get(&item) == Some(&State::RunningAgain) {
            self.ready.push_back(item.clone());
            self.set(item, Some(State::Ready));
            return None;
        }
        let wait = match end {
            End::Done => {
                self.set(item, None);
                return None;
            }
            End::Later(wait) => wait,
            End::Failed => wait_after(failures),
        };
        self.tickets += 1;
        self.set(item, Some(State::Delayed { ticket: self.tickets, failed: end == End::Failed }));
        Some((wait, self.tickets))
    }

    /// The wait of a ticket is over.
    pub(super) fn wake(&mut self, item: Item, ticket: u64) {
        if matches!(self.states.get(&item), Some(State::Delayed { ticket: own, .. }) if *own == ticket) {
            self.add(item);
        }
    }

    /// Whether nothing is left to do. What waits for somebody else does not count; what failed does.
    pub(super) fn is_settled(&self) -> bool {
        self.busy == 0
    }

    fn set(&mut self, item: Item, state: Option<State>) {
        self.busy += usize::from(state.is_some_and(State::is_busy));
        let before = match state {
            Some(state) => self.states.insert(item, state),
            None => self.states.remove(&item),
        };
        self.busy -= usize::from(before.is_some_and(State::is_busy));
    }
}

fn wait_after(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        name.into()
    }

    #[test]
    fn an_item_is_looked_at_once_and_never_twice_at_a_time() {
        let mut queue = Queue::default();
        for name in ["a", "b", "a"] {
            queue.add(item(name));
        }
        assert_eq!(queue.next(2).as_deref(), Some("a"));
        queue.add(item("a"));
        assert_eq!(queue.next(2).as_deref(), Some("b"));
        assert_eq!(queue.next(2), None, "two are enough");
        assert_eq!(queue.end(item("b"), End::Done), None);
        assert_eq!(queue.next(2), None, "the other one is still being looked at");
        assert_eq!(queue.end(item("a"), End::Failed), None);
        assert_eq!(queue.next(2).as_deref(), Some("a"), "it was asked for meanwhile");
        assert!(!queue.is_settled());
        queue.end(item("a"), End::Done);
        assert!(queue.is_settled());
    }

    #[test]
    fn failures_wait_longer_and_longer() {
        let mut queue = Queue::default();
        let mut waits = Vec::new();
        queue.add(item("a"));
        for _ in 0..20 {
            queue.next(1).unwrap();
            let (wait, ticket) = queue.end(item("a"), End::Failed).unwrap();
            waits.push(wait.as_millis());
            assert!(!queue.is_settled());
            queue.wake(item("a"), ticket);
        }
        assert_eq!(waits[..4], [5, 10, 20, 40]);
        assert_eq!(waits[19], 60_000);
        queue.next(1).unwrap();
        queue.end(item("a"), End::Done);
        queue.add(item("a"));
        queue.next(1).unwrap();
        assert_eq!(queue.end(item("a"), End::Failed).unwrap().0, FIRST_WAIT);
    }

    #[test]
    fn only_the_last_timer_counts() {
        let mut queue = Queue::default();
        let hour = End::Later(Duration::from_secs(3600));
        queue.add(item("a"));
        queue.next(1).unwrap();
        let (_, first) = queue.end(item("a"), hour).unwrap();
        assert!(queue.is_settled(), "it waits for somebody else");
        queue.add(item("a"));
        queue.next(1).unwrap();
        let (_, second) = queue.end(item("a"), hour).unwrap();
        queue.wake(item("a"), first);
        assert_eq!(queue.next(1), None);
        queue.wake(item("a"), second);
        assert_eq!(queue.next(1).as_deref(), Some("a"));
    }
}
