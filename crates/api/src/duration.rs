use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A duration as Go writes it: `10m0s`, `1.5h`, `-30s`.
///
/// Written back exactly as it was read, so that `10m` in a user's manifest stays `10m`; two are equal when they are
/// equally long.
#[derive(Clone)]
pub struct GoDuration {
    nanoseconds: i64,
    text: Cow<'static, str>,
}

impl GoDuration {
    /// A duration of whole seconds, in Go's own spelling.
    pub fn from_seconds(seconds: i64) -> Self {
        let nanoseconds = seconds.saturating_mul(SECOND);
        GoDuration { nanoseconds, text: canonical(nanoseconds).into() }
    }

    /// Its length in whole seconds; a fraction is cut off.
    pub fn seconds(&self) -> i64 {
        self.nanoseconds / SECOND
    }

    /// Its length in nanoseconds.
    pub fn nanoseconds(&self) -> i64 {
        self.nanoseconds
    }
}

impl Default for GoDuration {
    fn default() -> Self {
        GoDuration { nanoseconds: 0, text: "0s".into() }
    }
}

impl PartialEq for GoDuration {
    fn eq(&self, other: &Self) -> bool {
        self.nanoseconds == other.nanoseconds
    }
}

impl Eq for GoDuration {}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a text is not a duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// Nothing, or a sign with nothing behind it.
    #[error("{0:?} is not a duration: write a number and a unit, such as 30s, 5m or 1h30m")]
    Empty(String),
    /// A number is missing, malformed or out of range.
    #[error("{0:?} is not a duration: every unit needs a number before it, and 292 years is the limit")]
    Number(String),
    /// A unit is missing or unknown.
    #[error("{0:?} is not a duration: the units are ns, us, ms, s, m and h")]
    Unit(String),
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let length = if unsigned == "0" { 0 } else { parse_units(unsigned, text)? };
        let nanoseconds = if negative { -length } else { length };
        Ok(GoDuration { nanoseconds, text: text.to_owned().into() })
    }
}

fn parse_units(mut rest: &str, whole: &str) -> Result<i64, ParseDurationError> {
    if rest.is_empty() {
        return Err(ParseDurationError::Empty(whole.into()));
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let unit = unit_length(unit).ok_or_else(|| ParseDurationError::Unit(whole.into()))?;
        let part = scale(number, unit).ok_or_else(|| ParseDurationError::Number(whole.into()))?;
        total = total.checked_add(part).ok_or_else(|| ParseDurationError::Number(whole.into()))?;
        rest = next;
    }
    Ok(total)
}

fn unit_length(unit: &str) -> Option<i64> {
    match unit {
        "ns" => Some(1),
        "us" | "µs" | "μs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(SECOND),
        "m" => Some(MINUTE),
        "h" => Some(HOUR),
        _ => None,
    }
}

fn scale(number: &str, unit: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.checked_mul(unit)? };
    // Digits beyond the 18th are finer than a nanosecond of an hour.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = match fraction.is_empty() {
        true => 0,
        false => {
            i128::from(fraction.parse::<i64>().ok()?) * i128::from(unit) / 10_i128.pow(fraction.len() as u32)
        }
    };
    whole.checked_add(i64::try_from(part).ok()?)
}

/// Go's own spelling: hours, minutes and seconds with a fraction, or one smaller unit.
fn canonical(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let length = nanoseconds.unsigned_abs();
    let (second, minute, hour) = (SECOND.unsigned_abs(), MINUTE.unsigned_abs(), HOUR.unsigned_abs());
    if length == 0 {
        return "0s".into();
    }
    if length < second {
        let (unit, name) = match length {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", with_fraction(length, unit));
    }
    let mut text = sign.to_owned();
    if length >= hour {
        text += &format!("{}h", length / hour);
    }
    if length >= minute {
        text += &format!("{}m", length % hour / minute);
    }
    text + &format!("{}s", with_fraction(length % minute, second))
}

fn with_fraction(length: u64, unit: u64) -> String {
    let (whole, rest) = (length / unit, length % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    format!("{whole}.{rest:0digits$}").trim_end_matches('0').to_owned()
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        let cases = [
            ("0", 0),
            ("0s", 0),
            ("10m", 600 * SECOND),
            ("10m0s", 600 * SECOND),
            ("1h30m", 5400 * SECOND),
            ("1.5h", 5400 * SECOND),
            (".5s", SECOND / 2),
            ("1.s", SECOND),
            ("-30s", -30 * SECOND),
            ("+5s", 5 * SECOND),
            ("1us", 1_000),
            ("1µs", 1_000),
            ("2h45m30.25s", 9930 * SECOND + SECOND / 4),
        ];
        for (text, nanoseconds) in cases {
            let duration: GoDuration = text.parse().unwrap();
            assert_eq!(duration.nanoseconds(), nanoseconds, "{text}");
            assert_eq!(serde_json::to_value(&duration).unwrap(), text, "written as read");
        }
    }

    #[test]
    fn refuses_the_rest_with_a_hint() {
        for text in ["", "-", "10", "10x", "s", ".", "1.2.3s", "10m5", "9999999999h", "1 s"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text:?}");
        }
        assert!("10".parse::<GoDuration>().unwrap_err().to_string().contains("units are"));
    }

    #[test]
    fn writes_as_go_writes() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (20_000_000, "20ms"),
            (SECOND, "1s"),
            (90 * SECOND, "1m30s"),
            (600 * SECOND, "10m0s"),
            (HOUR, "1h0m0s"),
            (HOUR + SECOND / 100, "1h0m0.01s"),
            (-2 * MINUTE, "-2m0s"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(canonical(nanoseconds), text);
        }
        assert_eq!(GoDuration::from_seconds(600).to_string(), "10m0s");
    }
}
