use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// A step of a path into an object. Items of lists are named by what they are, not by where they stand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field of an object, or a key of a map.
    Field(String),
    /// An item of a list whose items have keys, by the values of these, in order of their names.
    Key(Vec<(String, Scalar)>),
    /// An item of a set.
    Value(Scalar),
    /// An item of a list by its place. No schema of ours makes one, but managed fields may hold some.
    Index(i64),
}

impl Element {
    /// A field.
    pub fn field(name: impl Into<String>) -> Self {
        Element::Field(name.into())
    }

    /// The element as `fieldsV1` writes it; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Element::field(rest)),
            "v" => Some(Element::Value(Scalar(serde_json::from_str(rest).ok()?))),
            "i" => Some(Element::Index(rest.parse().ok()?)),
            "k" => {
                let keys: serde_json::Map<String, Value> = serde_json::from_str(rest).ok()?;
                let mut keys: Vec<_> = keys.into_iter().map(|(name, value)| (name, Scalar(value))).collect();
                keys.sort();
                Some(Element::Key(keys))
            }
            _ => None,
        }
    }

    /// What [`Element::parse`] reads.
    pub fn encode(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Value(value) => format!("v:{}", value.0),
            Element::Index(index) => format!("i:{index}"),
            Element::Key(keys) => {
                let keys: serde_json::Map<String, Value> =
                    keys.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
                format!("k:{}", Value::Object(keys))
            }
        }
    }
}

/// As messages show it: `.spec`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Value(value) => write!(f, "[={}]", value.0),
            Element::Index(index) => write!(f, "[{index}]"),
            Element::Key(keys) => {
                let keys: Vec<String> =
                    keys.iter().map(|(name, value)| format!("{name}={}", value.0)).collect();
                write!(f, "[{}]", keys.join(","))
            }
        }
    }
}

/// A path as messages show it: `.spec.containers[name="a"].image`.
pub fn display(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// A JSON value that has an order: what items of lists are told apart by.
#[derive(Clone, Debug)]
pub struct Scalar(pub Value);

impl Scalar {
    fn rank(&self) -> u8 {
        match self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => {
                    let float = |number: &serde_json::Number| number.as_f64().unwrap_or(f64::NAN);
                    float(left).total_cmp(&float(right))
                }
            },
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (left, right) => {
                self.rank().cmp(&other.rank()).then_with(|| left.to_string().cmp(&right.to_string()))
            }
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scalar {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_and_written() {
        for (text, shown) in [
            ("f:spec", ".spec"),
            (r#"k:{"name":"a"}"#, r#"[name="a"]"#),
            (r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#),
            (r#"v:"x""#, r#"[="x"]"#),
            ("v:7", "[=7]"),
            ("i:3", "[3]"),
        ] {
            let element = Element::parse(text).unwrap();
            assert_eq!((element.encode().as_str(), element.to_string().as_str()), (text, shown));
        }
        for bad in ["spec", "x:1", "k:[1]", "v:", "i:x"] {
            assert_eq!(Element::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert_eq!(Scalar(1.into()), Scalar(serde_json::json!(1.0)));
        assert!(Scalar(2.into()) < Scalar("1".into()));
    }
}
