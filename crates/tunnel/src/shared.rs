//! The streams of a session between those who hold them and the task that moves their bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use clock::{Clock, Monotonic};

use crate::message::Announcement;
use crate::mux::{Event, Mux};
use crate::names::{StreamId, Target};

/// What a session's task has to act on itself.
#[derive(Debug)]
pub(crate) enum Happened {
    Opened(StreamId, Target),
    Announced(Announcement),
    Withdrawn(Announcement),
}

/// Who waits for a stream.
#[derive(Debug, Default)]
struct Waiting {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) mux: Mux,
    waiting: BTreeMap<StreamId, Waiting>,
    driver: Option<Waker>,
    happened: Vec<Happened>,
    /// The session is to end.
    pub(crate) closing: bool,
    /// When something last came.
    pub(crate) heard: Monotonic,
}

/// One session, as all who have to do with it share it.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(mux: Mux, clock: Arc<dyn Clock>) -> Arc<Self> {
        let state = State {
            mux,
            waiting: BTreeMap::new(),
            driver: None,
            happened: Vec::new(),
            closing: false,
            heard: clock.monotonic(),
        };
        Arc::new(Shared { state: Mutex::new(state), clock })
    }

    /// The state, to look at.
    pub(crate) fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes who has waited for that: not before the lock is free again.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State, Monotonic) -> T) -> T {
        let now = self.clock.monotonic();
        let mut wake = Wake::default();
        let result = {
            let mut state = self.look();
            let result = change(&mut state, now);
            state.collect(&mut wake);
            result
        };
        wake.all();
        result
    }

    /// The same from outside of the session's task, which is woken if it has something to do then.
    pub(crate) fn change_and_drive<T>(&self, change: impl FnOnce(&mut State, Monotonic) -> T) -> T {
        let (result, driver) = self.change(|state, now| {
            let result = change(state, now);
            let busy = state.closing || state.mux.has_output();
            (result, busy.then(|| state.driver.take()).flatten())
        });
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }
}

impl State {
    pub(crate) fn wait_to_read(&mut self, id: StreamId, cx: &Context<'_>) {
        self.waiting.entry(id).or_default().reader = Some(cx.waker().clone());
    }

    pub(crate) fn wait_to_write(&mut self, id: StreamId, cx: &Context<'_>) {
        self.waiting.entry(id).or_default().writer = Some(cx.waker().clone());
    }

    pub(crate) fn wait_to_drive(&mut self, cx: &Context<'_>) {
        self.driver = Some(cx.waker().clone());
    }

    /// Nobody holds the stream any more.
    pub(crate) fn forget(&mut self, id: StreamId) {
        self.waiting.remove(&id);
    }

    pub(crate) fn take_happened(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.happened)
    }

    fn collect(&mut self, wake: &mut Wake) {
        let State { mux, waiting, happened, .. } = self;
        for event in mux.take_events() {
            match event {
                Event::Readable(id) => {
                    wake.add(waiting.get_mut(&id).and_then(|waiting| waiting.reader.take()))
                }
                Event::Writable(id) => {
                    wake.add(waiting.get_mut(&id).and_then(|waiting| waiting.writer.take()))
                }
                Event::Opened(id, target) => happened.push(Happened::Opened(id, target)),
                Event::Announced(announced) => happened.push(Happened::Announced(announced)),
                Event::Withdrawn(announced) => happened.push(Happened::Withdrawn(announced)),
            }
        }
    }
}

/// Wakers, mostly none or one.
#[derive(Default)]
struct Wake {
    first: Option<Waker>,
    more: Vec<Waker>,
}

impl Wake {
    fn add(&mut self, waker: Option<Waker>) {
        match (waker, &self.first) {
            (Some(waker), None) => self.first = Some(waker),
            (Some(waker), Some(_)) => self.more.push(waker),
            (None, _) => {}
        }
    }

    fn all(self) {
        self.first.into_iter().chain(self.more).for_each(Waker::wake);
    }
}
