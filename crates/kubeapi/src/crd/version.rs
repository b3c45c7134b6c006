//! Validation of what a CRD says for each version or, where all versions say the same, for all at once.
//!
//! Upstream moves what is the same in all versions to the top of the spec before it validates, and its errors show
//! that: the schema of a CRD with one version is at `spec.validation`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::definition::{Column, list, text};
use crate::schema::{Structural, Type, check_root_with_status, resolve_field_path};
use crate::{FieldError, Path};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const MOST_SELECTABLE: usize = 8;

/// Whether every version has the same under this name.
fn same(versions: &[Value], name: &str) -> bool {
    versions.iter().all(|version| version[name] == versions[0][name])
}

/// Checks the versions of a spec, but for their names and flags.
pub(super) fn validate(spec: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let versions = list(spec, "versions");
    if versions.is_empty() {
        return;
    }
    let parts: [(&str, &str, Part); 4] = [
        ("schema", "validation", schema),
        ("subresources", "subresources", subresources),
        ("additionalPrinterColumns", "additionalPrinterColumns", columns),
        ("selectableFields", "selectableFields", selectable_fields),
    ];
    for (index, version) in versions.iter().enumerate() {
        deprecation(version, &path.child("versions").index(index), errors);
    }
    for (name, top, check) in parts {
        match same(versions, name) {
            true => check(&versions[0], &path.child(top), errors),
            false => {
                for (index, version) in versions.iter().enumerate() {
                    check(version, &path.child("versions").index(index).child(name), errors);
                }
            }
        }
    }
}

type Part = fn(&Value, &Path, &mut Vec<FieldError>);

fn deprecation(version: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let path = path.child("deprecationWarning");
    let mut refuse = |why: String| errors.push(FieldError::invalid(&path, warning, why));
    if version["deprecated"] != true {
        return refuse("can only be set for deprecated versions".into());
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long".into());
    }
    if warning.is_empty() {
        refuse("must not be an empty string".into());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        refuse(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

fn schema(version: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let schema = &version["schema"]["openAPIV3Schema"];
    if schema.is_null() {
        return;
    }
    let path = path.child("openAPIV3Schema");
    if version["subresources"]["status"].is_object() {
        errors.extend(check_root_with_status(schema, &path));
    }
    if let Err(wrong) = Structural::compile_at(schema, &path) {
        errors.extend(wrong);
    }
}

/// A path of plain names: `.spec.replicas`.
fn simple_json_path(text: &str, path: &Path) -> Option<FieldError> {
    (!text.starts_with('.'))
        .then(|| FieldError::invalid(path, text, "must be a simple json path starting with ."))
}

fn subresources(version: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let scale = &version["subresources"]["scale"];
    if !scale.is_object() {
        return;
    }
    let scale_path = path.child("scale");
    for (name, below, words) in
        [("specReplicasPath", ".spec.", "under .spec"), ("statusReplicasPath", ".status.", "under .status")]
    {
        let (value, path) = (text(scale, name), scale_path.child(name));
        if value.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if let Some(error) = simple_json_path(&value, &path) {
            errors.push(error);
        } else if !value.starts_with(below) {
            errors.push(FieldError::invalid(&path, value, format!("should be a json path {words}")));
        }
    }
    let (selector, path) = (text(scale, "labelSelectorPath"), scale_path.child("labelSelectorPath"));
    if let Some(error) = simple_json_path(&selector, &path).filter(|_| !selector.is_empty()) {
        errors.push(error);
    } else if !selector.is_empty() && !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        let why = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(&path, selector, why));
    }
}

fn columns(version: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for (index, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        let (column, path) = (Column::read(column), path.index(index));
        if column.name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        if column.kind.is_empty() {
            errors.push(FieldError::required(&path.child("type"), types));
        } else if !COLUMN_TYPES.contains(&column.kind.as_str()) {
            errors.push(FieldError::invalid(&path.child("type"), column.kind, types));
        }
        if !column.format.is_empty() && !COLUMN_FORMATS.contains(&column.format.as_str()) {
            let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid(&path.child("format"), column.format, why));
        }
        let path = path.child("JSONPath");
        match column.json_path.is_empty() {
            true => errors.push(FieldError::required(&path, "")),
            false => errors.extend(simple_json_path(&column.json_path, &path)),
        }
    }
}

fn selectable_fields(version: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let fields = list(version, "selectableFields");
    if fields.is_empty() {
        return;
    }
    let schema = &version["schema"]["openAPIV3Schema"];
    if schema.is_null() {
        let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
        return errors.push(FieldError::invalid(path, "", why));
    }
    // A schema that does not compile has errors of its own.
    let Ok(schema) = Structural::compile(schema) else { return };
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let (json_path, path) = (text(field, "jsonPath"), path.index(index).child("jsonPath"));
        if json_path.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let (place, node) = match resolve_field_path(&json_path, schema.node(), false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(&path, json_path, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if place.as_str() == "metadata" || place.as_str().starts_with("metadata.") {
            errors.push(FieldError::invalid(
                &path,
                json_path.as_str(),
                "must not point to fields in metadata",
            ));
        }
        if !matches!(node.kind, Some(Type::String | Type::Boolean | Type::Integer)) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(&path, json_path.as_str(), why));
        }
        if !seen.insert(place.as_str().to_owned()) {
            errors.push(FieldError::duplicate(&path, json_path));
        }
    }
    if seen.len() > MOST_SELECTABLE {
        errors.push(FieldError::too_many(path, seen.len(), MOST_SELECTABLE));
    }
}
