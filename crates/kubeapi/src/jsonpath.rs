//! JSONPath as Kubernetes has it: fields, lists with ranges, wildcards, unions, filters, descent.

mod parse;

use std::cmp::Ordering;

use serde_json::Value;

/// Why a path is none, or finds nothing that it could.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It breaks the grammar.
    #[error("{0}")]
    Syntax(String),
    /// It asks of a value what that cannot give.
    #[error("{0}")]
    Evaluation(String),
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Descent,
    Range { from: Option<i64>, to: To, step: Option<i64> },
    Union(Vec<Vec<Step>>),
    Filter { left: Vec<Step>, operator: Option<String>, right: Vec<Step> },
    Literal(Value),
}

/// Where a range ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum To {
    /// At the list's end.
    End,
    /// Before this index.
    Before(i64),
    /// After the one item that the range starts with.
    OneItem,
}

/// A path, read once and used often.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

impl JsonPath {
    /// Reads a path such as `.status.conditions[?(@.type=="Ready")].status`.
    ///
    /// # Errors
    /// If it breaks the grammar.
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse::steps(text).map(JsonPath).map_err(Error::Syntax)
    }

    /// All values that the path leads to; fields that are not there lead to none.
    ///
    /// # Errors
    /// If the path asks of a value what that cannot give: an item of an object, an index beyond the end.
    pub fn find(&self, value: &Value) -> Result<Vec<Value>, Error> {
        evaluate(&self.0, vec![value.clone()]).map_err(Error::Evaluation)
    }
}

fn evaluate(steps: &[Step], input: Vec<Value>) -> Result<Vec<Value>, String> {
    steps.iter().try_fold(input, |values, step| apply(step, values))
}

fn apply(step: &Step, input: Vec<Value>) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    match step {
        Step::Literal(literal) => found.push(literal.clone()),
        Step::Field(name) => found.extend(input.iter().filter_map(|value| value.get(name).cloned())),
        Step::Wildcard => input.iter().for_each(|value| found.extend(children(value))),
        Step::Descent => input.iter().for_each(|value| descend(value, &mut found)),
        Step::Union(branches) => {
            for branch in branches {
                found.extend(evaluate(branch, input.clone())?);
            }
        }
        Step::Range { from, to, step } => {
            for value in input.iter().filter(|value| !value.is_null()) {
                let list = value.as_array().ok_or_else(|| format!("{value} is not array or slice"))?;
                found.extend(range(list, *from, *to, *step)?);
            }
        }
        Step::Filter { left, operator, right } => {
            for value in input.iter().filter(|value| !value.is_null()) {
                let list = value
                    .as_array()
                    .ok_or_else(|| format!("{value} is not array or slice and cannot be filtered"))?;
                for item in list {
                    if passes(item, left, operator.as_deref(), right)? {
                        found.push(item.clone());
                    }
                }
            }
        }
    }
    Ok(found)
}

fn children(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.clone(),
        Value::Object(map) => map.values().cloned().collect(),
        _ => Vec::new(),
    }
}

fn descend(value: &Value, found: &mut Vec<Value>) {
    let children = children(value);
    if !children.is_empty() {
        found.push(value.clone());
        children.iter().for_each(|child| descend(child, found));
    }
}

fn range(list: &[Value], from: Option<i64>, to: To, step: Option<i64>) -> Result<Vec<Value>, String> {
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index + length } else { index };
    let start = from_end(from.unwrap_or(0));
    let end = match to {
        To::End => length,
        To::Before(end) => from_end(end),
        To::OneItem => start + 1,
    };
    if start == end {
        return Ok(Vec::new());
    }
    if !(0..length).contains(&start) || !(0..=length).contains(&end) {
        return Err(format!("array index out of bounds: index {start}, length {length}"));
    }
    if start > end {
        return Err(format!("starting index {start} is greater than ending index {end}"));
    }
    let step = match step {
        None => 1,
        Some(step) => usize::try_from(step).ok().filter(|step| *step > 0).ok_or("step must be > 0")?,
    };
    let bounds = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
    Ok(list[bounds].iter().step_by(step).cloned().collect())
}

fn passes(item: &Value, left: &[Step], operator: Option<&str>, right: &[Step]) -> Result<bool, String> {
    let lefts = evaluate(left, vec![item.clone()])?;
    let Some(operator) = operator else { return Ok(!lefts.is_empty()) };
    let rights = evaluate(right, vec![item.clone()])?;
    let (left, right) = match (&lefts[..], &rights[..]) {
        ([], _) | (_, []) => return Ok(false),
        ([left], [right]) => (left, right),
        _ => return Err("can only compare one element at a time".into()),
    };
    let order = compare(left, right)?;
    match (operator, order) {
        ("==", order) => Ok(order == Some(Ordering::Equal)),
        ("!=", order) => Ok(order != Some(Ordering::Equal)),
        ("<", Some(order)) => Ok(order.is_lt()),
        (">", Some(order)) => Ok(order.is_gt()),
        ("<=", Some(order)) => Ok(order.is_le()),
        (">=", Some(order)) => Ok(order.is_ge()),
        ("<" | ">" | "<=" | ">=", None) => Err("invalid type for comparison".into()),
        (other, _) => Err(format!("unrecognized filter operator {other}")),
    }
}

/// `None` for truth values that differ: those have no order.
fn compare(left: &Value, right: &Value) -> Result<Option<Ordering>, String> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Ok(Some(left.cmp(right))),
        (Value::Number(left), Value::Number(right)) => Ok(left.as_f64().partial_cmp(&right.as_f64())),
        (Value::Bool(left), Value::Bool(right)) => Ok((left == right).then_some(Ordering::Equal)),
        _ => Err("incompatible types for comparison".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {"labels": {"a.b/c": "dotted"}, "name": "x"},
            "spec": {"list": [1, 2, 3, 4], "nothing": null, "objects": [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}, {"s": "c"}]},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True", "on": true}]},
        })
    }

    #[test]
    fn paths_find_values() {
        for (path, wanted) in [
            (".metadata.name", vec![json!("x")]),
            ("$.metadata.name", vec![json!("x")]),
            (".metadata.none", vec![]),
            (".metadata.name.deeper", vec![]),
            (".spec.nothing", vec![json!(null)]),
            (".spec.nothing[0]", vec![]),
            (r".metadata.labels.a\.b/c", vec![json!("dotted")]),
            (r".metadata.labels['a\.b/c']", vec![json!("dotted")]),
            (".spec['list'][0]", vec![json!(1)]),
            (".spec.list[-1]", vec![json!(4)]),
            (".spec.list[-2:]", vec![json!(3), json!(4)]),
            (".spec.list[1:3]", vec![json!(2), json!(3)]),
            (".spec.list[0:4:2]", vec![json!(1), json!(3)]),
            (".spec.list[:2]", vec![json!(1), json!(2)]),
            (".spec.list[*]", vec![json!(1), json!(2), json!(3), json!(4)]),
            (".spec.list[0,2]", vec![json!(1), json!(3)]),
            (".spec.objects[*].s", vec![json!("a"), json!("b"), json!("c")]),
            (".spec.objects[?(@.n)].s", vec![json!("a"), json!("b")]),
            (".spec.objects[?(@.n>1)].s", vec![json!("b")]),
            (".spec.objects[?(@.n<=1)].s", vec![json!("a")]),
            (".spec.objects[?(@.s!='b')].s", vec![json!("a"), json!("c")]),
            (r#".status.conditions[?(@.type=="Ready")].status"#, vec![json!("True")]),
            (r#".status.conditions[?(@.type == "Ready")].status"#, vec![json!("True")]),
            (".status.conditions[?(@.on==true)].type", vec![json!("Ready")]),
            (r#".status.conditions[?(@.type=="No)ne")].status"#, vec![]),
            ("..name", vec![json!("x")]),
            ("..type", vec![json!("A"), json!("Ready")]),
            (".metadata.labels.*", vec![json!("dotted")]),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap().find(&object()).unwrap(), wanted, "{path}");
        }
    }

    #[test]
    fn some_values_cannot_give_what_is_asked() {
        for (path, why) in [
            (".spec.list[4]", "array index out of bounds: index 4, length 4"),
            (".spec.list[3:1]", "starting index 3 is greater than ending index 1"),
            (".spec.list[0:2:0]", "step must be > 0"),
            (".metadata.name[0]", "\"x\" is not array or slice"),
            (".spec.objects[?(@.n=1)]", "unrecognized filter operator ="),
            (".spec.objects[?(@.n==\"1\")]", "incompatible types for comparison"),
        ] {
            let found = JsonPath::parse(path).and_then(|parsed| parsed.find(&object()));
            assert_eq!(found.unwrap_err().to_string(), why, "{path}");
        }
    }

    #[test]
    fn wrong_paths_are_told_why() {
        for (path, why) in [
            (".a[", "unterminated array"),
            (".a[x]", "invalid array index x"),
            (".a[?(@.b", "unterminated filter"),
            (".a[?(@.b)x", "unclosed array expect ]"),
            (".a[?(@.b==\"x)]", "unterminated filter"),
            ("....a", "invalid multiple recursive descent"),
            ("#", "unrecognized character in action: U+0023 '#'"),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap_err().to_string(), why, "{path}");
        }
    }
}
