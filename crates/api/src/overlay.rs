//! Carrying changes onto a JSON document whose every field we do not know.
//!
//! A typed view of an object drops what its type does not name. Writing that view back would drop it from the API
//! server as well. So a writer never sends its view: it sends the document it read with the *difference* it made
//! carried over. The same function restores what a conversion between API versions could not express.

use serde_json::{Map, Value};

/// What [`carry`] matches list items by, in this order: the keys that Kubernetes lists of objects are keyed by.
const IDENTITY_KEYS: [&str; 5] = ["uid", "name", "type", "key", "host"];

/// What goes when a sub-object is taken out of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The fields that the view knows. For views that know a part: what somebody else put there stays.
    OfWhatIsKnown,
    /// The whole sub-object. For views that know everything, but for spellings of "nothing".
    OfTheWhole,
}

/// Applies the difference between `before` and `after` to `onto`.
///
/// `before` and `after` are two states of a view of `onto`; the view may lack fields that `onto` has.
///
/// # Guarantees
/// - Nothing changed (`before == after`): the result is `onto`, to the letter.
/// - A value that differs between `before` and `after` has `after`'s value in the result.
/// - Fields of `onto` that the view does not have stay, also in sub-objects that come into the view or (as `removal`
///   says) leave it, and inside list items as long as the item is still there: same content, else same identity key,
///   else (for items without one) same position in a list of the same length.
pub fn carry(onto: &Value, before: &Value, after: &Value, removal: Removal) -> Value {
    if before == after {
        return onto.clone();
    }
    match (onto, before, after) {
        (Value::Object(onto), Value::Object(before), Value::Object(after)) => {
            Value::Object(carry_object(onto, before, after, removal))
        }
        (Value::Array(onto), Value::Array(before), Value::Array(after)) if onto.len() == before.len() => {
            Value::Array(carry_list(onto, before, after, removal))
        }
        _ => after.clone(),
    }
}

fn carry_object(
    onto: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    removal: Removal,
) -> Map<String, Value> {
    let mut result = onto.clone();
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    for key in removed.chain(after.keys()) {
        let (old, new) = (before.get(key), after.get(key));
        if old == new {
            continue;
        }
        match carry_field(onto.get(key), old, new, removal) {
            Some(value) => result.insert(key.clone(), value),
            None => result.remove(key),
        };
    }
    result
}

/// The new value of a field whose view has changed; `None` if the field goes.
fn carry_field(
    onto: Option<&Value>,
    old: Option<&Value>,
    new: Option<&Value>,
    removal: Removal,
) -> Option<Value> {
    // A view leaves out sub-objects of which it knows nothing.
    let nothing = Value::Object(Map::new());
    let sub_object = onto.is_some_and(Value::is_object) && old.is_none_or(Value::is_object);
    match (onto, new) {
        (Some(onto), Some(new)) if sub_object => Some(carry(onto, old.unwrap_or(&nothing), new, removal)),
        (Some(onto), Some(new)) => {
            old.map(|old| carry(onto, old, new, removal)).or_else(|| Some(new.clone()))
        }
        (None, new) => new.cloned(),
        (Some(onto), None) if sub_object && removal == Removal::OfWhatIsKnown => {
            let left = carry(onto, old.unwrap_or(&nothing), &nothing, removal);
            (left != nothing).then_some(left)
        }
        (Some(_), None) => None,
    }
}

fn carry_list(onto: &[Value], before: &[Value], after: &[Value], removal: Removal) -> Vec<Value> {
    let origins = origins(before, after);
    let carried = |(item, origin): (&Value, Option<usize>)| match origin {
        Some(index) => carry(&onto[index], &before[index], item, removal),
        None => item.clone(),
    };
    after.iter().zip(origins).map(carried).collect()
}

/// For each item of `after`, which item of `before` it was.
fn origins(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let mut origins = vec![None; after.len()];
    let mut free = vec![true; before.len()];
    let same_length = before.len() == after.len();
    let equal = |index: usize, position: usize| before[index] == after[position];
    let same = |index: usize, position: usize| same_item(&before[index], &after[position]);
    let placed = |index: usize, position: usize| {
        same_length && index == position && identity_key(&before[index], &after[position]).is_none()
    };
    let rules: [&dyn Fn(usize, usize) -> bool; 3] = [&equal, &same, &placed];
    for rule in rules {
        for (position, origin) in origins.iter_mut().enumerate().filter(|(_, origin)| origin.is_none()) {
            *origin = (0..before.len()).find(|&index| free[index] && rule(index, position));
            origin.iter().for_each(|&index| free[index] = false);
        }
    }
    origins
}

fn same_item(left: &Value, right: &Value) -> bool {
    match identity_key(left, right) {
        Some(key) => left.get(key) == right.get(key),
        None => left == right,
    }
}

/// The key that tells whether two objects are the same item; none for other values.
fn identity_key(left: &Value, right: &Value) -> Option<&'static str> {
    IDENTITY_KEYS.into_iter().find(|key| left.get(key).is_some() || right.get(key).is_some())
}

/// The RFC 7396 merge patch that turns `from` into `to`; `None` if they are equal.
///
/// A merge patch cannot set a field to null, so a null in `to` reads as "absent".
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return Some(to.clone());
    };
    let mut patch = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, new) in to {
        match from.get(key) {
            Some(old) => {
                if let Some(change) = merge_patch(old, new) {
                    patch.insert(key.clone(), change);
                }
            }
            None => {
                patch.insert(key.clone(), new.clone());
            }
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn carries_only_the_difference() {
        let carry = |onto: &Value, before: &Value, after: &Value| {
            super::carry(onto, before, after, Removal::OfWhatIsKnown)
        };
        struct Case {
            name: &'static str,
            onto: Value,
            before: Value,
            after: Value,
            expected: Value,
        }
        let cases = [
            Case {
                name: "no change keeps even what the view normalised away",
                onto: json!({"a": 1, "empty": {}, "null": null}),
                before: json!({"a": 1}),
                after: json!({"a": 1}),
                expected: json!({"a": 1, "empty": {}, "null": null}),
            },
            Case {
                name: "unknown fields survive at every depth",
                onto: json!({"spec": {"known": 1, "foreign": {"x": true}}, "top": "kept"}),
                before: json!({"spec": {"known": 1}}),
                after: json!({"spec": {"known": 2}}),
                expected: json!({"spec": {"known": 2, "foreign": {"x": true}}, "top": "kept"}),
            },
            Case {
                name: "a field taken out of the view goes, its unknown neighbours stay",
                onto: json!({"spec": {"known": 1, "foreign": 2}}),
                before: json!({"spec": {"known": 1}}),
                after: json!({"spec": {}}),
                expected: json!({"spec": {"foreign": 2}}),
            },
            Case {
                name: "list items are matched by name across reordering, insertion and removal",
                onto: json!([{"name": "a", "x": 1}, {"name": "b", "x": 2}, {"name": "c", "x": 3}]),
                before: json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]),
                after: json!([{"name": "c", "n": 1}, {"name": "new"}, {"name": "a"}]),
                expected: json!([{"name": "c", "n": 1, "x": 3}, {"name": "new"}, {"name": "a", "x": 1}]),
            },
            Case {
                name: "a renamed item is a new item even at the same position",
                onto: json!([{"name": "a", "x": 1}]),
                before: json!([{"name": "a"}]),
                after: json!([{"name": "b"}]),
                expected: json!([{"name": "b"}]),
            },
            Case {
                name: "items without a key are matched by content, then by position",
                onto: json!([{"v": 1, "x": "one"}, {"v": 2, "x": "two"}]),
                before: json!([{"v": 1}, {"v": 2}]),
                after: json!([{"v": 2}, {"v": 3}]),
                expected: json!([{"v": 2, "x": "two"}, {"v": 3}]),
            },
            Case {
                name: "of items with the same key, the equal one is the same one",
                onto: json!([{"type": "IP", "a": 1, "x": 1}, {"type": "IP", "a": 2, "x": 2}]),
                before: json!([{"type": "IP", "a": 1}, {"type": "IP", "a": 2}]),
                after: json!([{"type": "IP", "a": 2}]),
                expected: json!([{"type": "IP", "a": 2, "x": 2}]),
            },
            Case {
                name: "a sub-object comes into the view: what it had stays",
                onto: json!({"s": {"foreign": 1}}),
                before: json!({}),
                after: json!({"s": {"known": true}}),
                expected: json!({"s": {"foreign": 1, "known": true}}),
            },
            Case {
                name: "a sub-object leaves the view: what is foreign in it stays",
                onto: json!({"s": {"known": true, "t": {"deep": 1, "foreign": 2}}, "gone": {"known": 1}}),
                before: json!({"s": {"known": true, "t": {"deep": 1}}, "gone": {"known": 1}}),
                after: json!({}),
                expected: json!({"s": {"t": {"foreign": 2}}}),
            },
            Case {
                name: "a change of type takes the new value",
                onto: json!({"a": {"x": 1}}),
                before: json!({"a": {}}),
                after: json!({"a": [1]}),
                expected: json!({"a": [1]}),
            },
        ];
        for case in cases {
            assert_eq!(carry(&case.onto, &case.before, &case.after), case.expected, "{}", case.name);
        }
    }

    #[test]
    fn a_view_that_knows_everything_removes_everything() {
        let (onto, before) = (json!({"s": {"known": 1, "flag": false}}), json!({"s": {"known": 1}}));
        assert_eq!(carry(&onto, &before, &json!({}), Removal::OfTheWhole), json!({}));
        let cleared = carry(&onto, &before, &json!({"s": {}}), Removal::OfTheWhole);
        assert_eq!(cleared, json!({"s": {"flag": false}}));
    }

    #[test]
    fn merge_patches() {
        let cases = [
            (json!({"a": 1}), json!({"a": 1}), None),
            (
                json!({"a": 1, "b": {"c": 1, "d": 2}}),
                json!({"b": {"c": 3, "d": 2}}),
                Some(json!({"a": null, "b": {"c": 3}})),
            ),
            (json!({"l": [1, 2]}), json!({"l": [2]}), Some(json!({"l": [2]}))),
            (json!({}), json!({"n": {"x": {}}}), Some(json!({"n": {"x": {}}}))),
        ];
        for (from, to, expected) in cases {
            assert_eq!(merge_patch(&from, &to), expected, "{from} -> {to}");
        }
    }
}
