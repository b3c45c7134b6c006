//! Patterns for JSON: what has to be there, leaving open what need not be the same each time.
//!
//! An object is matched field by field, more fields may be there. A list is matched element by element. A string is
//! itself, but `*` is anything, `-` is nothing (absent or null), `~x` is a regular expression, `=x` is `x` whatever it
//! begins with. An object with one field that begins with `$` asks for more: see `special` below.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use regex::Regex;
use serde_json::{Value, json};

/// How `actual` differs from `pattern`; a line each.
pub fn differences(pattern: &Value, actual: Option<&Value>) -> Vec<String> {
    let mut lines = Vec::new();
    compare(pattern, actual, "", &mut lines);
    lines
}

/// How a text differs from a pattern.
pub fn text_difference(what: &str, pattern: &str, actual: &str) -> Option<String> {
    (!text_matches(pattern, actual)).then(|| format!("{what} is {actual:?}, not {pattern:?}"))
}

/// The value at a path: names and indices with dots between, or a JSON pointer.
pub fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() || path.starts_with('/') {
        return value.pointer(path);
    }
    path.split('.').try_fold(value, |value, step| match value {
        Value::Array(list) => list.get(step.parse::<usize>().ok()?),
        _ => value.get(step),
    })
}

fn compare(pattern: &Value, actual: Option<&Value>, path: &str, lines: &mut Vec<String>) {
    let mut say =
        |line: String| lines.push(format!("{}: {line}", if path.is_empty() { "body" } else { path }));
    match (pattern, actual) {
        (Value::String(text), _) => {
            if let Some(line) = string(text, actual) {
                say(line);
            }
        }
        (Value::Object(fields), _) if fields.len() == 1 && fields.keys().all(|key| key.starts_with('$')) => {
            for (operator, operand) in fields {
                special(operator, operand, actual, path, lines);
            }
        }
        (_, None) => say(format!("is absent, not {pattern}")),
        (Value::Object(fields), Some(Value::Object(actual))) => {
            for (key, pattern) in fields {
                compare(pattern, actual.get(key), &format!("{path}.{key}"), lines);
            }
        }
        (Value::Array(patterns), Some(Value::Array(actual))) => {
            if patterns.len() != actual.len() {
                say(format!("has {} elements, not {}: {}", actual.len(), patterns.len(), short(actual)));
            }
            for (index, (pattern, actual)) in patterns.iter().zip(actual).enumerate() {
                compare(pattern, Some(actual), &format!("{path}[{index}]"), lines);
            }
        }
        (_, Some(actual)) if !same(pattern, actual) => say(format!("is {}, not {pattern}", short(actual))),
        _ => {}
    }
}

fn string(pattern: &str, actual: Option<&Value>) -> Option<String> {
    let given = actual.filter(|value| !value.is_null());
    let matches = match (pattern, given) {
        ("-", given) => given.is_none(),
        ("*", given) => given.is_some(),
        (_, None) => false,
        (_, Some(Value::String(text))) => text_matches(pattern, text),
        // A pattern for what is no string: its JSON.
        (_, Some(other)) => pattern.starts_with('~') && text_matches(pattern, &other.to_string()),
    };
    let actual = given.map_or_else(|| "absent".to_owned(), short);
    (!matches).then(|| format!("is {actual}, not {pattern:?}"))
}

fn text_matches(pattern: &str, actual: &str) -> bool {
    match pattern.split_at_checked(1) {
        Some(("~", expression)) => {
            Regex::new(&format!("(?s){expression}")).is_ok_and(|regex| regex.is_match(actual))
        }
        Some(("=", literal)) => literal == actual,
        _ if pattern == "*" => true,
        _ if pattern == "-" => actual.is_empty(),
        _ => pattern == actual,
    }
}

/// `$contains`: each pattern matches some element. `$lacks`: no pattern matches any. `$set`: as a list, in any order.
/// `$names`: the elements' metadata.name, in order. `$length`: how many elements. `$not`: the pattern does not match.
/// `$jwt`: the claims of a token. `$json`: a text that is JSON. `$owners`: managed fields, see [`owners`].
fn special(operator: &str, operand: &Value, actual: Option<&Value>, path: &str, lines: &mut Vec<String>) {
    let elements: &[Value] = actual.and_then(Value::as_array).map_or(&[], Vec::as_slice);
    let patterns: &[Value] = operand.as_array().map_or(&[], Vec::as_slice);
    let matches =
        |pattern: &Value| elements.iter().any(|element| differences(pattern, Some(element)).is_empty());
    let shown = || actual.map_or_else(|| "absent".to_owned(), short);
    let mut say = |line: String| lines.push(format!("{path}: {line}"));
    match operator {
        "$contains" | "$set" => {
            for pattern in patterns.iter().filter(|pattern| !matches(pattern)) {
                say(format!("has no {pattern} in {}", shown()));
            }
            if operator == "$set" && elements.len() != patterns.len() {
                say(format!("has {} elements, not {}: {}", elements.len(), patterns.len(), shown()));
            }
        }
        "$lacks" => {
            for pattern in patterns.iter().filter(|pattern| matches(pattern)) {
                say(format!("has {pattern}"));
            }
        }
        "$names" => {
            let names: Vec<&Value> = elements.iter().map(|element| &element["metadata"]["name"]).collect();
            if names != patterns.iter().collect::<Vec<_>>() {
                say(format!("has names {names:?}, not {operand}"));
            }
        }
        "$length" => {
            if operand.as_u64() != u64::try_from(elements.len()).ok() {
                say(format!("has {} elements, not {operand}", elements.len()));
            }
        }
        "$not" => {
            if differences(operand, actual).is_empty() {
                say(format!("is {}", shown()));
            }
        }
        "$jwt" | "$json" => {
            let text = actual.and_then(Value::as_str).unwrap_or_default();
            let inner = if operator == "$jwt" { claims(text) } else { serde_json::from_str(text).ok() };
            compare(operand, inner.as_ref(), &format!("{path}({operator})"), lines);
        }
        "$owners" => owners(operand, elements).into_iter().for_each(say),
        _ => say(format!("no such pattern: {operator}")),
    }
}

/// Managed fields: no more entries than are named. A name is a manager, what it did (`Apply`, `Update/status`) and, if
/// that is wanted, the version; the fields are exactly those given.
fn owners(wanted: &Value, entries: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    let wanted = wanted.as_object().cloned().unwrap_or_default();
    for (name, fields) in &wanted {
        let words: Vec<&str> = name.split(' ').collect();
        let found = entries.iter().find(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            let mut operation = text("operation").to_owned();
            if !text("subresource").is_empty() {
                operation += &format!("/{}", text("subresource"));
            }
            let has = [text("manager"), &operation, text("apiVersion")];
            has.iter().zip(&words).all(|(has, wanted)| has == wanted)
        });
        match found {
            Some(entry) if entry["fieldsV1"] == *fields => {}
            Some(entry) => wrong.push(format!("{name} owns {}, not {fields}", entry["fieldsV1"])),
            None => wrong.push(format!("{name} owns nothing: {}", short(json!(entries)))),
        }
    }
    if entries.len() != wanted.len() {
        wrong.push(format!("has {} owners: {}", entries.len(), short(json!(entries))));
    }
    wrong
}

/// What a token claims, unchecked.
fn claims(token: &str) -> Option<Value> {
    let payload = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&payload).ok()
}

/// Equal as JSON is: 1 and 1.0 are one number.
fn same(pattern: &Value, actual: &Value) -> bool {
    pattern == actual || pattern.as_f64().is_some_and(|number| Some(number) == actual.as_f64())
}

/// As JSON, cut where it gets long.
fn short(value: impl serde::Serialize) -> String {
    const MOST: usize = 600;
    let text = serde_json::to_string(&value).unwrap_or_default();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
        let body = json!({"a": "x", "n": 1, "list": [{"metadata": {"name": "p"}}, {"metadata": {"name": "q"}}],
            "null": null, "token": "e30.eyJhIjoxfQ.x"});
        let fits = [
            json!({"a": "x"}),
            json!({"a": "~^[xy]$", "n": "*", "none": "-", "null": "-"}),
            json!({"n": 1.0}),
            json!({"list": {"$names": ["p", "q"]}}),
            json!({"list": {"$set": [{"metadata": {"name": "q"}}, {"metadata": {"name": "p"}}]}}),
            json!({"list": {"$contains": [{"metadata": {"name": "q"}}]}}),
            json!({"list": {"$lacks": [{"metadata": {"name": "r"}}]}}),
            json!({"list": {"$length": 2}}),
            json!({"a": {"$not": "y"}}),
            json!({"token": {"$jwt": {"a": 1}}}),
        ];
        for pattern in fits {
            assert_eq!(differences(&pattern, Some(&body)), Vec::<String>::new(), "{pattern}");
        }
        let fails = [
            json!({"a": "y"}),
            json!({"a": "-"}),
            json!({"none": "*"}),
            json!({"none": null}),
            json!({"n": "1"}),
            json!({"list": []}),
            json!({"list": {"$names": ["q", "p"]}}),
            json!({"list": {"$set": [{"metadata": {"name": "q"}}]}}),
            json!({"list": {"$lacks": [{"metadata": {"name": "q"}}]}}),
            json!({"list": {"$length": 1}}),
            json!({"a": {"$not": "x"}}),
            json!({"token": {"$jwt": {"a": 2}}}),
            json!({"a": {"$nonsense": 1}}),
        ];
        for pattern in fails {
            assert_ne!(differences(&pattern, Some(&body)), Vec::<String>::new(), "{pattern}");
        }
    }

    #[test]
    fn owners_are_matched_exactly() {
        let owned = json!({"f:a": {}});
        let entry = |manager: &str, subresource: &str| json!({"manager": manager, "operation": "Update", "subresource": subresource, "apiVersion": "v1", "fieldsV1": owned});
        let body = json!([entry("a", ""), entry("a", "status")]);
        for (wanted, fits) in [
            (json!({"a Update": owned, "a Update/status v1": owned}), true),
            (json!({"a Update": owned}), false),
            (json!({"a Update": {}, "a Update/status": owned}), false),
            (json!({"a Update v2": owned, "a Update/status": owned}), false),
            (json!({"b Update": owned, "a Update/status": owned}), false),
        ] {
            let found = differences(&json!({"$owners": wanted}), Some(&body));
            assert_eq!(found.is_empty(), fits, "{wanted}");
        }
    }

    #[test]
    fn places_are_found_by_dots_or_pointers() {
        let body = json!({"a": [{"b.c": 1, "d": 2}]});
        assert_eq!(at(&body, "a.0.d"), Some(&json!(2)));
        assert_eq!(at(&body, "/a/0/b.c"), Some(&json!(1)));
        assert_eq!(at(&body, "a.1"), None);
    }
}
