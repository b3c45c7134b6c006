use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::element::Element;

/// A set of paths, as a tree.
///
/// A path is in it by itself: that of a field says nothing about the fields below, nor the other way round. The
/// empty path is in no set: nobody owns a whole object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    pub(super) members: BTreeSet<Element>,
    /// None of these is empty.
    pub(super) children: BTreeMap<Element, Set>,
}

impl Set {
    /// The paths of fields, each given as names with dots between.
    pub fn of_fields<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut set = Set::default();
        for path in paths {
            set.insert(&path.split('.').map(Element::field).collect::<Vec<_>>());
        }
        set
    }

    /// Adds a path.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether a path is in it.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|set| set.has(rest)),
        }
    }

    /// Whether there is no path in it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// The paths that begin with an element, without it.
    pub fn below(&self, element: &Element) -> Option<&Set> {
        self.children.get(element)
    }

    /// The paths of both.
    #[must_use]
    pub fn union(&self, other: &Set) -> Set {
        let mut all = self.clone();
        all.extend(other.clone());
        all
    }

    /// Adds the paths of another.
    pub(super) fn extend(&mut self, other: Set) {
        if self.is_empty() {
            *self = other;
            return;
        }
        self.members.extend(other.members);
        for (element, set) in other.children {
            self.children.entry(element).or_default().extend(set);
        }
    }

    /// The paths that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Set) -> Set {
        let members = self.members.intersection(&other.members).cloned().collect();
        self.with_children(members, |element, set| {
            other.children.get(element).map(|other| set.intersection(other)).unwrap_or_default()
        })
    }

    /// The paths that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Set) -> Set {
        if other.is_empty() {
            return self.clone();
        }
        let members = self.members.difference(&other.members).cloned().collect();
        self.with_children(members, |element, set| match other.children.get(element) {
            Some(other) => set.difference(other),
            None => set.clone(),
        })
    }

    /// The paths that are neither in `other` nor below one of its paths.
    #[must_use]
    pub fn outside(&self, other: &Set) -> Set {
        let members = self.members.difference(&other.members).cloned().collect();
        self.with_children(members, |element, set| match other.children.get(element) {
            _ if other.members.contains(element) => Set::default(),
            Some(other) => set.outside(other),
            None => set.clone(),
        })
    }

    fn with_children(&self, members: BTreeSet<Element>, child: impl Fn(&Element, &Set) -> Set) -> Set {
        let children = self.children.iter().map(|(element, set)| (element.clone(), child(element, set)));
        Set { members, children: children.filter(|(_, set)| !set.is_empty()).collect() }
    }

    /// All paths, those nearer to the root first.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Vec<Element>>) {
        for element in &self.members {
            paths.push(prefix.iter().chain([element]).cloned().collect());
        }
        for (element, set) in &self.children {
            prefix.push(element.clone());
            set.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// The set as `fieldsV1`.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        for element in &self.members {
            let inside = match self.children.get(element) {
                Some(set) => {
                    let mut inside = set.to_json();
                    inside["."] = json!({});
                    inside
                }
                None => json!({}),
            };
            fields.insert(element.encode(), inside);
        }
        for (element, set) in self.children.iter().filter(|(element, _)| !self.members.contains(element)) {
            fields.insert(element.encode(), set.to_json());
        }
        Value::Object(fields)
    }

    /// Reads `fieldsV1`; `None` if it is malformed. Elements of a kind that we do not know are left out.
    pub fn from_json(fields: &Value) -> Option<Set> {
        let mut set = Set::default();
        for (name, inside) in fields.as_object()? {
            if name == "." {
                continue;
            }
            let Some(element) = Element::parse(name) else { continue };
            let children = Set::from_json(inside)?;
            if inside.get(".").is_some() || children.is_empty() {
                set.members.insert(element.clone());
            }
            if !children.is_empty() {
                set.children.insert(element, children);
            }
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(fields: Value) -> Set {
        Set::from_json(&fields).unwrap()
    }

    #[test]
    fn sets_are_written_as_read() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:ports": {".": {}, r#"k:{"port":80}"#: {".": {}, "f:port": {}}}},
        });
        assert_eq!(set(fields.clone()).to_json(), fields);
        assert!(Set::from_json(&json!([])).is_none());
        assert!(Set::from_json(&json!({"f:a": 1})).is_none());
    }

    #[test]
    fn paths_are_in_a_set_by_themselves() {
        let all = set(json!({"f:a": {".": {}, "f:b": {}, "f:c": {}}, "f:d": {}}));
        let some = set(json!({"f:a": {"f:b": {}}}));
        assert_eq!(all.difference(&some), set(json!({"f:a": {".": {}, "f:c": {}}, "f:d": {}})));
        assert_eq!(all.intersection(&some), some);
        assert_eq!(all.outside(&set(json!({"f:a": {}}))), set(json!({"f:d": {}})));
        assert_eq!(
            all.difference(&set(json!({"f:a": {}}))),
            set(json!({"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}}))
        );
        assert_eq!(some.union(&set(json!({"f:d": {}}))).paths().len(), 2);
        assert!(all.has(&[Element::field("a")]) && !some.has(&[Element::field("a")]));
    }
}
