//! The reverse tunnel: what the other side may send.

use std::time::Duration;

use ::tunnel::message::{Message, Reason};
use ::tunnel::mux::{Limits, Mux, Role};
use ::tunnel::{StreamId, Target};
use bytes::Bytes;
use clock::{Clock as _, ManualClock};
use jiff::Timestamp;

/// Small enough for a few bytes to meet every one of them.
const LIMITS: Limits = Limits {
    streams: 8,
    chunk: 16,
    unsent: 64,
    pause_above: 64,
    resume_below: 32,
    unread: 512,
    control: 8,
    absent: Duration::from_secs(10),
    linger: Duration::from_secs(30),
    half_closed: Duration::from_secs(120),
};

/// One message; what is read can be written, and is read as the same.
pub(crate) fn message(bytes: &[u8]) {
    if let Ok(message) = Message::decode(Bytes::copy_from_slice(bytes)) {
        assert_eq!(Message::decode(message.encode(1)), Ok(message));
    }
}

/// A session: messages that come, mixed with what the holders of streams do. Each step is a byte that says what, and one
/// that says which or how long.
pub(crate) fn session(bytes: &[u8]) {
    let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
    let role = if bytes.len().is_multiple_of(2) { Role::Server } else { Role::Client };
    let mut mux = Mux::new(role, LIMITS, 0);
    let mut rest = bytes;
    while let [what, which, after @ ..] = rest {
        rest = after;
        let now = clock.monotonic();
        let stream = StreamId(i64::from(which % 16));
        match what % 10 {
            0 => drop(mux.open(Target::tcp("a:1"), now)),
            1 => drop(mux.write(stream, &vec![1; usize::from(*which)], now)),
            2 => drop(mux.read(stream)),
            3 => mux.finish(stream, Reason::Eof, now),
            4 => mux.release(stream, now),
            5 => {
                clock.advance(Duration::from_secs((*which).into()));
                mux.tick(clock.monotonic());
            }
            6 => {
                if let Some(sent) = mux.next(now) {
                    Message::decode(sent).expect("what we send can be read");
                }
            }
            _ => {
                let (frame, after) = rest.split_at(rest.len().min(usize::from(*which)));
                rest = after;
                if let (true, Ok(message)) =
                    (mux.wants_input(), Message::decode(Bytes::copy_from_slice(frame)))
                {
                    mux.receive(message, |target| target.proto == "tcp", now);
                }
            }
        }
        mux.take_events().for_each(drop);
        let totals = mux.totals();
        assert!(mux.len() <= LIMITS.streams && totals.most_unsent <= LIMITS.unsent);
        // A last message of up to a frame's bytes may have been on the way.
        assert!(totals.most_unread <= LIMITS.unread + usize::from(u8::MAX));
    }
    // The end of a session is the end of every stream.
    mux.end("over");
    for stream in mux.view() {
        mux.release(stream.id, clock.monotonic());
    }
    assert!(mux.is_empty());
}
