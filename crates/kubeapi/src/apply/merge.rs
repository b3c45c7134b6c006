//! A configuration laid over an object: what it says counts, and nothing goes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::element::Element;
use super::fields::element_of;
use super::types::{Atom, Items, Type};

/// The object with the configuration laid over it.
pub(super) fn merge(live: &Value, config: &Value, kind: Type<'_>) -> Value {
    both(Some(live), Some(config), kind).unwrap_or(Value::Null)
}

fn both(live: Option<&Value>, config: Option<&Value>, kind: Type<'_>) -> Option<Value> {
    let Some(config) = config else { return live.cloned() };
    let Some(live) = live else { return Some(config.clone()) };
    match (kind.atom(live), kind.atom(config), live, config) {
        (Atom::Map(_), Atom::Map(kind), Value::Object(live), Value::Object(config)) => {
            if live.is_empty() && config.is_empty() {
                return Some(Value::Object(Map::new()));
            }
            let mut merged = live.clone();
            for (name, value) in config {
                if let Some(value) = both(live.get(name), Some(value), kind.field(name)) {
                    merged.insert(name.clone(), value);
                }
            }
            Some(Value::Object(merged))
        }
        (Atom::List(_), Atom::List(items), Value::Array(live), Value::Array(config)) => {
            Some(Value::Array(merge_items(items, live, config)))
        }
        // Null says nothing about what is inside, so what is there stays.
        (Atom::Map(_), Atom::Map(_), Value::Object(fields), Value::Null) if !fields.is_empty() => {
            Some(live.clone())
        }
        (Atom::List(_), Atom::List(_), Value::Array(items), Value::Null) if !items.is_empty() => {
            Some(live.clone())
        }
        _ => Some(config.clone()),
    }
}

/// The items of both. Those that the configuration has stand in its order; the others keep their place between.
fn merge_items(items: Items<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let elements = |list: &[Value]| -> Vec<(Element, Value)> {
        list.iter().filter_map(|item| Some((element_of(items, item).ok()?, item.clone()))).collect()
    };
    let (live, config) = (elements(live), elements(config));
    let mut live_items: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (element, item) in &live {
        // An item that is there twice is not merged with anything.
        live_items.entry(element).and_modify(|known| *known = None).or_insert(Some(item));
    }
    let config_items: BTreeMap<&Element, &Value> =
        config.iter().map(|(element, item)| (element, item)).collect();
    let mut shared: VecDeque<&Element> = config
        .iter()
        .map(|(element, _)| element)
        .filter(|element| live_items.contains_key(element))
        .collect();
    let mut done = BTreeSet::new();
    let mut merged = Vec::new();
    let (mut left, mut right) = (live.iter().peekable(), config.iter().peekable());
    loop {
        if let Some((element, item)) = left.peek() {
            let next = right.peek().map(|(other, _)| other);
            let wanted_later = shared.front().is_some_and(|first| *first != element);
            match config_items.contains_key(element) {
                false => {
                    merged.push(item.clone());
                    left.next();
                    continue;
                }
                // The configuration wants another one of those in both first: this one comes later.
                true if next.is_some_and(|next| next != element) && wanted_later => {
                    left.next();
                    continue;
                }
                true if done.contains(element) => {
                    left.next();
                }
                true => {}
            }
        }
        let Some((element, item)) = right.next() else {
            match left.peek() {
                Some(_) => continue,
                None => return merged,
            }
        };
        let old = live_items.get(element).copied().flatten();
        merged.extend(both(old, Some(item), items.item));
        done.insert(element);
        if shared.front() == Some(&element) {
            shared.pop_front();
        }
        if left.peek().is_some_and(|(other, _)| other == element) {
            left.next();
        }
    }
}
