//! Who fails too often, by address: guessing is made slow, and what a broken host costs is bounded.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clock::{Clock, Monotonic};

/// How many failures an address may have at once: a few broken hosts behind one address do not lock out the others.
const BURST: f64 = 30.0;
/// How long it takes until one of them is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(2);
/// No more addresses are remembered than this; those that have failed least are forgotten first.
const MOST_ADDRESSES: usize = 10_000;

/// The failures of one address.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Failures {
    count: f64,
    at: Monotonic,
}

impl Failures {
    fn now(self, now: Monotonic) -> f64 {
        (self.count - now.since(self.at).as_secs_f64() / FORGOTTEN_AFTER.as_secs_f64()).max(0.0)
    }
}

/// The failures of all addresses.
#[derive(Debug, Default)]
pub struct Limit(Mutex<BTreeMap<IpAddr, Failures>>);

impl Limit {
    /// How long an address has to wait; none if it need not.
    pub fn wait(&self, from: IpAddr, clock: &dyn Clock) -> Option<Duration> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&from).copied()?;
        let over = known.now(clock.monotonic()) + 1.0 - BURST;
        (over > 0.0).then(|| FORGOTTEN_AFTER.mul_f64(over.max(0.5)))
    }

    /// An address has failed.
    pub fn failed(&self, from: IpAddr, clock: &dyn Clock) {
        let now = clock.monotonic();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_ADDRESSES && !all.contains_key(&from) {
            // Rarely, and all at once: who fails from ever new addresses must not have us search each time.
            all.retain(|_, known| known.now(now) >= BURST / 2.0);
            if all.len() >= MOST_ADDRESSES {
                return;
            }
        }
        let known = all.entry(from).or_insert(Failures { count: 0.0, at: now });
        *known = Failures { count: (known.now(now) + 1.0).min(BURST), at: now };
    }
}

#[cfg(test)]
mod tests {
    use clock::ManualClock;

    use super::*;

    #[test]
    fn failures_add_up_and_are_forgotten() {
        let clock = ManualClock::at(jiff::Timestamp::UNIX_EPOCH);
        let limit = Limit::default();
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        for _ in 0..29 {
            limit.failed(one, &clock);
            assert_eq!(limit.wait(one, &clock), None);
        }
        limit.failed(one, &clock);
        let wait = limit.wait(one, &clock).unwrap();
        assert!(wait <= FORGOTTEN_AFTER && wait > Duration::ZERO, "{wait:?}");
        assert_eq!(limit.wait(other, &clock), None, "others are not punished");
        for _ in 0..1000 {
            limit.failed(one, &clock);
        }
        clock.advance(FORGOTTEN_AFTER);
        assert_eq!(limit.wait(one, &clock), None, "however often it failed");
        clock.advance(Duration::from_secs(3600));
        for _ in 0..29 {
            limit.failed(one, &clock);
        }
        assert_eq!(limit.wait(one, &clock), None);
    }

    #[test]
    fn memory_is_bounded_and_the_worst_are_kept() {
        let clock = ManualClock::at(jiff::Timestamp::UNIX_EPOCH);
        let limit = Limit::default();
        let bad = IpAddr::from([192, 0, 2, 1]);
        for _ in 0..40 {
            limit.failed(bad, &clock);
        }
        for number in 0..20_000_u32 {
            limit.failed(IpAddr::from(number.to_be_bytes()), &clock);
        }
        assert!(limit.0.lock().unwrap().len() <= MOST_ADDRESSES);
        assert!(limit.wait(bad, &clock).is_some());
    }
}
