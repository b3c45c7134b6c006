//! `metav1.LabelSelector` objects.

use serde_json::Value;

use super::{Error, Operator, Requirement, Selector};
use crate::{FieldError, Path, name};

/// The selector of a `LabelSelector`: none at all selects nothing, an empty one everything.
///
/// # Errors
/// If an expression has an unknown operator, or values that do not suit it.
pub fn from_object(object: Option<&Value>) -> Result<Selector, Error> {
    let Some(object) = object.filter(|object| !object.is_null()) else {
        return Ok(Selector::nothing());
    };
    let mut requirements = Vec::new();
    for (key, value) in object["matchLabels"].as_object().into_iter().flatten() {
        requirements.push(Requirement::new(key.as_str(), Operator::Equals, vec![text(value)])?);
    }
    for expression in object["matchExpressions"].as_array().into_iter().flatten() {
        let operator = match text(&expression["operator"]).as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(Error::Operator(other.into())),
        };
        requirements.push(Requirement::new(text(&expression["key"]), operator, values(expression))?);
    }
    Ok(Selector::of(requirements))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn values(expression: &Value) -> Vec<String> {
    expression["values"].as_array().into_iter().flatten().map(text).collect()
}

/// What is wrong with a `LabelSelector` that is part of an object.
pub fn validate_object(object: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in object["matchLabels"].as_object().into_iter().flatten() {
        let path = path.child("matchLabels");
        errors.extend(
            name::qualified(key).into_iter().map(|why| FieldError::invalid(&path, key.as_str(), why)),
        );
        errors.extend(invalid_value(value, &path));
    }
    for (index, expression) in object["matchExpressions"].as_array().into_iter().flatten().enumerate() {
        errors.extend(validate_expression(expression, &path.child("matchExpressions").index(index)));
    }
    errors
}

fn validate_expression(expression: &Value, path: &Path) -> Vec<FieldError> {
    let values = expression["values"].as_array().map(Vec::as_slice).unwrap_or_default();
    let at = path.child("values");
    let mut errors = Vec::new();
    match text(&expression["operator"]).as_str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(FieldError::required(&at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&at, why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            errors.push(FieldError::invalid(&path.child("operator"), other, "not a valid selector operator"));
        }
    }
    let key = text(&expression["key"]);
    let wrong = name::qualified(&key).into_iter();
    errors.extend(wrong.map(|why| FieldError::invalid(&path.child("key"), key.as_str(), why)));
    errors
        .extend(values.iter().enumerate().flat_map(|(index, value)| invalid_value(value, &at.index(index))));
    errors
}

fn invalid_value(value: &Value, path: &Path) -> Vec<FieldError> {
    let wrong = name::label_value(value.as_str().unwrap_or_default()).into_iter();
    wrong.map(|why| FieldError::invalid(path, value.clone(), why)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_become_selectors() {
        assert!(from_object(None).unwrap().is_nothing());
        assert!(from_object(Some(&Value::Null)).unwrap().is_nothing());
        assert!(from_object(Some(&json!({}))).unwrap().is_everything());
        let object = json!({
            "matchLabels": {"b": "1", "a": "2"},
            "matchExpressions": [
                {"key": "d", "operator": "In", "values": ["y", "x"]},
                {"key": "c", "operator": "NotIn", "values": ["z"]},
                {"key": "e", "operator": "Exists"},
                {"key": "f", "operator": "DoesNotExist", "values": []},
            ],
        });
        let selector = from_object(Some(&object)).unwrap();
        assert_eq!(selector.to_string(), "a=2,b=1,c notin (z),d in (x,y),e,!f");
    }

    #[test]
    fn wrong_objects_are_told_why() {
        for (expression, selector_error, object_error) in [
            (
                json!({"key": "a", "operator": "in"}),
                r#""in" is not a valid label selector operator"#,
                r#"s.matchExpressions[0].operator: Invalid value: "in": not a valid selector operator"#,
            ),
            (
                json!({"key": "a", "operator": "In"}),
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
                "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ),
            (
                json!({"key": "a", "operator": "Exists", "values": ["x"]}),
                r#"values: Invalid value: ["x"]: values set must be empty for exists and does not exist"#,
                "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
        ] {
            let object = json!({"matchExpressions": [expression]});
            assert_eq!(from_object(Some(&object)).unwrap_err().to_string(), selector_error);
            let errors = validate_object(&object, &Path::new("s"));
            assert_eq!(errors.iter().map(FieldError::to_string).collect::<Vec<_>>(), [object_error]);
        }
    }
}
