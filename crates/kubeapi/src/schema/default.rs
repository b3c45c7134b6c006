//! Values for fields that were not given.

use serde_json::Value;

use super::node::Node;

/// Fills in defaults, and drops what is null though it may not be and has no default.
pub(crate) fn apply(node: &Node, value: &mut Value) {
    fill(node, value);
    drop_nulls(Some(node), value);
}

fn is_wrong_null(node: &Node, value: &Value) -> bool {
    value.is_null() && !node.nullable
}

fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, schema) in &node.properties {
                if let Some(default) = &schema.default
                    && fields.get(name).is_none_or(|value| is_wrong_null(schema, value))
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields {
                if let Some(schema) = node.properties.get(name) {
                    fill(schema, value);
                } else if let Some(schema) = node.additional_schema() {
                    fill_null(schema, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                items.iter_mut().for_each(|item| fill_null(schema, item));
            }
        }
        _ => {}
    }
}

/// An entry or item that is there, but null, has its default, too.
fn fill_null(node: &Node, value: &mut Value) {
    if is_wrong_null(node, value) {
        *value = node.default.clone().unwrap_or_default();
    }
    fill(node, value);
}

fn drop_nulls(node: Option<&Node>, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let schema = node.and_then(|node| node.field(name));
            let kept = schema.is_none_or(|schema| !is_wrong_null(schema, value) || schema.default.is_some());
            if kept {
                drop_nulls(schema, value);
            }
            kept
        }),
        Value::Array(items) => {
            let schema = node.and_then(|node| node.items.as_deref());
            items.iter_mut().for_each(|item| drop_nulls(schema, item));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Structural;

    #[test]
    fn defaults_at_every_level() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "integer", "default": 1},
            "b": {"type": "string", "nullable": true, "default": "x"},
            "plain": {"type": "string"},
            "nested": {"type": "object", "default": {}, "properties": {
                "deep": {"type": "array", "default": [{}], "items": {"type": "object", "properties": {
                    "n": {"type": "integer", "default": 7},
                }}},
            }},
            "absent": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "nullable": true, "properties": {
                "y": {"type": "boolean", "default": true},
            }}},
        }});
        let cases = [
            (json!({}), json!({"a": 1, "b": "x", "nested": {"deep": [{"n": 7}]}})),
            (
                json!({"a": null, "b": null, "plain": null, "nested": {"deep": []}, "absent": {}}),
                json!({"a": 1, "b": null, "nested": {"deep": []}, "absent": {"x": 1}}),
            ),
            (
                json!({"a": 0, "b": "", "nested": {"deep": [{"n": null}, {"n": 2}]}, "map": {"k": {}, "l": null}}),
                json!({"a": 0, "b": "", "nested": {"deep": [{"n": 7}, {"n": 2}]}, "map": {"k": {"y": true}, "l": null}}),
            ),
            (json!({"a": "wrong", "b": "", "nested": 3}), json!({"a": "wrong", "b": "", "nested": 3})),
        ];
        let schema = Structural::compile(&schema).unwrap();
        for (mut object, expected) in cases {
            schema.default(&mut object);
            assert_eq!(object, expected);
            let once = object.clone();
            schema.default(&mut object);
            assert_eq!(object, once, "defaulting twice is defaulting once");
        }
    }

    #[test]
    fn nulls_in_lists_are_left_for_validation() {
        let schema = json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        let mut object = json!({"list": [null, "a"], "map": {"x": null, "y": "b"}});
        Structural::compile(&schema).unwrap().default(&mut object);
        assert_eq!(object, json!({"list": [null, "a"], "map": {"y": "b"}}));
    }
}
