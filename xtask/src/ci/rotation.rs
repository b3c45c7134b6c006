//! Which dear suite runs next.

use std::time::Duration;

use crate::test::Tier;

/// Nothing stays out for more than this many runs.
const MOST_RUNS_OUT: u64 = 10;

/// A suite that has not run yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) tier: Tier,
    /// Whether its peers are there.
    pub(crate) ready: bool,
    /// Runs since it was last green; this one counts.
    pub(crate) runs_out: u64,
    /// How long it takes, as far as known.
    pub(crate) estimate: Duration,
}

impl Candidate {
    fn overdue(&self) -> bool {
        self.runs_out >= MOST_RUNS_OUT
    }
}

/// The index of the suite to run next: first what has been left out for too long, which may use the hard limit; then the tier
/// `peers`, then the others, those that were left out longest first. None if no suite is ready that would end in time.
pub(crate) fn choose(candidates: &[Candidate], budget: Duration, hard_limit: Duration) -> Option<usize> {
    let fits =
        |candidate: &Candidate| candidate.estimate <= if candidate.overdue() { hard_limit } else { budget };
    let fitting = candidates.iter().enumerate().filter(|(_, candidate)| candidate.ready && fits(candidate));
    let chosen = fitting.min_by_key(|(index, candidate)| {
        (!candidate.overdue(), candidate.tier, u64::MAX - candidate.runs_out, *index)
    });
    chosen.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * 60)
    }

    fn candidate(tier: Tier, runs_out: u64, estimate: u64) -> Candidate {
        Candidate { tier, ready: true, runs_out, estimate: minutes(estimate) }
    }

    #[test]
    fn peers_come_before_machines_and_the_longest_left_out_first() {
        let all = [candidate(Tier::Real, 5, 2), candidate(Tier::Peers, 1, 2), candidate(Tier::Peers, 2, 2)];
        assert_eq!(choose(&all, minutes(10), minutes(30)), Some(2));
        assert_eq!(choose(&all[..2], minutes(10), minutes(30)), Some(1));
        assert_eq!(choose(&all[..1], minutes(10), minutes(30)), Some(0));
        assert_eq!(choose(&[], minutes(10), minutes(30)), None);
    }

    #[test]
    fn nothing_is_begun_that_would_not_end_in_time() {
        let all = [candidate(Tier::Peers, 3, 12), candidate(Tier::Real, 1, 8)];
        assert_eq!(choose(&all, minutes(10), minutes(30)), Some(1));
        assert_eq!(choose(&all, minutes(5), minutes(25)), None);
    }

    #[test]
    fn what_was_left_out_ten_times_goes_first_and_may_take_longer() {
        let all = [candidate(Tier::Peers, 3, 2), candidate(Tier::Real, 10, 25)];
        assert_eq!(choose(&all, minutes(10), minutes(30)), Some(1));
        assert_eq!(choose(&all, minutes(10), minutes(20)), Some(0));
    }

    #[test]
    fn what_has_no_peers_yet_waits() {
        let all = [Candidate { ready: false, ..candidate(Tier::Peers, 9, 2) }, candidate(Tier::Real, 1, 2)];
        assert_eq!(choose(&all, minutes(10), minutes(30)), Some(1));
    }

    /// Whatever a run has time for beside the cheap tests: as long as the dearest suite fits into the hard limit, all of them
    /// run within ten runs.
    #[test]
    fn nothing_stays_out_for_more_than_ten_runs() {
        for budget in [0, 3, 7, 15] {
            let tiers = [Tier::Peers, Tier::Peers, Tier::Peers, Tier::Real, Tier::Real];
            let mut out = [1; 5];
            for _ in 0..60 {
                let mut left = minutes(budget);
                let mut hard = minutes(40);
                let mut ran = [false; 5];
                loop {
                    let all = [0, 1, 2, 3, 4].map(|index| Candidate {
                        ready: !ran[index],
                        ..candidate(tiers[index], out[index], 7)
                    });
                    let Some(index) = choose(&all, left, hard) else { break };
                    ran[index] = true;
                    left = left.saturating_sub(minutes(7));
                    hard = hard.saturating_sub(minutes(7));
                }
                for index in 0..5 {
                    out[index] = if ran[index] { 1 } else { out[index] + 1 };
                    assert!(out[index] <= MOST_RUNS_OUT, "suite {index} of {budget} minutes: {}", out[index]);
                }
            }
        }
    }
}
