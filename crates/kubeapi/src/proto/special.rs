//! Types whose JSON is not that of their fields, both ways.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::decode::{last, number, text};
use super::wire::{Wire, put_bytes, put_number};
use super::{Error, Limits};

/// Seconds of the first instant of year 1, which Go takes for no time at all.
const NO_TIME: i64 = -62_135_596_800;

/// A floating-point number as Go shows it: whole ones without a fraction.
pub(super) fn double(value: Option<Wire<'_>>) -> Result<Value, Error> {
    let number = match value {
        None => 0.0,
        Some(Wire::Fixed64(bits)) => f64::from_bits(bits),
        Some(_) => return Err(Error::Malformed("wire type")),
    };
    // Whole numbers up to here are exact.
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return Ok(Value::from(number as i64));
    }
    serde_json::Number::from_f64(number)
        .map(Value::Number)
        .ok_or_else(|| Error::value("must be a finite number"))
}

/// Bytes as JSON shows them.
pub(super) fn base64(bytes: &[u8]) -> Value {
    Value::String(STANDARD.encode(bytes))
}

/// The bytes of a base64 text.
pub(super) fn from_base64(value: &Value) -> Result<Vec<u8>, Error> {
    let text = value.as_str().ok_or_else(|| Error::value("must be base64 text"))?;
    STANDARD.decode(text).map_err(|error| Error::value(format!("must be base64: {error}")))
}

/// JSON text as a value; no text is `null`.
pub(super) fn json(bytes: &[u8]) -> Result<Value, Error> {
    match bytes {
        [] => Ok(Value::Null),
        text => {
            Limits::REQUEST
                .check_json(text)
                .map_err(|error| Error::value(format!("must be JSON: {error}")))?;
            serde_json::from_slice(text).map_err(|error| Error::value(format!("must be JSON: {error}")))
        }
    }
}

/// A quantity, which is text in both; none is zero.
pub(super) fn quantity(parts: &[(u32, Wire<'_>)]) -> Result<Value, Error> {
    let written = last(parts, 1).map(text).transpose()?.filter(|text| !text.is_empty());
    Ok(Value::String(written.unwrap_or_else(|| "0".into())))
}

/// The body of a quantity's message; JSON may have it as a number.
pub(super) fn put_quantity(out: &mut Vec<u8>, value: Option<&Value>) -> Result<(), Error> {
    let text = match value {
        None => "0".into(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) => return Err(Error::value("must be a quantity")),
    };
    put_bytes(out, 1, text.as_bytes());
    Ok(())
}

/// A number or a text, by the type beside them.
pub(super) fn int_or_string(parts: &[(u32, Wire<'_>)]) -> Result<Value, Error> {
    match number(last(parts, 1))? {
        0 => Ok(Value::from(number(last(parts, 2))? as i32)),
        1 => Ok(Value::String(last(parts, 3).map_or(Ok(String::new()), text)?)),
        _ => Err(Error::value("must be an integer or a string")),
    }
}

/// The body of the message of a number or text.
pub(super) fn put_int_or_string(out: &mut Vec<u8>, value: Option<&Value>) -> Result<(), Error> {
    let (kind, number, text) = match value {
        None => (0, 0, ""),
        Some(Value::String(text)) => (1, 0, text.as_str()),
        Some(other) => (0, whole(other, i64::from(i32::MIN), i64::from(i32::MAX))?, ""),
    };
    put_number(out, 1, kind);
    put_number(out, 2, number.cast_unsigned());
    put_bytes(out, 3, text.as_bytes());
    Ok(())
}

/// A whole number between bounds.
pub(super) fn whole(value: &Value, least: i64, most: i64) -> Result<i64, Error> {
    // Go reads 3.0 as 3, too.
    let fractionless = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
    let number = value.as_i64().or_else(|| value.as_f64().and_then(fractionless));
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| Error::value(format!("must be an integer from {least} to {most}")))
}

/// A time as Go shows it: whole seconds, or always six digits of a second. No bytes at all are no time.
pub(super) fn time(parts: &[(u32, Wire<'_>)], micro: bool) -> Result<Value, Error> {
    let seconds = number(last(parts, 1))? as i64;
    let nanos = if micro { number(last(parts, 2))? as i32 / 1000 * 1000 } else { 0 };
    if parts.is_empty() || (seconds, nanos) == (NO_TIME, 0) {
        return Ok(Value::Null);
    }
    let time = Timestamp::new(seconds, nanos)
        .ok()
        .filter(|time| time.as_second() >= NO_TIME)
        .ok_or_else(|| Error::value("must be a time of the years 1 to 9999"))?;
    Ok(Value::String(if micro { format!("{time:.6}") } else { time.to_string() }))
}

/// The body of a time's message: nothing for no time.
pub(super) fn put_time(out: &mut Vec<u8>, value: Option<&Value>, micro: bool) -> Result<(), Error> {
    let Some(value) = value else { return Ok(()) };
    let time: Option<Timestamp> = value.as_str().and_then(|text| text.parse().ok());
    let time = time.ok_or_else(|| Error::value("must be an RFC 3339 time"))?;
    // Before 1970 the parts of a second still count forward.
    let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
    let seconds = time.as_nanosecond().div_euclid(1_000_000_000) as i64;
    if seconds == NO_TIME && nanos == 0 {
        return Ok(());
    }
    put_number(out, 1, seconds.cast_unsigned());
    put_number(out, 2, if micro { nanos as u64 / 1000 * 1000 } else { 0 });
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::wire::fields;
    use super::*;

    #[test]
    fn times_have_the_precision_that_json_shows() {
        let cases = [
            ("2026-01-02T03:04:05Z", false, json!("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05.999Z", false, json!("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05+01:00", false, json!("2026-01-02T02:04:05Z")),
            ("2026-01-02T03:04:05.1234567Z", true, json!("2026-01-02T03:04:05.123456Z")),
            ("2026-01-02T03:04:05Z", true, json!("2026-01-02T03:04:05.000000Z")),
            ("1960-01-02T03:04:05.25Z", true, json!("1960-01-02T03:04:05.250000Z")),
            ("1970-01-01T00:00:00Z", false, json!("1970-01-01T00:00:00Z")),
            ("0001-01-01T00:00:00Z", false, Value::Null),
        ];
        for (written, micro, shown) in cases {
            let mut body = Vec::new();
            put_time(&mut body, Some(&written.into()), micro).unwrap();
            assert_eq!(time(&fields(&body).unwrap(), micro), Ok(shown), "{written}");
        }
    }

    #[test]
    fn numbers_are_whole_and_in_bounds() {
        let cases = [
            (json!(3), Some(3)),
            (json!(3.0), Some(3)),
            (json!(-4), Some(-4)),
            (json!(3.5), None),
            (json!(11), None),
            (json!("3"), None),
            (json!(1e300), None),
        ];
        for (value, number) in cases {
            assert_eq!(whole(&value, -10, 10).ok(), number, "{value}");
        }
    }

    #[test]
    fn what_has_no_json_is_refused() {
        assert!(double(Some(Wire::Fixed64(f64::NAN.to_bits()))).is_err());
        assert!(time(&[(1, Wire::Varint(u64::MAX >> 1))], false).is_err());
        assert!(int_or_string(&[(1, Wire::Varint(7))]).is_err());
        assert!(json(b"{").is_err());
    }
}
