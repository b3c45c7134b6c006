//! JSON patches (RFC 6902), with the liberties that Kubernetes takes: a replace may add, a copy may copy what is not
//! there (as null), a value may be left out (null), an index may count from the end.

use serde_json::Value;

use super::{Error, json_name};

/// Most operations in one patch.
pub const MOST_OPERATIONS: usize = 10_000;
/// Most bytes that the copies of one patch may make.
pub const MOST_COPIED: usize = 3 * 1024 * 1024;

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
    let mut document = object.clone();
    let mut copied = 0;
    for operation in operations {
        one(&mut document, operation, &mut copied).map_err(Error::DoesNotApply)?;
    }
    Ok(document)
}

fn undecodable(value: &Value, into: &str) -> Error {
    let what = json_name(value);
    Error::Malformed(format!(
        "error decoding patch: json: cannot unmarshal {what} into Go value of type {into}"
    ))
}

fn one(document: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), String> {
    let text = |field: &str| operation[field].as_str();
    let kind = text("op").unwrap_or("unknown");
    let path = text("path").ok_or_else(|| format!("{kind} operation failed to decode path: missing value"));
    let from = text("from").ok_or_else(|| format!("{kind} operation failed to decode from: missing value"));
    let value = operation["value"].clone();
    match kind {
        "add" => add(document, path?, value),
        "remove" => remove(document, path?).map(drop),
        "replace" => replace(document, path?, value),
        "move" => {
            let (from, path) = (from?, path?);
            let moved = remove(document, from)?;
            add(document, path, moved)
        }
        "copy" => {
            let (from, path) = (from?, path?);
            let value = get(document, from)?;
            *copied += value.to_string().len();
            match *copied > MOST_COPIED {
                true => Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MOST_COPIED}"
                )),
                false => add(document, path, value),
            }
        }
        "test" => {
            let path = path?;
            let same = get(document, path)? == value;
            if same { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
        }
        other => Err(format!("Unexpected kind: {other}")),
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

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let (holder, key) = found(document, path)?;
    match holder {
        Value::Object(map) => drop(map.insert(key, value)),
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => {
            let place = index(&key, list.len() + 1).filter(|place| *place <= list.len());
            list.insert(place.ok_or_else(|| bad_index(&key))?, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    let (holder, key) = found(document, path)?;
    match holder {
        Value::Array(list) => {
            let place = index(&key, list.len()).filter(|place| *place < list.len());
            Ok(list.remove(place.ok_or_else(|| bad_index(&key))?))
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
fn get(document: &mut Value, path: &str) -> Result<Value, String> {
    if path.is_empty() {
        return Ok(document.clone());
    }
    let (holder, key) = found(document, path)?;
    match holder {
        Value::Array(list) => {
            let place = index(&key, list.len());
            place.and_then(|place| list.get(place)).cloned().ok_or_else(|| bad_index(&key))
        }
        holder => Ok(holder.get(&key).cloned().unwrap_or(Value::Null)),
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
            "Request entity is too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
        let doubling = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 40]);
        let grown = apply(&json!({"a": ["x"]}), &doubling).unwrap_err();
        assert!(grown.to_string().starts_with("Unable to complete the copy"), "{grown}");
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
