//! Whether converted objects are the same objects.

use kubeapi::gotype::type_name;
use kubeapi::{FieldError, Path, meta};
use serde_json::{Map, Value, json};

use crate::registry::Family;

/// An object in a version that its CRD does not have cannot be converted.
pub(super) fn known_version(family: &Family, group: &str, object: &Value) -> Result<(), String> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let known = version
        .split_once('/')
        .is_some_and(|(in_group, version)| in_group == group && family.versions.contains_key(version));
    match known {
        true => Ok(()),
        false => Err(format!("request to convert CR from an invalid group/version: {version}")),
    }
}

/// What is wrong with a converted object. Upstream words it in one way for a single object, in another for several.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
struct Wrong {
    /// What the sentence about a single object calls it.
    what: &'static str,
    why: String,
}

impl Wrong {
    fn kind(why: String) -> Self {
        Wrong { what: "object at index 0", why }
    }

    fn object(why: String) -> Self {
        Wrong { what: "object", why }
    }

    fn metadata(why: String) -> Self {
        Wrong { what: "metadata", why }
    }
}

/// Checks what a converter made of `originals`. Metadata other than labels and annotations stays as it was.
pub(super) fn all(
    about: &str,
    originals: &[Value],
    converted: Vec<Value>,
    to: &str,
) -> Result<Vec<Value>, String> {
    if converted.len() != originals.len() {
        let (found, wanted) = (converted.len(), originals.len());
        return Err(format!("{about} returned {found} objects, expected {wanted}"));
    }
    let single = originals.len() == 1;
    let invalid = |index: usize, wrong: Wrong| match single {
        true => format!("{about} returned invalid {}: {wrong}", wrong.what),
        false => format!("{about} returned invalid converted object at index {index}: {wrong}"),
    };
    let pairs = originals.iter().zip(converted).enumerate();
    pairs.map(|(index, (old, new))| one(old, new, to).map_err(|wrong| invalid(index, wrong))).collect()
}

fn one(original: &Value, mut converted: Value, to: &str) -> Result<Value, Wrong> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if converted["apiVersion"] != to {
        let found = text(&converted["apiVersion"]);
        return Err(Wrong::kind(format!("invalid groupVersion (expected {to}, received {found})")));
    }
    if converted["kind"] != original["kind"] {
        let (wanted, found) = (text(&original["kind"]), text(&converted["kind"]));
        return Err(Wrong::kind(format!("invalid kind (expected {wanted}, received {found})")));
    }
    for (field, word) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (wanted, found) = (meta::text(original, field), meta::text(&converted, field));
        if wanted != found {
            return Err(Wrong::object(format!("must have the same {word}: {wanted} != {found}")));
        }
    }
    let given = match converted["metadata"].take() {
        Value::Object(given) => given,
        Value::Null => return Err(Wrong::metadata("missing metadata in converted object".into())),
        other => {
            let kind = type_name(&other);
            return Err(Wrong::metadata(format!("invalid metadata of type {kind} in converted object")));
        }
    };
    converted["metadata"] = restored(&original["metadata"], &given).map_err(Wrong::metadata)?;
    Ok(converted)
}

/// The original's metadata with the labels and annotations that were given.
fn restored(original: &Value, given: &Map<String, Value>) -> Result<Value, String> {
    let mut metadata = original.as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match given.get(field) {
            None | Some(Value::Null) => drop(metadata.remove(field)),
            Some(Value::Object(entries)) => {
                if metadata.get(field).and_then(Value::as_object) != Some(entries) {
                    check_entries(field, entries)?;
                }
                metadata.insert(field.into(), Value::Object(entries.clone()));
            }
            Some(other) => {
                let kind = type_name(other);
                return Err(format!("invalid metadata.{field} of type {kind} in converted object"));
            }
        }
    }
    Ok(Value::Object(metadata))
}

fn check_entries(field: &str, entries: &Map<String, Value>) -> Result<(), String> {
    if let Some((key, value)) = entries.iter().find(|(_, value)| !value.is_string()) {
        let kind = type_name(value);
        return Err(format!("metadata.{field}[{key}] must be a string, but is {kind} in converted object"));
    }
    // Judged as if it were all the metadata of an object with a good name.
    let metadata = json!({"name": "a", field: entries});
    let rule = kubeapi::name::is_subdomain;
    let errors = meta::validate(&metadata, false, rule, &Path::new("metadata"));
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.to_string()),
        many => {
            let texts: Vec<String> = many.iter().map(FieldError::to_string).collect();
            Err(format!("[{}]", texts.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_converted_object_is_the_same_object() {
        let object = |version: &str, metadata: Value| json!({"apiVersion": format!("x.io/{version}"), "kind": "Thing", "metadata": metadata});
        let metadata = json!({"name": "a", "uid": "u", "generation": 3, "labels": {"l": "1"}});
        let original = object("v1", metadata);
        let with = |given: Value| one(&original, object("v2", given), "x.io/v2").map_err(|wrong| wrong.why);
        let wanted = json!({"name": "a", "uid": "u", "generation": 3, "annotations": {"n": "2"}});
        let given = json!({"name": "a", "uid": "u", "generation": 9, "annotations": {"n": "2"}});
        assert_eq!(with(given), Ok(object("v2", wanted)));
        for (given, why) in [
            (json!({"name": "b", "uid": "u"}), "must have the same name: a != b"),
            (json!({"name": "a", "uid": "v"}), "must have the same UID: u != v"),
            (
                json!({"name": "a", "uid": "u", "labels": {"l": 1}}),
                "metadata.labels[l] must be a string, but is int64 in converted object",
            ),
            (
                json!({"name": "a", "uid": "u", "labels": []}),
                "invalid metadata.labels of type []interface {} in converted object",
            ),
            (
                json!({"name": "a", "uid": "u", "labels": {"l": "!"}}),
                "metadata.labels: Invalid value: \"!\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ),
        ] {
            assert_eq!(with(given), Err(why.to_owned()));
        }
        let stale = object("v1", json!({}));
        let why = "invalid groupVersion (expected x.io/v2, received x.io/v1)";
        for (count, converted, wanted) in [
            (1, vec![], "it returned 0 objects, expected 1".to_owned()),
            (1, vec![stale.clone()], format!("it returned invalid object at index 0: {why}")),
            (
                2,
                vec![stale.clone(), stale],
                format!("it returned invalid converted object at index 0: {why}"),
            ),
        ] {
            assert_eq!(all("it", &vec![original.clone(); count], converted, "x.io/v2"), Err(wanted));
        }
    }
}
