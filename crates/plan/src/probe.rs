//! Probes: how tries become health, and when the next try is.
//!
//! Differences from Rancher's agent: a probe without a timeout has one (upstream documents one second and applies
//! none); counters that an older plan with higher thresholds left behind do not keep a probe from becoming healthy;
//! the initial delay holds back that probe alone, not the report of the apply.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::document::{Extra, Probe};
use crate::gojson::{self, is_empty, null_default};

/// Health by probe name. A probe that is not in it is not known to be healthy.
pub type ProbeStatuses = BTreeMap<String, ProbeStatus>;

/// What is known about one probe. Everything is left out when zero: `{}` is a probe that never succeeded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeStatus {
    /// Reached the success threshold, and since then not the failure threshold.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub healthy: bool,
    /// In a row, up to the threshold.
    #[serde(rename = "successCount", skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub success_count: i64,
    /// In a row, up to the threshold.
    #[serde(rename = "failureCount", skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub failure_count: i64,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Reads `probe-statuses`.
pub fn decode(value: &[u8]) -> Result<ProbeStatuses, gojson::Error> {
    gojson::from_slice::<Option<ProbeStatuses>>(value).map(Option::unwrap_or_default)
}

/// Writes `probe-statuses`.
pub fn encode(statuses: &ProbeStatuses) -> Vec<u8> {
    gojson::to_vec(statuses)
}

/// What a probe's status is after one more try. At rest (same answer as ever) it does not change.
pub fn count(probe: &Probe, before: &ProbeStatus, success: bool) -> ProbeStatus {
    let mut after = before.clone();
    let more = |count: i64, threshold: i64| count.max(0).saturating_add(1).min(threshold);
    if success {
        let threshold = or_default(probe.success_threshold, 1);
        after.success_count = more(before.success_count, threshold);
        after.failure_count = 0;
        after.healthy |= after.success_count >= threshold;
    } else {
        let threshold = or_default(probe.failure_threshold, 3);
        after.failure_count = more(before.failure_count, threshold);
        after.success_count = 0;
        after.healthy &= after.failure_count < threshold;
    }
    after
}

/// The time that one try may take.
pub fn timeout(probe: &Probe) -> Duration {
    Duration::from_secs(or_default(probe.timeout_seconds, 1).unsigned_abs())
}

/// When to try next: a period after the last try, and not before the delay after the last apply. Times in the future
/// do not count, so that a clock that was set back stops nothing.
pub fn next_try(
    probe: &Probe,
    applied: Option<Timestamp>,
    tried: Option<Timestamp>,
    period: Duration,
    now: Timestamp,
) -> Timestamp {
    let delay = SignedDuration::from_secs(probe.initial_delay_seconds.max(0));
    let period = SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX);
    let after = |since: Option<Timestamp>, wait: SignedDuration| {
        let since = since.filter(|since| *since <= now)?;
        Some(since.checked_add(wait).unwrap_or(Timestamp::MAX))
    };
    after(applied, delay).max(after(tried, period)).unwrap_or(now)
}

fn or_default(value: i64, default: i64) -> i64 {
    if value > 0 { value } else { default }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(healthy: bool, success_count: i64, failure_count: i64) -> ProbeStatus {
        ProbeStatus { healthy, success_count, failure_count, extra: Extra::new() }
    }

    #[test]
    fn counting() {
        let probe = |success_threshold, failure_threshold| Probe {
            success_threshold,
            failure_threshold,
            ..Probe::default()
        };
        // thresholds, before, answer, after
        let table = [
            ((0, 0), (false, 0, 0), true, (true, 1, 0), "one success is enough by default"),
            ((0, 0), (true, 1, 0), true, (true, 1, 0), "at rest"),
            ((0, 0), (true, 1, 0), false, (true, 0, 1), "one failure is not enough"),
            ((0, 0), (true, 0, 1), false, (true, 0, 2), "nor are two"),
            ((0, 0), (true, 0, 2), false, (false, 0, 3), "three are"),
            ((0, 0), (false, 0, 3), false, (false, 0, 3), "at rest"),
            ((0, 0), (false, 0, 3), true, (true, 1, 0), "back"),
            ((2, 1), (false, 0, 1), true, (false, 1, 0), "first of two"),
            ((2, 1), (false, 1, 0), true, (true, 2, 0), "second of two"),
            ((2, 1), (true, 2, 0), false, (false, 0, 1), "one failure"),
            ((-5, -5), (false, 0, 0), true, (true, 1, 0), "nonsense means the default"),
            ((1, 1), (false, 7, 0), true, (true, 1, 0), "left behind by a plan with other thresholds"),
            ((1, 1), (true, 0, 7), false, (false, 0, 1), "left behind by a plan with other thresholds"),
            ((1, 1), (false, -3, -3), true, (true, 1, 0), "nonsense counts from zero"),
        ];
        for ((success, failure), before, answer, after, why) in table {
            let before = status(before.0, before.1, before.2);
            let after = status(after.0, after.1, after.2);
            assert_eq!(count(&probe(success, failure), &before, answer), after, "{why}");
        }
    }

    #[test]
    fn next_tries() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let probe = Probe { initial_delay_seconds: 10, ..Probe::default() };
        // applied, tried, now, next
        let table = [
            (None, None, 100, 100, "never tried"),
            (Some(95), None, 100, 105, "initial delay"),
            (Some(80), None, 100, 100, "initial delay is over"),
            (Some(80), Some(98), 100, 103, "a period after the last try"),
            (Some(95), Some(98), 100, 105, "the later of both"),
            (Some(500), Some(500), 100, 100, "the clock was set back"),
        ];
        for (applied, tried, now, next, why) in table {
            let answer = next_try(&probe, applied.map(at), tried.map(at), Duration::from_secs(5), at(now));
            assert_eq!(answer.max(at(now)), at(next), "{why}");
        }
        assert_eq!(timeout(&Probe::default()), Duration::from_secs(1));
    }
}
