//! JSON patches (RFC 6902), with the liberties that Kubernetes takes: a replace may add, a copy may copy what is not
//! there (as null), a value may be left out (null), an index may count from the end.

use serde_json::Value;

use super::{Error, json_name};
use crate::limits::{Exceeded, Limits};

/// Most operations in one patch.
pub const MOST_OPERATIONS: usize = 10_000;
/// Most bytes that the copies of one patch may make.
pub const MOST_COPIED: usize = 3 * 1024 * 1024;
/// Most values that one patch may put somewhere or compare, all operations together: ten times the largest object.
const MOST_WORK: usize = 10 * Limits::REQUEST.values;

/// The object after all operations; all of them apply, or none.
///
/// # Errors
/// If it is no list of operations, too long a list, or an operation does not apply.
pub fn apply(object: &Value, patch: &Value) -> Result<Value, Error> {
    let Value::Array(operations) = patch else {
        return Err(undecodable(patch, "[]handlers.jsonPatchOp"));
    };
    if let Some(wrong) = operations.iter().find(|operation| !operation.is_object()) {
        return Err(undecodable(wrong, "handlers.jsonPatchOp"));
    }
    if operations.len() > MOST_OPERATIONS {
        return Err(Error::TooManyOperations(operations.len()));
    }
    let mut patching = Patching { document: object.clone(), copied: 0, left: MOST_WORK };
    for operation in operations {
        patching.one(operation).map_err(Error::DoesNotApply)?;
    }
    Ok(patching.document)
}

fn undecodable(value: &Value, into: &str) -> Error {
    let what = json_name(value);
    Error::Malformed(format!(
        "error decoding patch: json: cannot unmarshal {what} into Go value of type {into}"
    ))
}

/// A patch on its way.
struct Patching {
    document: Value,
    /// Bytes that copies have made so far.
    copied: usize,
    /// Values that may still be put somewhere.
    left: usize,
}

impl Patching {
    fn one(&mut self, operation: &Value) -> Result<(), String> {
        let text = |field: &str| operation[field].as_str();
        let kind = text("op").unwrap_or("unknown");
        let path =
            text("path").ok_or_else(|| format!("{kind} operation failed to decode path: missing value"));
        let from =
            text("from").ok_or_else(|| format!("{kind} operation failed to decode from: missing value"));
        let value = &operation["value"];
        match kind {
            "add" => self.add(path?, value.clone()),
            "remove" => remove(&mut self.document, path?, &mut self.left).map(drop),
            "replace" => {
                let path = path?;
                self.weigh(value, path)?;
                replace(&mut self.document, path, value.clone())
            }
            "move" => {
                let (from, path) = (from?, path?);
                let moved = remove(&mut self.document, from, &mut self.left)?;
                self.add(path, moved)
            }
            "copy" => self.copy(from?, path?),
            "test" => self.test(path?, value),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    /// Whether a value may be put where a path leads: copies and moves could make an object deeper than any stack,
    /// and a short patch could do the work of a long one.
    fn weigh(&mut self, value: &Value, path: &str) -> Result<(), String> {
        let outside = path.matches('/').count();
        Limits::REQUEST.check_within(value, outside, &mut self.left).map_err(|exceeded| exceeded.to_string())
    }

    fn add(&mut self, path: &str, value: Value) -> Result<(), String> {
        self.weigh(&value, path)?;
        add(&mut self.document, path, value, &mut self.left)
    }

    fn copy(&mut self, from: &str, path: &str) -> Result<(), String> {
        let value = get(&mut self.document, from)?.clone();
        self.copied += value.to_string().len();
        match self.copied > MOST_COPIED {
            true => Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MOST_COPIED}",
                self.copied
            )),
            false => self.add(path, value),
        }
    }

    fn test(&mut self, path: &str, value: &Value) -> Result<(), String> {
        self.weigh(value, "")?;
        let same = get(&mut self.document, path)? == value;
        if same { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
    }
}

/// The list or object that holds what a path names, and its key there.
fn holder<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    // What stands before the first slash is not looked at.
    let (_, keys) = path.split_once('/')?;
    let mut keys: Vec<String> =
        keys.split('/').map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
    let last = keys.pop()?;
    let mut at = document;
    for key in keys {
        at = match at {
            Value::Object(map) => map.get_mut(&key)?,
            Value::Array(list) => {
                let index = index(&key, list.len())?;
                list.get_mut(index)?
            }
            _ => return None,
        };
    }
    (at.is_object() || at.is_array()).then_some((at, last))
}

/// An index into a list; from the end if it is negative.
fn index(key: &str, length: usize) -> Option<usize> {
    let number: i64 = key.parse().ok()?;
    let index = match number < 0 {
        true => i64::try_from(length).ok()? + number,
        false => number,
    };
    usize::try_from(index).ok()
}

fn found<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    holder(document, path).ok_or_else(|| format!("doc is missing path: {path:?}: missing value"))
}

fn bad_index(key: &str) -> String {
    format!("Unable to access invalid index: {key}: invalid index referenced")
}

/// Makes room in a list, or closes a gap: what comes behind has to move.
fn shift(list: &[Value], place: usize, left: &mut usize) -> Result<(), String> {
    let rest = left.checked_sub(list.len().saturating_sub(place));
    *left = rest.ok_or_else(|| Exceeded::Values.to_string())?;
    Ok(())
}

fn add(document: &mut Value, path: &str, value: Value, left: &mut usize) -> Result<(), String> {
    let (holder, key) = found(document, path)?;
    match holder {
        Value::Object(map) => drop(map.insert(key, value)),
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => {
            let place = index(&key, list.len() + 1).filter(|place| *place <= list.len());
            let place = place.ok_or_else(|| bad_index(&key))?;
            shift(list, place, left)?;
            list.insert(place, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str, left: &mut usize) -> Result<Value, String> {
    let (holder, key) = found(document, path)?;
    match holder {
        Value::Array(list) => {
            let place = index(&key, list.len()).filter(|place| *place < list.len());
            let place = place.ok_or_else(|| bad_index(&key))?;
            shift(list, place, left)?;
            Ok(list.remove(place))
        }
        holder => holder
            .as_object_mut()
            .and_then(|map| map.remove(&key))
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value")),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".into());
        }
        *document = value;
        return Ok(());
    }
    let (holder, key) = found(document, path)?;
    match holder {
        Value::Array(list) => {
            let place = index(&key, list.len());
            *place.and_then(|place| list.get_mut(place)).ok_or_else(|| bad_index(&key))? = value;
        }
        holder => holder[&key] = value,
    }
    Ok(())
}

/// What is not there in an object is null.
fn get<'a>(document: &'a mut Value, path: &str) -> Result<&'a Value, String> {
    if path.is_empty() {
        return Ok(document);
    }
    let (holder, key) = found(document, path)?;
    match holder {
        Value::Array(list) => {
            let place = index(&key, list.len());
            place.and_then(|place| list.get(place)).ok_or_else(|| bad_index(&key))
        }
        holder => Ok(holder.get(&key).unwrap_or(&Value::Null)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Status;

    #[test]
    fn operations_apply_in_order() {
        let object = json!({"a": 1, "b": [1, 2, 3], "c": {"d/e": 1, "f~g": 2}});
        for (patch, pointer, wanted) in [
            (json!([{"op": "add", "path": "/x", "value": 5}]), "/x", json!(5)),
            (json!([{"op": "add", "path": "/b/-", "value": 4}]), "/b", json!([1, 2, 3, 4])),
            (json!([{"op": "add", "path": "/b/0", "value": 0}]), "/b", json!([0, 1, 2, 3])),
            (json!([{"op": "add", "path": "/b/3", "value": 0}]), "/b", json!([1, 2, 3, 0])),
            (json!([{"op": "add", "path": "/b/-1", "value": 4}]), "/b", json!([1, 2, 3, 4])),
            (json!([{"op": "remove", "path": "/b/-1"}]), "/b", json!([1, 2])),
            (json!([{"op": "remove", "path": "/c/d~1e"}]), "/c", json!({"f~g": 2})),
            (json!([{"op": "replace", "path": "/c/f~0g", "value": 3}]), "/c/f~0g", json!(3)),
            (json!([{"op": "replace", "path": "/new", "value": 3}]), "/new", json!(3)),
            (json!([{"op": "replace", "path": "", "value": {"z": 1}}]), "", json!({"z": 1})),
            (json!([{"op": "move", "from": "/a", "path": "/c/a"}]), "/c/a", json!(1)),
            (json!([{"op": "copy", "from": "/a", "path": "/c/a"}]), "/a", json!(1)),
            (json!([{"op": "copy", "from": "/none", "path": "/n"}]), "/n", json!(null)),
            (json!([{"op": "add", "path": "/v"}]), "/v", json!(null)),
            (
                json!([{"op": "test", "path": "/a", "value": 1}, {"op": "remove", "path": "/b"}]),
                "/a",
                json!(1),
            ),
            (json!([{"op": "test", "path": "/none", "value": null}]), "/a", json!(1)),
        ] {
            let patched = apply(&object, &patch).unwrap();
            assert_eq!(patched.pointer(pointer), Some(&wanted), "{patch}");
        }
    }

    #[test]
    fn what_does_not_apply_is_refused_as_a_whole() {
        let object = json!({"a": 1, "b": [1]});
        for (patch, why) in [
            (json!([{"op": "test", "path": "/a", "value": 2}]), "testing value /a failed: test failed"),
            (json!([{"op": "test", "path": "/z", "value": 2}]), "testing value /z failed: test failed"),
            (json!([{"op": "remove", "path": "/z"}]), "Unable to remove nonexistent key: z: missing value"),
            (
                json!([{"op": "add", "path": "/z/y", "value": 1}]),
                "doc is missing path: \"/z/y\": missing value",
            ),
            (json!([{"op": "add", "path": "", "value": {}}]), "doc is missing path: \"\": missing value"),
            (json!([{"op": "add", "path": "a", "value": 1}]), "doc is missing path: \"a\": missing value"),
            (
                json!([{"op": "add", "path": "/b/2", "value": 1}]),
                "Unable to access invalid index: 2: invalid index referenced",
            ),
            (
                json!([{"op": "remove", "path": "/b/-2"}]),
                "Unable to access invalid index: -2: invalid index referenced",
            ),
            (
                json!([{"op": "replace", "path": "/b/x", "value": 1}]),
                "Unable to access invalid index: x: invalid index referenced",
            ),
            (
                json!([{"op": "move", "from": "/q", "path": "/a"}]),
                "Unable to remove nonexistent key: q: missing value",
            ),
            (json!([{"op": "spin", "path": "/a"}]), "Unexpected kind: spin"),
            (json!([{"path": "/a"}]), "Unexpected kind: unknown"),
            (json!([{"op": "add"}]), "add operation failed to decode path: missing value"),
        ] {
            let error = apply(&object, &patch).unwrap_err();
            assert_eq!(error.to_string(), why, "{patch}");
            let status = Status::from(error);
            assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
            assert_eq!(status.message, "the server rejected our request due to an error in our request");
        }
    }

    #[test]
    fn patches_have_limits() {
        let many = |count: usize| Value::Array(vec![json!({"op": "test", "path": "/a", "value": 1}); count]);
        assert!(apply(&json!({"a": 1}), &many(10_000)).is_ok());
        let status = Status::from(apply(&json!({"a": 1}), &many(10_001)).unwrap_err());
        assert_eq!(status.code, 413);
        assert_eq!(
            status.message,
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
        let doubling = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 40]);
        let grown = apply(&json!({"a": ["x"]}), &doubling).unwrap_err();
        assert!(grown.to_string().starts_with("Unable to complete the copy"), "{grown}");
        let folding = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/b"}); 200]);
        let deep = apply(&json!({"a": {"b": {}}}), &folding).unwrap_err();
        assert_eq!(deep.to_string(), "exceeded max depth");
        let wide = json!({"a": vec![1; 100_000]});
        let moving = |count| {
            let there = json!({"op": "move", "from": "/a", "path": "/b"});
            let back = json!({"op": "move", "from": "/b", "path": "/a"});
            Value::Array([there, back].into_iter().cycle().take(count).collect())
        };
        assert!(apply(&wide, &moving(20)).is_ok());
        assert_eq!(apply(&wide, &moving(40)).unwrap_err().to_string(), "exceeded max number of values");
    }

    #[test]
    fn other_documents_are_no_patches() {
        for (patch, message) in [
            (
                json!({}),
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            (
                json!([1]),
                "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            ),
        ] {
            let status = Status::from(apply(&json!({}), &patch).unwrap_err());
            assert_eq!((status.code, status.message.as_str()), (400, message));
        }
    }
}
