//! Label selectors, as text (`app=web,tier in (a,b),!old`) and as objects (`matchLabels`, `matchExpressions`).

mod object;
mod parse;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

pub use object::{from_object, validate_object};

use crate::{FieldError, Path, name};

/// Labels to match a selector with.
pub trait Labels {
    /// The label's value, if it is there.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// `metadata.labels` of an object.
impl Labels for Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }
}

/// `metadata.labels` of an object that may have none.
impl Labels for Option<&Map<String, Value>> {
    fn label(&self, key: &str) -> Option<&str> {
        (*self)?.label(key)
    }
}

/// How a label relates to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equals,
    /// `==`, the same
    DoubleEquals,
    /// `!=`, also true where there is no such label
    NotEquals,
    /// `in`
    In,
    /// `notin`, also true where there is no such label
    NotIn,
    /// The key alone.
    Exists,
    /// `!` and the key.
    DoesNotExist,
    /// `>`, of integers
    GreaterThan,
    /// `<`, of integers
    LessThan,
}

/// Why a text or an object is not a label selector, in upstream's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Something stands where it may not.
    #[error("found '{found}'{} expected: {expected}", comma(.expected))]
    Unexpected {
        /// What is there.
        found: String,
        /// What could be.
        expected: &'static str,
    },
    /// A key or value is malformed, or does not suit the operator.
    #[error("{}", together(.0))]
    Invalid(Vec<FieldError>),
    /// A requirement is wrong.
    #[error("unable to parse requirement: {0}")]
    Requirement(Box<Error>),
    /// A `matchExpressions` has an operator that there is not.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
}

/// Upstream forgets one comma.
fn comma(expected: &str) -> &'static str {
    if expected == "'('" { "" } else { "," }
}

/// Several errors as one sentence.
fn together(errors: &[FieldError]) -> String {
    match errors {
        [one] => one.to_string(),
        many => format!("[{}]", many.iter().map(FieldError::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    /// A requirement.
    ///
    /// # Errors
    /// If key or values are malformed, or not as many as the operator takes.
    pub fn new(key: impl Into<String>, operator: Operator, values: Vec<String>) -> Result<Self, Error> {
        let key = key.into();
        let mut errors: Vec<FieldError> = key_error(&key, &Path::new("key")).into_iter().collect();
        let path = Path::new("values");
        errors.extend(count_error(operator, &values, &path));
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (index, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err())
            {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(&path.index(index), value.as_str(), why));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let wrong = name::label_value(value);
            if !wrong.is_empty() {
                let path = path.index(index).key(&key);
                errors.push(FieldError::invalid(&path, value.as_str(), wrong.join("; ")));
            }
        }
        match errors.is_empty() {
            true => Ok(Requirement { key, operator, values }),
            false => Err(Error::Invalid(errors)),
        }
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether the labels meet it.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let value = labels.label(&self.key);
        let listed = || value.is_some_and(|value| self.values.iter().any(|one| one == value));
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => listed(),
            Operator::NotEquals | Operator::NotIn => !listed(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.numbers(value).is_some_and(|(label, bound)| label > bound),
            Operator::LessThan => self.numbers(value).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn numbers(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

fn key_error(key: &str, path: &Path) -> Option<FieldError> {
    let wrong = name::qualified(key);
    (!wrong.is_empty()).then(|| FieldError::invalid(path, key, wrong.join("; ")))
}

fn count_error(operator: Operator, values: &[String], path: &Path) -> Option<FieldError> {
    let (right, why) = match operator {
        Operator::In | Operator::NotIn => {
            (!values.is_empty(), "for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
            (values.len() == 1, "exact-match compatibility requires one single value")
        }
        Operator::Exists | Operator::DoesNotExist => {
            (values.is_empty(), "values set must be empty for exists and does not exist")
        }
        Operator::GreaterThan | Operator::LessThan => {
            (values.len() == 1, "for 'Gt', 'Lt' operators, exactly one value is required")
        }
    };
    let shown = if values.is_empty() { Value::Null } else { json!(values) };
    (!right).then(|| FieldError::invalid(path, shown, why))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values = self.values.clone();
        values.sort_unstable();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// A selector: all of its requirements must be met, or it selects nothing at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// `None` selects nothing, an empty list everything.
    requirements: Option<Vec<Requirement>>,
}

impl Selector {
    /// Selects every object.
    pub fn everything() -> Self {
        Selector { requirements: Some(Vec::new()) }
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Selector { requirements: None }
    }

    /// Selects what meets all of these.
    pub fn of(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<Requirement> = requirements.into_iter().collect();
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Selector { requirements: Some(requirements) }
    }

    /// Reads a selector; an empty text selects everything.
    ///
    /// # Errors
    /// If the text breaks the grammar, or a key or value is malformed.
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse::requirements(text).map(Selector::of)
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether it can select nothing.
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    /// What has to be met.
    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|one| one.matches(labels)))
    }
}

/// The canonical text: sorted by key.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            write!(f, "{}{requirement}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}
