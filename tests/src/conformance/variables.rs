//! Names in braces in a table, and what they stand for.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// What names stand for.
#[derive(Clone, Debug)]
pub(super) struct Variables {
    values: BTreeMap<String, String>,
    name: Regex,
}

impl Variables {
    pub(super) fn new() -> Result<Self> {
        Ok(Variables { values: BTreeMap::new(), name: Regex::new(r"\{([a-z][a-z0-9_]*)\}")? })
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.values.insert(name.to_owned(), value.into());
    }

    /// The text with every name replaced. A name that stands for nothing is a mistake in the table.
    pub(super) fn text(&self, text: &str) -> Result<String> {
        let mut unknown = None;
        let replaced = self.name.replace_all(text, |found: &Captures<'_>| match self.values.get(&found[1]) {
            Some(value) => value.clone(),
            None => {
                unknown = Some(found[1].to_owned());
                String::new()
            }
        });
        match unknown {
            Some(name) => bail!("nothing is called {{{name}}}"),
            None => Ok(replaced.into_owned()),
        }
    }

    /// The text with every name replaced that stands for something.
    pub(super) fn known(&self, text: &str) -> String {
        let replace =
            |found: &Captures<'_>| self.values.get(&found[1]).unwrap_or(&found[0].to_owned()).clone();
        self.name.replace_all(text, replace).into_owned()
    }

    /// All strings and keys of a value.
    pub(super) fn value(&self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => Value::String(self.text(text)?),
            Value::Array(list) => {
                Value::Array(list.iter().map(|element| self.value(element)).collect::<Result<_>>()?)
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| Ok((self.text(key)?, self.value(value)?)));
                Value::Object(fields.collect::<Result<Map<_, _>>>()?)
            }
            other => other.clone(),
        })
    }
}
