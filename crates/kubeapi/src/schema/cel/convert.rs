//! Objects as CEL sees them.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta};
use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value;

use super::super::format::Format;
use super::super::node::{Node, Type};

/// Words that no field can be named by.
pub(super) const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field in an expression; `None` if it cannot be named there at all.
pub(super) fn escaped(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c)) {
        return None;
    }
    let escaped = name.replace("__", "__underscores__").replace('.', "__dot__");
    Some(escaped.replace('-', "__dash__").replace('/', "__slash__"))
}

/// A value of a known schema; without one, what JSON says.
pub(super) fn to_cel(value: &Value, node: Option<&Node>) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(bool) => Cel::Bool(*bool),
        Value::Number(number) => match (number.as_i64(), node.and_then(|node| node.kind)) {
            (Some(int), Some(Type::Number)) => Cel::Float(int as f64),
            (Some(int), _) => Cel::Int(int),
            (None, Some(Type::Integer)) => Cel::Int(number.as_f64().unwrap_or_default() as i64),
            (None, _) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => string(text, node.and_then(|node| node.checks().format)),
        Value::Array(items) => {
            let schema = node.and_then(|node| node.items.as_deref());
            Cel::List(Arc::new(items.iter().map(|item| to_cel(item, schema)).collect()))
        }
        Value::Object(fields) => {
            // The keys of a map are data, not names.
            let is_map = node.is_none_or(|node| node.additional.is_some() && node.properties.is_empty());
            let entries = fields.iter().filter_map(|(name, value)| {
                let key = if is_map { name.clone() } else { escaped(name)? };
                let schema = node.and_then(|node| node.field(name));
                Some((Key::String(Arc::new(key)), to_cel(value, schema)))
            });
            Cel::Map(Map { map: Arc::new(entries.collect()) })
        }
    }
}

fn string(text: &str, format: Option<Format>) -> Cel {
    let special = match format {
        Some(Format::DateTime) => DateTime::parse_from_rfc3339(text).ok().map(Cel::Timestamp),
        Some(Format::Date) => NaiveDate::parse_from_str(text, "%Y-%m-%d")
            .ok()
            .map(|date| Cel::Timestamp(date.and_time(NaiveTime::MIN).and_utc().fixed_offset())),
        Some(Format::Duration) => duration(text).map(Cel::Duration),
        Some(Format::Byte) => base64(text).map(|bytes| Cel::Bytes(Arc::new(bytes))),
        _ => None,
    };
    special.unwrap_or_else(|| Cel::String(Arc::new(text.to_owned())))
}

/// Go's durations: `1h30m`.
fn duration(text: &str) -> Option<TimeDelta> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut nanoseconds = 0.0;
    while !rest.is_empty() && rest != "0" {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let factor = match &after[..unit] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        nanoseconds += number.parse::<f64>().ok()? * factor;
        rest = &after[unit..];
    }
    let signed = if negative { -nanoseconds } else { nanoseconds };
    (signed.abs() < i64::MAX as f64).then(|| TimeDelta::nanoseconds(signed as i64))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        bits = bits << 6 | u32::try_from(ALPHABET.iter().position(|letter| *letter == byte)?).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_upstream_does() {
        let cases = [
            ("a", Some("a")),
            ("a_b", Some("a_b")),
            ("a__b", Some("a__underscores__b")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("namespace", Some("__namespace__")),
            ("1a", None),
            ("", None),
            ("ä", None),
            ("a b", None),
        ];
        for (name, expected) in cases {
            assert_eq!(escaped(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn durations_and_bytes() {
        assert_eq!(duration("1h30m0.5s"), Some(TimeDelta::milliseconds(5_400_500)));
        assert_eq!(duration("-2us"), Some(TimeDelta::microseconds(-2)));
        assert_eq!(duration("0"), Some(TimeDelta::zero()));
        assert_eq!(duration("5 parsecs"), None);
        assert_eq!(base64("aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(base64("*"), None);
    }
}
