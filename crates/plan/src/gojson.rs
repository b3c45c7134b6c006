//! JSON as Go's `encoding/json` writes it, so that a checksum over our bytes equals one over Rancher's.

use std::io;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::ser::Formatter;

/// Bytes that are not the JSON they should be.
#[derive(Debug, thiserror::Error)]
#[error("not the JSON expected")]
pub struct Error(#[from] serde_json::Error);

/// Compact, `<`, `>`, `&` and the two JavaScript line separators escaped, struct fields in their order, maps sorted.
pub fn to_vec(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, GoFormatter);
    // Every type of this crate has string keys and writes to memory: there is nothing that could fail.
    value.serialize(&mut serializer).map(|()| bytes).unwrap_or_default()
}

/// Reads as Go does where it matters: the last of two equal keys counts, `null` is the zero value (see
/// [`null_default`]).
pub(crate) fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let value: Value = serde_json::from_slice(bytes)?;
    Ok(T::deserialize(value)?)
}

/// A field for which `null` is as good as nothing.
pub(crate) fn null_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether Go's `omitempty` leaves the value out.
pub(crate) fn is_empty<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut plain = 0;
        for (at, c) in fragment.char_indices() {
            if matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') {
                out.write_all(&fragment.as_bytes()[plain..at])?;
                write!(out, "\\u{:04x}", c as u32)?;
                plain = at + c.len_utf8();
            }
        }
        out.write_all(&fragment.as_bytes()[plain..])
    }
}

/// Padded, standard alphabet, as lenient as Go's decoder about trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Go's `base64.StdEncoding`: line breaks are skipped.
pub(crate) fn base64_decode(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    match text.contains(['\n', '\r']) {
        true => BASE64.decode(text.replace(['\n', '\r'], "")),
        false => BASE64.decode(text),
    }
}

/// Go's `base64.StdEncoding`.
pub(crate) fn base64_encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// A Go `[]byte`: base64 text; `null` reads as empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base64(pub(crate) Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64_encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        base64_decode(&text).map(Base64).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_go_does() {
        let text = "a<b>&c\u{2028}\u{2029}\u{8}\u{c}\u{1}\u{7f}\"\\/\t\n\ré😀";
        let expected = "\"a\\u003cb\\u003e\\u0026c\\u2028\\u2029\\b\\f\\u0001\u{7f}\\\"\\\\/\\t\\n\\ré😀\"";
        assert_eq!(String::from_utf8(to_vec(&text)).unwrap(), expected);
    }

    #[test]
    fn base64_takes_what_go_takes() {
        assert_eq!(base64_decode("aGVs\r\nbG8K\n").unwrap(), b"hello\n");
        assert_eq!(base64_decode("aGVsbG9=").unwrap(), b"hello", "bits behind the last byte");
        assert!(base64_decode("aGVsbG8").is_err(), "padding is needed");
        assert!(base64_decode("aGVs-G8K").is_err(), "another alphabet");
    }
}
