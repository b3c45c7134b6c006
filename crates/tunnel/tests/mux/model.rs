//! Two sessions and a wire, in any order of everything: bytes arrive once and in order, and nothing stays.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use clock::{Clock as _, ManualClock, Monotonic};
use jiff::Timestamp;
use proptest::prelude::*;
use tunnel::message::{Message, Reason};
use tunnel::mux::{Event, Limits, Mux, Read, Role, Written};
use tunnel::{StreamId, Target};

/// Tiny, so that every bound is met all the time.
const LIMITS: Limits = Limits {
    streams: 6,
    chunk: 7,
    unsent: 20,
    pause_above: 30,
    resume_below: 15,
    unread: usize::MAX,
    control: 4,
    absent: Duration::from_secs(10),
    linger: Duration::from_secs(30),
    half_closed: Duration::from_secs(120),
};

/// One thing that happens. Numbers choose a side and a stream.
#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Write(usize, usize, usize),
    Read(usize, usize),
    Finish(usize, usize),
    Fail(usize, usize),
    Release(usize, usize),
    /// A message leaves.
    Send(usize),
    /// A message arrives.
    Deliver(usize),
    List(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let side = || 0usize..2;
    let stream = || 0usize..6;
    prop::collection::vec(
        prop_oneof![
            2 => side().prop_map(Step::Open),
            8 => (side(), stream(), 0usize..50).prop_map(|(side, stream, length)| Step::Write(side, stream, length)),
            6 => (side(), stream()).prop_map(|(side, stream)| Step::Read(side, stream)),
            1 => (side(), stream()).prop_map(|(side, stream)| Step::Finish(side, stream)),
            1 => (side(), stream()).prop_map(|(side, stream)| Step::Fail(side, stream)),
            1 => (side(), stream()).prop_map(|(side, stream)| Step::Release(side, stream)),
            12 => side().prop_map(Step::Send),
            12 => side().prop_map(Step::Deliver),
            1 => side().prop_map(Step::List),
        ],
        0..250,
    )
}

/// What one side did and saw of a stream.
#[derive(Debug, Default)]
struct Seen {
    written: Vec<u8>,
    read: Vec<u8>,
    ended: Option<Reason>,
    /// It said its end, and how.
    finished: Option<Reason>,
    released: bool,
}

struct World {
    sides: [Mux; 2],
    /// What is under way to each side.
    wires: [VecDeque<Bytes>; 2],
    seen: [BTreeMap<StreamId, Seen>; 2],
    clock: ManualClock,
}

impl World {
    fn new() -> Self {
        World {
            sides: [Mux::new(Role::Server, LIMITS, 0), Mux::new(Role::Client, LIMITS, 0)],
            wires: Default::default(),
            seen: Default::default(),
            clock: ManualClock::at(Timestamp::UNIX_EPOCH),
        }
    }

    fn now(&self) -> Monotonic {
        self.clock.monotonic()
    }

    fn pick(&self, side: usize, which: usize) -> Option<StreamId> {
        let held: Vec<_> =
            self.seen[side].iter().filter(|(_, seen)| !seen.released).map(|(id, _)| *id).collect();
        held.get(which.checked_rem(held.len())?).copied()
    }

    fn step(&mut self, step: &Step) {
        let now = self.now();
        match *step {
            Step::Open(side) => {
                if let Ok(id) = self.sides[side].open(Target::tcp("a:1"), now) {
                    self.seen[side].insert(id, Seen::default());
                }
            }
            Step::Write(side, which, length) => {
                if let Some(id) = self.pick(side, which) {
                    self.write(side, id, length);
                }
            }
            Step::Read(side, which) => {
                if let Some(id) = self.pick(side, which) {
                    self.read(side, id);
                }
            }
            Step::Finish(side, which) => self.finish(side, which, Reason::Eof),
            Step::Fail(side, which) => self.finish(side, which, Reason::failed("it broke")),
            Step::Release(side, which) => {
                if let Some(id) = self.pick(side, which) {
                    self.sides[side].release(id, now);
                    self.seen[side].entry(id).or_default().released = true;
                }
            }
            Step::Send(side) => {
                self.send(side);
            }
            Step::Deliver(side) => {
                self.deliver(side);
            }
            Step::List(side) => self.sides[side].list_streams(),
        }
    }

    fn write(&mut self, side: usize, id: StreamId, length: usize) {
        let now = self.now();
        let seen = self.seen[side].entry(id).or_default();
        let bytes: Vec<u8> = (0..length).map(|at| (seen.written.len() + at) as u8).collect();
        if let Written::Taken(taken) = self.sides[side].write(id, &bytes, now) {
            seen.written.extend(&bytes[..taken]);
        }
    }

    fn finish(&mut self, side: usize, which: usize, reason: Reason) {
        let now = self.now();
        if let Some(id) = self.pick(side, which) {
            self.sides[side].finish(id, reason.clone(), now);
            self.seen[side].entry(id).or_default().finished.get_or_insert(reason);
        }
    }

    /// Whether there was anything.
    fn read(&mut self, side: usize, id: StreamId) -> bool {
        let seen = self.seen[side].entry(id).or_default();
        match self.sides[side].read(id) {
            Read::Bytes(bytes) => {
                assert!(seen.ended.is_none(), "bytes after the end");
                seen.read.extend(bytes);
                true
            }
            Read::Nothing => false,
            Read::Ended(reason) => {
                seen.ended = Some(reason);
                false
            }
        }
    }

    fn send(&mut self, side: usize) -> bool {
        let now = self.now();
        let Some(message) = self.sides[side].next(now) else { return false };
        self.wires[1 - side].push_back(message);
        true
    }

    fn deliver(&mut self, side: usize) -> bool {
        if !self.sides[side].wants_input() {
            return false;
        }
        let now = self.now();
        let Some(bytes) = self.wires[side].pop_front() else { return false };
        self.sides[side].receive(Message::decode(bytes).expect("a message"), |_| true, now);
        let events: Vec<_> = self.sides[side].take_events().collect();
        for event in events {
            if let Event::Opened(id, _) = event {
                self.seen[side].insert(id, Seen::default());
            }
        }
        true
    }

    /// Lets everything under way arrive, and everybody read what there is.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            for side in 0..2 {
                moved |= self.send(side) | self.deliver(side);
                let held: Vec<_> =
                    self.seen[side].iter().filter(|(_, seen)| !seen.released).map(|(id, _)| *id).collect();
                for id in held {
                    moved |= self.read(side, id);
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn check(&self) {
        for side in 0..2 {
            for (id, seen) in &self.seen[side] {
                let Some(other) = self.seen[1 - side].get(id) else { continue };
                assert!(other.written.starts_with(&seen.read), "stream {id}: not what was written");
                if seen.ended == Some(Reason::Eof) {
                    assert_eq!(seen.read, other.written, "stream {id}: an end before all bytes");
                }
            }
            let totals = self.sides[side].totals();
            assert!(totals.most_unsent <= LIMITS.unsent, "{totals:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn bytes_arrive_once_and_in_order(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.settle();
        world.check();
        // Whoever did not end well heard of an error or has said one himself.
        for side in 0..2 {
            for (id, seen) in &world.seen[side] {
                let Some(other) = world.seen[1 - side].get(id) else { continue };
                let clean = [seen, other].iter().all(|one| one.finished.is_none() && !one.released);
                prop_assert!(!clean || seen.read == other.written, "stream {} lost bytes", id);
                prop_assert!(!clean || seen.ended.is_none(), "stream {} ended by itself", id);
            }
        }
    }

    #[test]
    fn nothing_stays(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.settle();
        for side in 0..2 {
            while let Some(id) = world.pick(side, 0) {
                let now = world.now();
                world.sides[side].release(id, now);
                world.seen[side].entry(id).or_default().released = true;
            }
        }
        world.settle();
        world.check();
        prop_assert!(world.sides.iter().all(Mux::is_empty), "{:?}", world.sides.each_ref().map(Mux::view));
    }

    #[test]
    fn any_messages_are_survived(messages in prop::collection::vec(any_message(), 0..300), role: bool) {
        let role = if role { Role::Server } else { Role::Client };
        let limits = Limits { unread: 200, ..LIMITS };
        let mut mux = Mux::new(role, limits, 0);
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let now = clock.monotonic();
        for (index, message) in messages.into_iter().enumerate() {
            if index % 7 == 0 {
                let _ = mux.open(Target::tcp("a:1"), now);
            }
            mux.receive(message, |_| true, now);
            prop_assert!(mux.len() <= limits.streams);
            // One message more than the bound may be there.
            prop_assert!(mux.totals().most_unread <= limits.unread + 64);
            while !mux.wants_input() {
                mux.next(now);
            }
        }
    }
}

fn any_message() -> impl Strategy<Value = Message> {
    let id = || (0i64..12).prop_map(StreamId);
    prop_oneof![
        4 => (id(), 0usize..64).prop_map(|(id, length)| Message::Data(id, vec![1; length].into())),
        2 => id().prop_map(|id| Message::Connect(id, Target::tcp("a:1"))),
        1 => id().prop_map(|id| Message::Error(id, Reason::Eof)),
        1 => id().prop_map(|id| Message::Error(id, Reason::failed("x"))),
        1 => id().prop_map(Message::Pause),
        1 => id().prop_map(Message::Resume),
        1 => prop::collection::vec(id(), 0..6).prop_map(Message::Sync),
    ]
}
