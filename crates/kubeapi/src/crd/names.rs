//! Names of a CRD, and whether it gets them: two CRDs of one group cannot have the same.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::definition::{list, text};

/// What a kind is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// In URLs.
    pub plural: String,
    /// For people.
    pub singular: String,
    /// For people in a hurry.
    pub short_names: Vec<String>,
    /// In objects.
    pub kind: String,
    /// In lists of objects.
    pub list_kind: String,
    /// Groups of resources that it is part of, such as `all`.
    pub categories: Vec<String>,
}

impl Names {
    /// Reads `spec.names` or `status.acceptedNames`.
    pub fn read(names: &Value) -> Names {
        let texts =
            |name: &str| list(names, name).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Names {
            plural: text(names, "plural"),
            singular: text(names, "singular"),
            short_names: texts("shortNames"),
            kind: text(names, "kind"),
            list_kind: text(names, "listKind"),
            categories: texts("categories"),
        }
    }

    /// As `status.acceptedNames`.
    pub fn to_json(&self) -> Value {
        let mut names = Map::new();
        names.insert("plural".into(), self.plural.as_str().into());
        names.insert("kind".into(), self.kind.as_str().into());
        for (name, text) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !text.is_empty() {
                names.insert(name.into(), text.as_str().into());
            }
        }
        for (name, texts) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !texts.is_empty() {
                names.insert(name.into(), json!(texts));
            }
        }
        Value::Object(names)
    }
}

/// A condition of a CRD, but for its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `NamesAccepted` or `Established`.
    pub kind: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Condition {
    fn new(kind: &'static str, holds: bool, reason: &str, message: impl Into<String>) -> Self {
        Condition { kind, holds, reason: reason.into(), message: message.into() }
    }
}

/// Whether a CRD gets its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// `status.acceptedNames`: those that it has now.
    pub names: Names,
    /// `NamesAccepted`.
    pub names_accepted: Condition,
    /// `Established`: its resource can be served. Once it is, it stays so.
    pub established: Condition,
}

/// Decides about the names of a CRD, given the other CRDs. Unlike upstream, where another controller follows some
/// seconds later, `Established` holds at once: what decides is also what serves.
pub fn accept_names<'a>(crd: &Value, others: impl IntoIterator<Item = &'a Value>) -> Acceptance {
    let wanted = Names::read(&crd["spec"]["names"]);
    let had = Names::read(&crd["status"]["acceptedNames"]);
    let (resources, kinds) = taken(crd, others);
    let mut names = had.clone();
    let mut conflict: Option<Condition> = None;
    let mut refuse = |reason: &str, message: String| {
        conflict = Some(Condition::new("NamesAccepted", false, reason, message));
    };
    let clashes = |wanted: &str, had: &str, taken: &BTreeSet<String>| wanted != had && taken.contains(wanted);
    let in_use = |name: &str| format!("{name:?} is already in use");
    match clashes(&wanted.plural, &had.plural, &resources) {
        true => refuse("PluralConflict", in_use(&wanted.plural)),
        false => names.plural = wanted.plural,
    }
    match clashes(&wanted.singular, &had.singular, &resources) {
        true => refuse("SingularConflict", in_use(&wanted.singular)),
        false => names.singular = wanted.singular,
    }
    if wanted.short_names != had.short_names {
        let is_taken = |name: &&String| !had.short_names.contains(name) && resources.contains(*name);
        let errors: Vec<String> =
            wanted.short_names.iter().filter(is_taken).map(|name| in_use(name)).collect();
        match &errors[..] {
            [] => names.short_names = wanted.short_names,
            [one] => refuse("ShortNamesConflict", one.clone()),
            several => refuse("ShortNamesConflict", format!("[{}]", several.join(", "))),
        }
    }
    match clashes(&wanted.kind, &had.kind, &kinds) {
        true => refuse("KindConflict", in_use(&wanted.kind)),
        false => names.kind = wanted.kind,
    }
    match clashes(&wanted.list_kind, &had.list_kind, &kinds) {
        true => refuse("ListKindConflict", in_use(&wanted.list_kind)),
        false => names.list_kind = wanted.list_kind,
    }
    names.categories = wanted.categories;
    let names_accepted = conflict
        .unwrap_or_else(|| Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found"));
    Acceptance { names, established: established(crd, names_accepted.holds), names_accepted }
}

fn established(crd: &Value, accepted: bool) -> Condition {
    let was = list(&crd["status"], "conditions")
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    match was || accepted {
        true => Condition::new(
            "Established",
            true,
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
        false => Condition::new("Established", false, "NotAccepted", "not all names are accepted"),
    }
}

/// Resources and kinds that other CRDs of the same group have.
fn taken<'a>(
    crd: &Value,
    others: impl IntoIterator<Item = &'a Value>,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for other in others {
        let same = other["metadata"]["name"] == crd["metadata"]["name"];
        if same || other["spec"]["group"] != crd["spec"]["group"] {
            continue;
        }
        let names = Names::read(&other["status"]["acceptedNames"]);
        resources.extend([names.plural, names.singular].into_iter().chain(names.short_names));
        kinds.extend([names.kind, names.list_kind]);
    }
    (resources, kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(name: &str, group: &str, names: Value, accepted: Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {"group": group, "names": names}, "status": {"acceptedNames": accepted}})
    }

    #[test]
    fn names_are_taken_by_who_comes_first() {
        let foo = json!({"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList", "shortNames": ["f", "fo"]});
        let first = crd("foos.x.io", "x.io", foo.clone(), foo.clone());
        let elsewhere = crd("foos.y.io", "y.io", foo.clone(), foo.clone());
        let bar = |extra: Value| {
            let mut names =
                json!({"plural": "bars", "singular": "bar", "kind": "Bar", "listKind": "BarList"});
            names.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap());
            names
        };
        let cases = [
            (json!({}), None),
            (json!({"plural": "foos"}), Some(("PluralConflict", r#""foos" is already in use"#))),
            (json!({"singular": "f"}), Some(("SingularConflict", r#""f" is already in use"#))),
            (json!({"kind": "FooList"}), Some(("KindConflict", r#""FooList" is already in use"#))),
            (json!({"listKind": "Foo"}), Some(("ListKindConflict", r#""Foo" is already in use"#))),
            (
                json!({"shortNames": ["f", "b", "foo"]}),
                Some(("ShortNamesConflict", r#"["f" is already in use, "foo" is already in use]"#)),
            ),
        ];
        for (names, conflict) in cases {
            let second = crd("bars.x.io", "x.io", bar(names.clone()), json!({}));
            let found = accept_names(&second, [&first, &elsewhere, &second]);
            let expected = conflict.unwrap_or(("NoConflicts", "no conflicts found"));
            assert_eq!(
                (found.names_accepted.reason.as_str(), found.names_accepted.message.as_str()),
                expected
            );
            assert_eq!(found.names_accepted.holds, conflict.is_none(), "{names}");
            assert_eq!(found.established.holds, conflict.is_none(), "{names}");
        }
    }

    #[test]
    fn what_was_accepted_stays() {
        let names = json!({"plural": "foos", "kind": "Foo"});
        let mut crd = crd("foos.x.io", "x.io", json!({"plural": "foos", "kind": "Taken"}), names.clone());
        crd["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        let other = json!({"metadata": {"name": "o"}, "spec": {"group": "x.io"}, "status": {"acceptedNames": {"kind": "Taken"}}});
        let found = accept_names(&crd, [&other]);
        assert_eq!(found.names.to_json(), names);
        assert!(found.established.holds && !found.names_accepted.holds);
    }
}
