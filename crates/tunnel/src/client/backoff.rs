use std::time::Duration;

use clock::Entropy;

/// The first wait is at most this, ...
const FIRST: Duration = Duration::from_secs(1);
/// ... each further one at most twice the one before, up to this. Go's implementation always waits 5 or 10 s.
const LONGEST: Duration = Duration::from_secs(15);
/// A session that lasted so long was a good one.
const GOOD: Duration = Duration::from_secs(30);

/// How long to wait before the next try. Half of each wait is chance, so that a thousand clusters do not come back to a
/// restarted server at the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { most: FIRST }
    }
}

impl Backoff {
    /// The next wait, after a try that lasted so long.
    pub fn next(&mut self, lasted: Duration, entropy: &mut dyn Entropy) -> Duration {
        if lasted >= GOOD {
            *self = Backoff::default();
        }
        let half = self.most / 2;
        self.most = (self.most * 2).min(LONGEST);
        let chance = entropy.below(u32::try_from(half.as_millis()).unwrap_or(u32::MAX).max(1));
        half + Duration::from_millis(chance.into())
    }
}

#[cfg(test)]
mod tests {
    use clock::SeededEntropy;

    use super::*;

    #[test]
    fn waits_grow_and_a_good_session_begins_anew() {
        let mut entropy = SeededEntropy::new(1);
        let mut backoff = Backoff::default();
        for most in [1000, 2000, 4000, 8000, 15_000, 15_000] {
            let wait = backoff.next(Duration::from_secs(1), &mut entropy).as_millis();
            assert!((most / 2..=most).contains(&wait), "{wait} of {most}");
        }
        assert!(backoff.next(GOOD, &mut entropy) <= FIRST);
    }
}
