//! What can differ between two versions of a kind.

use serde_json::{Map, Value, json};

use super::path::{get_mut, put, take};
use super::{ApiVersions, Error};
use crate::GoDuration;

/// One difference between an older version and the hub, good for both directions.
///
/// Rules run in order on the way up and in reverse order on the way down, each on the document that the one before
/// it left. Paths are relative to where the rule stands.
pub(super) enum Rule {
    /// The same value at another place.
    Moved(&'static str, &'static str),
    /// A flag or number that is always there, and may be left out here: false and 0 say nothing.
    Filled(&'static str, &'static str),
    /// A duration there, whole seconds here.
    Seconds(&'static str, &'static str),
    /// A duration that is always there, and whole seconds that may be left out.
    RequiredSeconds(&'static str, &'static str),
    /// A reference with version and namespace there, without here.
    Reference(&'static str),
    /// A reference that keeps its version, but not its namespace.
    VersionedReference(&'static str),
    /// A reference to a Node there, its name here.
    NodeReference(&'static str),
    /// A map by name there, a list sorted by name here.
    NamedList(&'static str),
    /// There is no such field in the hub.
    OnlyOld(&'static str),
    /// There is no such field in the older version.
    OnlyHub(&'static str),
    /// A value that the older version knows by another word.
    Word { at: &'static str, hub: &'static str, old: &'static str },
    /// A field of the hub that the older version has as a label, which may have been there before.
    Label { field: &'static str, label: &'static str, added: &'static str },
    /// Rules for a part of the document.
    Within(&'static str, &'static [Rule]),
    /// Rules for every item of a list.
    Each(&'static str, &'static [Rule]),
}

/// What a conversion from the hub has to know beyond the document.
pub(super) struct Down<'a> {
    pub(super) namespace: &'a str,
    pub(super) versions: &'a dyn ApiVersions,
}

impl Rule {
    /// From the older version towards the hub.
    pub(super) fn up(&self, document: &mut Value) -> Result<(), Error> {
        match *self {
            Rule::Moved(old, hub) => relocate(document, old, hub, Some),
            Rule::Filled(old, hub) => relocate(document, old, hub, unless_zero),
            Rule::Seconds(old, hub) | Rule::RequiredSeconds(old, hub) => {
                relocate(document, old, hub, seconds)
            }
            Rule::Reference(at) => without_version(document, at)?,
            Rule::VersionedReference(at) => keep(document, at, &["apiVersion", "kind", "name"]),
            Rule::NodeReference(at) => keep(document, at, &["name"]),
            Rule::NamedList(at) => relocate(document, at, at, list_by_name),
            Rule::OnlyOld(at) => drop(take(document, at)),
            Rule::OnlyHub(_) | Rule::Word { .. } => {}
            Rule::Label { field, label, added } => field_from_label(document, field, label, added),
            Rule::Within(at, rules) => {
                if let Some(part) = get_mut(document, at) {
                    rules.iter().try_for_each(|rule| rule.up(part)).map_err(|error| error.inside(at))?;
                }
            }
            Rule::Each(at, rules) => {
                for (index, item) in items(document, at).enumerate() {
                    let outcome = rules.iter().try_for_each(|rule| rule.up(item));
                    outcome.map_err(|error| error.inside(&format!("{at}[{index}]")))?;
                }
            }
        }
        Ok(())
    }

    /// From the hub towards the older version.
    pub(super) fn down(&self, document: &mut Value, to: &Down<'_>) -> Result<(), Error> {
        match *self {
            Rule::Moved(old, hub) | Rule::Filled(old, hub) => relocate(document, hub, old, Some),
            Rule::Seconds(old, hub) => relocate(document, hub, old, duration),
            Rule::RequiredSeconds(old, hub) => {
                let seconds = take(document, hub).unwrap_or(json!(0));
                put(document, old, duration(seconds).unwrap_or_default());
            }
            Rule::Reference(at) => with_version(document, at, to)?,
            Rule::VersionedReference(at) => add(document, at, &[("namespace", to.namespace)]),
            Rule::NodeReference(at) => add(document, at, &[("apiVersion", "v1"), ("kind", "Node")]),
            Rule::NamedList(at) => relocate(document, at, at, map_by_name),
            Rule::OnlyOld(_) => {}
            Rule::OnlyHub(at) => drop(take(document, at)),
            Rule::Word { at, hub, old } => {
                if let Some(word) = get_mut(document, at).filter(|word| *word == hub) {
                    *word = old.into();
                }
            }
            Rule::Label { field, label, added } => label_from_field(document, field, label, added),
            Rule::Within(at, rules) => {
                if let Some(part) = get_mut(document, at) {
                    let outcome = rules.iter().rev().try_for_each(|rule| rule.down(part, to));
                    outcome.map_err(|error| error.inside(at))?;
                }
            }
            Rule::Each(at, rules) => {
                for (index, item) in items(document, at).enumerate() {
                    let outcome = rules.iter().rev().try_for_each(|rule| rule.down(item, to));
                    outcome.map_err(|error| error.inside(&format!("{at}[{index}]")))?;
                }
            }
        }
        Ok(())
    }
}

fn items<'a>(document: &'a mut Value, at: &str) -> impl Iterator<Item = &'a mut Value> {
    get_mut(document, at).and_then(Value::as_array_mut).into_iter().flatten()
}

fn relocate(document: &mut Value, from: &str, to: &str, change: impl FnOnce(Value) -> Option<Value>) {
    if let Some(value) = take(document, from).and_then(change) {
        put(document, to, value);
    }
}

fn unless_zero(value: Value) -> Option<Value> {
    (value != json!(false) && value != json!(0)).then_some(value)
}

/// Whole seconds, a fraction cut off, as much as the hub's 32 bits hold.
fn seconds(duration: Value) -> Option<Value> {
    let duration: GoDuration = serde_json::from_value(duration).ok()?;
    Some(duration.seconds().clamp(i64::from(i32::MIN), i64::from(i32::MAX)).into())
}

fn duration(seconds: Value) -> Option<Value> {
    Some(GoDuration::from_seconds(seconds.as_i64()?).to_string().into())
}

/// Leaves only some fields of an object; the whole object goes if it has none of them.
fn keep(document: &mut Value, at: &str, fields: &[&str]) {
    let Some(Value::Object(mut object)) = take(document, at) else { return };
    object.retain(|key, value| fields.contains(&key.as_str()) && *value != json!(""));
    if !object.is_empty() {
        put(document, at, Value::Object(object));
    }
}

fn add(document: &mut Value, at: &str, fields: &[(&str, &str)]) {
    if let Some(object) = get_mut(document, at).and_then(Value::as_object_mut) {
        for (key, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            object.insert((*key).into(), (*value).into());
        }
    }
}

fn without_version(document: &mut Value, at: &str) -> Result<(), Error> {
    let Some(reference) = get_mut(document, at).and_then(Value::as_object_mut) else { return Ok(()) };
    let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let api_version = text("apiVersion");
    let group = match api_version.split('/').collect::<Vec<_>>()[..] {
        [_] => "",
        [group, _] => group,
        _ => {
            let problem = format!("apiVersion {api_version:?} is not of the form group/version");
            return Err(Error::Reference { path: at.into(), problem });
        }
    };
    *reference = [("apiGroup", group.to_owned()), ("kind", text("kind")), ("name", text("name"))]
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .into_iter()
        .collect();
    Ok(())
}

fn with_version(document: &mut Value, at: &str, to: &Down<'_>) -> Result<(), Error> {
    let Some(reference) = get_mut(document, at).and_then(Value::as_object_mut) else { return Ok(()) };
    let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, kind, name) = (text("apiGroup"), text("kind"), text("name"));
    if group.is_empty() && kind.is_empty() && name.is_empty() {
        reference.clear();
        return Ok(());
    }
    let found = to.versions.api_version(&group, &kind);
    let api_version = found.map_err(|problem| Error::Reference { path: at.into(), problem })?;
    *reference =
        [("apiVersion", api_version), ("kind", kind), ("name", name), ("namespace", to.namespace.into())]
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key.to_owned(), Value::from(value)))
            .collect();
    Ok(())
}

fn list_by_name(map: Value) -> Option<Value> {
    // serde_json's maps are sorted, and so is the list.
    let Value::Object(map) = map else { return None };
    let named = |(name, mut item): (String, Value)| {
        item["name"] = name.into();
        item
    };
    Some(map.into_iter().map(named).collect())
}

fn map_by_name(list: Value) -> Option<Value> {
    let Value::Array(list) = list else { return None };
    let by_name = |mut item: Value| Some((item.as_object_mut()?.remove("name")?.as_str()?.to_owned(), item));
    Some(Value::Object(list.into_iter().filter_map(by_name).collect::<Map<_, _>>()))
}

/// Says on an object that a label was not there before it was converted.
const ADDED: &str = "false";

fn label_from_field(document: &mut Value, field: &str, label: &str, added: &str) {
    let Some(value) = take(document, field).filter(|value| *value != json!("")) else { return };
    if document["metadata"]["labels"].get(label).is_none() {
        document["metadata"]["annotations"][added] = ADDED.into();
    }
    document["metadata"]["labels"][label] = value;
}

fn field_from_label(document: &mut Value, field: &str, label: &str, added: &str) {
    let Some(value) = document["metadata"]["labels"].get(label).cloned() else { return };
    put(document, field, value);
    let Some(metadata) = document["metadata"].as_object_mut() else { return };
    if remove_entry(metadata, "annotations", added) == Some(json!(ADDED)) {
        remove_entry(metadata, "labels", label);
    }
}

fn remove_entry(metadata: &mut Map<String, Value>, map: &str, key: &str) -> Option<Value> {
    let entries = metadata.get_mut(map)?.as_object_mut()?;
    let removed = entries.remove(key);
    if entries.is_empty() {
        metadata.remove(map);
    }
    removed
}
