//! Random applies and updates by several managers, against a model of ownership that is as simple as can be: for each
//! field its value and who owns it.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use kubeapi::apply::{Converted, Element, Error, Managers, Operation, Scalar, Set, Type, Versions, Writer};
use kubeapi::{GroupVersion, GroupVersionKind};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The fields that are written: of two maps, and items of a set, whose value is that they are there.
const FIELDS: [&str; 9] =
    ["data/a", "data/b", "data/c", "data/d", "label/a", "label/b", "set/x.y/a", "set/x.y/b", "set/x.y/c"];
/// What the fields are in. Who updates owns those that come with it; who applies never does. They are not taken from
/// anybody when an apply empties them, though then they are there no more.
const PLACES: [&str; 3] = ["data", "label", "set"];
const MANAGERS: [&str; 3] = ["alice", "bob", "carol"];
/// Owned by somebody who never writes again, so that there are always managed fields.
const ANCHOR: &str = "anchor";

type Fields = BTreeMap<&'static str, String>;

/// What a manager does: with the fields and values that it says.
#[derive(Clone, Debug)]
struct Step {
    manager: &'static str,
    fields: Fields,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Apply {
        force: bool,
    },
    /// These fields are all there are afterwards.
    Update,
}

/// Who, and by what.
type Owner = (&'static str, Operation);

#[derive(Clone, Debug, Default)]
struct Model {
    values: Fields,
    owners: BTreeMap<&'static str, BTreeSet<Owner>>,
}

impl Model {
    /// The conflicts, if the step is refused for them.
    fn take(&mut self, step: &Step) -> BTreeSet<(Owner, &'static str)> {
        match step.how {
            How::Apply { force } => self.apply(step, force),
            How::Update => {
                self.update(step);
                BTreeSet::new()
            }
        }
    }

    fn has(&self, place: &str) -> bool {
        self.values.keys().any(|field| is_in(field, place))
    }

    fn apply(&mut self, step: &Step, force: bool) -> BTreeSet<(Owner, &'static str)> {
        let me = (step.manager, Operation::Apply);
        let changes = |field: &&str| self.values.get(*field) != step.fields.get(*field);
        let new = |place: &&str| !self.has(place) && step.fields.keys().any(|field| is_in(field, place));
        let changed = step.fields.keys().copied().filter(changes);
        let changed: Vec<&'static str> = changed.chain(PLACES.into_iter().filter(new)).collect();
        let others = |field: &&'static str| {
            let owners = self.owners.get(field).cloned().unwrap_or_default();
            owners.into_iter().filter(|owner| *owner != me).map(|owner| (owner, *field)).collect::<Vec<_>>()
        };
        let conflicts: BTreeSet<_> = changed.iter().flat_map(others).collect();
        if !conflicts.is_empty() && !force {
            return conflicts;
        }
        for field in changed {
            self.owners.insert(field, BTreeSet::new());
        }
        for field in FIELDS.into_iter().filter(|field| !step.fields.contains_key(field)) {
            let Some(owners) = self.owners.get_mut(field) else { continue };
            if owners.remove(&me) && owners.is_empty() {
                self.values.remove(field);
            }
        }
        for (field, value) in &step.fields {
            self.values.insert(field, value.clone());
            self.owners.entry(field).or_default().insert(me);
        }
        BTreeSet::new()
    }

    fn update(&mut self, step: &Step) {
        for place in PLACES {
            let (was, is) = (self.has(place), step.fields.keys().any(|field| is_in(field, place)));
            let updater = is.then_some((step.manager, Operation::Update));
            if was != is {
                self.owners.insert(place, updater.into_iter().collect());
            }
        }
        for field in FIELDS.into_iter().filter(|field| self.values.get(field) != step.fields.get(field)) {
            let owners = self.owners.entry(field).or_default();
            owners.clear();
            if step.fields.contains_key(field) {
                owners.insert((step.manager, Operation::Update));
            }
        }
        self.values.clone_from(&step.fields);
    }

    fn owned(&self) -> BTreeSet<(Owner, &'static str)> {
        self.owners.iter().flat_map(|(field, owners)| owners.iter().map(|owner| (*owner, *field))).collect()
    }
}

fn is_in(field: &str, place: &str) -> bool {
    field.split_once('/').is_some_and(|(first, _)| first == place)
}

struct ConfigMaps(GroupVersionKind);

impl Versions for ConfigMaps {
    fn types(&self, version: &str) -> Option<Type<'_>> {
        (version == "v1").then(|| Type::builtin(&self.0))
    }

    fn convert<'a>(&'a self, object: Value, _: &'a str) -> Converted<'a> {
        Box::pin(std::future::ready(Ok(object)))
    }
}

/// Nothing here ever waits.
fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn object(fields: &Fields) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}});
    for (field, value) in fields {
        match field.split_once('/').unwrap() {
            ("data", key) => object["data"][key] = json!(value),
            ("label", key) => object["metadata"]["labels"][key] = json!(value),
            (_, item) => match object["metadata"]["finalizers"].as_array_mut() {
                Some(items) => items.push(json!(item)),
                None => object["metadata"]["finalizers"] = json!([item]),
            },
        }
    }
    object
}

fn fields(object: &Value) -> Fields {
    let value = |field: &&'static str| {
        let value = match field.split_once('/').unwrap() {
            ("data", key) => object["data"][key].as_str(),
            ("label", key) => object["metadata"]["labels"][key].as_str(),
            (_, item) => {
                let items = object["metadata"]["finalizers"].as_array().into_iter().flatten();
                items.into_iter().find_map(|one| (one == item).then_some(""))
            }
        };
        value.map(|value| (*field, value.to_owned()))
    };
    FIELDS.iter().filter_map(value).collect()
}

fn paths() -> impl Iterator<Item = &'static str> {
    FIELDS.into_iter().chain(PLACES)
}

fn path(field: &str) -> Vec<Element> {
    let names = |names: &[&str]| names.iter().copied().map(Element::field).collect::<Vec<_>>();
    match field.split_once('/').unwrap_or((field, "")) {
        ("data", "") => names(&["data"]),
        ("label", "") => names(&["metadata", "labels"]),
        (_, "") => names(&["metadata", "finalizers"]),
        ("data", key) => names(&["data", key]),
        ("label", key) => names(&["metadata", "labels", key]),
        (_, item) => {
            let mut path = names(&["metadata", "finalizers"]);
            path.push(Element::Value(Scalar(json!(item))));
            path
        }
    }
}

fn owned(object: &Value) -> BTreeSet<(Owner, &'static str)> {
    let managers = Managers::decode(&object["metadata"]["managedFields"]).unwrap();
    let of = |manager: &'static str| {
        let managers = &managers;
        paths().flat_map(move |field| {
            let has = managers
                .0
                .iter()
                .filter(move |(owner, owned)| owner.manager == manager && owned.fields.has(&path(field)));
            has.map(move |(owner, _)| ((manager, owner.operation), field))
        })
    };
    MANAGERS.into_iter().flat_map(of).collect()
}

fn conflicts(error: &Error) -> BTreeSet<(Owner, &'static str)> {
    let Error::Conflicts(conflicts) = error else { panic!("{error:?}") };
    let known = conflicts.iter().map(|conflict| {
        let manager = MANAGERS.into_iter().find(|manager| *manager == conflict.owner.manager).unwrap();
        let field = paths().find(|field| path(field) == conflict.path).unwrap();
        ((manager, conflict.owner.operation), field)
    });
    known.collect()
}

fn write(live: &Value, step: &Step) -> Result<Value, Error> {
    let kind = GroupVersion::new("", "v1").kind("ConfigMap");
    let writer = Writer {
        versions: &ConfigMaps(kind.clone()),
        kind: &kind,
        manager: step.manager,
        subresource: "",
        ignored: &Set::default(),
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let mut new = object(&step.fields);
    match step.how {
        How::Apply { force } => now_or_never(writer.apply(Some(live), &new, force)),
        How::Update => {
            new["metadata"]["annotations"] = live["metadata"]["annotations"].clone();
            now_or_never(writer.update(Some(live), &mut new)).map(|()| new)
        }
    }
}

fn start() -> Value {
    let mut first = object(&Fields::new());
    first["metadata"]["annotations"] = json!({ANCHOR: ""});
    let fields = json!({"f:metadata": {"f:annotations": {format!("f:{ANCHOR}"): {}}}});
    first["metadata"]["managedFields"] = json!([{
        "manager": ANCHOR, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
    }]);
    first
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = (0..FIELDS.len(), "[xyz]").prop_map(|(index, value)| {
        let field = FIELDS[index];
        (field, if field.starts_with("set/") { String::new() } else { value })
    });
    let fields = proptest::collection::btree_map(0..FIELDS.len(), value, 0..6);
    let fields = fields.prop_map(|entries| entries.into_values().collect::<Fields>());
    let how = prop_oneof![
        4 => Just(How::Apply { force: false }),
        2 => Just(How::Apply { force: true }),
        2 => Just(How::Update),
    ];
    let step = (0..MANAGERS.len(), fields, how).prop_map(|(index, fields, how)| Step {
        manager: MANAGERS[index],
        fields,
        how,
    });
    proptest::collection::vec(step, 1..24)
}

proptest! {
    #[test]
    fn owners_are_those_of_the_model(steps in steps()) {
        let (mut live, mut model) = (start(), Model::default());
        for step in &steps {
            let expected = model.take(step);
            match write(&live, step) {
                Ok(new) => {
                    prop_assert!(expected.is_empty(), "{step:?} was not refused for {expected:?}");
                    live = new;
                }
                Err(error) => prop_assert_eq!(conflicts(&error), expected, "{:?}", step),
            }
            prop_assert_eq!(fields(&live), model.values.clone(), "{:?}", step);
            prop_assert_eq!(owned(&live), model.owned(), "{:?}", step);
        }
    }

    #[test]
    fn the_same_again_is_no_change(steps in steps()) {
        let mut live = start();
        for step in &steps {
            let Ok(new) = write(&live, step) else { continue };
            let again = write(&new, step).unwrap();
            prop_assert_eq!(&again, &new, "{:?}", step);
            live = new;
        }
    }
}
