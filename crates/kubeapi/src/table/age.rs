//! Spans of time for people.

use jiff::Timestamp;
use serde_json::Value;

/// The time since `then`, with two or three figures: `5m30s`, `3h`, `2d4h`.
pub fn age(then: &Value, now: Timestamp) -> String {
    let Some(text) = then.as_str().filter(|text| !text.is_empty()) else { return "<unknown>".into() };
    text.parse::<Timestamp>().map_or_else(|_| "<invalid>".into(), |then| between(then, now))
}

/// The time from one moment to another.
pub(super) fn between(then: Timestamp, now: Timestamp) -> String {
    // Whole seconds towards zero: a clock that is not quite right is no reason to complain.
    human(i64::try_from((now.as_nanosecond() - then.as_nanosecond()) / 1_000_000_000).unwrap_or(i64::MAX))
}

fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => two(days, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{days}d"),
        _ if hours < 24 * 365 * 8 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_or_three_figures() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (70, "70s"),
            (119, "119s"),
            (120, "2m"),
            (190, "3m10s"),
            (10 * MINUTE + 1, "10m"),
            (70 * MINUTE, "70m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (8 * HOUR + 1, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (8 * DAY + 3 * HOUR, "8d"),
            (400 * DAY, "400d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR + DAY, "8y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn ages_come_from_times() {
        let now: Timestamp = "2026-01-01T00:05:30.5Z".parse().unwrap();
        for (then, text) in [
            ("2026-01-01T00:00:00Z".into(), "5m30s"),
            ("2026-01-01T00:05:30.900000Z".into(), "0s"),
            ("2026-01-01T01:00:00+01:00".into(), "5m30s"),
            (Value::Null, "<unknown>"),
            ("x".into(), "<invalid>"),
        ] {
            assert_eq!(age(&then, now), text, "{then}");
        }
    }
}
