//! Who owns which fields: what a write says of it in `metadata.managedFields`.

use kubeapi::GroupVersion;
use kubeapi::apply::{Converted, Set, Type, Versions, Writer};
use kubeapi::request::WriteOptions;
use serde_json::Value;

use super::{Call, Server, kinds};
use crate::convert::Conversion;
use crate::registry::Resource;

/// The longest name of a manager, in bytes.
const LONGEST_NAME: usize = 128;

/// The versions that a resource has, served or not: fields are owned in one of them.
pub(super) struct Known<'a> {
    pub(super) conversion: &'a Conversion,
    pub(super) resource: &'a Resource,
}

impl Versions for Known<'_> {
    fn types(&self, version: &str) -> Option<Type<'_>> {
        let version = GroupVersion::parse(version)?;
        let Some(custom) = self.resource.as_custom() else {
            let known =
                version == self.resource.group_version() || kinds::has_version(self.resource, &version);
            return known.then(|| Type::builtin(&version.kind(&*self.resource.kind)));
        };
        let member = custom.family.versions.get(&version.version)?;
        (version.group == self.resource.group).then(|| Type::custom(member.schema.as_deref()))
    }

    fn convert<'a>(&'a self, mut object: Value, to: &'a str) -> Converted<'a> {
        Box::pin(async move {
            // Converters see no revision.
            let metadata = object["metadata"].as_object_mut();
            let revision = metadata.and_then(|metadata| metadata.remove("resourceVersion"));
            let converted = self.conversion.in_version(self.resource, vec![object], to).await;
            let mut object = converted.map_err(|status| status.message)?.pop().unwrap_or_default();
            if let Some(revision) = revision {
                object["metadata"]["resourceVersion"] = revision;
            }
            Ok(object)
        })
    }
}

impl Call<'_> {
    /// What the client calls itself: as it says, or else the first word of its user agent.
    pub(super) fn manager(&self, options: &WriteOptions) -> String {
        match options.field_manager.as_str() {
            "" => named_by_agent(&self.request.user_agent),
            name => name.to_owned(),
        }
    }
}

fn named_by_agent(agent: &str) -> String {
    let mut name = String::new();
    let word = agent.split('/').next().unwrap_or_default();
    for character in word.chars().filter(|character| kubeapi::request::printable(*character)) {
        if name.len() + character.len_utf8() > LONGEST_NAME {
            break;
        }
        name.push(character);
    }
    if name.is_empty() { "unknown".into() } else { name }
}

/// What a write to a part of an object cannot set, so that nobody comes to own it.
pub(super) fn ignored(resource: &Resource, subresource: &str) -> Set {
    match (subresource, resource.as_custom()) {
        ("scale", _) => Set::default(),
        ("status", Some(_)) => Set::of_fields(["spec"]),
        ("status", None) => Set::of_fields(kinds::kept_with_status(resource).iter().copied()),
        _ if resource.subresource("status").is_some() => Set::of_fields(["status"]),
        _ => Set::default(),
    }
}

impl Server {
    /// Sets the managed fields of an object that is to be created, or to replace `live`. If they cannot be made out, it
    /// has none.
    pub(super) async fn record(
        &self,
        call: Call<'_>,
        options: &WriteOptions,
        live: Option<&Value>,
        new: &mut Value,
    ) {
        self.record_as(call.resource, &call.manager(options), call.subresource(), live, new).await;
    }

    /// As [`Server::record`], for somebody else than who asks.
    pub(super) async fn record_as(
        &self,
        resource: &Resource,
        manager: &str,
        subresource: &str,
        live: Option<&Value>,
        new: &mut Value,
    ) {
        let writer = Writer {
            versions: &Known { conversion: &self.conversion, resource },
            kind: &resource.gvk(),
            manager,
            subresource,
            ignored: &ignored(resource, subresource),
            now: self.clock.now(),
        };
        if let Err(error) = writer.update(live, new).await {
            tracing::debug!(?error, resource = %resource.group_resource(), "no managed fields for an object");
        }
    }
}

/// Gives `new` the times of `old`'s managed fields, if it differs in nothing else: that is no change.
pub(super) fn keep_times(new: &mut Value, old: &Value) {
    let entries = |object: &Value| object["metadata"]["managedFields"].as_array().cloned();
    let only_times = match (&old["metadata"]["managedFields"], &new["metadata"]["managedFields"]) {
        (Value::Array(before), Value::Array(after)) => {
            let alike = |(before, after)| same_but_for_time(before, after);
            before != after && before.len() == after.len() && before.iter().zip(after).all(alike)
        }
        _ => false,
    };
    if !only_times {
        return;
    }
    let (before, after) = (entries(old), entries(new));
    new["metadata"]["managedFields"] = before.into();
    if new != old {
        new["metadata"]["managedFields"] = after.into();
    }
}

fn same_but_for_time(one: &Value, other: &Value) -> bool {
    fn rest(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
        entry.as_object().into_iter().flatten().filter(|(name, _)| *name != "time")
    }
    rest(one).eq(rest(other))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managers_are_named_by_their_user_agent() {
        let long = "ä".repeat(100);
        for (agent, name) in [
            ("kubectl/v1.34 (linux)", "kubectl"),
            ("a b\u{7}c", "a bc"),
            ("", "unknown"),
            ("/x", "unknown"),
            (&long, &"ä".repeat(64)),
        ] {
            assert_eq!(named_by_agent(agent), name);
        }
    }

    #[test]
    fn times_alone_are_no_change() {
        let object = |time: &str, fields: Value, value: &str| json!({"metadata": {"managedFields": [{"manager": "a", "time": time, "fieldsV1": fields}]}, "data": value});
        let old = object("1", json!({"f:a": {}}), "x");
        for (new, kept) in [
            (object("2", json!({"f:a": {}}), "x"), "1"),
            (object("2", json!({"f:a": {}}), "y"), "2"),
            (object("2", json!({"f:b": {}}), "x"), "2"),
        ] {
            let mut found = new.clone();
            keep_times(&mut found, &old);
            assert_eq!(found["metadata"]["managedFields"][0]["time"], kept);
            assert_eq!(
                (&found["data"], &found["metadata"]["managedFields"][0]["fieldsV1"]),
                (&new["data"], &new["metadata"]["managedFields"][0]["fieldsV1"])
            );
        }
    }
}
