//! Whether a configuration fits the schema that it is applied by, in upstream's words.

use std::collections::BTreeSet;

use serde_json::Value;

use super::element::{Element, display};
use super::fields::element_of;
use super::types::{Expected, Type};
use crate::gotype::type_name;

/// What is wrong with a configuration, with the paths.
///
/// # Errors
/// All that is wrong, as one text.
pub(super) fn check(config: &Value, kind: Type<'_>) -> Result<(), String> {
    let mut walk = Walk { path: Vec::new(), wrong: Vec::new() };
    walk.value(config, kind);
    match walk.wrong.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

struct Walk {
    path: Vec<Element>,
    wrong: Vec<String>,
}

impl Walk {
    fn fail(&mut self, why: &str) {
        self.wrong.push(format!("{}: {why}", display(&self.path)));
    }

    fn value(&mut self, value: &Value, kind: Type<'_>) {
        if kind.is_undeclared() {
            return self.fail("field not declared in schema");
        }
        if let Some(why) = kind.expected().and_then(|expected| unexpected(expected, value)) {
            return self.fail(&why);
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.inside(Element::field(name), value, kind.field(name));
                }
            }
            Value::Array(list) => self.items(list, kind),
            _ => {}
        }
    }

    fn inside(&mut self, element: Element, value: &Value, kind: Type<'_>) {
        self.path.push(element);
        self.value(value, kind);
        self.path.pop();
    }

    fn items(&mut self, list: &[Value], kind: Type<'_>) {
        let mut seen = BTreeSet::new();
        for (place, item) in (0..).zip(list) {
            let element = match kind.items().map(|items| element_of(items, item)) {
                None => Element::Index(place),
                Some(Ok(element)) => element,
                Some(Err(why)) => return self.fail(&format!("element {place}: {why}")),
            };
            if !seen.insert(element.clone()) {
                return self.fail(&format!("duplicate entries for key {element}"));
            }
            self.inside(element, item, kind.item());
        }
    }
}

/// What is said of a value that is not what the schema expects.
fn unexpected(expected: Expected, value: &Value) -> Option<String> {
    let scalar = value.is_string() || value.is_number() || value.is_boolean();
    match expected {
        _ if value.is_null() => None,
        Expected::Map if !value.is_object() => Some(format!("expected map, got &{{{}}}", plain(value))),
        Expected::List if !value.is_array() => Some(format!("expected list, got &{{{}}}", plain(value))),
        Expected::Text if !value.is_string() => {
            let shown = syntax(value);
            Some(format!("expected string, got &value.valueUnstructured{{Value:{shown}}}"))
        }
        Expected::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", type_name(value)))
        }
        Expected::Boolean if !value.is_boolean() => {
            Some(format!("expected boolean, got &{{{}}}", plain(value)))
        }
        Expected::AnyScalar if !scalar => Some(format!("expected any scalar, got &{{{}}}", plain(value))),
        _ => None,
    }
}

/// A value as Go prints it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(plain), " ")),
        Value::Object(fields) => {
            format!(
                "map[{}]",
                joined(fields.iter().map(|(name, value)| format!("{name}:{}", plain(value))), " ")
            )
        }
        other => other.to_string(),
    }
}

/// A value as Go prints it for programmers.
fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Array(items) => format!("{}{{{}}}", type_name(value), joined(items.iter().map(syntax), ", ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name:?}:{}", syntax(value)));
            format!("{}{{{}}}", type_name(value), joined(fields, ", "))
        }
        other => other.to_string(),
    }
}

fn joined(parts: impl Iterator<Item = String>, between: &str) -> String {
    parts.collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::GroupVersion;

    #[test]
    fn what_does_not_fit_is_named() {
        let deployment = Type::builtin(&GroupVersion::new("apps", "v1").kind("Deployment"));
        for (spec, why) in [
            (json!({"replicas": 1, "selector": null}), None),
            (json!({"nosuch": 1}), Some(".spec.nosuch: field not declared in schema")),
            (json!({"replicas": "1"}), Some(".spec.replicas: expected numeric (int or float), got string")),
            (json!({"paused": "yes"}), Some(".spec.paused: expected boolean, got &{yes}")),
            (json!([1]), Some(".spec: expected map, got &{[1]}")),
            (
                json!({"selector": {"matchLabels": {"a": {"b": 1}}}}),
                Some(
                    ".spec.selector.matchLabels.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{\"b\":1}}",
                ),
            ),
            (
                json!({"selector": {"matchExpressions": [{"nosuch": 1}]}}),
                Some(".spec.selector.matchExpressions[0].nosuch: field not declared in schema"),
            ),
            (
                json!({"strategy": {"rollingUpdate": {"maxSurge": {}}}}),
                Some(".spec.strategy.rollingUpdate.maxSurge: expected any scalar, got &{map[]}"),
            ),
            (
                json!({"nosuch": 1, "replicas": true}),
                Some(
                    "errors:\n  .spec.nosuch: field not declared in schema\n  .spec.replicas: expected numeric (int or float), got bool",
                ),
            ),
        ] {
            let found = check(&json!({"spec": spec}), deployment);
            assert_eq!(found.as_ref().err().map(String::as_str), why, "{spec}");
        }
    }
}
