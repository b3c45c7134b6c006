//! What is to be done to get from what is there to what should be there.
//!
//! Three documents count for each object: what is there, what we want, and what we wanted last time. What we want is
//! set; what we wanted and no longer want goes; everything else belongs to others and stays.

use std::collections::{BTreeMap, BTreeSet};

use api::capi::v1beta2::ContractVersionedObjectReference;
use api::catalogue::labels;
use api::overlay;
use serde_json::{Map, Value, json};

use super::applied::{self, Belonging, Owner};
use crate::Object;
use crate::object::Id;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Make it.
    Create(Object),
    /// Change it.
    Update {
        /// Which object.
        id: Id,
        /// JSON merge patch; it carries the version that was looked at, so that it fails if somebody was faster.
        patch: Value,
    },
    /// Delete it.
    Delete(Id),
}

impl Change {
    /// Which object changes.
    pub fn id(&self) -> Id {
        match self {
            Change::Create(object) => object.id(),
            Change::Update { id, .. } | Change::Delete(id) => id.clone(),
        }
    }
}

/// An object that we would have to make or change is somebody else's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} belongs to another cluster or set: rename the cluster or the pool, so that their objects have other names"
)]
pub struct Conflict(pub Id);

/// What there is.
#[derive(Clone, Copy, Debug)]
pub struct Existing<'a> {
    /// Every object of the kinds that the set may hold, in the owner's namespace; others' are left alone.
    pub objects: &'a [Object],
    /// What MachineSets make machines from: templates that have to stay although no pool names them any more.
    pub referred: &'a BTreeSet<ContractVersionedObjectReference>,
}

/// The steps that make `existing` into `wanted`, in the order in which they are to be done.
///
/// # Guarantees
/// - Doing them and asking again gives no steps.
/// - A field that neither `wanted` has nor the set ever had keeps its value.
/// - Nothing that is not of this set is deleted, and nothing that carries `objectset.rio.cattle.io/prune: false`.
///
/// # Errors
/// If an object of that name belongs to another set.
pub fn difference(owner: &Owner, wanted: &[Object], existing: Existing<'_>) -> Result<Vec<Change>, Conflict> {
    let there: BTreeMap<Id, &Object> = existing.objects.iter().map(|object| (key(object), object)).collect();
    let mut changes = Vec::new();
    for object in wanted {
        match there.get(&key(object)) {
            None => changes.push(Change::Create(owner.stamp(object, None))),
            Some(found) if owner.belonging(found) == Belonging::Others => return Err(Conflict(found.id())),
            // It is made again once it is gone.
            Some(found) if found.is_deleting() => {}
            Some(found) => changes.extend(update(owner, object, found)),
        }
    }
    let kept: BTreeSet<Id> = wanted.iter().map(key).collect();
    let mut gone: Vec<&Object> =
        existing.objects.iter().filter(|object| !kept.contains(&key(object))).collect();
    gone.retain(|object| {
        owner.belonging(object) == Belonging::Ours
            && object.label(labels::OBJECTSET_PRUNE) != Some("false")
            && !object.is_deleting()
            && !existing.referred.contains(&reference(object))
    });
    gone.sort_by_key(|object| (rank(object.kind()), object.id()));
    changes.extend(gone.into_iter().map(|object| Change::Delete(object.id())));
    Ok(changes)
}

fn update(owner: &Owner, wanted: &Object, found: &Object) -> Option<Change> {
    let last = applied::last(found);
    let stamped = owner.stamp(wanted, Some((found, last.as_ref())));
    let merged = merge(found.document(), last.as_ref(), stamped.document(), Lists::AreOurs)?;
    let mut patch = overlay::merge_patch(found.document(), &merged)?;
    if let Some(version) = found.document()["metadata"].get("resourceVersion") {
        patch["metadata"]["resourceVersion"] = version.clone();
    }
    Some(Change::Update { id: found.id(), patch })
}

/// Objects are the same across versions of their group.
fn key(object: &Object) -> Id {
    let id = object.id();
    Id { api_version: id.group().to_owned(), ..id }
}

fn reference(object: &Object) -> ContractVersionedObjectReference {
    let id = object.id();
    ContractVersionedObjectReference { api_group: id.group().into(), kind: id.kind, name: id.name }
}

/// What goes first: checks before the machines that they check, templates after what is made from them.
fn rank(kind: &str) -> u8 {
    match kind {
        "MachineHealthCheck" => 0,
        "MachineDeployment" => 1,
        kind if kind.ends_with("Template") => 3,
        _ => 2,
    }
}

/// Whose a list is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// The whole list is as we say.
    AreOurs,
    /// Others add items of their own.
    AreShared,
}

/// What `found` becomes; nothing if it stays as it is, which is the rule.
fn merge(found: &Value, last: Option<&Value>, wanted: &Value, lists: Lists) -> Option<Value> {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            merge_objects(found, last.and_then(Value::as_object), wanted).map(Value::Object)
        }
        (Value::Array(found), Value::Array(wanted)) => {
            let last = last.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            merge_lists(found, last, wanted, lists).map(Value::Array)
        }
        _ => (found != wanted).then(|| wanted.clone()),
    }
}

fn merge_objects(
    found: &Map<String, Value>,
    last: Option<&Map<String, Value>>,
    wanted: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut changes: Vec<(&String, Option<Value>)> = Vec::new();
    // A null says nothing; Go's encoders write some where objects have values of the server's.
    let said = last.into_iter().flatten().filter(|(_, was)| !was.is_null());
    for (field, was) in said.filter(|(field, _)| !wanted.contains_key(*field)) {
        match found.get(field).map(|is| without(is, was)) {
            None | Some(Left::All) => {}
            Some(Left::Some(left)) => changes.push((field, Some(left))),
            Some(Left::Nothing) => changes.push((field, None)),
        }
    }
    for (field, new) in wanted {
        let was = last.and_then(|last| last.get(field));
        let lists = match field.as_str() {
            "ownerReferences" | "finalizers" => Lists::AreShared,
            _ => Lists::AreOurs,
        };
        let value = found.get(field).map_or_else(|| Some(new.clone()), |is| merge(is, was, new, lists));
        changes.extend(value.map(|value| (field, Some(value))));
    }
    if changes.is_empty() {
        return None;
    }
    let mut result = found.clone();
    for (field, value) in changes {
        match value {
            Some(value) => drop(result.insert(field.clone(), value)),
            None => drop(result.remove(field)),
        }
    }
    Some(result)
}

/// What of a value stays when we no longer want what we wanted: what others put into it.
enum Left {
    All,
    Some(Value),
    Nothing,
}

fn without(is: &Value, was: &Value) -> Left {
    let (Some(is), Some(was)) = (is.as_object(), was.as_object()) else { return Left::Nothing };
    match merge_objects(is, Some(was), &Map::new()) {
        None if !is.is_empty() => Left::All,
        Some(left) if !left.is_empty() => Left::Some(Value::Object(left)),
        _ => Left::Nothing,
    }
}

fn merge_lists(found: &[Value], last: &[Value], wanted: &[Value], lists: Lists) -> Option<Vec<Value>> {
    let counterpart = |item: &Value, position: usize, of: &[Value]| -> Option<usize> {
        match identity(item) {
            Some((field, name)) => of.iter().position(|other| other.get(field) == Some(name)),
            None => item.is_object().then_some(position).filter(|&at| at < of.len()),
        }
    };
    let ours = wanted.iter().enumerate().map(|(position, item)| {
        let was = counterpart(item, position, last).map(|at| &last[at]);
        counterpart(item, position, found).map_or_else(
            || item.clone(),
            |at| merge(&found[at], was, item, Lists::AreOurs).unwrap_or_else(|| found[at].clone()),
        )
    });
    let ours: Vec<Value> = ours.collect();
    let merged = match lists {
        Lists::AreOurs => ours,
        Lists::AreShared => shared(found, last, ours),
    };
    (merged != found).then_some(merged)
}

/// Others' items stay where they are, ours keep their places, new ones come last.
fn shared(found: &[Value], last: &[Value], ours: Vec<Value>) -> Vec<Value> {
    let same = |left: &Value, right: &Value| match identity(left) {
        Some((field, name)) => right.get(field) == Some(name),
        None => left == right,
    };
    let mut result = Vec::new();
    for item in found {
        match ours.iter().find(|our| same(our, item)) {
            Some(our) => result.push(our.clone()),
            None if last.iter().any(|was| same(was, item)) => {}
            None => result.push(item.clone()),
        }
    }
    let new: Vec<Value> = ours.into_iter().filter(|our| !found.iter().any(|item| same(our, item))).collect();
    result.extend(new);
    result
}

/// The field that tells the items of a list apart, and its value.
fn identity(item: &Value) -> Option<(&'static str, &Value)> {
    ["uid", "name", "key"].into_iter().find_map(|field| Some((field, item.get(field)?)))
}

/// What the object is after the change; for tests and previews that have no API server.
pub fn after(change: &Change, found: Option<&Object>) -> Option<Object> {
    match (change, found) {
        (Change::Create(object), _) => Some(object.clone()),
        (Change::Update { patch, .. }, Some(found)) => {
            let mut document = found.document().clone();
            apply_patch(&mut document, patch);
            Some(Object::from_document(document))
        }
        _ => None,
    }
}

/// RFC 7396.
fn apply_patch(document: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *document = patch.clone();
        return;
    };
    if !document.is_object() {
        *document = json!({});
    }
    let Value::Object(fields) = document else { return };
    for (field, value) in patch {
        match value {
            Value::Null => {
                fields.remove(field);
            }
            _ => apply_patch(fields.entry(field.clone()).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
#[path = "difference_tests.rs"]
mod tests;
