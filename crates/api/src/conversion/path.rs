//! Fields of a JSON document by dotted path.

use serde_json::{Map, Value};

/// The field at `path`, if all of the way is there.
pub(super) fn get_mut<'a>(document: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').try_fold(document, |value, key| value.get_mut(key))
}

/// Removes the field at `path`, and the objects around it that are empty without it.
pub(super) fn take(document: &mut Value, path: &str) -> Option<Value> {
    let object = document.as_object_mut()?;
    let Some((key, rest)) = path.split_once('.') else { return object.remove(path) };
    let inner = object.get_mut(key)?;
    let taken = take(inner, rest)?;
    if inner.as_object().is_some_and(Map::is_empty) {
        object.remove(key);
    }
    Some(taken)
}

/// Sets the field at `path` and makes the objects on the way to it.
pub(super) fn put(document: &mut Value, path: &str, value: Value) {
    let mut place = document;
    for key in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[key];
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn taking_leaves_no_empty_objects_behind() {
        let mut document = json!({"a": {"b": {"c": 1}}, "d": {"e": 1, "f": 2}});
        assert_eq!(take(&mut document, "a.b.c"), Some(json!(1)));
        assert_eq!(take(&mut document, "d.e"), Some(json!(1)));
        assert_eq!(take(&mut document, "d.missing"), None);
        assert_eq!(take(&mut document, "missing.x"), None);
        assert_eq!(document, json!({"d": {"f": 2}}));
    }

    #[test]
    fn putting_makes_the_way() {
        let mut document = json!({"a": {"x": 1}});
        put(&mut document, "a.b.c", json!(2));
        assert_eq!(document, json!({"a": {"x": 1, "b": {"c": 2}}}));
    }
}
