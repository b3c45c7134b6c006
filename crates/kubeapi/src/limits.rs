//! How much of a stranger's bytes is taken: every decoder goes by this.

use serde_json::Value;

/// How much is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes.
    pub bytes: usize,
    /// The most lists, objects and messages inside of each other. What is stored is read again by a parser that goes
    /// 128 deep, also as an item of a list or inside of an event or a review: hence some room.
    pub depth: usize,
    /// The most values to make: a few bytes of text can become hundreds in memory.
    pub values: usize,
}

/// A limit is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Too many lists and objects inside of each other, in the words of Go's decoder.
    #[error("exceeded max depth")]
    Depth,
    /// Too many values.
    #[error("exceeded max number of values")]
    Values,
}

impl Limits {
    /// For the body of a request, and for what a patch makes of an object.
    pub const REQUEST: Limits = Limits { bytes: 3 << 20, depth: 100, values: 1 << 18 };

    /// For answers of a server that is trusted, such as long lists.
    pub const ANSWER: Limits = Limits { bytes: 1 << 30, depth: 100, values: usize::MAX };

    /// Whether a JSON text keeps to depth and values, before memory is spent on it. Of a text that is no JSON it says
    /// nothing that matters: the parser will refuse it.
    ///
    /// # Errors
    /// The limit that is passed.
    pub fn check_json(&self, text: &[u8]) -> Result<(), Exceeded> {
        let (mut depth, mut values) = (0_usize, 1_usize);
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => skip_string(&mut bytes),
                b'{' | b'[' => {
                    depth += 1;
                    values += 1;
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' => values += 1,
                _ => continue,
            }
            if depth > self.depth {
                return Err(Exceeded::Depth);
            }
            if values > self.values {
                return Err(Exceeded::Values);
            }
        }
        Ok(())
    }

    /// Whether a value keeps to depth and number.
    ///
    /// # Errors
    /// The limit that is passed.
    pub fn check(&self, value: &Value) -> Result<(), Exceeded> {
        self.check_within(value, 0, &mut self.values.clone())
    }

    /// The same for a value that is to be put inside of others. `left` is how many values may still be looked at, and
    /// becomes less.
    ///
    /// # Errors
    /// The limit that is passed.
    pub fn check_within(&self, value: &Value, outside: usize, left: &mut usize) -> Result<(), Exceeded> {
        *left = left.checked_sub(1).ok_or(Exceeded::Values)?;
        let inside = outside + 1;
        let mut each = |value| self.check_within(value, inside, left);
        match value {
            Value::Array(_) | Value::Object(_) if inside > self.depth => Err(Exceeded::Depth),
            Value::Array(list) => list.iter().try_for_each(each),
            Value::Object(map) => map.values().try_for_each(&mut each),
            _ => Ok(()),
        }
    }
}

/// Goes on behind the end of a string.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            // What is escaped ends nothing.
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SMALL: Limits = Limits { bytes: 100, depth: 2, values: 5 };

    #[test]
    fn depth_and_values_are_counted_outside_of_strings() {
        for (text, outcome) in [
            ("[[1]]", Ok(())),
            ("[[[]]]", Err(Exceeded::Depth)),
            (r#"{"a": {"b": "[[[\"[[["}}"#, Ok(())),
            (r#"{"a": {"b": {}}}"#, Err(Exceeded::Depth)),
            ("[1,2,3]", Ok(())),
            ("[1,2,3,4,5,6]", Err(Exceeded::Values)),
            (r#"["1,2,3,4,5,6,7"]"#, Ok(())),
            ("]]]][[", Ok(())),
            ("\"\\", Ok(())),
        ] {
            assert_eq!(SMALL.check_json(text.as_bytes()), outcome, "{text}");
        }
        assert_eq!(SMALL.check(&json!([[1]])), Ok(()));
        assert_eq!(SMALL.check(&json!([[[]]])), Err(Exceeded::Depth));
        assert_eq!(SMALL.check(&json!([1, 2, 3, 4, 5])), Err(Exceeded::Values));
    }

    fn anything() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(json!(null)), Just(json!(7)), "[\\[\\]{},\"\\\\a]{0,4}".prop_map(Value::from)];
        leaf.prop_recursive(6, 32, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[\\[{,\"]{0,2}", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// The text is never let through where the value would not be.
        #[test]
        fn text_and_value_agree_on_depth(value in anything(), depth in 0_usize..7) {
            let limits = Limits { bytes: usize::MAX, depth, values: usize::MAX };
            prop_assert_eq!(limits.check_json(value.to_string().as_bytes()), limits.check(&value));
        }

        /// Empty lists count twice in a text, nothing counts less than it is.
        #[test]
        fn the_text_counts_every_value(value in anything(), values in 1_usize..40) {
            let limits = Limits { bytes: usize::MAX, depth: 100, values };
            if limits.check(&value).is_err() {
                prop_assert!(limits.check_json(value.to_string().as_bytes()).is_err());
            }
        }
    }
}
