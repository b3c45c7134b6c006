//! Who fails too often, by address and by the name of the token: guessing is made slow. Only failures are counted, and only failures are
//! answered with 429: a good token is good, whoever else is behind the same load balancer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clock::{Clock, Monotonic};

/// How many failures there may be at once.
const BURST: f64 = 30.0;
/// How long it takes until one of them is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(2);
/// No more addresses and names are remembered than this; those that have failed least are forgotten first.
const MOST: usize = 10_000;
/// No name of a token of ours is longer.
const LONGEST_NAME: usize = 64;

/// Whose failures are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Where a request came from.
    Address(IpAddr),
    /// The name of a token, which stands before its secret: whoever guesses the secret may come from many addresses.
    Token(String),
}

impl Who {
    /// What a token is called: what stands before its colon. Most tokens have no name.
    pub fn of_token(token: &str) -> Option<Self> {
        let (name, _) = token.split_once(':')?;
        (!name.is_empty() && name.len() <= LONGEST_NAME).then(|| Who::Token(name.to_owned()))
    }
}

/// The failures of one of them.
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

/// The failures of all.
#[derive(Debug, Default)]
pub struct Limit(Mutex<BTreeMap<Who, Failures>>);

impl Limit {
    /// How long somebody who fails has to wait; none if they need not.
    pub fn wait(&self, who: &Who, clock: &dyn Clock) -> Option<Duration> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(who).copied()?;
        let over = known.now(clock.monotonic()) + 1.0 - BURST;
        (over > 0.0).then(|| FORGOTTEN_AFTER.mul_f64(over.max(0.5)))
    }

    /// Somebody has failed.
    pub fn failed(&self, who: &Who, clock: &dyn Clock) {
        let now = clock.monotonic();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(who) {
            // Rarely, and all at once: who fails from ever new addresses must not have us search each time.
            all.retain(|_, known| known.now(now) >= BURST / 2.0);
            if all.len() >= MOST {
                return;
            }
        }
        let known = all.entry(who.clone()).or_insert(Failures { count: 0.0, at: now });
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
        let (one, other) = (&Who::Address([10, 0, 0, 1].into()), &Who::Address([10, 0, 0, 2].into()));
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
        let bad = &Who::Address([192, 0, 2, 1].into());
        for _ in 0..40 {
            limit.failed(bad, &clock);
        }
        for number in 0..20_000_u32 {
            limit.failed(&Who::Address(number.to_be_bytes().into()), &clock);
        }
        assert!(limit.0.lock().unwrap().len() <= MOST);
        assert!(limit.wait(bad, &clock).is_some());
    }

    #[test]
    fn tokens_have_names() {
        let name = |token: &str| Who::of_token(token);
        assert_eq!(name("kubeconfig-c-m-x:secret"), Some(Who::Token("kubeconfig-c-m-x".into())));
        assert_eq!(name("opaque"), None);
        assert_eq!(name(":secret"), None);
        assert_eq!(name(&format!("{}:x", "a".repeat(65))), None, "memory is bounded");
    }
}
