//! When something that failed is tried again.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// How often and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Pause after the first failure; each further one doubles it.
    pub first: SignedDuration,
    /// Longest pause.
    pub longest: SignedDuration,
    /// Failures in a row after which nothing is tried any more.
    pub most: u32,
    /// Setting `delete-machine-on-failure-after`: if more than zero, the Machine is deleted so long after a failure, and
    /// its MachineSet makes another.
    pub delete_after: SignedDuration,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            first: SignedDuration::from_secs(30),
            longest: SignedDuration::from_mins(30),
            // With these pauses: about two hours.
            most: 10,
            delete_after: SignedDuration::ZERO,
        }
    }
}

/// Failures in a row, as an annotation keeps them: the number, and the Job that failed last, which is counted once however
/// often it is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u32,
    /// UID of the Job that failed last.
    pub last: String,
}

impl Failures {
    /// Reads an annotation; none, or an unreadable one, is no failure.
    pub fn read(text: Option<&str>) -> Self {
        let (count, last) = text.and_then(|text| text.split_once(' ')).unwrap_or_default();
        Failures { count: count.parse().unwrap_or_default(), last: last.into() }
    }

    /// One more.
    pub fn and(&self, job: &str) -> Self {
        Failures { count: self.count.saturating_add(1), last: job.into() }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, self.last)
    }
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait until then.
    At(Timestamp),
    /// Try again.
    Retry,
    /// Delete the Machine.
    DeleteMachine,
    /// Nothing: somebody has to look.
    GivenUp,
}

/// What to do about the `failures`th failure in a row, which happened at `failed`.
pub fn next(policy: &Policy, failures: u32, failed: Timestamp, now: Timestamp) -> Next {
    if policy.delete_after.is_positive() {
        let due = failed.saturating_add(policy.delete_after).unwrap_or(failed);
        return if now < due { Next::At(due) } else { Next::DeleteMachine };
    }
    if failures >= policy.most {
        return Next::GivenUp;
    }
    let due = failed.saturating_add(pause(policy, failures)).unwrap_or(failed);
    if now < due { Next::At(due) } else { Next::Retry }
}

/// The pause after the `failures`th failure in a row.
pub fn pause(policy: &Policy, failures: u32) -> SignedDuration {
    let doublings = failures.saturating_sub(1).min(20);
    let pause = policy.first.checked_mul(1_i32 << doublings).unwrap_or(policy.longest);
    pause.min(policy.longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let seconds: Vec<i64> =
            (0..12).map(|failures| pause(&Policy::default(), failures).as_secs()).collect();
        assert_eq!(seconds, [30, 30, 60, 120, 240, 480, 960, 1800, 1800, 1800, 1800, 1800]);
        assert_eq!(pause(&Policy::default(), u32::MAX).as_secs(), 1800);
    }

    #[test]
    fn failures_are_kept_in_an_annotation() {
        let none = Failures::read(None);
        assert_eq!(none.count, 0);
        let two = none.and("u1").and("u2");
        assert_eq!(Failures::read(Some(&two.to_string())), two);
        assert_eq!((two.count, two.last.as_str()), (2, "u2"));
        assert_eq!(Failures::read(Some("garbage")), none);
    }

    #[test]
    fn it_ends() {
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        let policy = Policy::default();
        assert_eq!(next(&policy, 1, at(0), at(29)), Next::At(at(30)));
        assert_eq!(next(&policy, 1, at(0), at(30)), Next::Retry);
        assert_eq!(next(&policy, 10, at(0), at(9999)), Next::GivenUp);
        let deleting = Policy { delete_after: SignedDuration::from_secs(60), ..policy };
        assert_eq!(next(&deleting, 10, at(0), at(59)), Next::At(at(60)));
        assert_eq!(next(&deleting, 1, at(0), at(60)), Next::DeleteMachine);
    }
}
