//! Who is next: seats, and queues for them, one for each flow. Pure; the clock of fairness counts seats.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How much one level of clients gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Requests that are worked on at once; one that costs more counts as several.
    pub seats: usize,
    /// The most of these for one flow, so that its slow requests leave room for others.
    pub flow_seats: usize,
    /// The most requests of one flow that wait.
    pub flow_queue: usize,
    /// The most requests that wait.
    pub queue: usize,
}

/// The number of a request, given by the caller.
pub(super) type Ticket = u64;

/// What happens to a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It has its seats.
    Runs,
    /// It waits. If there was no room left, the last of the longest queue had to go.
    Waits { displaced: Option<Ticket> },
    /// There is no room for it.
    Refused,
}

/// How many requests of a flow may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pace {
    /// As many as there are seats for one flow.
    #[default]
    Free,
    /// One at a time.
    Single,
    /// None for now.
    Held,
}

#[derive(Debug, Default)]
struct Flow {
    pace: Pace,
    /// Seats it was given so far, as the clock of fairness counts them.
    time: u64,
    held: usize,
    waiting: VecDeque<(Ticket, usize)>,
}

impl Flow {
    fn may_start(&self, width: usize, most: usize) -> bool {
        match self.pace {
            Pace::Free => self.held + width <= most,
            Pace::Single => self.held == 0,
            Pace::Held => false,
        }
    }
}

/// The seats of one level and who waits for them.
///
/// The flow that was given the least is next, so that flows with requests share alike, however many requests they
/// have and however much each costs. Who comes back after a pause is not paid for it.
#[derive(Debug)]
pub(super) struct Queues {
    bounds: Bounds,
    held: usize,
    waiting: usize,
    now: u64,
    flows: BTreeMap<Arc<str>, Flow>,
    /// The flows whose first request could run if there were seats, by their time.
    ready: BTreeSet<(u64, Arc<str>)>,
}

impl Queues {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (flows, ready) = (BTreeMap::new(), BTreeSet::new());
        Queues { bounds, held: 0, waiting: 0, now: 0, flows, ready }
    }

    /// Seats in use.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// What a request of this width counts as: no request is too wide to ever run.
    fn fitted(&self, width: usize) -> usize {
        width.clamp(1, self.bounds.flow_seats.min(self.bounds.seats).max(1))
    }

    /// Whether requests of a flow wait.
    pub(super) fn waits(&self, flow: &str) -> bool {
        self.flows.get(flow).is_some_and(|flow| !flow.waiting.is_empty())
    }

    /// Says how many requests of a flow may run from now on, as long as it has any.
    pub(super) fn set_pace(&mut self, flow: &Arc<str>, pace: Pace) {
        self.change(flow, |flow| flow.pace = pace);
    }

    /// A request of a flow arrives. If it waits, [`Queues::next`] says when it runs.
    pub(super) fn arrive(&mut self, flow: &Arc<str>, ticket: Ticket, width: usize, pace: Pace) -> Arrival {
        let width = self.fitted(width);
        let own = self.flows.get(flow).map_or(0, |flow| flow.waiting.len());
        if own > 0 && own >= self.bounds.flow_queue {
            return Arrival::Refused;
        }
        self.push(flow, ticket, width, pace);
        if self.ready.first().is_some_and(|(_, first)| first == flow) && own == 0 && self.fits(width) {
            self.start(flow);
            return Arrival::Runs;
        }
        if self.waiting <= self.bounds.queue {
            return Arrival::Waits { displaced: None };
        }
        match self.displace() {
            Some(displaced) if displaced == ticket => Arrival::Refused,
            displaced => Arrival::Waits { displaced },
        }
    }

    /// A request that waits may run now: its number. Ask until there is none.
    pub(super) fn next(&mut self) -> Option<Ticket> {
        let (_, flow) = self.ready.first()?;
        let flow = flow.clone();
        let (_, width) = *self.flows.get(&flow)?.waiting.front()?;
        // It is its turn, so others wait with it until there are seats enough.
        self.fits(width).then(|| self.start(&flow)).flatten()
    }

    /// A request that ran is done.
    pub(super) fn finish(&mut self, flow: &Arc<str>, width: usize) {
        let width = self.fitted(width);
        self.held = self.held.saturating_sub(width);
        self.change(flow, |flow| flow.held = flow.held.saturating_sub(width));
    }

    /// A request that waits is given up.
    pub(super) fn give_up(&mut self, flow: &Arc<str>, ticket: Ticket) {
        let mut gone = 0;
        self.change(flow, |flow| {
            let before = flow.waiting.len();
            flow.waiting.retain(|(waiting, _)| *waiting != ticket);
            gone = before - flow.waiting.len();
        });
        self.waiting -= gone;
    }

    fn fits(&self, width: usize) -> bool {
        self.held + width <= self.bounds.seats.max(1)
    }

    fn push(&mut self, flow: &Arc<str>, ticket: Ticket, width: usize, pace: Pace) {
        let now = self.now;
        self.change(flow, |flow| {
            if flow.waiting.is_empty() {
                flow.time = flow.time.max(now);
            }
            flow.pace = pace;
            flow.waiting.push_back((ticket, width));
        });
        self.waiting += 1;
    }

    /// Gives the first request of a flow its seats.
    fn start(&mut self, flow: &Arc<str>) -> Option<Ticket> {
        let mut started = None;
        let mut time = self.now;
        self.change(flow, |flow| {
            started = flow.waiting.pop_front();
            let width = started.map_or(0, |(_, width)| width);
            time = flow.time;
            flow.time += width as u64;
            flow.held += width;
        });
        let (ticket, width) = started?;
        self.now = self.now.max(time);
        self.waiting -= 1;
        self.held += width;
        Some(ticket)
    }

    /// Takes the last request off the longest queue.
    fn displace(&mut self) -> Option<Ticket> {
        let longest = self.flows.iter().max_by_key(|(_, flow)| flow.waiting.len())?.0.clone();
        let mut displaced = None;
        self.change(&longest, |flow| displaced = flow.waiting.pop_back());
        self.waiting -= usize::from(displaced.is_some());
        displaced.map(|(ticket, _)| ticket)
    }

    /// Changes a flow and keeps the rest in step with it. A flow without requests is forgotten.
    fn change(&mut self, name: &Arc<str>, change: impl FnOnce(&mut Flow)) {
        let flow = self.flows.entry(name.clone()).or_default();
        self.ready.remove(&(flow.time, name.clone()));
        change(flow);
        match flow.waiting.front() {
            Some((_, width)) if flow.may_start(*width, self.bounds.flow_seats.max(1)) => {
                self.ready.insert((flow.time, name.clone()));
            }
            None if flow.held == 0 => drop(self.flows.remove(name)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
