//! How much may be on the way at once. No IO, no clock of its own.
//!
//! Whatever lies in socket buffers on the way stands before the next small message, and there is room for megabytes in
//! them. So no more is sent than keeps the way busy: twice what it carries in one round trip.
//!
//! Every websocket answers a ping, in order: a ping after some bytes, a *mark*, says when they have arrived, and so how fast and
//! how far the way is. Our own implementation gives a mark's number back; Go's gives nothing back, but answers each.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Monotonic;

/// Never less than this is let on the way, ...
const LEAST: u64 = 512 << 10;
/// ... and never more.
const MOST: u64 = 16 << 20;
/// What is let on the way to see how long it is by itself.
const PROBE: u64 = 64 << 10;
/// A mark after each such part of what may be on the way.
const MARKS: u64 = 4;
/// Shorter round trips are taken for this: they say more about who has a processor than about the way.
const SHORTEST: Duration = Duration::from_millis(1);
/// For so long a shortest round trip counts. Then the way is kept nearly empty once, to see how long it is by itself.
const PERIOD: Duration = Duration::from_secs(10);
/// Who does not answer in so long is left alone.
const UNANSWERED: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
struct Mark {
    number: u64,
    /// All that was sent before it.
    sent: u64,
    /// All that had arrived when it was sent.
    arrived: u64,
    at: Monotonic,
}

#[derive(Debug)]
pub(super) struct Pace {
    sent: u64,
    arrived: u64,
    window: u64,
    marks: VecDeque<Mark>,
    next: u64,
    unmarked: u64,
    /// Bytes a second.
    rate: f64,
    /// The shortest round trip of this period and of the one before.
    shortest: [Option<Duration>; 2],
    period: Monotonic,
    /// The way is kept nearly empty until this mark is answered.
    probe: Option<u64>,
    /// All that was sent when it was last looked, and whether that was all the time so.
    looked: u64,
    quiet: bool,
    /// They do not answer.
    given_up: bool,
}

impl Pace {
    pub(super) fn new(now: Monotonic) -> Self {
        Pace {
            sent: 0,
            arrived: 0,
            window: LEAST,
            marks: VecDeque::new(),
            next: 0,
            unmarked: 0,
            rate: 0.0,
            shortest: [None; 2],
            period: now,
            probe: None,
            looked: 0,
            quiet: true,
            given_up: false,
        }
    }

    /// Whether more bytes may go.
    pub(super) fn is_open(&self) -> bool {
        let most = if self.probe.is_some() { PROBE } else { self.window };
        self.given_up || self.sent - self.arrived < most
    }

    /// Whether a mark should go before the next bytes: nothing went for a while, so it is alone on the way.
    pub(super) fn wants_first_mark(&self) -> bool {
        self.quiet && !self.given_up
    }

    /// Whether a mark should go.
    pub(super) fn wants_mark(&self) -> bool {
        let due = self.unmarked >= self.window / MARKS;
        !self.given_up && (due || (!self.is_open() && self.marks.is_empty()))
    }

    /// So many bytes go.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.unmarked += bytes as u64;
    }

    /// A mark goes; what is in it.
    pub(super) fn mark(&mut self, now: Monotonic) -> [u8; 8] {
        (self.unmarked, self.quiet) = (0, false);
        self.next += 1;
        if now.since(self.period) >= PERIOD {
            self.period = now;
            self.shortest = [None, self.shortest[0]];
            self.probe = Some(self.next + 1);
        }
        self.marks.push_back(Mark { number: self.next, sent: self.sent, arrived: self.arrived, at: now });
        self.next.to_be_bytes()
    }

    /// A mark is answered, with what was in it or with nothing.
    pub(super) fn answered(&mut self, said: &[u8], now: Monotonic) {
        let number = match <[u8; 8]>::try_from(said) {
            Ok(number) => u64::from_be_bytes(number),
            Err(_) => self.marks.front().map_or(0, |mark| mark.number),
        };
        // An answer may stand for all before it.
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.number <= number) {
            self.arrived = mark.sent;
            self.learn(mark, now);
        }
        if self.probe.is_some_and(|probe| probe <= number) {
            self.probe = None;
        }
    }

    fn learn(&mut self, mark: Mark, now: Monotonic) {
        let took = now.since(mark.at).max(SHORTEST);
        self.shortest[0] = Some(self.shortest[0].map_or(took, |shortest| shortest.min(took)));
        let seen = (self.arrived - mark.arrived) as f64 / took.as_secs_f64();
        // What was once possible is forgotten slowly: there may just have been nothing to send.
        self.rate = seen.max(self.rate * 15.0 / 16.0);
        let shortest = self.shortest.iter().flatten().min().copied().unwrap_or(took);
        self.window = ((2.0 * self.rate * shortest.as_secs_f64()) as u64).clamp(LEAST, MOST);
    }

    /// Notices silence of either side. To be called now and then.
    pub(super) fn tick(&mut self, now: Monotonic) {
        self.quiet = self.looked == self.sent && self.marks.is_empty();
        self.looked = self.sent;
        if self.marks.front().is_some_and(|mark| now.since(mark.at) >= UNANSWERED) {
            self.given_up = true;
            self.marks.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::{Clock as _, ManualClock};
    use jiff::Timestamp;

    use super::*;

    /// A way of so many bytes a second that takes so long there and back when it is empty.
    struct Way {
        rate: f64,
        round_trip: Duration,
    }

    /// Sends as much as it may for a while; the most that was on the way and all that went.
    fn run(way: &Way, time: Duration, silent: bool) -> (u64, u64) {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let began = clock.monotonic();
        let mut pace = Pace::new(began);
        let step = Duration::from_micros(200);
        let mut under_way: VecDeque<(Duration, Option<[u8; 8]>)> = VecDeque::new();
        let (mut busy_until, mut most) = (Duration::ZERO, 0);
        while clock.monotonic().since(began) < time {
            let now = clock.monotonic();
            let passed = now.since(began);
            while let Some((_, mark)) = under_way.pop_front_if(|(at, _)| *at <= passed) {
                if let Some(mark) = mark.filter(|_| !silent) {
                    pace.answered(if mark[7] % 2 == 0 { &[] } else { &mark }, now);
                }
            }
            if pace.wants_first_mark() {
                let mark = pace.mark(now);
                under_way.push_back((busy_until.max(passed) + way.round_trip, Some(mark)));
            }
            while pace.is_open() && pace.sent < 1 << 32 {
                let takes = Duration::from_secs_f64(32_768.0 / way.rate);
                busy_until = busy_until.max(passed) + takes;
                pace.sent(32_768);
                let mark = pace.wants_mark().then(|| pace.mark(now));
                under_way.push_back((busy_until + way.round_trip, mark));
            }
            if pace.wants_mark() {
                let mark = pace.mark(now);
                under_way.push_back((busy_until.max(passed) + way.round_trip, Some(mark)));
            }
            // After the beginning.
            if passed > time / 2 {
                most = most.max(pace.sent - pace.arrived);
            }
            pace.tick(now);
            clock.advance(step);
        }
        (most, pace.arrived)
    }

    #[test]
    fn the_way_is_kept_busy_and_not_full() {
        for (megabytes, millis) in [(500.0, 1), (100.0, 1), (10.0, 50), (100.0, 50)] {
            let way = Way { rate: megabytes * 1e6, round_trip: Duration::from_millis(millis) };
            let time = Duration::from_secs(8);
            let (most, arrived) = run(&way, time, false);
            let carries = way.rate * way.round_trip.as_secs_f64();
            assert!(arrived as f64 > 0.85 * way.rate * 8.0, "{megabytes} MB/s: {arrived} arrived");
            assert!(
                (most as f64) < (4.0 * carries).max(2.5 * LEAST as f64),
                "{megabytes} MB/s: {most} on the way"
            );
        }
    }

    #[test]
    fn a_busy_way_is_measured_again_and_again() {
        let way = Way { rate: 100e6, round_trip: Duration::from_millis(10) };
        let (most, arrived) = run(&way, Duration::from_secs(35), false);
        assert!((most as f64) < 4.0 * 1e6 && arrived as f64 > 0.85 * 3.5e9, "{most} {arrived}");
    }

    #[test]
    fn who_does_not_answer_is_left_alone() {
        let way = Way { rate: 1e6, round_trip: Duration::from_millis(10) };
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let mut pace = Pace::new(clock.monotonic());
        pace.sent(1 << 20);
        assert!(!pace.is_open() && pace.wants_mark());
        pace.mark(clock.monotonic());
        assert!(!pace.is_open() && !pace.wants_mark());
        clock.advance(UNANSWERED);
        pace.tick(clock.monotonic());
        assert!(pace.is_open() && !pace.wants_mark());
        assert!(run(&way, Duration::from_secs(20), true).0 > 1 << 20);
    }
}
