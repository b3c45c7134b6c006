//! A Secret as the API has it: what we do not know of it stays.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plan::PlanSecret;
use plan::agent::{Seen, Source};
use plan::secret::{Changes, Data, apply_changes};
use serde_json::{Map, Value};

/// An object that is no Secret.
#[derive(Debug, thiserror::Error)]
#[error("the answer is not a Secret: {0}")]
pub struct Error(&'static str);

/// A Secret.
#[derive(Clone, PartialEq)]
pub struct Object {
    /// All but `data`.
    document: Map<String, Value>,
    data: Data,
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("uid", &self.uid())
            .field("resource_version", &self.resource_version())
            .finish()
    }
}

impl Object {
    /// Reads what the API sends.
    pub fn read(value: Value) -> Result<Self, Error> {
        let Value::Object(mut document) = value else { return Err(Error("not an object")) };
        let data = match document.remove("data") {
            None | Some(Value::Null) => Data::new(),
            Some(Value::Object(data)) => data
                .into_iter()
                .map(|(key, value)| Some((key, STANDARD.decode(value.as_str()?).ok()?)))
                .collect::<Option<_>>()
                .ok_or(Error("data that is not base64"))?,
            Some(_) => return Err(Error("data that is not an object")),
        };
        let object = Object { document, data };
        match object.uid().is_empty() || object.resource_version().is_empty() {
            true => Err(Error("no uid or resourceVersion")),
            false => Ok(object),
        }
    }

    fn metadata(&self, key: &str) -> &str {
        let value = self.document.get("metadata").and_then(|metadata| metadata.get(key));
        value.and_then(Value::as_str).unwrap_or_default()
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.metadata("uid")
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &str {
        self.metadata("resourceVersion")
    }

    /// An annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.document.get("metadata")?.get("annotations")?.get(name)?.as_str()
    }

    /// The whole Secret without an annotation, to be sent.
    pub fn without(&self, annotation: &str) -> Value {
        let mut value = self.with(&Changes::new());
        if let Some(all) = value.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            all.remove(annotation);
        }
        value
    }

    /// The whole Secret with annotations, to be sent.
    pub fn annotated<'a>(&self, notes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
        let mut document = self.with(&Changes::new());
        for (name, value) in notes {
            document["metadata"]["annotations"][name] = value.into();
        }
        document
    }

    /// As the decisions want it.
    pub fn seen(&self, source: Source) -> Seen {
        Seen {
            uid: self.uid().to_owned(),
            resource_version: self.resource_version().to_owned(),
            source,
            secret: PlanSecret::read(&self.data),
        }
    }

    /// The whole Secret with some keys changed, to be sent. It has the resource version that it was read at, so that
    /// nobody else's write is undone.
    pub fn with(&self, changes: &Changes) -> Value {
        let mut data = self.data.clone();
        apply_changes(&mut data, changes);
        let data = data.into_iter().map(|(key, value)| (key, Value::String(STANDARD.encode(value))));
        let mut document = self.document.clone();
        document.entry("apiVersion").or_insert_with(|| "v1".into());
        document.entry("kind").or_insert_with(|| "Secret".into());
        document.insert("data".into(), Value::Object(data.collect()));
        Value::Object(document)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_ours_stays() {
        let value = json!({
            "metadata": {"uid": "u", "resourceVersion": "7", "labels": {"a": "b"}, "future": [1]},
            "type": "rke.cattle.io/machine-plan",
            "data": {"plan": "e30=", "other": "AAE=", "failure-count": "MQ=="},
        });
        let object = Object::read(value.clone()).unwrap();
        assert_eq!((object.uid(), object.resource_version()), ("u", "7"));
        let written =
            object.with(&Changes::from([("failure-count", None), ("success-count", Some(b"1".to_vec()))]));
        let mut expected = value;
        expected["apiVersion"] = "v1".into();
        expected["kind"] = "Secret".into();
        expected["data"] = json!({"plan": "e30=", "other": "AAE=", "success-count": "MQ=="});
        assert_eq!(written, expected);
    }

    #[test]
    fn what_is_no_secret() {
        for value in [
            json!([]),
            json!({}),
            json!({"metadata": {"uid": "u"}}),
            json!({"metadata": {"uid": "u", "resourceVersion": "1"}, "data": {"a": "*"}}),
            json!({"metadata": {"uid": "u", "resourceVersion": "1"}, "data": []}),
        ] {
            assert!(Object::read(value.clone()).is_err(), "{value}");
        }
    }
}
