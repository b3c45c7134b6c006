//! What happened, in order: for people who look on, and for tests that compare two runs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use clock::{Clock, Monotonic};

/// How much is remembered.
const MOST: usize = 100_000;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Milliseconds since the world began.
    pub at: u64,
    /// The machine or cluster that it happened to.
    pub subject: String,
    /// What.
    pub what: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8} {}: {}", self.at, self.subject, self.what)
    }
}

/// All that happened, the newest last.
#[derive(Clone)]
pub(crate) struct Log {
    clock: Arc<dyn Clock>,
    began: Monotonic,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Log {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Log { began: clock.monotonic(), clock, events: Arc::default() }
    }

    pub(crate) fn say(&self, subject: &str, what: impl Into<String>) {
        let what = what.into();
        tracing::info!(target: "sim", subject, "{what}");
        let passed = self.clock.monotonic().since(self.began);
        let at = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() >= MOST {
            events.drain(..MOST / 2);
        }
        events.push(Event { at, subject: subject.to_owned(), what });
    }

    pub(crate) fn all(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
