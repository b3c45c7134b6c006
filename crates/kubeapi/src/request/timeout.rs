use std::time::Duration;

use super::Query;
use crate::Status;

/// How long a request that is no watch may take, whatever it asks for.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a request may take: what its `timeout` parameter says, a Go duration such as `1m30s`, up to a minute.
///
/// # Errors
/// 400 if that is no duration.
pub fn timeout(query: &Query) -> Result<Duration, Status> {
    let text = query.first("timeout").unwrap_or_default();
    if text.is_empty() {
        return Ok(LONGEST);
    }
    match duration(text) {
        Ok(asked) if asked.is_zero() => Ok(LONGEST),
        Ok(asked) => Ok(asked.min(LONGEST)),
        Err(why) => {
            let why = format!("invalid timeout specified in the request URL - time: {why}");
            Err(Status::bad_request(why))
        }
    }
}

/// A Go duration; what is below zero counts as zero.
fn duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration {text:?}");
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        seconds += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" | "μs" => 1e-6,
                "ns" => 1e-9,
                "" => return Err(format!("missing unit in duration {text:?}")),
                unit => return Err(format!("unknown unit {unit:?} in duration {text:?}")),
            };
        rest = after;
    }
    if text.len() == 1 && text.starts_with(['-', '+']) {
        return Err(invalid());
    }
    let seconds = if text.starts_with('-') { 0.0 } else { seconds };
    Duration::try_from_secs_f64(seconds).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_go_durations_up_to_a_minute() {
        for (text, seconds) in [
            ("", 60.0),
            ("timeout=5s", 5.0),
            ("timeout=1m30s", 60.0),
            ("timeout=1.5s", 1.5),
            ("timeout=250ms", 0.25),
            ("timeout=0", 60.0),
            ("timeout=0s", 60.0),
            ("timeout=-3s", 60.0),
        ] {
            assert_eq!(timeout(&Query::parse(text)).unwrap(), Duration::from_secs_f64(seconds), "{text}");
        }
        for (text, why) in [
            ("abc", "invalid duration \"abc\""),
            ("5", "missing unit in duration \"5\""),
            ("5x", "unknown unit \"x\" in duration \"5x\""),
            ("-", "invalid duration \"-\""),
            ("..s", "invalid duration \"..s\""),
        ] {
            let status = timeout(&Query::parse(&format!("timeout={text}"))).unwrap_err();
            let expected = format!("invalid timeout specified in the request URL - time: {why}");
            assert_eq!((status.code, status.message), (400, expected));
        }
    }
}
