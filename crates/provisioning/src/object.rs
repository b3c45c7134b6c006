//! Objects as documents: the graph holds kinds that are known only while running.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Which object: enough to read, write and delete it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for objects that live in none.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Id {
    /// API group; empty for Kubernetes' own first one.
    pub fn group(&self) -> &str {
        group(&self.api_version)
    }
}

impl fmt::Display for Id {
    /// `Kind namespace/name`, as messages name objects.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => write!(f, "{} {}", self.kind, self.name),
            false => write!(f, "{} {}/{}", self.kind, self.namespace, self.name),
        }
    }
}

/// The group in `group/version`.
pub fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// An object as the API carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object(Value);

impl Object {
    /// A typed object. The type has to write its `apiVersion` and `kind`; kinds of k8s-openapi do, and so do ours.
    pub fn of(object: &impl Serialize) -> Self {
        // Kinds have string keys and finite numbers: there is nothing that could fail.
        Object(serde_json::to_value(object).unwrap_or_default())
    }

    /// A document that was read from the API.
    pub fn from_document(document: Value) -> Self {
        Object(document)
    }

    /// The document.
    pub fn document(&self) -> &Value {
        &self.0
    }

    /// The document, to change.
    #[cfg(test)]
    pub(crate) fn document_mut(&mut self) -> &mut Value {
        &mut self.0
    }

    /// A typed view; nothing if a field that the type knows has a value of the wrong type.
    pub fn view<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(&self.0).ok()
    }

    /// Which object it is.
    pub fn id(&self) -> Id {
        let meta = |field: &str| self.0["metadata"][field].as_str().unwrap_or_default().to_owned();
        Id {
            api_version: self.text("apiVersion").to_owned(),
            kind: self.kind().to_owned(),
            namespace: meta("namespace"),
            name: meta("name"),
        }
    }

    /// Kind.
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// Name.
    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.0["metadata"]["labels"].get(key)?.as_str()
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.0["metadata"]["annotations"].get(key)?.as_str()
    }

    /// Whether its deletion has begun.
    pub fn is_deleting(&self) -> bool {
        self.0["metadata"]["deletionTimestamp"].is_string()
    }

    /// Sets an annotation.
    pub(crate) fn annotate(&mut self, key: &str, value: impl Into<String>) {
        if let Some(annotations) = self.section(&["metadata", "annotations"]) {
            annotations.insert(key.to_owned(), Value::String(value.into()));
        }
    }

    /// The map at that path, made if it is not there.
    fn section(&mut self, path: &[&str]) -> Option<&mut Map<String, Value>> {
        let mut here = &mut self.0;
        for field in path {
            let map = here.as_object_mut()?;
            here = map.entry(*field).or_insert_with(|| json!({}));
            if here.is_null() {
                *here = json!({});
            }
        }
        here.as_object_mut()
    }

    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }
}

/// A reference that makes its object go with `owner`, and stops `owner` from going before it in the foreground.
pub fn controller_reference(owner: &Id, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_knows_who_it_is() {
        let mut object = Object::from_document(json!({
            "apiVersion": "rke.cattle.io/v1", "kind": "RKECluster",
            "metadata": {"name": "a", "namespace": "b", "annotations": null},
        }));
        assert_eq!(object.id().to_string(), "RKECluster b/a");
        assert_eq!(object.id().group(), "rke.cattle.io");
        assert_eq!(group("v1"), "");
        object.annotate("k", "v");
        assert_eq!(object.annotation("k"), Some("v"));
        assert_eq!(object.annotation("other"), None);
        assert!(!object.is_deleting());
    }
}
