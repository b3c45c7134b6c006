//! Query strings.

use std::collections::BTreeMap;

/// The parameters of a URL, each with its values in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(BTreeMap<String, Vec<String>>);

impl Query {
    /// Reads what follows the question mark. A pair that cannot be decoded is left out, as Go does.
    pub fn parse(text: &str) -> Self {
        let mut parameters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (decode(key, true), decode(value, true)) {
                parameters.entry(key).or_default().push(value);
            }
        }
        Query(parameters)
    }

    /// The first value of a parameter.
    pub fn first(&self, parameter: &str) -> Option<&str> {
        self.all(parameter).first().map(String::as_str)
    }

    /// All values of a parameter.
    pub fn all(&self, parameter: &str) -> &[String] {
        self.0.get(parameter).map(Vec::as_slice).unwrap_or_default()
    }

    /// A flag: anything but `0` and `false` is true.
    pub(super) fn flag(&self, parameter: &str) -> Option<bool> {
        self.first(parameter).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A number, or why it is none, in Go's words.
    pub(super) fn number(&self, parameter: &str) -> Result<Option<i64>, String> {
        let Some(text) = self.first(parameter) else { return Ok(None) };
        let parsed = text.parse::<i64>().map(Some);
        parsed.map_err(|error| {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let why = match error.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            format!("strconv.ParseInt: parsing {text:?}: {why}")
        })
    }
}

/// Decodes percent escapes, and in queries a plus; `None` if an escape is broken.
pub(super) fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            b'+' if plus_is_space => b' ',
            plain => plain,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("a=1&b=x%20y+z&a=2&c&d=%zz&e;f=1&=g&n=9223372036854775808&m=-5");
        assert_eq!(query.all("a"), ["1", "2"]);
        assert_eq!(query.first("b"), Some("x y z"));
        assert_eq!(query.first("c"), Some(""));
        assert_eq!(query.first("d"), None);
        assert_eq!(query.first("e"), None);
        assert_eq!(query.flag("c"), Some(true));
        assert_eq!(query.number("m"), Ok(Some(-5)));
        assert_eq!(query.number("x"), Ok(None));
        let range = r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#;
        assert_eq!(query.number("n").unwrap_err(), range);
        let syntax = r#"strconv.ParseInt: parsing "": invalid syntax"#;
        assert_eq!(query.number("c").unwrap_err(), syntax);
    }
}
