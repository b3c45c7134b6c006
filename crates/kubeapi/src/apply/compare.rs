//! What differs between two values.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;
use super::fields::element_of;
use super::set::Set;
use super::types::{Atom, Items, Type};

/// The paths at which two values differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) removed: Set,
    pub(super) modified: Set,
    pub(super) added: Set,
}

impl Comparison {
    /// What has to be done to `old` to get `new`.
    pub(super) fn of(old: &Value, new: &Value, kind: Type<'_>) -> Self {
        let mut walk = Walk { path: Vec::new(), found: Comparison::default() };
        walk.value(Some(old), Some(new), kind);
        walk.found
    }

    /// Without what is at or below the paths.
    pub(super) fn outside(self, paths: &Set) -> Self {
        if paths.is_empty() {
            return self;
        }
        Comparison {
            removed: self.removed.outside(paths),
            modified: self.modified.outside(paths),
            added: self.added.outside(paths),
        }
    }
}

struct Walk {
    path: Vec<Element>,
    found: Comparison,
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

impl Walk {
    fn value(&mut self, old: Option<&Value>, new: Option<&Value>, kind: Type<'_>) {
        // Most of an object does not change.
        if old == new {
            return;
        }
        let atoms = (old.map(|old| kind.atom(old)), new.map(|new| kind.atom(new)));
        match atoms {
            (Some(was), Some(is)) if !was.is_like(&is) => {
                // What was below is gone, or what is below is new; and the place itself holds something else.
                self.inside(was, old, None);
                self.inside(is, None, new);
                self.leaf(old, new);
            }
            (Some(atom), _) | (None, Some(atom)) => self.one(atom, old, new),
            (None, None) => {}
        }
    }

    fn one(&mut self, atom: Atom<'_>, old: Option<&Value>, new: Option<&Value>) {
        let parts = matches!(atom, Atom::Map(_) | Atom::List(_));
        // Between nothing and empty there is a difference, but none inside.
        if !parts || (is_empty(old) && is_empty(new)) {
            return self.leaf(old, new);
        }
        self.inside(atom, old, new);
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            _ => {}
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !equal(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
    }

    fn inside(&mut self, atom: Atom<'_>, old: Option<&Value>, new: Option<&Value>) {
        match atom {
            Atom::Map(kind) => {
                let nothing = Map::new();
                let old = old.and_then(Value::as_object).unwrap_or(&nothing);
                let new = new.and_then(Value::as_object).unwrap_or(&nothing);
                let added = new.keys().filter(|name| !old.contains_key(*name));
                for name in old.keys().chain(added) {
                    self.step(Element::field(name), old.get(name), new.get(name), kind.field(name));
                }
            }
            Atom::List(items) => self.items(items, old, new),
            Atom::Scalar | Atom::Whole => {}
        }
    }

    fn step(&mut self, element: Element, old: Option<&Value>, new: Option<&Value>, kind: Type<'_>) {
        self.path.push(element);
        self.value(old, new, kind);
        self.path.pop();
    }

    fn items(&mut self, items: Items<'_>, old: Option<&Value>, new: Option<&Value>) {
        let mut by_element: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old.and_then(Value::as_array).into_iter().flatten() {
            if let Ok(element) = element_of(items, item) {
                by_element.entry(element).or_default().0.push(item);
            }
        }
        for item in new.and_then(Value::as_array).into_iter().flatten() {
            if let Ok(element) = element_of(items, item) {
                by_element.entry(element).or_default().1.push(item);
            }
        }
        for (element, (old, new)) in by_element {
            match (old.len(), new.len()) {
                (0 | 1, 0 | 1) => self.step(element, old.first().copied(), new.first().copied(), items.item),
                // Items that are there twice are compared as a whole.
                (2.., 2..) => {
                    if old.len() != new.len() || old.iter().zip(&new).any(|(old, new)| !equal(old, new)) {
                        self.path.push(element);
                        self.found.modified.insert(&self.path);
                        self.path.pop();
                    }
                }
                (2.., _) => {
                    if let Some(new) = new.first() {
                        self.step(element.clone(), None, Some(new), items.item);
                    }
                    self.path.push(element);
                    self.found.removed.insert(&self.path);
                    self.path.pop();
                }
                (_, _) => {
                    if let Some(old) = old.first() {
                        self.step(element.clone(), Some(old), None, items.item);
                    }
                    self.path.push(element);
                    self.found.added.insert(&self.path);
                    self.path.pop();
                }
            }
        }
    }
}

/// Numbers are equal by their value, however they are written.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, value)| right.get(name).is_some_and(|other| equal(value, other)))
        }
        _ => left == right,
    }
}
