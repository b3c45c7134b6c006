//! From values to the paths of their fields, and back.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::element::{Element, Scalar};
use super::set::Set;
use super::types::{Atom, Items, Type};

/// What names an item of its list.
pub(super) fn element_of(items: Items<'_>, item: &Value) -> Result<Element, String> {
    if items.keys.is_empty() {
        let why = match item {
            Value::Object(_) => "associative list without keys has an element that's a map type",
            Value::Array(_) => "not supported: associative list with lists as elements",
            Value::Null => "associative list without keys has an element that's an explicit null",
            scalar => return Ok(Element::Value(Scalar(scalar.clone()))),
        };
        return Err(why.into());
    }
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let mut keys = Vec::new();
    for key in items.keys {
        if let Some(value) = fields.get(key).or_else(|| items.item.default_of(key)) {
            keys.push((key.clone(), Scalar(value.clone())));
        }
    }
    if keys.is_empty() {
        let names: Vec<String> = items.keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    keys.sort();
    Ok(Element::Key(keys))
}

/// The paths of all that a value says.
pub(super) fn of(value: &Value, kind: Type<'_>) -> Set {
    let mut set = Set::default();
    collect(value, kind, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, kind: Type<'_>, path: &mut Vec<Element>, set: &mut Set) {
    match (kind.atom(value), value) {
        (Atom::Map(kind), Value::Object(fields)) => {
            for (name, value) in fields {
                path.push(Element::field(name));
                collect(value, kind.field(name), path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !kind.names(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Atom::List(items), Value::Array(list)) => collect_items(list, items, path, set),
        (Atom::Map(_) | Atom::List(_), _) => {}
        (Atom::Scalar | Atom::Whole, _) => set.insert(path),
    }
}

fn collect_items(list: &[Value], items: Items<'_>, path: &mut Vec<Element>, set: &mut Set) {
    let elements: Vec<_> =
        list.iter().filter_map(|item| Some((element_of(items, item).ok()?, item))).collect();
    let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for (element, _) in &elements {
        if !seen.insert(element) {
            twice.insert(element);
        }
    }
    for (element, item) in &elements {
        path.push(element.clone());
        // Of an item that is there twice nobody can say which one they own: only the place is.
        if !twice.contains(element) {
            collect(item, items.item, path, set);
        }
        set.insert(path);
        path.pop();
    }
}

/// What becomes of a list or map of which nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emptied {
    /// It is null: so upstream leaves it, and so it counts for ownership.
    Null,
    /// It is not there: a null is not what anybody said, and a custom resource may refuse it.
    Gone,
}

/// The value without what is at the paths; `None` if nothing is left of a container.
pub(super) fn remove(value: &Value, kind: Type<'_>, paths: &Set, emptied: Emptied) -> Option<Value> {
    match (kind.atom(value), value) {
        (Atom::Map(kind), Value::Object(fields)) => {
            let mut left = Map::new();
            let mut is_left = false;
            for (name, value) in fields {
                let element = Element::field(name);
                if paths.members.contains(&element) {
                    continue;
                }
                is_left = true;
                let value = match paths.below(&element) {
                    Some(below) => remove(value, kind.field(name), below, emptied)
                        .or((emptied == Emptied::Null).then_some(Value::Null)),
                    None => Some(value.clone()),
                };
                left.extend(value.map(|value| (name.clone(), value)));
            }
            is_left.then_some(Value::Object(left))
        }
        (Atom::List(items), Value::Array(list)) => {
            let mut left = Vec::new();
            for item in list {
                let Ok(element) = element_of(items, item) else { continue };
                if paths.members.contains(&element) {
                    continue;
                }
                match paths.below(&element) {
                    Some(below) => left.extend(remove(item, items.item, below, emptied)),
                    None => left.push(item.clone()),
                }
            }
            (!left.is_empty()).then_some(Value::Array(left))
        }
        (Atom::Scalar, value) => Some(value.clone()),
        _ => None,
    }
}

/// The set with the fields that the schema names added where something below them is in it.
pub(super) fn with_named_fields(set: &Set, kind: Type<'_>) -> Set {
    let mut members = set.members.clone();
    let mut children = std::collections::BTreeMap::new();
    for (element, below) in &set.children {
        let inside = match element {
            Element::Field(name) => {
                if kind.names(name) {
                    members.insert(element.clone());
                }
                kind.field(name)
            }
            Element::Key(_) => kind.items().map_or(Type::custom(None), |items| items.item),
            _ => Type::custom(None),
        };
        children.insert(element.clone(), with_named_fields(below, inside));
    }
    Set { members, children }
}

/// The set as it is since something that was owned piece by piece is owned as a whole; `None` if nothing changed.
pub(super) fn follow_schema(set: &Set, kind: Type<'_>) -> Option<Set> {
    let mut change = Reconciled::default();
    change.visit(set, kind, &mut Vec::new(), false);
    (!change.whole.is_empty()).then(|| set.outside(&change.whole).union(&change.whole))
}

#[derive(Default)]
struct Reconciled {
    /// The paths of what is owned as a whole now.
    whole: Set,
}

impl Reconciled {
    fn visit(&mut self, set: &Set, kind: Type<'_>, path: &mut Vec<Element>, leaf: bool) {
        let lists = set.children.keys().chain(&set.members).any(|one| !matches!(one, Element::Field(_)));
        if !leaf && !path.is_empty() && kind.owns_as_whole(lists) && !set.is_empty() {
            self.whole.insert(path);
            return;
        }
        for (element, below) in &set.children {
            let inside = match element {
                Element::Field(name) => kind.field(name),
                _ => match kind.items() {
                    Some(items) => items.item,
                    None => continue,
                },
            };
            path.push(element.clone());
            self.visit(below, inside, path, false);
            path.pop();
        }
    }
}
