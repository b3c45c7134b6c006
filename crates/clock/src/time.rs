use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;

/// A source of time: wall time for what users read, monotonic time for what the program measures.
pub trait Clock: Send + Sync {
    /// The wall clock. It may jump, in both directions: never subtract two of these to wait for something.
    fn now(&self) -> Timestamp;

    /// Time since an arbitrary start; never goes back.
    fn monotonic(&self) -> Monotonic;
}

/// A point on a [`Clock`]'s monotonic time line. Points of two clocks do not compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(pub(crate) Duration);

impl Monotonic {
    /// The time from `earlier` to `self`; zero if `earlier` is not earlier.
    pub fn since(self, earlier: Monotonic) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// The moment after which something is given up.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Monotonic);

impl Deadline {
    /// A deadline `within` from now on this clock.
    pub fn after(clock: &dyn Clock, within: Duration) -> Self {
        Deadline(Monotonic(clock.monotonic().0.saturating_add(within)))
    }

    /// Whether the moment has come.
    pub fn passed(self, clock: &dyn Clock) -> bool {
        clock.monotonic() >= self.0
    }

    /// How long it is until then.
    pub fn left(self, clock: &dyn Clock) -> Duration {
        self.0.0.saturating_sub(clock.monotonic().0)
    }
}

/// The operating system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the system's clocks")]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Monotonic {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        Monotonic(START.get_or_init(std::time::Instant::now).elapsed())
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(Mutex<Readings>);

#[derive(Clone, Copy, Debug)]
struct Readings {
    wall: Timestamp,
    monotonic: Duration,
}

impl ManualClock {
    /// A clock that shows `wall`.
    pub fn at(wall: Timestamp) -> Self {
        ManualClock(Mutex::new(Readings { wall, monotonic: Duration::ZERO }))
    }

    /// Moves both time lines forward.
    pub fn advance(&self, by: Duration) {
        self.change(|readings| {
            readings.wall += by;
            readings.monotonic += by;
        });
    }

    /// Sets the wall clock as an administrator would: monotonic time is not touched.
    pub fn jump_to(&self, wall: Timestamp) {
        self.change(|readings| readings.wall = wall);
    }

    fn change(&self, apply: impl FnOnce(&mut Readings)) {
        apply(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    fn readings(&self) -> Readings {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.readings().wall
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.readings().monotonic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let start = clock.monotonic();
        clock.advance(Duration::from_secs(90));
        assert_eq!(clock.now().as_second(), 90);
        assert_eq!(clock.monotonic().since(start), Duration::from_secs(90));
    }

    #[test]
    fn a_jump_of_the_wall_clock_leaves_deadlines_alone() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let deadline = Deadline::after(&clock, Duration::from_secs(10));
        clock.jump_to(Timestamp::from_second(1_000_000).unwrap());
        assert!(!deadline.passed(&clock));
        clock.advance(Duration::from_secs(4));
        assert_eq!(deadline.left(&clock), Duration::from_secs(6));
        clock.advance(Duration::from_secs(10));
        assert!(deadline.passed(&clock));
        assert_eq!(deadline.left(&clock), Duration::ZERO);
    }

    #[test]
    fn the_system_clock_never_goes_back() {
        let first = SystemClock.monotonic();
        assert!(SystemClock.monotonic() >= first);
    }
}
