//! What a CRD defines, read out of its JSON.

use serde_json::Value;

use super::names::Names;
use crate::{GroupVersionKind, GroupVersionResource};

/// A kind that a CRD adds to the API, in all of its versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Such as `cluster.x-k8s.io`.
    pub group: String,
    /// What the kind is called.
    pub names: Names,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// In the order of the CRD.
    pub versions: Vec<Version>,
    /// Whether versions are converted by a webhook; else only `apiVersion` is changed.
    pub converted_by_webhook: bool,
}

/// One version of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Version {
    /// Such as `v1beta2`.
    pub name: String,
    /// Whether clients can use it.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// Whether clients are warned.
    pub deprecated: bool,
    /// What they are told, if the CRD says.
    pub deprecation_warning: Option<String>,
    /// `openAPIV3Schema`.
    pub schema: Option<Document>,
    /// Whether the status is a subresource.
    pub status: bool,
    /// The scale subresource, if there is one.
    pub scale: Option<Scale>,
    /// `additionalPrinterColumns`.
    pub columns: Vec<Column>,
    /// JSON paths that field selectors may use.
    pub selectable_fields: Vec<String>,
}

/// A document that is seldom looked at, as its text: as a tree it takes many times the room.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document(Box<str>);

impl Document {
    /// The document of a value.
    pub fn of(value: &Value) -> Self {
        Document(value.to_string().into())
    }

    /// The value.
    pub fn read(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// Where a scale subresource finds its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scale {
    /// The wanted number, below `.spec`.
    pub spec_replicas: String,
    /// The number there is, below `.status`.
    pub status_replicas: String,
    /// The selector of what is counted.
    pub label_selector: Option<String>,
}

/// A column of `kubectl get`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// A hint for clients.
    pub format: String,
    /// What the column is about.
    pub description: String,
    /// 0 for what is always shown, more for `-o wide`.
    pub priority: i64,
    /// Where the value is.
    pub json_path: String,
}

pub(super) fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

impl Definition {
    /// Reads a CRD that has been validated. What is missing in one that has not is read as empty.
    pub fn read(crd: &Value) -> Definition {
        let spec = &crd["spec"];
        Definition {
            group: text(spec, "group"),
            names: Names::read(&spec["names"]),
            namespaced: spec["scope"] == "Namespaced",
            versions: list(spec, "versions").iter().map(Version::read).collect(),
            converted_by_webhook: spec["conversion"]["strategy"] == "Webhook",
        }
    }

    /// The version in which objects are stored.
    pub fn storage_version(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }

    /// The versions that clients can use.
    pub fn served_versions(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(|version| version.served)
    }

    /// A version by its name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The kind in a version.
    pub fn kind_in(&self, version: &str) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: version.into(), kind: self.names.kind.clone() }
    }

    /// The resource in a version.
    pub fn resource_in(&self, version: &str) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: version.into(),
            resource: self.names.plural.clone(),
        }
    }
}

impl Version {
    fn read(version: &Value) -> Version {
        let schema = &version["schema"]["openAPIV3Schema"];
        let subresources = &version["subresources"];
        Version {
            name: text(version, "name"),
            served: version["served"] == true,
            storage: version["storage"] == true,
            deprecated: version["deprecated"] == true,
            deprecation_warning: version["deprecationWarning"].as_str().map(str::to_owned),
            schema: schema.is_object().then(|| Document::of(schema)),
            status: subresources["status"].is_object(),
            scale: subresources["scale"].is_object().then(|| Scale {
                spec_replicas: text(&subresources["scale"], "specReplicasPath"),
                status_replicas: text(&subresources["scale"], "statusReplicasPath"),
                label_selector: subresources["scale"]["labelSelectorPath"].as_str().map(str::to_owned),
            }),
            columns: list(version, "additionalPrinterColumns").iter().map(Column::read).collect(),
            selectable_fields: list(version, "selectableFields")
                .iter()
                .map(|f| text(f, "jsonPath"))
                .collect(),
        }
    }
}

impl Column {
    pub(super) fn read(column: &Value) -> Column {
        Column {
            name: text(column, "name"),
            kind: text(column, "type"),
            format: text(column, "format"),
            description: text(column, "description"),
            priority: column["priority"].as_i64().unwrap_or(0),
            json_path: text(column, "jsonPath"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_is_read_out() {
        let definition = Definition::read(&json!({"spec": {
            "group": "x.io", "scope": "Namespaced", "conversion": {"strategy": "Webhook"},
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList", "shortNames": ["f"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                 "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                 "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".a", "priority": 1}],
                 "selectableFields": [{"jsonPath": ".spec.c"}]},
                {"name": "v1alpha1", "served": false, "storage": false, "deprecated": true, "deprecationWarning": "old"},
            ],
        }}));
        assert!(definition.namespaced && definition.converted_by_webhook);
        let storage = definition.storage_version().unwrap();
        assert_eq!((storage.name.as_str(), storage.status), ("v1", true));
        assert_eq!(storage.scale.as_ref().unwrap().spec_replicas, ".spec.n");
        assert_eq!((storage.columns[0].kind.as_str(), storage.columns[0].priority), ("date", 1));
        assert_eq!(storage.selectable_fields, [".spec.c"]);
        assert_eq!(definition.served_versions().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["v1"]);
        let old = definition.version("v1alpha1").unwrap();
        assert_eq!((old.deprecation_warning.as_deref(), &old.schema), (Some("old"), &None));
        assert_eq!(definition.kind_in("v1").kind, "Foo");
        assert_eq!(definition.resource_in("v1").resource, "foos");
    }
}
