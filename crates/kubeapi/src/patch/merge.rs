//! JSON merge patches (RFC 7396).

use serde_json::{Map, Value};

use super::{Error, json_name};

/// The object with the patch merged into it.
///
/// # Errors
/// If the patch is not an object.
pub fn apply(object: &Value, patch: &Value) -> Result<Value, Error> {
    if !patch.is_object() {
        let what = json_name(patch);
        return Err(Error::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        )));
    }
    let mut merged = object.clone();
    merge(&mut merged, patch);
    Ok(merged)
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, change) in patch {
        match change {
            Value::Null => drop(target.remove(key)),
            change => merge(target.entry(key.clone()).or_insert(Value::Null), change),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        for (object, patch, wanted) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(apply(&object, &patch).unwrap(), wanted, "{object} {patch}");
        }
    }

    #[test]
    fn only_objects_are_patches() {
        let message = |what: &str| {
            format!(
                "error decoding patch: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
            )
        };
        for (patch, what) in [(json!([]), "array"), (json!("a"), "string"), (json!(1), "number")] {
            assert_eq!(apply(&json!({}), &patch).unwrap_err().to_string(), message(what));
        }
    }

    proptest! {
        #[test]
        fn twice_is_as_good_as_once(a in "[a-c]", b in "[a-c]", c in 0..3, d in proptest::option::of(0..3)) {
            let object = json!({a.clone(): {b.clone(): c}});
            let patch = json!({b: d, a: {"x": d}});
            let once = apply(&object, &patch).unwrap();
            prop_assert_eq!(apply(&once, &patch).unwrap(), once);
        }
    }
}
