//! The columns of custom resources.

use jiff::Timestamp;
use serde_json::Value;

use super::age::age;
use super::{Column, Row};
use crate::jsonpath::{Error, JsonPath};

/// The columns that a CustomResourceDefinition asks for, after the name.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    columns: Vec<Column>,
    paths: Vec<JsonPath>,
}

impl Columns {
    pub(super) fn read(asked: &Value) -> Result<Self, Error> {
        let name = Column {
            name: "Name".into(),
            type_: "string".into(),
            format: "name".into(),
            description: "The object's name.".into(),
            priority: 0,
        };
        let mut read = Columns { columns: vec![name], paths: Vec::new() };
        match asked.as_array().map(Vec::as_slice).unwrap_or_default() {
            [] => {
                let age = serde_json::json!({
                    "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
                    "description": "The time since the object was created.",
                });
                read.add(&age)?;
            }
            asked => asked.iter().try_for_each(|column| read.add(column))?,
        }
        Ok(read)
    }

    fn add(&mut self, asked: &Value) -> Result<(), Error> {
        let text = |field: &str| asked[field].as_str().unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let parsed = JsonPath::parse(&path);
        self.paths
            .push(parsed.map_err(|_| Error::Syntax(format!("unrecognized column definition {path:?}")))?);
        let described = text("description");
        let description = match described.is_empty() {
            true => format!("Custom resource definition column (in JSONPath format): {path}"),
            false => described,
        };
        let priority = asked["priority"].as_i64().unwrap_or(0);
        let (name, type_, format) = (text("name"), text("type"), text("format"));
        self.columns.push(Column { name, type_, format, description, priority });
        Ok(())
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(super) fn row(&self, object: &Value, now: Timestamp) -> Row {
        let mut cells = vec![object["metadata"]["name"].clone()];
        for (column, path) in self.columns.iter().skip(1).zip(&self.paths) {
            // Of several values the first is shown.
            let value = path.find(object).ok().and_then(|values| values.into_iter().next());
            cells.push(value.map_or(Value::Null, |value| cell(&column.type_, value, now)));
        }
        cells.into()
    }
}

/// A value as its column's type; null if it is not of that type.
fn cell(type_: &str, value: Value, now: Timestamp) -> Value {
    match (type_, value) {
        ("string", Value::String(text)) => text.into(),
        ("string", Value::Null) => "<no value>".into(),
        ("string", other) => other.to_string().into(),
        #[expect(clippy::cast_possible_truncation, reason = "upstream cuts fractions off as well")]
        ("integer", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).into()
        }
        ("number", number @ Value::Number(_)) => number,
        ("boolean", truth @ Value::Bool(_)) => truth,
        ("date", date @ Value::String(_)) => age(&date, now).into(),
        _ => Value::Null,
    }
}
