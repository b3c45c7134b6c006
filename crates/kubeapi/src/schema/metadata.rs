//! The metadata of whole objects and of objects embedded in others (`x-kubernetes-embedded-resource`).

use serde_json::{Map, Value};

use super::node::Node;
use super::trail::Trail;
use crate::name;
use crate::{FieldError, GroupVersion, Path};

/// The fields of `ObjectMeta` and what they are in JSON.
const FIELDS: [(&str, Shape); 15] = [
    ("name", Shape::Text),
    ("generateName", Shape::Text),
    ("namespace", Shape::Text),
    ("selfLink", Shape::Text),
    ("uid", Shape::Text),
    ("resourceVersion", Shape::Text),
    ("generation", Shape::Whole),
    ("creationTimestamp", Shape::Time),
    ("deletionTimestamp", Shape::Time),
    ("deletionGracePeriodSeconds", Shape::Whole),
    ("labels", Shape::Texts),
    ("annotations", Shape::Texts),
    ("ownerReferences", Shape::Objects),
    ("finalizers", Shape::TextList),
    ("managedFields", Shape::Objects),
];

#[derive(Clone, Copy)]
enum Shape {
    Text,
    Whole,
    Time,
    Texts,
    TextList,
    Objects,
}

impl Shape {
    /// What Go would say if the value does not fit; null always does.
    fn problem(self, value: &Value) -> Option<&'static str> {
        let all_text =
            |mut values: Box<dyn Iterator<Item = &Value> + '_>| values.all(|v| v.is_string() || v.is_null());
        let (fits, wanted) = match self {
            Shape::Text => (value.is_string(), "string"),
            Shape::Whole => (value.is_i64() || value.is_u64(), "int64"),
            Shape::Time => {
                (value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()), "Time")
            }
            Shape::Texts => {
                (value.as_object().is_some_and(|map| all_text(Box::new(map.values()))), "map[string]string")
            }
            Shape::TextList => {
                (value.as_array().is_some_and(|list| all_text(Box::new(list.iter()))), "[]string")
            }
            Shape::Objects => {
                (value.as_array().is_some_and(|list| list.iter().all(Value::is_object)), "[]object")
            }
        };
        (!fits && !value.is_null()).then_some(wanted)
    }
}

/// Drops what is no field of `ObjectMeta`, wherever the schema has a whole object.
pub(crate) fn prune(node: &Node, value: &mut Value, is_root: bool, dropped: &mut Vec<String>) {
    prune_at(node, value, is_root, &Trail::ROOT, dropped);
}

fn prune_at(node: &Node, value: &mut Value, is_object: bool, trail: &Trail<'_>, dropped: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if is_object && let Some(Value::Object(meta)) = fields.get_mut("metadata") {
                meta.retain(|name, _| {
                    let known = FIELDS.iter().any(|(field, _)| field == name);
                    if !known {
                        dropped.push(
                            trail.field("metadata").path(&Path::root()).child(name).as_str().to_owned(),
                        );
                    }
                    known
                });
            }
            for (name, value) in fields {
                if let Some(schema) = node.properties.get(name) {
                    prune_at(schema, value, schema.embedded, &trail.field(name), dropped);
                } else if let Some(schema) = node.additional_schema() {
                    prune_at(schema, value, schema.embedded, &trail.key(name), dropped);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune_at(schema, item, schema.embedded, &trail.index(index), dropped);
            }
        }
        _ => {}
    }
}

/// Checks `apiVersion`, `kind` and `metadata` of embedded objects.
pub(crate) fn validate(node: &Node, value: &Value, base: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_at(node, value, &Trail::ROOT, base, &mut errors);
    errors
}

fn validate_at(node: &Node, value: &Value, trail: &Trail<'_>, base: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if node.embedded {
                validate_object(fields, &trail.path(base), errors);
            }
            for (name, value) in fields {
                if let Some(schema) = node.properties.get(name) {
                    validate_at(schema, value, &trail.field(name), base, errors);
                } else if let Some(schema) = node.additional_schema() {
                    validate_at(schema, value, &trail.key(name), base, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                validate_at(schema, item, &trail.index(index), base, errors);
            }
        }
        _ => {}
    }
}

fn validate_object(fields: &Map<String, Value>, path: &Path, errors: &mut Vec<FieldError>) {
    let version_path = path.child("apiVersion");
    match fields.get("apiVersion") {
        None => errors.push(FieldError::required(&version_path, "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(&version_path, "", "must not be empty"));
        }
        Some(Value::String(text)) if GroupVersion::parse(text).is_none() => {
            let detail = format!("unexpected GroupVersion string: {text}");
            errors.push(FieldError::invalid(&version_path, text.as_str(), detail));
        }
        Some(Value::String(_)) => {}
        Some(other) => errors.push(FieldError::invalid(&version_path, other.clone(), "must be a string")),
    }
    let kind_path = path.child("kind");
    match fields.get("kind") {
        None => errors.push(FieldError::required(&kind_path, "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(&kind_path, "", "must not be empty"));
        }
        Some(Value::String(text)) => {
            let wrong = name::dns_1035_label(&text.to_lowercase());
            if !wrong.is_empty() {
                let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                errors.push(FieldError::invalid(&kind_path, text.as_str(), detail));
            }
        }
        Some(other) => errors.push(FieldError::invalid(&kind_path, other.clone(), "must be a string")),
    }
    match fields.get("metadata") {
        None => {}
        Some(Value::Object(meta)) => validate_meta(meta, &path.child("metadata"), errors),
        Some(other) => {
            errors.push(FieldError::invalid(&path.child("metadata"), other.clone(), "must be an object"))
        }
    }
}

/// Checks the fields of an `ObjectMeta`, without a name being needed.
pub(crate) fn validate_meta(meta: &Map<String, Value>, path: &Path, errors: &mut Vec<FieldError>) {
    for (name, shape) in FIELDS {
        if let Some(wanted) = meta.get(name).and_then(|value| shape.problem(value)) {
            let detail = format!("metadata.{name} must be of Go type {wanted}");
            errors.push(FieldError::invalid(path, Value::Object(meta.clone()), detail));
            return;
        }
    }
    let text = |name: &str| meta.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    for field in ["generateName", "name"] {
        for problem in
            text(field).map(|name| name::is_path_segment(name, field == "generateName")).unwrap_or_default()
        {
            errors.push(FieldError::invalid(&path.child(field), text(field).unwrap_or_default(), problem));
        }
    }
    if let Some(namespace) = text("namespace") {
        for problem in name::dns_label(namespace) {
            errors.push(FieldError::invalid(&path.child("namespace"), namespace, problem));
        }
    }
    if let Some(generation) = meta.get("generation").and_then(Value::as_i64).filter(|number| *number < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), generation, detail));
    }
    let texts = |name: &str| meta.get(name).and_then(Value::as_object).into_iter().flatten();
    for (key, value) in texts("labels") {
        for problem in name::qualified(key) {
            errors.push(FieldError::invalid(&path.child("labels"), key.as_str(), problem));
        }
        let value = value.as_str().unwrap_or_default();
        for problem in name::label_value(value) {
            errors.push(FieldError::invalid(&path.child("labels"), value, problem));
        }
    }
    for (key, _) in texts("annotations") {
        for problem in name::qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid(&path.child("annotations"), key.as_str(), problem));
        }
    }
    for finalizer in meta.get("finalizers").and_then(Value::as_array).into_iter().flatten() {
        for problem in name::qualified(finalizer.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(&path.child("finalizers"), finalizer.clone(), problem));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Structural;

    fn schema() -> Structural {
        Structural::compile(&json!({"type": "object", "properties": {
            "template": {
                "type": "object", "x-kubernetes-embedded-resource": true,
                "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
            },
        }}))
        .unwrap()
    }

    #[test]
    fn embedded_objects_have_an_identity() {
        let cases = [
            (json!({"apiVersion": "v1", "kind": "Pod"}), vec![]),
            (json!({}), vec!["template.apiVersion: Required value", "template.kind: Required value"]),
            (
                json!({"apiVersion": "a/b/c", "kind": "P_d"}),
                vec![
                    r#"template.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
                    r#"template.kind: Invalid value: "P_d": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#,
                ],
            ),
            (
                json!({"apiVersion": "", "kind": "", "metadata": {"name": "a/b"}}),
                vec![
                    r#"template.apiVersion: Invalid value: "": must not be empty"#,
                    r#"template.kind: Invalid value: "": must not be empty"#,
                    r#"template.metadata.name: Invalid value: "a/b": may not contain '/'"#,
                ],
            ),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b c"}, "namespace": "X"}}),
                vec![
                    r#"template.metadata.namespace: Invalid value: "X": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#,
                    r#"template.metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#,
                ],
            ),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}}),
                vec![
                    r#"template.metadata: Invalid value: {"name":1}: metadata.name must be of Go type string"#,
                ],
            ),
        ];
        for (template, expected) in cases {
            let errors = schema().validate(&json!({"template": template}), None);
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected, "{template}");
        }
    }

    #[test]
    fn metadata_keeps_only_its_own_fields() {
        let mut object = json!({
            "apiVersion": "x/v1", "kind": "T",
            "metadata": {"name": "a", "foo": 1, "labels": {"any": "thing"}},
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"bar": 2, "uid": "u"}, "spec": {"a": "", "b": 1}},
        });
        let dropped = schema().prune(&mut object);
        assert_eq!(dropped, ["metadata.foo", "template.metadata.bar", "template.spec.b"]);
        assert_eq!(object["metadata"], json!({"name": "a", "labels": {"any": "thing"}}));
        assert_eq!(object["template"]["metadata"], json!({"uid": "u"}));
    }
}
