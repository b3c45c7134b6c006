//! One rule, one test.

use std::time::Duration;

use bytes::Bytes;
use clock::{Clock as _, ManualClock, Monotonic};
use jiff::Timestamp;
use tunnel::message::{Message, Reason};
use tunnel::mux::{Event, Limits, Mux, Read, Refused, Role, Written};
use tunnel::{StreamId, Target};

struct World {
    mux: Mux,
    clock: ManualClock,
}

impl World {
    fn new(role: Role) -> Self {
        World::with(role, Limits::default())
    }

    fn with(role: Role, limits: Limits) -> Self {
        World { mux: Mux::new(role, limits, 0), clock: ManualClock::at(Timestamp::UNIX_EPOCH) }
    }

    fn now(&self) -> Monotonic {
        self.clock.monotonic()
    }

    fn open(&mut self) -> StreamId {
        let now = self.now();
        self.mux.open(Target::tcp("a:1"), now).expect("there is room")
    }

    /// A stream that is open and whose Connect is sent.
    fn opened(&mut self) -> StreamId {
        let id = self.open();
        self.sent();
        id
    }

    fn receive(&mut self, message: Message) {
        let now = self.now();
        self.mux.receive(message, |target| target.address != "denied:1", now);
    }

    fn data(&mut self, id: StreamId, length: usize) {
        self.receive(Message::Data(id, Bytes::from(vec![7; length])));
    }

    fn error(&mut self, id: StreamId, text: &str) {
        let reason = if text == "EOF" { Reason::Eof } else { Reason::failed(text) };
        self.receive(Message::Error(id, reason));
    }

    fn write(&mut self, id: StreamId, length: usize) -> Written {
        let now = self.now();
        self.mux.write(id, &vec![9; length], now)
    }

    fn finish(&mut self, id: StreamId) {
        let now = self.now();
        self.mux.finish(id, Reason::Eof, now);
    }

    fn release(&mut self, id: StreamId) {
        let now = self.now();
        self.mux.release(id, now);
    }

    /// All that is to be sent, in order.
    fn sent(&mut self) -> Vec<Message> {
        let now = self.now();
        std::iter::from_fn(|| self.mux.next(now))
            .map(|bytes| Message::decode(bytes).expect("a message"))
            .collect()
    }

    fn events(&mut self) -> Vec<Event> {
        self.mux.take_events().collect()
    }

    fn tick(&mut self, after: Duration) {
        self.clock.advance(after);
        let now = self.now();
        self.mux.tick(now);
    }
}

fn failed(id: StreamId, text: &str) -> Message {
    Message::Error(id, Reason::failed(text))
}

fn eof(id: StreamId) -> Message {
    Message::Error(id, Reason::Eof)
}

#[test]
fn the_two_sides_number_their_streams_apart() {
    let (mut server, mut client) = (World::new(Role::Server), World::new(Role::Client));
    assert_eq!([server.open(), server.open()], [StreamId(2), StreamId(4)]);
    assert_eq!([client.open(), client.open()], [StreamId(1), StreamId(3)]);
    assert_eq!(server.sent()[0], Message::Connect(StreamId(2), Target::tcp("a:1")));
}

#[test]
fn a_denied_connect_is_one_streams_trouble() {
    let mut world = World::new(Role::Client);
    world.receive(Message::Connect(StreamId(2), Target::tcp("denied:1")));
    world.receive(Message::Connect(StreamId(3), Target::tcp("good:1")));
    assert_eq!(world.events(), [Event::Opened(StreamId(3), Target::tcp("good:1"))]);
    assert_eq!(world.sent(), [failed(StreamId(2), "connect not allowed")]);
    assert!(!world.mux.is_ended());
}

#[test]
fn a_second_stream_of_a_number_ends_both() {
    let mut world = World::new(Role::Client);
    world.receive(Message::Connect(StreamId(2), Target::tcp("a:1")));
    world.receive(Message::Connect(StreamId(2), Target::tcp("b:1")));
    assert_eq!(world.sent(), [failed(StreamId(2), "a second stream of the same number")]);
    assert_eq!(world.write(StreamId(2), 1), Written::Closed);
}

#[test]
fn bytes_of_unknown_streams_are_answered_and_ends_are_not() {
    let mut world = World::new(Role::Server);
    world.data(StreamId(9), 1);
    world.error(StreamId(9), "x");
    world.receive(Message::Pause(StreamId(9)));
    world.receive(Message::Resume(StreamId(9)));
    assert_eq!(world.sent(), [failed(StreamId(9), "connection not found")]);
}

#[test]
fn control_goes_first_and_streams_take_turns() {
    let mut world = World::with(Role::Server, Limits { chunk: 10, ..Limits::default() });
    let (one, two) = (world.opened(), world.opened());
    world.write(one, 25);
    world.write(two, 15);
    world.open();
    let sent = world.sent();
    assert!(matches!(sent[0], Message::Connect(..)), "{:?}", sent[0]);
    let data = sent.iter().filter_map(|message| match message {
        Message::Data(id, bytes) => Some((*id, bytes.len())),
        _ => None,
    });
    assert_eq!(data.collect::<Vec<_>>(), [(one, 10), (two, 10), (one, 10), (two, 5), (one, 5)]);
}

#[test]
fn a_writer_waits_when_too_much_is_unsent() {
    let mut world = World::with(Role::Server, Limits { unsent: 10, chunk: 4, ..Limits::default() });
    let id = world.opened();
    assert_eq!(world.write(id, 25), Written::Taken(10));
    assert_eq!(world.write(id, 25), Written::Full);
    let now = world.now();
    world.mux.next(now);
    assert_eq!(world.events(), [], "not for every message");
    world.mux.next(now);
    assert_eq!(world.events(), [Event::Writable(id)]);
    assert_eq!(world.write(id, 25), Written::Taken(8));
}

#[test]
fn a_reader_that_stalls_pauses_its_own_stream() {
    let limits = Limits { pause_above: 100, resume_below: 50, unread: 1000, ..Limits::default() };
    let mut world = World::with(Role::Server, limits);
    let (slow, quick) = (world.opened(), world.opened());
    world.data(slow, 100);
    assert_eq!(world.sent(), []);
    world.data(slow, 1);
    assert_eq!(world.sent(), [Message::Pause(slow)]);
    world.data(quick, 10);
    assert!(matches!(world.mux.read(quick), Read::Bytes(bytes) if bytes.len() == 10));
    assert!(matches!(world.mux.read(slow), Read::Bytes(_)));
    assert_eq!(world.sent(), [Message::Resume(slow)]);
}

#[test]
fn who_does_not_pause_is_told_again_and_then_cut_off() {
    let limits = Limits { pause_above: 100, resume_below: 50, unread: 300, ..Limits::default() };
    let mut world = World::with(Role::Server, limits);
    let (id, other) = (world.opened(), world.opened());
    world.data(id, 120);
    world.data(id, 30);
    assert_eq!(world.sent(), [Message::Pause(id)]);
    world.data(id, 30);
    assert_eq!(world.sent(), [Message::Pause(id)], "half as much again came");
    world.data(id, 150);
    assert_eq!(world.sent(), [failed(id, "too much was sent in spite of a pause")]);
    // What came can be read, then the error.
    assert!(matches!(world.mux.read(id), Read::Bytes(bytes) if bytes.len() == 330));
    assert!(matches!(world.mux.read(id), Read::Ended(Reason::Failed(_))));
    assert_eq!(world.write(other, 1), Written::Taken(1), "others go on");
}

#[test]
fn the_two_pauses_are_independent_and_ours_is_repeated() {
    let limits = Limits { pause_above: 100, resume_below: 50, ..Limits::default() };
    let mut world = World::with(Role::Server, limits);
    let id = world.opened();
    world.receive(Message::Pause(id));
    world.data(id, 200);
    assert_eq!(world.sent(), [Message::Pause(id)]);
    world.write(id, 5);
    assert_eq!(world.sent(), [], "they asked us to wait");
    // Go forgets our pause when it says this.
    world.receive(Message::Resume(id));
    assert!(matches!(&world.sent()[..], [Message::Pause(_), Message::Data(_, bytes)] if bytes.len() == 5));
    world.receive(Message::Resume(id));
    world.mux.read(id);
    assert_eq!(world.sent(), [Message::Pause(id), Message::Resume(id)]);
}

#[test]
fn an_end_comes_after_all_bytes_and_each_side_says_it_once() {
    let mut world = World::new(Role::Server);
    let id = world.opened();
    world.write(id, 5);
    world.finish(id);
    assert_eq!(world.write(id, 1), Written::Closed);
    assert!(matches!(&world.sent()[..], [Message::Data(..), Message::Error(_, Reason::Eof)]));
    world.data(id, 3);
    world.error(id, "EOF");
    world.error(id, "EOF");
    assert!(matches!(world.mux.read(id), Read::Bytes(bytes) if bytes.len() == 3), "half-closed");
    assert_eq!(world.mux.read(id), Read::Ended(Reason::Eof));
    world.release(id);
    assert_eq!(world.sent(), []);
    assert!(world.mux.is_empty());
}

#[test]
fn their_end_leaves_our_direction_open() {
    let mut world = World::new(Role::Server);
    let id = world.opened();
    world.error(id, "EOF");
    assert_eq!(world.write(id, 5), Written::Taken(5));
    world.release(id);
    assert!(matches!(&world.sent()[..], [Message::Data(..), Message::Error(_, Reason::Eof)]));
    assert!(world.mux.is_empty());
}

#[test]
fn an_error_ends_both_directions_and_is_echoed_once() {
    let mut world = World::new(Role::Server);
    let id = world.opened();
    world.data(id, 3);
    world.write(id, 5);
    world.error(id, "connection refused");
    world.error(id, "EOF");
    assert_eq!(world.sent(), [failed(id, "connection refused")]);
    assert!(matches!(world.mux.read(id), Read::Bytes(_)), "what came before it");
    assert_eq!(world.mux.read(id), Read::Ended(Reason::failed("connection refused")));
    assert_eq!(world.write(id, 1), Written::Closed);
    world.release(id);
    assert!(world.mux.is_empty());
}

#[test]
fn an_error_after_an_end_is_echoed_too() {
    let mut world = World::new(Role::Server);
    let id = world.opened();
    world.error(id, "EOF");
    world.write(id, 5);
    world.error(id, "connection not found");
    assert_eq!(world.sent(), [failed(id, "connection not found")]);
    assert_eq!(world.mux.read(id), Read::Ended(Reason::Eof));
}

#[test]
fn bytes_for_nobody_are_refused_once() {
    let mut world = World::new(Role::Server);
    let id = world.opened();
    world.release(id);
    assert_eq!(world.sent(), [eof(id)]);
    world.data(id, 10);
    world.data(id, 10);
    assert_eq!(world.sent(), [failed(id, "nobody reads this any more")]);
    world.error(id, "nobody reads this any more");
    assert!(world.mux.is_empty());
}

#[test]
fn a_stream_that_nobody_holds_does_not_stay() {
    let mut world = World::new(Role::Server);
    let id = world.opened();
    world.receive(Message::Pause(id));
    world.write(id, 10);
    world.release(id);
    assert_eq!(world.sent(), [], "they asked us to wait");
    world.tick(Duration::from_secs(29));
    assert_eq!(world.mux.len(), 1);
    world.tick(Duration::from_secs(1));
    assert!(world.mux.is_empty());
    assert_eq!(world.sent(), [failed(id, "one end of the stream did not come")]);
}

#[test]
fn half_a_stream_that_is_silent_does_not_stay() {
    let mut world = World::new(Role::Server);
    let (half, whole) = (world.opened(), world.opened());
    world.error(half, "EOF");
    world.tick(Duration::from_secs(100));
    world.write(half, 1);
    world.tick(Duration::from_secs(100));
    assert_eq!(world.write(half, 1), Written::Taken(1), "it was not silent");
    world.tick(Duration::from_secs(120));
    assert_eq!(world.write(half, 1), Written::Closed);
    assert_eq!(world.write(whole, 1), Written::Taken(1), "a whole one may be silent for ever");
}

#[test]
fn a_new_stream_survives_a_list_that_was_under_way() {
    let mut world = World::new(Role::Server);
    let old = world.opened();
    let new = world.opened();
    world.receive(Message::Sync(vec![old]));
    world.receive(Message::Sync(vec![old]));
    assert_eq!(world.write(new, 1), Written::Taken(1), "both lists were under way");
    world.clock.advance(Duration::from_secs(60));
    world.receive(Message::Sync(vec![old, new]));
    world.receive(Message::Sync(vec![new]));
    assert_eq!(world.write(old, 1), Written::Taken(1), "missing once");
    world.clock.advance(Duration::from_secs(60));
    world.receive(Message::Sync(vec![new]));
    assert_eq!(world.write(old, 1), Written::Closed, "missing still");
    assert!(matches!(world.mux.read(old), Read::Ended(Reason::Failed(_))));
    assert_eq!(world.write(new, 1), Written::Taken(1));
}

#[test]
fn streams_are_listed_in_order() {
    let mut world = World::new(Role::Client);
    for id in [7, 3, 5] {
        world.receive(Message::Connect(StreamId(id), Target::tcp("a:1")));
    }
    world.mux.list_streams();
    assert_eq!(world.sent(), [Message::Sync(vec![StreamId(3), StreamId(5), StreamId(7)])]);
}

#[test]
fn streams_are_limited_both_ways() {
    let mut world = World::with(Role::Server, Limits { streams: 2, ..Limits::default() });
    world.opened();
    world.receive(Message::Connect(StreamId(1), Target::tcp("a:1")));
    let now = world.now();
    assert_eq!(world.mux.open(Target::tcp("a:1"), now), Err(Refused::TooMany(2)));
    world.receive(Message::Connect(StreamId(3), Target::tcp("a:1")));
    assert_eq!(world.sent(), [failed(StreamId(3), "too many streams")]);
    let long = Target::tcp("a".repeat(300));
    assert_eq!(world.mux.open(long.clone(), now), Err(Refused::TooLong(long)));
}

#[test]
fn no_more_is_received_while_too_many_answers_wait() {
    let mut world = World::with(Role::Server, Limits { control: 3, ..Limits::default() });
    for id in 0..3 {
        assert!(world.mux.wants_input());
        world.data(StreamId(100 + id), 1);
    }
    assert!(!world.mux.wants_input());
    world.sent();
    assert!(world.mux.wants_input());
}

#[test]
fn the_end_of_a_session_is_every_streams_end() {
    let mut world = World::new(Role::Server);
    let id = world.opened();
    world.data(id, 3);
    world.mux.end("tunnel disconnect");
    assert!(matches!(world.mux.read(id), Read::Bytes(_)), "what came can be read");
    assert_eq!(world.mux.read(id), Read::Ended(Reason::failed("tunnel disconnect")));
    assert_eq!(world.write(id, 1), Written::Closed);
    let now = world.now();
    assert_eq!(world.mux.open(Target::tcp("a:1"), now), Err(Refused::Ended));
    world.release(id);
    assert!(world.mux.is_empty() && world.mux.is_ended());
}
