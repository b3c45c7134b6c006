use jiff::Timestamp;

use crate::{Clock, Monotonic};

/// The time of the tokio runtime, so that clocks and timers agree: in a simulation, where the runtime's time is paused
/// and jumps to the next timer, this clock jumps with it.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock {
    began: tokio::time::Instant,
    wall: Timestamp,
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the runtime's clock")]
impl RuntimeClock {
    /// A clock that shows `wall` now. To be called on the runtime.
    pub fn starting_at(wall: Timestamp) -> Self {
        RuntimeClock { began: tokio::time::Instant::now(), wall }
    }

    fn passed(&self) -> std::time::Duration {
        tokio::time::Instant::now() - self.began
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        self.wall + self.passed()
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.passed())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_jumps_with_the_timers() {
        let clock = RuntimeClock::starting_at(Timestamp::UNIX_EPOCH);
        let before = clock.monotonic();
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        assert_eq!(clock.now().as_second(), 86_400);
        assert_eq!(clock.monotonic().since(before), Duration::from_secs(86_400));
    }
}
