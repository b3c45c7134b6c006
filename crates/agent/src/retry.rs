//! How long to wait after something went wrong.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// Growing pauses, spread so that a thousand agents that lost one server do not come back at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    failures: u32,
}

impl Retry {
    /// The pause after one more failure: twice the last, up to 30 s, of which the last half is drawn by `random` (a
    /// number below its argument).
    pub fn pause(&mut self, random: impl FnOnce(u32) -> u32) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let half = whole / 2;
        let millis = u32::try_from(half.as_millis()).unwrap_or(u32::MAX).max(1);
        half + Duration::from_millis(u64::from(random(millis)))
    }

    /// All is well.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut retry = Retry::default();
        let pauses: Vec<_> = (0..9).map(|_| retry.pause(|_| 0).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
        assert_eq!(retry.pause(|bound| bound - 1).as_millis(), 29_999);
        retry.reset();
        assert_eq!(retry.pause(|bound| bound - 1).as_millis(), 499);
    }
}
