//! Fields that a JSON text has twice: `serde_json` keeps the last and says nothing.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// What is said of a field that is there twice.
pub(super) fn message(path: &str) -> String {
    format!("duplicate field {path:?}")
}

/// The paths of all fields that are there more than once, in the order of the text. Nothing if it is no JSON.
pub(super) fn find(text: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let walk = Walk { path: String::new(), found: &mut found };
    match walk.deserialize(&mut serde_json::Deserializer::from_slice(text)) {
        Ok(()) => found,
        Err(_) => Vec::new(),
    }
}

struct Walk<'a> {
    path: String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = match self.path.is_empty() {
                true => key.clone(),
                false => format!("{}.{key}", self.path),
            };
            if !seen.insert(key) && !self.found.contains(&path) {
                self.found.push(path.clone());
            }
            map.next_value_seed(Walk { path, found: self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        let at = |index: usize| format!("{}[{index}]", self.path);
        while list.next_element_seed(Walk { path: at(index), found: &mut *self.found })?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_there_twice_are_found() {
        for (text, paths) in [
            (r#"{"a": 1, "b": {"c": null}}"#, vec![]),
            (r#"{"a": 1, "a": true, "a": "x"}"#, vec!["a"]),
            (r#"{"a": {"b": 1, "b": 2.5}, "c": [{"d": 1}, {"d": 1, "d": -1}]}"#, vec!["a.b", "c[1].d"]),
            (r#"{"a": {"b": 1}, "a": {"b": 1}}"#, vec!["a"]),
            ("[1, 2", vec![]),
            ("7", vec![]),
        ] {
            assert_eq!(find(text.as_bytes()), paths, "{text}");
        }
    }
}
