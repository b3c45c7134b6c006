//! Reading objects as Go's JSON decoder does: keys match whatever their case, unknown ones are nobody's concern.

use std::fmt;

use serde_json::{Map, Value};

/// Something wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub path: String,
    /// What.
    pub message: String,
    /// Whether it can be lived with.
    pub is_error: bool,
}

impl Problem {
    pub(crate) fn error(path: &str, message: &str) -> Self {
        Problem { path: path.into(), message: message.into(), is_error: true }
    }

    pub(crate) fn warning(path: &str, message: &str) -> Self {
        Problem { path: path.into(), message: message.into(), is_error: false }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// The fields of an object.
pub(crate) struct Fields<'a> {
    object: Option<&'a Map<String, Value>>,
    problems: Vec<Problem>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a Value) -> Self {
        let problems = match value {
            Value::Object(_) | Value::Null => Vec::new(),
            _ => vec![Problem::error("<root>", "Invalid value: must be an object")],
        };
        Fields { object: value.as_object(), problems }
    }

    /// The key itself, or else one that differs in case alone; `null` is nothing.
    fn get(&self, key: &str) -> Option<&'a Value> {
        let object = self.object?;
        let folded =
            || object.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
        object.get(key).or_else(folded).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, key: &str) -> String {
        match self.get(key) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => self.wrong(key, other, "a string"),
        }
    }

    pub(crate) fn flag(&mut self, key: &str) -> bool {
        match self.get(key) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => self.wrong(key, other, "true or false"),
        }
    }

    fn wrong<T: Default>(&mut self, key: &str, value: &Value, wanted: &str) -> T {
        self.problems.push(Problem::error(key, &format!("Invalid value: {value}: must be {wanted}")));
        T::default()
    }

    pub(crate) fn problems(self) -> Vec<Problem> {
        self.problems
    }
}
