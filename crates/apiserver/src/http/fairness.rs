//! Priority and fairness: one client's flood starves nobody.
//!
//! Clients are of four levels by who they are, each with seats of its own; within a level each user is a flow. A flow
//! that takes more than its share of the processors is slowed down while others ask. There are no FlowSchema and PriorityLevelConfiguration objects: [`Settings`](super::Settings) say it all.

mod queues;
mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::{Clock, Monotonic, RuntimeClock};
use jiff::Timestamp;
use kubeapi::Status;
use kubeapi::authn::{MASTERS, UNAUTHENTICATED, User};
use tokio::sync::oneshot;

pub use queues::Bounds;

use super::Settings;
use super::metrics::LevelMetrics;
use queues::{Arrival, Pace, Queues, Ticket};
use shares::{Rule, Shares};

/// When to come back, as upstream says it.
const RETRY_SECONDS: u32 = 1;

/// What a request costs beside the work on its answer: to read and parse it, to find out who asks, to encrypt and write
/// the answer. About what a small one takes; more for each byte that is received or sent. By what the process took for the flood of
/// `bench load`.
const OVERHEAD: Duration = Duration::from_micros(85);
const PER_BYTE: Duration = Duration::from_nanos(2);

/// Who is slowed down and has no more room to wait hears so only after a while: a flood of refusals is one, too.
const REFUSAL: Duration = Duration::from_millis(500);

/// What is said to who has to come back.
pub(super) fn too_many() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", RETRY_SECONDS)
}

/// What kind of client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Administrators and the service accounts of the system.
    System,
    /// Nodes.
    Nodes,
    /// Everybody else with credentials.
    Workload,
    /// Everybody without.
    Anonymous,
}

impl Level {
    /// All of them, in the order of their numbers.
    pub(super) const ALL: [Level; 4] = [Level::System, Level::Nodes, Level::Workload, Level::Anonymous];

    /// For labels.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Level::System => "system",
            Level::Nodes => "nodes",
            Level::Workload => "workload",
            Level::Anonymous => "anonymous",
        }
    }

    /// The level of a user.
    pub(super) fn of(user: &User) -> Level {
        let is_in = |groups: &[&str]| groups.iter().any(|group| user.is_in(group));
        match () {
            () if is_in(&[MASTERS, "system:serviceaccounts:kube-system"]) => Level::System,
            () if is_in(&["system:nodes"]) => Level::Nodes,
            () if is_in(&[UNAUTHENTICATED]) => Level::Anonymous,
            () => Level::Workload,
        }
    }
}

/// The seats of all levels.
#[derive(Debug)]
pub(super) struct Gate {
    levels: [Arc<Lane>; 4],
    wait: Duration,
}

#[derive(Debug)]
struct Lane {
    state: Mutex<State>,
    metrics: LevelMetrics,
    /// None where everybody may have all there is.
    processors: Option<Arc<Processors>>,
}

/// Whose the processors are.
#[derive(Debug)]
struct Processors {
    shares: Mutex<Shares>,
    clock: RuntimeClock,
    began: Monotonic,
}

impl Processors {
    fn new(count: usize) -> Self {
        let clock = RuntimeClock::starting_at(Timestamp::UNIX_EPOCH);
        Processors { shares: Mutex::new(Shares::new(count)), began: clock.monotonic(), clock }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Shares, Duration) -> T) -> T {
        let now = self.clock.monotonic().since(self.began);
        change(&mut self.shares.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

#[derive(Debug)]
struct State {
    queues: Queues,
    last: Ticket,
    /// Who waits is told by this when it is their turn; it is dropped if they have to go.
    waiting: BTreeMap<Ticket, oneshot::Sender<()>>,
    /// The flows for which a timer runs.
    timed: BTreeSet<Arc<str>>,
}

impl Gate {
    /// With what the settings grant, counted by `metrics`.
    pub(super) fn new(settings: &Settings, metrics: impl Fn(Level) -> LevelMetrics) -> Self {
        let processors = Arc::new(Processors::new(settings.processors));
        let levels = Level::ALL.map(|level| {
            let bounds = match level {
                Level::System => settings.system,
                Level::Nodes => settings.nodes,
                Level::Workload => settings.workload,
                Level::Anonymous => settings.anonymous,
            };
            let queues = Queues::new(bounds);
            let state = State { queues, last: 0, waiting: BTreeMap::new(), timed: BTreeSet::new() };
            // An administrator is nobody's equal: a restore of many objects is one flow.
            let processors = Some(processors.clone()).filter(|_| level != Level::System);
            Arc::new(Lane { state: Mutex::new(state), metrics: metrics(level), processors })
        });
        Gate { levels, wait: settings.wait }
    }

    /// Waits for the seats of a request of this width. They are held until the guard is dropped.
    ///
    /// # Errors
    /// 429 if too many wait already, or it takes too long.
    pub(super) async fn enter(&self, user: &User, width: usize) -> Result<Seat, Status> {
        let lane = &self.levels[Level::of(user) as usize];
        let (entered, rule) = lane.arrive(user.name.as_str().into(), width);
        let seat = match entered {
            None => {
                if rule != Rule::Freely {
                    tokio::time::sleep(REFUSAL).await;
                }
                None
            }
            Some(mut seat) => match tokio::time::timeout(self.wait, seat.turn()).await {
                Ok(true) => Some(seat),
                Ok(false) | Err(_) => None,
            },
        };
        seat.ok_or_else(|| {
            lane.metrics.rejected();
            too_many()
        })
    }
}

impl Lane {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut state);
        while let Some(ticket) = state.queues.next() {
            if let Some(sender) = state.waiting.remove(&ticket) {
                // Who does not listen any more gives the seats back when its guard is dropped.
                let _ = sender.send(());
            }
        }
        self.metrics.set(state.queues.held(), state.queues.waiting());
        changed
    }

    /// A place for a request, at work or in the queue; and how the flow's requests are worked on.
    fn arrive(self: &Arc<Self>, flow: Arc<str>, width: usize) -> (Option<Seat>, Rule) {
        let ask = |processors: &Arc<Processors>| processors.with(|shares, now| shares.ask(&flow, now));
        let rule = self.processors.as_ref().map_or(Rule::Freely, ask);
        let seat = self.change(|state| {
            state.last += 1;
            let ticket = state.last;
            let turn = match state.queues.arrive(&flow, ticket, width, pace(rule)) {
                Arrival::Refused => return None,
                Arrival::Runs => Turn::Come,
                Arrival::Waits { displaced } => {
                    displaced.and_then(|displaced| state.waiting.remove(&displaced));
                    let (sender, receiver) = oneshot::channel();
                    state.waiting.insert(ticket, sender);
                    Turn::ToCome(receiver)
                }
            };
            self.come_back(state, &flow, rule);
            Some(Seat { lane: self.clone(), flow: flow.clone(), width, ticket, turn, cost: OVERHEAD })
        });
        (seat, rule)
    }

    /// Has a flow go on when it may.
    fn come_back(self: &Arc<Self>, state: &mut State, flow: &Arc<str>, rule: Rule) {
        let Rule::NotBefore(wait) = rule else { return };
        if !state.queues.waits(flow) || !state.timed.insert(flow.clone()) {
            return;
        }
        // What is given up while the runtime goes down has nobody to wait for.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (lane, flow) = (self.clone(), flow.clone());
        runtime.spawn(async move {
            tokio::time::sleep(wait).await;
            lane.change(|state| {
                state.timed.remove(&flow);
                lane.follow(state, &flow);
            });
        });
    }

    /// Has a flow's requests worked on as they are to be by now.
    fn follow(self: &Arc<Self>, state: &mut State, flow: &Arc<str>) {
        let Some(processors) = &self.processors else { return };
        let rule = processors.with(|shares, now| shares.rule(flow, now));
        state.queues.set_pace(flow, pace(rule));
        self.come_back(state, flow, rule);
    }
}

fn pace(rule: Rule) -> Pace {
    match rule {
        Rule::Freely => Pace::Free,
        Rule::InTurn => Pace::Single,
        Rule::NotBefore(_) => Pace::Held,
    }
}

/// Whether it is a request's turn.
#[derive(Debug)]
enum Turn {
    Come,
    ToCome(oneshot::Receiver<()>),
    /// It had to go.
    Gone,
}

/// The place of a request: what it holds, or where it waits.
#[derive(Debug)]
pub(super) struct Seat {
    lane: Arc<Lane>,
    flow: Arc<str>,
    width: usize,
    ticket: Ticket,
    turn: Turn,
    /// Processor time.
    cost: Duration,
}

impl Seat {
    /// Waits; false if the request had to go.
    async fn turn(&mut self) -> bool {
        if let Turn::ToCome(turn) = &mut self.turn {
            self.turn = if turn.await.is_ok() { Turn::Come } else { Turn::Gone };
        }
        matches!(self.turn, Turn::Come)
    }

    /// Counts bytes that were received or are to be sent.
    pub(super) fn moved(&mut self, bytes: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.cost = self.cost.saturating_add(PER_BYTE.saturating_mul(bytes));
    }
}

/// Does the work on a request, and has its flow pay for it.
pub(super) async fn at_cost<F: Future>(seat: &mut Option<Seat>, work: F) -> F::Output {
    let Some(seat) = seat else { return work.await };
    let Some(processors) = seat.lane.processors.clone() else { return work.await };
    let mut work = pin!(work);
    poll_fn(|context| {
        let began = processors.clock.monotonic();
        let polled = work.as_mut().poll(context);
        seat.cost += processors.clock.monotonic().since(began);
        polled
    })
    .await
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Seat { lane, flow, width, ticket, turn, cost } = self;
        lane.change(|state| {
            // It may have been told, and not have heard it yet.
            let come = match turn {
                Turn::Come => true,
                Turn::Gone => return,
                Turn::ToCome(turn) => turn.try_recv().is_ok(),
            };
            if come {
                if let Some(processors) = &lane.processors {
                    processors.with(|shares, now| shares.charge(flow, *cost, now));
                }
                state.queues.finish(flow, *width);
                lane.follow(state, flow);
            } else if state.waiting.remove(ticket).is_some() {
                state.queues.give_up(flow, *ticket);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::http::metrics::Metrics;

    fn user(name: &str, group: &str) -> User {
        User { name: name.into(), groups: vec![group.into()], ..User::default() }
    }

    fn gate(bounds: Bounds) -> (Gate, Metrics) {
        let metrics = Metrics::default();
        let settings = Settings { workload: bounds, ..Settings::default() };
        (Gate::new(&settings, |level| metrics.level(level)), metrics)
    }

    #[test]
    fn groups_make_the_level() {
        for (group, level) in [
            (MASTERS, Level::System),
            ("system:serviceaccounts:kube-system", Level::System),
            ("system:nodes", Level::Nodes),
            (UNAUTHENTICATED, Level::Anonymous),
            ("system:serviceaccounts:default", Level::Workload),
        ] {
            assert_eq!(Level::of(&user("u", group)), level, "{group}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_sent_away() {
        let (gate, _) = gate(Bounds { seats: 1, flow_seats: 1, flow_queue: 1, queue: 1 });
        let held = gate.enter(&user("a", ""), 1).await.unwrap();
        assert_eq!(gate.enter(&user("b", ""), 1).await.unwrap_err(), too_many());
        drop(held);
        assert!(gate.enter(&user("b", ""), 1).await.is_ok());
        // Other levels are not concerned.
        let _held = gate.enter(&user("a", ""), 1).await.unwrap();
        assert!(gate.enter(&user("n", "system:nodes"), 1).now_or_never().unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn seats_come_back_however_a_request_ends() {
        let (gate, _) = gate(Bounds { seats: 1, flow_seats: 1, flow_queue: 2, queue: 2 });
        let (a, b) = (user("a", ""), user("b", ""));
        let first = gate.enter(&a, 1).await.unwrap();
        // One that is given up while it waits, and one that is given up after it was told.
        let mut waits = Box::pin(gate.enter(&a, 1));
        assert!(waits.as_mut().now_or_never().is_none());
        let mut told = Box::pin(gate.enter(&b, 1));
        assert!(told.as_mut().now_or_never().is_none());
        drop(waits);
        drop(first);
        drop(told);
        assert!(gate.enter(&a, 1).now_or_never().unwrap().is_ok());
        let state = gate.levels[Level::Workload as usize].state.lock().unwrap();
        assert_eq!((state.queues.held(), state.queues.waiting(), state.waiting.len()), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_queue_gives_way() {
        let (gate, _) = gate(Bounds { seats: 1, flow_seats: 1, flow_queue: 2, queue: 2 });
        let _held = gate.enter(&user("a", ""), 1).await.unwrap();
        let flood = user("a", "");
        let mut second = Box::pin(gate.enter(&flood, 1));
        let mut third = Box::pin(gate.enter(&flood, 1));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        let other = user("b", "");
        let mut good = Box::pin(gate.enter(&other, 1));
        assert!(good.as_mut().now_or_never().is_none());
        assert_eq!(third.now_or_never().unwrap().unwrap_err(), too_many());
    }
}
