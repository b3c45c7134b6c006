//! What is to become of binaries.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How long a new binary has to reach its server.
pub const TRIAL: SignedDuration = SignedDuration::from_mins(5);
/// How often it may be started in that time.
pub const STARTS: u32 = 5;
/// How long a binary that was taken back is left alone: it may have been the server's fault.
pub const REJECTED: SignedDuration = SignedDuration::from_hours(1);

/// What is known about binaries; kept on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Digest of the last binary that reached its server; a copy of it is kept.
    pub good: Option<String>,
    /// A binary that has to prove itself.
    pub trial: Option<Trial>,
    /// A binary that was taken back.
    pub rejected: Option<Rejected>,
}

/// A binary that has to prove itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Its digest.
    pub binary: String,
    /// Since when, in seconds.
    pub since: i64,
    /// How often it was started.
    pub starts: u32,
}

/// A binary that was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Its digest.
    pub binary: String,
    /// When, in seconds.
    pub at: i64,
}

/// What has happened to the running binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was started.
    Started,
    /// It has reached its server.
    Connected,
    /// Time has passed.
    Waited,
}

/// What is to become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// It may stay until then.
    Until(Timestamp),
    /// The one before comes back.
    FallBack,
}

/// Says what is to become of the running binary. Without one to fall back to, it stays.
pub fn judge(state: &State, running: &str, event: Event, now: Timestamp) -> (Verdict, State) {
    let mut next = state.clone();
    let Some(mut trial) = state.trial.clone().filter(|trial| trial.binary == running && state.good.is_some())
    else {
        next.trial = None;
        return (Verdict::Keep, next);
    };
    if event == Event::Connected {
        next.trial = None;
        return (Verdict::Keep, next);
    }
    trial.starts += u32::from(event == Event::Started);
    // The clock was set back: the trial starts anew.
    trial.since = trial.since.min(now.as_second());
    let until = Timestamp::from_second(trial.since).unwrap_or(now).checked_add(TRIAL).unwrap_or(now);
    if trial.starts > STARTS || until <= now {
        next.trial = None;
        next.rejected = Some(Rejected { binary: running.to_owned(), at: now.as_second() });
        return (Verdict::FallBack, next);
    }
    next.trial = Some(trial);
    (Verdict::Until(until), next)
}

/// Whether to go over to the binary that was found in the place of the running one.
pub fn wants(state: &State, running: &str, found: &str, now: Timestamp) -> bool {
    let left_alone = state.rejected.as_ref().is_some_and(|rejected| {
        let passed = now.as_second().saturating_sub(rejected.at);
        rejected.binary == found && (0..REJECTED.as_secs()).contains(&passed)
    });
    found != running && !left_alone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn trials() {
        let trial = |since, starts| State {
            good: Some("old".into()),
            trial: Some(Trial { binary: "new".into(), since, starts }),
            rejected: None,
        };
        use Event::{Connected, Started, Waited};
        use Verdict::{FallBack, Keep, Until};
        // trial since, starts, running, event, now, verdict
        let table = [
            (0, 0, "new", Started, 1, Until(at(300)), "it has time"),
            (0, 1, "new", Waited, 299, Until(at(300)), "a second is left"),
            (0, 1, "new", Waited, 300, FallBack, "time is up"),
            (0, 1, "new", Connected, 299, Keep, "just in time"),
            (0, 4, "new", Started, 10, Until(at(300)), "the fifth start"),
            (0, 5, "new", Started, 10, FallBack, "it crashes"),
            (0, 1, "old", Started, 1000, Keep, "the old one is back"),
            (900, 1, "new", Waited, 100, Until(at(400)), "the clock was set back"),
        ];
        for (since, starts, running, event, now, verdict, why) in table {
            let (said, next) = judge(&trial(since, starts), running, event, at(now));
            assert_eq!(said, verdict, "{why}");
            assert_eq!(next.trial.is_some(), matches!(verdict, Until(_)), "{why}");
            assert_eq!(next.rejected.is_some(), verdict == FallBack, "{why}");
        }
        let alone = State { good: None, ..trial(0, 9) };
        assert_eq!(judge(&alone, "new", Started, at(999)).0, Keep, "there is nothing to fall back to");
    }

    #[test]
    fn what_is_worth_a_trial() {
        let state = State { rejected: Some(Rejected { binary: "bad".into(), at: 100 }), ..State::default() };
        assert!(wants(&state, "old", "new", at(101)));
        assert!(!wants(&state, "old", "old", at(101)));
        assert!(!wants(&state, "old", "bad", at(101)));
        assert!(wants(&state, "old", "bad", at(3700)), "later again");
        assert!(wants(&state, "old", "bad", at(99)), "the clock was set back");
    }
}
