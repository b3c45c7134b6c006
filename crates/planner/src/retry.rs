//! When a failed plan is delivered again. (Upstream never does: one failed image pull stops a machine for good.)

use jiff::{SignedDuration, Timestamp};

use crate::plan_view::PlanView;

/// The pause after the first failure; it doubles with each further one.
const FIRST: SignedDuration = SignedDuration::from_secs(30);
/// The longest pause: long enough to be no load, short enough that a repaired registry is noticed.
const LONGEST: SignedDuration = SignedDuration::from_secs(600);

/// The pause after so many failures.
pub(crate) fn pause(failures: i64) -> SignedDuration {
    let doublings = u32::try_from(failures.max(1) - 1).unwrap_or(u32::MAX).min(16);
    FIRST.checked_mul(1 << doublings).unwrap_or(LONGEST).min(LONGEST)
}

/// When the delivered plan, which failed, is delivered again. Times in the future do not count: a clock that was set
/// back stops nothing.
pub(crate) fn due(plan: &PlanView, now: Timestamp) -> Timestamp {
    let last = plan.last_apply.or(plan.delivered_at).filter(|last| *last <= now);
    last.map_or(now, |last| last.checked_add(pause(plan.failures)).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let seconds = [0, 1, 2, 3, 5, 6, 100, i64::MAX].map(|failures| pause(failures).as_secs());
        assert_eq!(seconds, [30, 30, 60, 120, 480, 600, 600, 600]);
    }

    #[test]
    fn a_clock_that_was_set_back_stops_nothing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let plan = |last| PlanView { last_apply: last, failures: 2, ..PlanView::default() };
        assert_eq!(due(&plan(Some(at(100))), at(110)), at(160));
        assert_eq!(due(&plan(Some(at(900))), at(110)), at(110));
        assert_eq!(due(&plan(None), at(110)), at(110));
    }
}
