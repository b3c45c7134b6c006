//! The selectors in reviews of access. Roles do not look at them; they are checked all the same, as upstream does.

use kubeapi::selector::{field, label};
use kubeapi::{FieldError, Path, name};
use serde_json::Value;

/// The names of the two, in the order in which upstream looks at them.
const NAMES: [&str; 2] = ["fieldSelector", "labelSelector"];

/// What is wrong with the selectors of `resourceAttributes`.
pub(super) fn wrong(attributes: &Value, path: &Path) -> Vec<FieldError> {
    NAMES.iter().flat_map(|name| wrong_selector(name, &attributes[*name], &path.child(name))).collect()
}

fn wrong_selector(name: &str, selector: &Value, path: &Path) -> Vec<FieldError> {
    if selector.is_null() {
        return Vec::new();
    }
    let raw = text(selector, "rawSelector");
    let requirements = list(&selector["requirements"]);
    let mut errors = Vec::new();
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(&path.child("rawSelector"), raw, why));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(&path.child("requirements"), why));
    }
    for (index, one) in requirements.iter().enumerate() {
        let path = path.child("requirements").index(index);
        match name {
            "fieldSelector" => {
                if text(one, "key").is_empty() {
                    errors.push(FieldError::required(&path.child("key"), "must be specified"));
                }
                errors.extend(wrong_count(one, &path));
            }
            _ => {
                errors.extend(wrong_count(one, &path));
                errors.extend(wrong_label(one, &path));
            }
        }
    }
    errors
}

fn wrong_count(requirement: &Value, path: &Path) -> Option<FieldError> {
    let path = path.child("values");
    match (text(requirement, "operator"), list(&requirement["values"]).is_empty()) {
        ("In" | "NotIn", true) => {
            Some(FieldError::required(&path, "must be specified when `operator` is 'In' or 'NotIn'"))
        }
        ("Exists" | "DoesNotExist", false) => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            Some(FieldError::forbidden(&path, why))
        }
        // Clients may be newer than we are.
        _ => None,
    }
}

fn wrong_label(requirement: &Value, path: &Path) -> Vec<FieldError> {
    let key = text(requirement, "key");
    let of_key = name::qualified(key).into_iter();
    let mut errors: Vec<FieldError> =
        of_key.map(|why| FieldError::invalid(&path.child("key"), key, why)).collect();
    for (index, value) in list(&requirement["values"]).iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        let path = path.child("values").index(index);
        errors.extend(name::label_value(value).into_iter().map(|why| FieldError::invalid(&path, value, why)));
    }
    errors
}

/// What is said about selectors that are not understood.
pub(super) fn ignored(attributes: &Value) -> Vec<String> {
    let said = |name: &&str| {
        let selector = &attributes[*name];
        let raw = text(selector, "rawSelector");
        let is_field = *name == "fieldSelector";
        let readable = match is_field {
            true => field::Selector::parse(raw).is_ok(),
            false => label::Selector::parse(raw).is_ok(),
        };
        let requirements = list(&selector["requirements"]);
        let read = requirements.iter().filter(|one| is_understood(one, is_field)).count();
        if readable && read == requirements.len() {
            return None;
        }
        let part = if read > 0 { "partially ignored" } else { "ignored" };
        Some(format!("spec.resourceAttributes.{name} {part} due to parse error"))
    };
    NAMES.iter().filter_map(said).collect()
}

fn is_understood(requirement: &Value, of_field: bool) -> bool {
    match text(requirement, "operator") {
        "In" | "NotIn" if of_field => list(&requirement["values"]).len() == 1,
        "In" | "NotIn" => true,
        "Exists" | "DoesNotExist" => !of_field,
        _ => false,
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
