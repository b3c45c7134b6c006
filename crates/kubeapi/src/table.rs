//! Tables: objects as rows, for `kubectl get`.

mod age;
mod builtin;
mod columns;
mod custom;
mod pod;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use age::age;

use crate::GroupKind;
use crate::jsonpath::Error;
use crate::media::MetaVersion;
use crate::meta::partial;
use crate::request::IncludeObject;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    name: String,
    type_: String,
    format: String,
    description: String,
    priority: i64,
}

impl Column {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name, "type": self.type_, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }
}

/// The cells of one object, and what is special about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    cells: Vec<Value>,
    conditions: Vec<Value>,
}

impl From<Vec<Value>> for Row {
    fn from(cells: Vec<Value>) -> Self {
        Row { cells, conditions: Vec::new() }
    }
}

type Print = fn(object: &Value, now: Timestamp) -> Row;

/// Makes the Tables of one kind.
#[derive(Clone, Debug)]
pub struct Printer(Source);

#[derive(Clone, Debug)]
enum Source {
    Builtin { columns: &'static [columns::Short], print: Print },
    Custom(custom::Columns),
}

/// What a Table is to look like.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// What rows carry of their objects.
    pub include: IncludeObject,
    /// The Table's version.
    pub version: MetaVersion,
    /// Whether columns are described: in a watch only the first Table does.
    pub headers: bool,
}

impl Printer {
    /// For a kind that is built in; for any other it gives names and times of creation.
    pub fn builtin(kind: &GroupKind) -> Self {
        let (columns, print) = builtin::printer(kind);
        Printer(Source::Builtin { columns, print })
    }

    /// For a custom resource, by the `additionalPrinterColumns` of its version (none, or null, for the age alone).
    ///
    /// # Errors
    /// If a path is none.
    pub fn custom(additional_printer_columns: &Value) -> Result<Self, Error> {
        custom::Columns::read(additional_printer_columns).map(Source::Custom).map(Printer)
    }

    fn columns(&self) -> Vec<Column> {
        match &self.0 {
            Source::Builtin { columns, .. } => columns.iter().map(columns::Short::column).collect(),
            Source::Custom(custom) => custom.columns().to_vec(),
        }
    }

    fn row(&self, object: &Value, now: Timestamp) -> Row {
        match &self.0 {
            Source::Builtin { print, .. } => print(object, now),
            Source::Custom(custom) => custom.row(object, now),
        }
    }

    /// The Table of an object, or of a list's objects.
    pub fn table(&self, object: &Value, format: Format, now: Timestamp) -> Value {
        let list = object["items"].as_array();
        let objects = list.map_or(std::slice::from_ref(object), Vec::as_slice);
        let rows: Vec<Value> = objects.iter().map(|object| self.row_json(object, format, now)).collect();
        let kept: &[&str] = match list {
            Some(_) => &["resourceVersion", "continue", "remainingItemCount"],
            None => &["resourceVersion"],
        };
        let metadata = object["metadata"].as_object().into_iter().flatten();
        let metadata = metadata.filter(|(field, _)| kept.contains(&field.as_str()));
        let columns: Vec<Value> = self.columns().iter().map(Column::to_json).collect();
        json!({
            "kind": "Table",
            "apiVersion": format.version.api_version(),
            "metadata": metadata.map(|(field, value)| (field.clone(), value.clone())).collect::<serde_json::Map<_, _>>(),
            "columnDefinitions": if format.headers { columns.into() } else { Value::Null },
            "rows": rows,
        })
    }

    fn row_json(&self, object: &Value, format: Format, now: Timestamp) -> Value {
        let row = self.row(object, now);
        let carried = match format.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Object => object.clone(),
            IncludeObject::Metadata => partial(object, format.version).unwrap_or_default(),
        };
        let mut json = json!({"cells": row.cells, "object": carried});
        if !row.conditions.is_empty() {
            json["conditions"] = row.conditions.into();
        }
        json
    }
}

#[cfg(test)]
mod tests;
