//! Which part of an old object a part of the new one comes from: what ratcheting and transition rules rest on.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::node::{ListType, Node, Type};

/// A value and what it was before, with the schema of both.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) new: &'a Value,
    pub(crate) old: &'a Value,
    pub(crate) node: &'a Node,
}

impl<'a> Pair<'a> {
    /// A field that was there before, too, and that the schema knows.
    pub(crate) fn key(&self, name: &str) -> Option<Pair<'a>> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        Some(Pair { new, old, node: self.node.field(name)? })
    }

    /// An item of a list whose items have keys, with the old item of the same keys.
    pub(crate) fn index(&self, index: usize) -> Option<Pair<'a>> {
        let new = self.new.as_array()?.get(index)?;
        let key = item_key(self.node, new)?;
        let old = self.old.as_array()?.iter().find(|old| item_key(self.node, old).as_ref() == Some(&key))?;
        Some(Pair { new, old, node: self.node.items.as_deref()? })
    }

    /// Whether nothing has changed. Fields that the schema does not know count as changed; the order of items with
    /// keys does not matter.
    pub(crate) fn is_equal(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) if has_keys(self.node) => {
                new.len() == old.len()
                    && (0..new.len()).all(|index| self.index(index).is_some_and(|item| item.is_equal()))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|key| self.key(key).is_some_and(|pair| pair.is_equal()))
            }
            (new, old) => new == old,
        }
    }
}

fn has_keys(node: &Node) -> bool {
    node.list_type == Some(ListType::Map) && !node.list_map_keys.is_empty()
}

/// What identifies an item of a list of type map: all its keys, if all are there and scalar.
fn item_key(list: &Node, item: &Value) -> Option<String> {
    if !has_keys(list) || list.kind != Some(Type::Array) {
        return None;
    }
    let item = item.as_object()?;
    let mut key = String::new();
    for name in &list.list_map_keys {
        let value =
            item.get(name).filter(|value| !(value.is_null() || value.is_object() || value.is_array()))?;
        key += &value.to_string();
        key.push('\0');
    }
    Some(key)
}

/// The items of an old list by their keys.
pub(crate) struct OldItems<'a> {
    list: &'a Node,
    items: BTreeMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(crate) fn new(list: &'a Node, old: Option<&'a Value>) -> Self {
        let mut items = BTreeMap::new();
        for item in old.and_then(Value::as_array).into_iter().flatten() {
            if let Some(key) = item_key(list, item) {
                items.entry(key).or_insert(item);
            }
        }
        OldItems { list, items }
    }

    pub(crate) fn of(&self, new: &Value) -> Option<&'a Value> {
        self.items.get(&item_key(self.list, new)?).copied()
    }
}

/// The field of an old object, if it was one.
pub(crate) fn old_field<'a>(old: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    old.and_then(Value::as_object).and_then(|old: &Map<String, Value>| old.get(name))
}
