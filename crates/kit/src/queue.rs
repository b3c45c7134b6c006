//! Which objects are to be looked at, and when.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clock::{Clock, Monotonic};
use tokio::sync::Notify;

use crate::object::Key;

/// How often an object is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time between two looks at the same object, at least. What happens meanwhile is seen together.
    pub interval: Duration,
    /// How many looks an object may have one right after the other that was left alone before; they are made up for afterwards.
    pub burst: u32,
    /// How long a failure waits before the first retry; twice as long each time.
    pub first_retry: Duration,
    /// The longest that a failure waits.
    pub longest_retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            interval: Duration::from_secs(1),
            burst: 1,
            first_retry: Duration::from_secs(1),
            longest_retry: Duration::from_secs(60),
        }
    }
}

/// Time between two looks of a burst: what happens within a blink is seen together.
const BLINK: Duration = Duration::from_millis(50);

/// How often objects are forgotten that need not be remembered.
const TIDY: Duration = Duration::from_secs(60);

/// When, and a number that makes two of them different.
type Due = (Duration, u64);

#[derive(Debug, Default)]
struct Entry {
    due: Option<Due>,
    running: bool,
    /// Given to somebody who has not looked yet: what happens until then is seen by that look.
    waiting: bool,
    /// When it is to be looked at after the look that is running.
    next: Option<Duration>,
    started: Option<Duration>,
    /// Until when its looks so far would have taken, an interval each.
    made_up: Duration,
    failures: u32,
}

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<Key, Entry>,
    due: BTreeMap<Due, Key>,
    count: u64,
    /// When objects were last forgotten.
    tidied: Duration,
}

impl Entry {
    /// Whether a new entry would be as good as this one.
    fn is_forgettable(&self, now: Duration, interval: Duration) -> bool {
        let is_quiet = self.due.is_none() && !self.running && self.next.is_none() && self.failures == 0;
        is_quiet && self.made_up <= now && self.started.is_none_or(|started| started + interval <= now)
    }
}

/// Objects that are to be looked at. Each is looked at by one at a time; asked for often, it is looked at once.
pub struct Queue {
    clock: Arc<dyn Clock>,
    start: Monotonic,
    pace: Pace,
    inner: Mutex<Inner>,
    changed: Notify,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} due", self.lock().due.len())
    }
}

/// How a look ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Look again when something changes.
    Well,
    /// Look again after this time, or when something changes.
    Again(Duration),
    /// Something failed.
    Badly,
    /// The object is gone.
    Gone,
}

impl Queue {
    /// An empty one.
    pub fn new(clock: Arc<dyn Clock>, pace: Pace) -> Self {
        let start = clock.monotonic();
        Queue { clock, start, pace, inner: Mutex::default(), changed: Notify::new() }
    }

    /// Has an object looked at as soon as its pace allows.
    pub fn add(&self, key: Key) {
        self.add_after(key, Duration::ZERO);
    }

    /// Has an object looked at after some time, or earlier if somebody else asks for it.
    pub fn add_after(&self, key: Key, wait: Duration) {
        let now = self.now();
        let mut inner = self.lock();
        let entry = inner.entries.entry(key.clone()).or_default();
        let at = (now + wait).max(self.earliest(entry));
        if entry.waiting && wait.is_zero() {
            return;
        }
        if entry.running {
            entry.next = Some(entry.next.map_or(at, |next| next.min(at)));
            return;
        }
        inner.schedule(key, at);
        drop(inner);
        self.changed.notify_one();
    }

    /// How many objects are to be looked at now, and are not looked at yet.
    pub fn depth(&self) -> usize {
        let now = self.now();
        let inner = self.lock();
        let taken = inner.entries.values().filter(|entry| entry.running && entry.waiting).count();
        inner.due.range(..=(now, u64::MAX)).count() + taken
    }

    /// The time, for whoever measures how long looks take.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The next object whose time has come. It is not given to anybody else until it is [`Queue::done`].
    pub async fn next(&self) -> Key {
        loop {
            let wait = match self.take() {
                Ok(key) => return key,
                Err(wait) => wait,
            };
            let changed = self.changed.notified();
            match wait.into_iter().chain(self.tidy()).min() {
                Some(wait) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = tokio::time::sleep(wait) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Whoever was given the object looks at it now: what happened until here needs no further look.
    pub fn begin(&self, key: &Key) {
        let now = self.now();
        let mut inner = self.lock();
        let Some(entry) = inner.entries.get_mut(key).filter(|entry| entry.waiting) else { return };
        entry.waiting = false;
        entry.made_up += now.saturating_sub(entry.started.unwrap_or(now));
        entry.started = Some(now);
    }

    /// A look at an object has ended.
    pub fn done(&self, key: Key, ended: Ended) {
        let now = self.now();
        let mut inner = self.lock();
        let Some(entry) = inner.entries.get_mut(&key) else { return };
        (entry.running, entry.waiting) = (false, false);
        entry.failures = if ended == Ended::Badly { entry.failures + 1 } else { 0 };
        let earliest = self.earliest(entry);
        let own = match ended {
            Ended::Well | Ended::Gone => None,
            Ended::Again(wait) => Some(now + wait),
            Ended::Badly => Some(now + self.retry(entry.failures)),
        };
        let asked = entry.next.take();
        match own.into_iter().chain(asked).min() {
            Some(at) => {
                inner.schedule(key, at.max(earliest));
                drop(inner);
                self.changed.notify_one();
            }
            None if ended == Ended::Gone => drop(inner.entries.remove(&key)),
            None => {}
        }
    }

    /// Forgets objects whose time is made up for, now and then. Gives how long until the next time; none if there is nothing to forget.
    fn tidy(&self) -> Option<Duration> {
        let now = self.now();
        let mut inner = self.lock();
        if now >= inner.tidied + TIDY {
            inner.entries.retain(|_, entry| !entry.is_forgettable(now, self.pace.interval));
            inner.tidied = now;
        }
        (!inner.entries.is_empty()).then(|| inner.tidied + TIDY - now)
    }

    fn retry(&self, failures: u32) -> Duration {
        let doubled = self.pace.first_retry * 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
        doubled.min(self.pace.longest_retry)
    }

    /// An object, or how long until the next one is due.
    fn take(&self) -> Result<Key, Option<Duration>> {
        let now = self.now();
        let mut inner = self.lock();
        let Some((&due, key)) = inner.due.iter().next() else { return Err(None) };
        if due.0 > now {
            return Err(Some(due.0 - now));
        }
        let key = key.clone();
        inner.due.remove(&due);
        if let Some(entry) = inner.entries.get_mut(&key) {
            entry.due = None;
            (entry.running, entry.waiting) = (true, true);
            entry.started = Some(now);
            entry.made_up = entry.made_up.max(now) + self.pace.interval;
        }
        Ok(key)
    }

    fn earliest(&self, entry: &Entry) -> Duration {
        let Some(started) = entry.started else { return Duration::ZERO };
        let Pace { interval, burst, .. } = self.pace;
        let allowed = entry.made_up.saturating_sub(interval * burst.saturating_sub(1));
        allowed.max(started + BLINK.min(interval))
    }

    fn now(&self) -> Duration {
        self.clock.monotonic().since(self.start)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Puts an object into the order of what is due, unless it is due earlier already.
    fn schedule(&mut self, key: Key, at: Duration) {
        let count = self.count;
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.due.is_some_and(|due| due.0 <= at) {
            return;
        }
        self.count += 1;
        if let Some(later) = entry.due.replace((at, count)) {
            self.due.remove(&later);
        }
        self.due.insert((at, count), key);
    }
}

#[cfg(test)]
mod tests {
    use clock::RuntimeClock;
    use jiff::Timestamp;

    use super::*;

    fn queue() -> (Arc<dyn Clock>, Queue) {
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::starting_at(Timestamp::UNIX_EPOCH));
        (clock.clone(), Queue::new(clock, Pace::default()))
    }

    fn key(name: &str) -> Key {
        Key::new("n", name)
    }

    #[tokio::test(start_paused = true)]
    async fn asked_for_often_is_looked_at_once() {
        let (clock, queue) = queue();
        for _ in 0..3 {
            queue.add(key("a"));
        }
        queue.add(key("b"));
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(queue.next().await, key("b"));
        queue.begin(&key("a"));
        queue.add(key("a"));
        queue.done(key("a"), Ended::Well);
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(clock.now().as_second(), 1, "not before its interval is over");
    }

    #[tokio::test(start_paused = true)]
    async fn what_happens_before_a_look_begins_is_seen_by_it() {
        let (clock, queue) = queue();
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        queue.add(key("a"));
        queue.add_after(key("a"), Duration::from_secs(60));
        tokio::time::sleep(Duration::from_secs(5)).await;
        queue.begin(&key("a"));
        queue.done(key("a"), Ended::Well);
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(clock.now().as_second(), 60, "for the one who asked for later");
        queue.begin(&key("a"));
        queue.add(key("a"));
        queue.done(key("a"), Ended::Well);
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(clock.now().as_second(), 61);
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_was_left_alone_is_looked_at_quickly_for_a_while() {
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::starting_at(Timestamp::UNIX_EPOCH));
        let queue = Queue::new(clock.clone(), Pace { burst: 3, ..Pace::default() });
        let looks = async |count: usize| {
            let mut times = Vec::new();
            for _ in 0..count {
                queue.add(key("a"));
                queue.next().await;
                times.push(clock.now().as_millisecond());
                queue.done(key("a"), Ended::Well);
            }
            times
        };
        assert_eq!(looks(5).await, [0, 50, 100, 1000, 2000]);
        tokio::time::sleep(Duration::from_secs(58)).await;
        assert_eq!(looks(4).await, [60_000, 60_050, 60_100, 61_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_else_gets_what_is_being_looked_at() {
        let (_, queue) = queue();
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        queue.begin(&key("a"));
        queue.add(key("a"));
        let second = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
        assert!(second.is_err());
        queue.done(key("a"), Ended::Well);
        assert_eq!(queue.next().await, key("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_and_longer() {
        let (clock, queue) = queue();
        queue.add(key("a"));
        let mut times = Vec::new();
        for _ in 0..9 {
            assert_eq!(queue.next().await, key("a"));
            times.push(clock.now().as_second());
            queue.done(key("a"), Ended::Badly);
        }
        assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
        assert_eq!(queue.next().await, key("a"));
        queue.done(key("a"), Ended::Again(Duration::from_secs(5)));
        let begin = clock.now().as_second();
        queue.add_after(key("a"), Duration::from_secs(2));
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(clock.now().as_second() - begin, 2, "the earlier one counts");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_left_alone_for_long_is_forgotten() {
        let (clock, queue) = queue();
        for name in ["well", "bad", "later"] {
            queue.add(key(name));
            queue.next().await;
        }
        queue.done(key("well"), Ended::Well);
        queue.done(key("bad"), Ended::Badly);
        queue.done(key("later"), Ended::Again(Duration::from_secs(1000)));
        assert_eq!(queue.next().await, key("bad"), "it is tried again");
        queue.done(key("bad"), Ended::Badly);
        queue.next().await;
        let left =
            |queue: &Queue| queue.lock().entries.keys().map(|key| key.name.clone()).collect::<Vec<_>>();
        assert_eq!(left(&queue), ["bad", "later", "well"]);
        queue.done(key("bad"), Ended::Well);
        assert_eq!(queue.next().await, key("later"));
        assert_eq!((left(&queue), clock.now().as_second()), (vec!["later".to_owned()], 1000));
        queue.add(key("well"));
        assert_eq!(queue.next().await, key("well"), "as if it were new");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_is_forgotten() {
        let (_, queue) = queue();
        queue.add(key("a"));
        queue.next().await;
        queue.done(key("a"), Ended::Gone);
        assert!(queue.lock().entries.is_empty());
    }
}
