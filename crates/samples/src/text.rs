//! Strings that fit a schema's format, pattern and length.

use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::Value;

/// Without a limit, strings stay this short.
const USUAL_LENGTH: u64 = 12;

pub(crate) fn strings(schema: &Value) -> BoxedStrategy<Value> {
    if schema["format"] == "date-time" {
        // Whole seconds: Kubernetes keeps no finer ones.
        return (0..4_000_000_000_i64)
            .prop_filter_map("a year out of range", |second| jiff::Timestamp::from_second(second).ok())
            .prop_map(|time| Value::from(time.to_string()))
            .boxed();
    }
    if schema["format"] == "byte" {
        return string_regex("([A-Za-z0-9+/]{4}){1,6}")
            .expect("base64 is regular")
            .prop_map(Value::from)
            .boxed();
    }
    let least = schema["minLength"].as_u64().unwrap_or(0);
    let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
    let fits = move |text: &String| (least..=most).contains(&(text.chars().count() as u64));
    match schema["pattern"].as_str().and_then(|pattern| string_regex(&unanchored(pattern)).ok()) {
        Some(matching) => matching.prop_filter("length", fits).prop_map(Value::from).boxed(),
        None => {
            let longest = most.min(least.max(USUAL_LENGTH));
            let pattern = format!("[a-zA-Z0-9./-]{{{least},{longest}}}");
            let any = string_regex(&pattern).expect("a character class with a length is a pattern");
            any.prop_map(Value::from).boxed()
        }
    }
}

/// proptest makes whole matches; anchors say the same and are not understood.
fn unanchored(pattern: &str) -> String {
    let mut text = String::new();
    let (mut escaped, mut in_class) = (false, false);
    for symbol in pattern.chars() {
        let anchor = !escaped && !in_class && (symbol == '^' || symbol == '$');
        in_class = !escaped && (symbol == '[' || in_class && symbol != ']') || escaped && in_class;
        escaped = !escaped && symbol == '\\';
        if !anchor {
            text.push(symbol);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_go_and_what_looks_like_them_stays() {
        let cases = [
            ("^[a-z]+$", "[a-z]+"),
            ("^$|^[a-f0-9]{32}$", "|[a-f0-9]{32}"),
            (r"^\^[^$]\$$", r"\^[^$]\$"),
            (r"^[\]^]$", r"[\]^]"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(unanchored(pattern), expected, "{pattern}");
        }
    }
}
