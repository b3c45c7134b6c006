//! Where in an object something is wrong, and what: in the words that Kubernetes uses.

use std::fmt;

use serde_json::Value;

/// The place of a value in an object: `spec.ports[0].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// The object itself.
    pub fn root() -> Self {
        Path::default()
    }

    /// A path that starts with this field.
    pub fn new(field: &str) -> Self {
        Path(field.to_owned())
    }

    /// A field of the value here.
    pub fn child(&self, field: &str) -> Self {
        match self.0.is_empty() {
            true => Path::new(field),
            false => Path(format!("{}.{field}", self.0)),
        }
    }

    /// An item of the list here.
    pub fn index(&self, index: usize) -> Self {
        Path(format!("{}[{index}]", self.0))
    }

    /// An entry of the map here.
    pub fn key(&self, key: &str) -> Self {
        Path(format!("{}[{key}]", self.0))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// What is wrong with a value: the `reason` of a cause in a Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A reference to something that is not there.
    NotFound,
    /// A value that has to be given.
    Required,
    /// A value that may be there only once.
    Duplicate,
    /// A malformed or out-of-range value.
    Invalid,
    /// A value that is not one of a fixed set.
    NotSupported,
    /// A value that may not be given here.
    Forbidden,
    /// Too many characters or bytes.
    TooLong,
    /// Too many items.
    TooMany,
    /// Something that went wrong on our side.
    Internal,
    /// A value of the wrong JSON type.
    TypeInvalid,
}

impl Problem {
    /// The `reason` in a Status's causes.
    pub fn reason(self) -> &'static str {
        match self {
            Problem::NotFound => "FieldValueNotFound",
            Problem::Required => "FieldValueRequired",
            Problem::Duplicate => "FieldValueDuplicate",
            Problem::Invalid => "FieldValueInvalid",
            Problem::NotSupported => "FieldValueNotSupported",
            Problem::Forbidden => "FieldValueForbidden",
            Problem::TooLong => "FieldValueTooLong",
            Problem::TooMany => "FieldValueTooMany",
            Problem::Internal => "InternalError",
            Problem::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Problem::NotFound => "Not found",
            Problem::Required => "Required value",
            Problem::Duplicate => "Duplicate value",
            Problem::Invalid | Problem::TypeInvalid => "Invalid value",
            Problem::NotSupported => "Unsupported value",
            Problem::Forbidden => "Forbidden",
            Problem::TooLong => "Too long",
            Problem::TooMany => "Too many",
            Problem::Internal => "Internal error",
        }
    }

    /// Whether the message shows the value: not where it says nothing, or would fill the screen.
    fn shows_value(self) -> bool {
        !matches!(self, Problem::Required | Problem::Forbidden | Problem::TooLong | Problem::Internal)
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Where.
    pub path: Path,
    /// What.
    pub problem: Problem,
    /// The value at fault, as far as it is shown.
    pub value: Value,
    /// What would be right.
    pub detail: String,
}

impl FieldError {
    fn new(problem: Problem, path: &Path, value: Value, detail: impl Into<String>) -> Self {
        FieldError { path: path.clone(), problem, value, detail: detail.into() }
    }

    /// A value that has to be given.
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        FieldError::new(Problem::Required, path, Value::Null, detail)
    }

    /// A malformed or out-of-range value.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        FieldError::new(Problem::Invalid, path, value.into(), detail)
    }

    /// A value of the wrong JSON type.
    pub fn wrong_type(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        FieldError::new(Problem::TypeInvalid, path, value.into(), detail)
    }

    /// A second one of what may be there only once.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        FieldError::new(Problem::Duplicate, path, value.into(), "")
    }

    /// A value that is not one of `supported`.
    pub fn not_supported<'a>(
        path: &Path,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let quoted: Vec<String> = supported.into_iter().map(|one| format!("{one:?}")).collect();
        let detail = match quoted.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", quoted.join(", ")),
        };
        FieldError::new(Problem::NotSupported, path, value.into(), detail)
    }

    /// A value that may not be given here.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        FieldError::new(Problem::Forbidden, path, Value::Null, detail)
    }

    /// Too many bytes.
    pub fn too_long(path: &Path, most: usize) -> Self {
        let unit = if most == 1 { "byte" } else { "bytes" };
        FieldError::new(Problem::TooLong, path, Value::Null, format!("may not be more than {most} {unit}"))
    }

    /// Too many items.
    pub fn too_many(path: &Path, count: usize, most: usize) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        FieldError::new(Problem::TooMany, path, count.into(), format!("must have at most {most} {unit}"))
    }

    /// A reference to something that is not there.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        FieldError::new(Problem::NotFound, path, value.into(), "")
    }

    /// The message without the path, as causes have it: `Invalid value: "x": must be y`.
    pub fn body(&self) -> String {
        let mut text = self.problem.words().to_owned();
        if self.problem.shows_value() {
            text += &format!(": {}", shown(&self.value));
        }
        if !self.detail.is_empty() {
            text += &format!(": {}", self.detail);
        }
        text
    }
}

/// A value as Go prints it in such messages: scalars plainly, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        other => other.to_string(),
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_read_as_upstreams() {
        let spec = Path::new("spec");
        let cases = [
            (FieldError::required(&spec.child("name"), ""), "spec.name: Required value"),
            (FieldError::required(&spec, "give one"), "spec: Required value: give one"),
            (
                FieldError::invalid(&spec.child("ports").index(0), "x", "must be a number"),
                r#"spec.ports[0]: Invalid value: "x": must be a number"#,
            ),
            (
                FieldError::invalid(&spec.child("n"), json!({"a": 1}), "no objects"),
                r#"spec.n: Invalid value: {"a":1}: no objects"#,
            ),
            (
                FieldError::not_supported(&spec.child("type"), "C", ["A", "B"]),
                r#"spec.type: Unsupported value: "C": supported values: "A", "B""#,
            ),
            (
                FieldError::duplicate(&spec.child("pools").index(1).child("name"), "pool1"),
                r#"spec.pools[1].name: Duplicate value: "pool1""#,
            ),
            (FieldError::too_long(&spec, 1), "spec: Too long: may not be more than 1 byte"),
            (FieldError::too_many(&spec, 5, 3), "spec: Too many: 5: must have at most 3 items"),
            (
                FieldError::forbidden(&Path::new("metadata").child("labels").key("a/b"), "no"),
                "metadata.labels[a/b]: Forbidden: no",
            ),
            (FieldError::required(&Path::root(), ""), "<nil>: Required value"),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
