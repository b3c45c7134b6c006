//! Points in time as Go's `UnixDate` layout writes them: `Mon Jan _2 15:04:05 MST 2006`, to the second.
//!
//! The zone is an abbreviation, and an abbreviation does not say how far from UTC it is. Go looks it up in the local
//! zone of the reader and takes UTC if it is not there. We write `UTC`, and read `UTC`, `GMT`, `GMT+3`, `Z` and numeric
//! zones (`-03`) as what they say and any other as UTC, which every use in this crate survives: a time in the future
//! never holds anything back.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;
use jiff::{Span, Timestamp};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Writes the second that `time` is in, in UTC.
pub fn format(time: Timestamp) -> String {
    let utc = Offset::UTC.to_datetime(time);
    let day = DAYS[usize::from(utc.weekday().to_monday_zero_offset().unsigned_abs())];
    let month = MONTHS[usize::from(utc.month().unsigned_abs()) - 1];
    format!(
        "{day} {month} {:>2} {:02}:{:02}:{:02} UTC {:04}",
        utc.day(),
        utc.hour(),
        utc.minute(),
        utc.second(),
        utc.year()
    )
}

/// Reads a time; none if the text is not in the layout. The day of the week is not compared with the date (Go does not
/// either).
pub fn parse(text: &str) -> Option<Timestamp> {
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let mut next = || words.next();
    let (weekday, month, day, clock, zone, year) = (next()?, next()?, next()?, next()?, next()?, next()?);
    if next().is_some() || !DAYS.contains(&weekday) || year.len() != 4 {
        return None;
    }
    let month = i8::try_from(MONTHS.iter().position(|name| *name == month)? + 1).ok()?;
    let date = Date::new(digits(year)?, month, i8::try_from(digits(day)?).ok()?).ok()?;
    let local = DateTime::from_parts(date, time_of_day(clock)?);
    let shifted = local.checked_sub(Span::new().try_hours(zone_hours(zone)?).ok()?).ok()?;
    Offset::UTC.to_timestamp(shifted).ok()
}

fn time_of_day(clock: &str) -> Option<Time> {
    let mut parts = clock.split(':');
    let mut next = || i8::try_from(digits(parts.next().filter(|part| part.len() == 2)?)?).ok();
    let (hour, minute, second) = (next()?, next()?, next()?);
    if parts.next().is_some() {
        return None;
    }
    Time::new(hour, minute, second, 0).ok()
}

/// Hours east of UTC; none if this cannot be a zone.
fn zone_hours(zone: &str) -> Option<i64> {
    let numeric = zone.strip_prefix("GMT").unwrap_or(zone);
    if numeric.starts_with(['+', '-']) {
        let hours: i64 = numeric.parse().ok()?;
        return (-23..=23).contains(&hours).then_some(hours);
    }
    let abbreviation =
        zone == "Z" || ((3..=5).contains(&zone.len()) && zone.chars().all(|c| c.is_ascii_alphabetic()));
    abbreviation.then_some(0)
}

fn digits(text: &str) -> Option<i16> {
    match !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse().ok(),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<String> {
        parse(text).map(|time| time.to_string())
    }

    #[test]
    fn layout() {
        let time: Timestamp = "2026-03-05T07:08:09.987Z".parse().unwrap();
        assert_eq!(format(time), "Thu Mar  5 07:08:09 UTC 2026");
        assert_eq!(at("Thu Mar  5 07:08:09 UTC 2026").unwrap(), "2026-03-05T07:08:09Z");
        assert_eq!(at("Thu Mar 15 07:08:09 GMT 2026").unwrap(), "2026-03-15T07:08:09Z");
    }

    #[test]
    fn zones() {
        assert_eq!(at("Thu Mar  5 07:08:09 -03 2026").unwrap(), "2026-03-05T10:08:09Z");
        assert_eq!(at("Thu Mar  5 07:08:09 GMT+3 2026").unwrap(), "2026-03-05T04:08:09Z");
        assert_eq!(at("Thu Mar  5 07:08:09 CEST 2026").unwrap(), "2026-03-05T07:08:09Z", "as UTC");
    }

    #[test]
    fn what_is_not_a_time() {
        for text in [
            "",
            "now",
            "2026-03-05T07:08:09Z",
            "Thu Mar  5 07:08:09 2026",
            "Xxx Mar  5 07:08:09 UTC 2026",
            "Thu Mrz  5 07:08:09 UTC 2026",
            "Thu Feb 30 07:08:09 UTC 2026",
            "Thu Mar  5 27:08:09 UTC 2026",
            "Thu Mar  5 7:08:09 UTC 2026",
            "Thu Mar  5 07:08:09 +99 2026",
            "Thu Mar  5 07:08:09 UTC 26",
            "Thu Mar  5 07:08:09 UTC 2026 x",
            "Thu Mar  5 07:08:09 U1C 2026",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
